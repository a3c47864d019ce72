"""Checks of arguments that a type checker would have made."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import get_args

from bench.base.errors import UsageError
from bench.comparison.report import Correction
from bench.evaluation.choosing import Arm, Form
from bench.evaluation.runner import Overwrite

#: The values that an argument of each of these names may have, as its type says.
_CHOICES = {
    "overwrite": get_args(Overwrite),
    "correction": get_args(Correction),
    "arm": get_args(Arm),
    "form": get_args(Form),
}


def check_choices(**arguments: str | None) -> None:
    """Refuse values that the types forbid.

    Raises:
        UsageError: an argument is none of its choices.
    """
    for name, value in arguments.items():
        *most, last = _CHOICES[name]
        if value not in _CHOICES[name]:
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
