"""Checks of arguments that a type checker would have made."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any, get_args

from bench.base.errors import UsageError


def check_choice(name: str, value: str | None, kind: Any) -> None:
    """Refuse a value that a `Literal` type forbids.

    Raises:
        UsageError: the argument is none of its choices.
    """
    *most, last = get_args(kind)
    if value not in get_args(kind):
        raise UsageError(f"{name} is {value!r}; it must be {', '.join(most)} or {last}.")


def whole_number(name: str, value: int, least: int = 1) -> int:
    """A whole number, those of NumPy among them, as Python's.

    Raises:
        UsageError: it is none, or too small.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise UsageError(f"{name} is {value!r}; it must be a whole number of {least} or more.")
    return number


def names(name: str, given: Sequence[str]) -> tuple[str, ...]:
    """Several names.

    Raises:
        UsageError: a string, whose letters are not meant, or something in the list that is no string.
    """
    if isinstance(given, str) or not all(isinstance(item, str) for item in given):
        raise UsageError(f"{name} is {given!r}; it must be a list of strings.")
    return tuple(given)
