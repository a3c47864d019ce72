"""Checks of arguments that a type checker would make, for the functions of `bench.api`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, get_args

from bench.base.errors import UsageError


def check_choice(name: str, value: str | None, kind: Any) -> None:
    """Refuse a value that a `Literal` type forbids.

    Raises:
        UsageError: the argument is not one of the choices.
    """
    *most, last = get_args(kind)
    if value not in get_args(kind):
        raise UsageError(f"{name} is {value!r}; it must be {', '.join(most)} or {last}.")


def whole_number(name: str, value: int, least: int = 1) -> int:
    """Convert a whole number of Python or NumPy to `int`.

    Raises:
        UsageError: it is not a whole number, or too small.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise UsageError(f"{name} is {value!r}; it must be a whole number of {least} or more.")
    return number


def names(name: str, given: Sequence[str]) -> tuple[str, ...]:
    """Convert a list of names to a tuple.

    Raises:
        UsageError: it is a single string, or the list contains something that is not a string.
    """
    if isinstance(given, str) or not all(isinstance(item, str) for item in given):
        raise UsageError(f"{name} is {given!r}; it must be a list of strings.")
    return tuple(given)
