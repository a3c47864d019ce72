"""Reporting exceptions of a method as errors of that method."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from bench.errors import BenchError, MethodError
from bench.protocol import Method
from bench.protocol.ranking import Violation


@contextmanager
def method_errors(method: Method, doing: str) -> Iterator[None]:
    """Turn an exception of the method's own into a `MethodError` that says what it was doing.

    Sentences of ours, interrupts and lack of memory pass as they are; `sys.exit()` in a method does not end the run
    as if all were well.
    """
    try:
        yield
    except (BenchError, MemoryError):
        raise
    except Violation as violation:
        raise MethodError(
            f"method {method.spec} {violation} while {doing}; the protocol does not allow it (section 3, rule 4)."
        ) from None
    except (Exception, SystemExit) as error:
        raise MethodError(f"method {method.spec} failed while {doing}: {type(error).__name__}: {error}.") from error


def checked_facts(method: Method) -> dict[str, str | int | float | bool]:
    """What a method says of itself, if it can be stored in a manifest."""
    facts = method.facts()
    if not isinstance(facts, dict) or not all(
        isinstance(name, str) and _storable(value) for name, value in facts.items()
    ):
        raise MethodError(f"method {method.spec}: facts() must return a dict of strings, numbers or booleans.")
    return facts


def _storable(value: object) -> bool:
    if isinstance(value, str):
        return not any("\ud800" <= sign <= "\udfff" for sign in value)
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def checked_marks(method: Method) -> dict[str, str]:
    """What a method wants on its row, if it can be stored in a manifest."""
    marks = method.marks()
    if not isinstance(marks, dict) or not all(
        isinstance(mark, str) and isinstance(sentence, str) and _storable(mark + sentence)
        for mark, sentence in marks.items()
    ):
        raise MethodError(f"method {method.spec}: marks() must return a dict of sentences by mark.")
    return marks


def checked_revisions(method: Method) -> dict[str, str]:
    """The model revisions of a method, if they can be stored in a manifest."""
    revisions = method.revisions()
    if not isinstance(revisions, dict) or not all(
        isinstance(name, str) and isinstance(value, str) for name, value in revisions.items()
    ):
        raise MethodError(f"method {method.spec}: revisions() must return a dict of strings.")
    return revisions
