"""Whether methods of a class learn from past queries."""

from __future__ import annotations

from bench.protocol.method import Method
from bench.specs.parameters import method_parameters


def learns(kind: type[Method]) -> bool:
    """Whether methods of this class learn from past queries themselves.

    A method that is built on others is also given past queries for their sake: that it has a `fit` says nothing. It
    says `learns = True` on the class if it learns something of its own from them.
    """
    own = kind.fit is not Method.fit and not method_parameters(kind.Parameters)
    return kind.needs_history or own or bool(getattr(kind, "learns", False))
