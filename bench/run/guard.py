"""What a method raises is told as the method's error, wherever it is called."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from bench.errors import BenchError, MethodError
from bench.protocol import Method
from bench.protocol.ranking import Violation


@contextmanager
def method_errors(method: Method, doing: str) -> Iterator[None]:
    """Turn an exception of the method's own into a `MethodError` that says what it was doing.

    Sentences of ours, interrupts and lack of memory pass as they are.
    """
    try:
        yield
    except (BenchError, MemoryError):
        raise
    except Violation as violation:
        raise MethodError(
            f"method {method.spec} {violation} while {doing}; the protocol does not allow it (section 3, rule 4)."
        ) from None
    except Exception as error:
        raise MethodError(f"method {method.spec} failed while {doing}: {type(error).__name__}: {error}.") from error
