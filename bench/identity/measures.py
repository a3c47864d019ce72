"""The versions of the code that makes numbers of a ranking: of each measure, of intervals, and of token counts.

A number is compared with an older one only if the same code made both. The hash of a measure covers its own functions
and what they use, its declared properties that change values, and the path that every measure shares: ranks of gold
tools, evaluation, means, tie bands. Another measure, a comment or a docstring changes nothing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from types import CellType, FunctionType
from typing import Any

import numpy as np

from bench.data.alternatives import with_alternatives
from bench.errors import UsageError
from bench.identity.definitions import Definition, definition_hash, definition_of
from bench.metrics.evaluate import evaluate, evaluate_groups, mean
from bench.metrics.measure import Measure
from bench.metrics.ties import tie_band
from bench.models.tokens import count_tokens
from bench.stats.bootstrap import bca_intervals

#: What the values of every measure pass through.
_SHARED = (evaluate, mean, tie_band)
#: Modules that declare tools, and metrics.
_DECLARATIONS = frozenset({"bench.data.tables", "bench.metrics.measure"})
#: Where files and caches are, and what is said when something is missing, changes no count: counts are cached by the
#: content of text and tokeniser.
_PLACES = ("bench.storage.", "bench.models.encoders", "bench.models.cache", "bench.session", "bench.errors")


@functools.cache
def measure_hash(measure: Measure) -> str:
    """sha256 over the code that makes the values of one measure.

    Raises:
        UsageError: the source of a plug-in's function cannot be read.
    """
    roots = [definition_of(function) for function in _SHARED]
    # What it is called, and what people read of it, changes no value. A field that is new must be decided on here.
    values: list[object] = [
        measure.kind,
        sorted(measure.cutoffs),
        measure.on_no_gold,
        measure.higher_is_better,
        measure.monotone,
    ]
    try:
        for function in (measure.ranked, measure.chosen, measure.confident):
            if function is None:
                values.append(None)
            else:
                _take(function, roots, values)
        # A measure is hashed by its own fields, not by the class that declares them.
        return definition_hash(roots, values, without=lambda item: item == definition_of(Measure))
    except (LookupError, OSError, RecursionError, SyntaxError) as error:
        raise UsageError(
            f"the code of the metric {measure.name!r} cannot be read ({error}): define its function in a module that "
            "has a source file."
        ) from None


@functools.cache
def interval_hash() -> str:
    """sha256 over the code of confidence intervals."""
    return definition_hash([definition_of(bca_intervals)])


@functools.cache
def token_hash() -> str:
    """sha256 over the code that counts tokens."""
    return definition_hash([definition_of(count_tokens)], without=lambda item: item.module.startswith(_PLACES))


@functools.cache
def lenient_hash() -> str:
    """sha256 over the code that decides what an alternative is and finds the ranks.

    Measures have their own hashes, and what a tool is declared to have changes no rule.
    """
    roots = [definition_of(item) for item in (with_alternatives, evaluate_groups, mean)]
    return definition_hash(roots, without=lambda item: item.module in _DECLARATIONS)


def _take(function: Callable[..., Any], roots: list[Definition], values: list[object]) -> None:
    """Enter a function with the values that it was made with: of a partial call, of a closure, of a callable object."""
    if isinstance(function, functools.partial):
        for value in (*function.args, *(part for item in sorted(function.keywords.items()) for part in item)):
            _take_value(value, roots, values)
        _take(function.func, roots, values)
        return
    if isinstance(function, FunctionType):
        # The names that `functools.wraps` copies are those of what is wrapped, which is in the closure.
        made = function.__code__.co_qualname
        roots.append(definition_of(function, made))
        values.append(made)
        for cell in function.__closure__ or ():
            _take_value(_content(cell), roots, values)
        if "<locals>" in made:
            # Of a function at the top of its module they are in its definition.
            for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
                _take_value(default, roots, values)
        return
    function = getattr(function, "__wrapped__", function)
    roots.append(definition_of(function))
    values.append(getattr(function, "__qualname__", ""))
    _take_state(getattr(function, "__self__", function), roots, values)


def _take_value(value: object, roots: list[Definition], values: list[object]) -> None:
    if isinstance(value, FunctionType | functools.partial):
        _take(value, roots, values)
    elif isinstance(value, str | bytes | int | float | complex | tuple | list | set | frozenset | dict | None):
        values.append(sorted(value, key=repr) if isinstance(value, set | frozenset) else value)
    elif isinstance(value, np.ndarray):
        values.append((value.dtype.str, value.shape, value.tolist()))
    else:
        values.append(type(value).__qualname__)
        kind = definition_of(type(value))
        # An object of the author's: its class says what it does, and its attributes with what.
        if kind.module.partition(".")[0] in {root.module.partition(".")[0] for root in roots}:
            roots.append(kind)
            _take_state(value, roots, values)


def _take_state(owner: object, roots: list[Definition], values: list[object]) -> None:
    """Enter the attributes of an object, those in slots among them."""
    slots = {name for kind in type(owner).__mro__ for name in _names(kind.__dict__.get("__slots__", ()))}
    state = {name: getattr(owner, name, None) for name in slots} | getattr(owner, "__dict__", {})
    for _, value in sorted(state.items()):
        _take_value(value, roots, values)


def _names(slots: str | Iterable[str]) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots


def _content(cell: CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:
        return None
