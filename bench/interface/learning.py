"""Whether methods learn from past queries."""

from __future__ import annotations

from bench.base.parameters import method_parameters
from bench.interface.method import Method


def learns(method: Method | type[Method]) -> bool:
    """Whether a method, or the methods of a class, learns from past queries itself.

    A method that is built on others is also given past queries for their sake: that it has a `fit` says nothing. It
    says `learns = True` on the class if it learns something of its own from them, and may take it back on the instance
    if its parameters say so.
    """
    kind = method if isinstance(method, type) else type(method)
    own = kind.fit is not Method.fit and not method_parameters(kind.Parameters)
    return method.needs_history or own or bool(getattr(method, "learns", False))
