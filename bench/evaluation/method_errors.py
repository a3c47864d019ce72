"""Reports exceptions of methods and metrics with the line of their code, and checks what methods state."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from traceback import walk_tb
from types import CodeType

from bench.base.errors import BenchError, MethodError, raised_at
from bench.base.keys import refuse
from bench.base.secrets import mask, mask_json
from bench.interface import History, Library, Method, Part
from bench.interface.parts import (
    facts_of,
    hidden,
    marks_of,
    merge_reports,
    methods_of,
    name_of,
    preflight,
    revisions_of,
    tree,
)
from bench.interface.ranking import Violation
from bench.metrics import Metric


@contextmanager
def method_errors(method: Method, doing: str) -> Iterator[None]:
    """Turn an exception of a method into a `MethodError` that says what the method was doing.

    Errors of bench, interrupts and lack of memory pass unchanged; `sys.exit()` in a method does not end the run with
    success.
    """
    try:
        yield
    except (BenchError, MemoryError):
        raise
    except Violation as violation:
        raise MethodError(
            f"method {method.spec} {violation} while {doing}; the protocol does not allow it (rule 4)."
        ) from None
    except (Exception, SystemExit) as error:
        places = {type(part).__module__ for part in methods_of(method)}
        raise MethodError(
            f"method {method.spec} failed while {doing}: {type(error).__name__}: {error}{raised_at(error, places)}."
        ) from error


@contextmanager
def metric_errors(metrics: Iterable[Metric]) -> Iterator[None]:
    """Turn an exception of a metric's function into a `MethodError` that names the metric."""
    try:
        yield
    except (BenchError, MemoryError):
        raise
    except Exception as error:
        metric_by_code = {code: (metric, module) for metric in metrics for code, module in _codes(metric)}
        ran = [frame.f_code for frame, _ in walk_tb(error.__traceback__)]
        failed_metric = next((metric_by_code[code] for code in ran if code in metric_by_code), None)
        if failed_metric is None:
            raise
        metric, module = failed_metric
        at = raised_at(error, [module])
        raise MethodError(f"metric {metric} failed: {type(error).__name__}: {error}{at}.") from error


def _codes(metric: Metric) -> Iterator[tuple[CodeType, str]]:
    """The code of the functions of a metric, also behind partials and closures, and the module of each."""
    for function in metric.measure.functions().values():
        while isinstance(function, partial):
            function = function.func
        function = inspect.unwrap(function)
        code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
        if isinstance(code, CodeType):
            yield code, function.__module__


def check_parts(method: Method) -> None:
    """Refuse a method that keeps an undeclared part: the result would lack its models and needs.

    Raises:
        MethodError: the method has such a part; the sentence names the first.
    """
    for part in hidden(method):
        raise MethodError(
            f"method {method.spec} hides a part of itself (self.{part}): declare it in __init__, with `context.build` "
            "or `self.include`, so that its models and needs are recorded in the result."
        )


def check_facts(method: Method) -> dict[str, str | int | float | bool]:
    """The `facts()` of a method and its parts; raises `MethodError` if a manifest cannot store them."""

    def ask(part: Part) -> Mapping[str, str | int | float | bool]:
        facts = facts_of(part)
        if not isinstance(facts, dict) or not all(
            isinstance(name, str) and _storable(value) for name, value in facts.items()
        ):
            raise MethodError(f"{_describe_part(part)}: facts() must return a dict of strings, numbers or booleans.")
        masked: Mapping[str, str | int | float | bool] = mask_json(facts)
        return masked

    return merge_reports(method, ask)


def _describe_part(part: Part) -> str:
    return f"method {part.spec}" if isinstance(part, Method) else f"the part {name_of(part)}"


def _storable(value: object) -> bool:
    if isinstance(value, str):
        return not any("\ud800" <= sign <= "\udfff" for sign in value)
    return isinstance(value, int) or (isinstance(value, float) and math.isfinite(value))


def check_marks(method: Method) -> dict[str, str]:
    """The `marks()` of a method and its parts; raises `MethodError` if a manifest cannot store them."""
    # Two parts may have the same mark for different reasons.
    sentences: dict[str, dict[str, None]] = {}
    for part in tree(method):
        marks = marks_of(part)
        if not isinstance(marks, dict) or not all(
            isinstance(mark, str) and isinstance(sentence, str) and _storable(mark + sentence)
            for mark, sentence in marks.items()
        ):
            raise MethodError(f"{_describe_part(part)}: marks() must return a dict of sentences by mark.")
        for mark, sentence in marks.items():
            sentences.setdefault(mark, {})[sentence] = None
    return {mask(mark): mask("; ".join(each)) for mark, each in sentences.items()}


def check_revisions(method: Method) -> dict[str, str]:
    """The model revisions of a method and its parts; raises `MethodError` if a manifest cannot store them."""

    def ask(part: Part) -> Mapping[str, str]:
        revisions = revisions_of(part)
        if not isinstance(revisions, dict) or not all(
            isinstance(name, str) and isinstance(value, str) for name, value in revisions.items()
        ):
            raise MethodError(f"{_describe_part(part)}: revisions() must return a dict of strings.")
        # The id of the result covers them, so they are not masked.
        refuse(f"what {_describe_part(part)} returns from revisions()", *revisions, *revisions.values())
        return revisions

    return merge_reports(method, ask, shared=True)


def check(method: Method, library: Library, history: History) -> None:
    """Raise what would stop a method later, before the first expensive step.

    Raises:
        BenchError: it hides a part, cannot run on this library and history, or has revisions that cannot be stored.
    """
    check_parts(method)
    with method_errors(method, "checking that it can run"):
        preflight(method, library, history)
        check_revisions(method)
