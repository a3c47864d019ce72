"""Settings of a run: each one once, with its type, default, range and words.

The options of commands, the keywords of the Python API, the experiment file with its schema, the plan of a run, and
what a manifest stores of it with the command come from here. To add one: a field of `RunSettings` (and its line in
`Keywords`, for type checkers, and in `StoredSettings`), and what uses it.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal, TypedDict, get_args, get_origin, get_type_hints

from bench.base.errors import UsageError
from bench.base.protocol import DEFAULT_DEPTH, MOST_REPEATS
from bench.data.template import Template, read_template

EvaluatedSplit = Literal["train", "dev", "test", "all"]
CutKind = Literal["none", "size", "threshold", "gap"]


def _about(words: str, **more: Any) -> dict[str, Any]:
    return {"help": words, **more}


@dataclass(frozen=True, kw_only=True)
class RunSettings:
    """How a method is run on a dataset.

    Attributes:
        split: the queries that are evaluated; None for the dataset's default.
        limit: at most this many queries, spread evenly over the split; None for all.
        template: the text of a tool, by the name of a template or as the source of one; None for the dataset's default.
        depth: the most tools that are ranked for a query.
        cut: how a set is cut from the ranking of a method that recommends none.
        cut_at: the size or score to cut at; None to learn it from past queries.
        repeats: how often a method in which chance has a part answers every query. Others run once.
    """

    split: EvaluatedSplit | None = field(
        default=None, metadata=_about("Queries to evaluate; methods never learn from them", usual="test")
    )
    limit: int | None = field(
        default=None, metadata=_about("Evaluate only N queries, sampled evenly over the split", least=1)
    )
    template: Template | None = field(
        default=None, metadata=_about("Template of the indexed tool text", usual="the dataset's", read=read_template)
    )
    depth: int = field(
        default=DEFAULT_DEPTH, metadata=_about("Maximum number of tools per query", usual=str(DEFAULT_DEPTH), least=1)
    )
    cut: CutKind = field(default="none", metadata=_about("Cut the ranking to a set", usual="none"))
    cut_at: float | None = field(
        default=None, metadata=_about("Size or score to cut at", usual="learnt on train/dev", metavar="VALUE")
    )
    repeats: int = field(
        default=1,
        metadata=_about(
            "Run methods in which chance has a part, such as those with a language model, K times, and average",
            usual="1",
            least=1,
            most=MOST_REPEATS,
            metavar="K",
        ),
    )

    def chosen(self) -> dict[str, Any]:
        """Name -> value of the settings that are not at their defaults."""
        values = {name: getattr(self, name) for name in known_settings()}
        return {name: value for name, value in values.items() if value != known_settings()[name].default}


class Keywords(TypedDict, total=False):
    """The same as keywords of a function, for type checkers; a test holds the two equal."""

    split: EvaluatedSplit | None
    limit: int | None
    template: Template | None
    depth: int
    cut: CutKind
    cut_at: float | None
    repeats: int


@dataclass(frozen=True)
class Setting:
    """What is known of a setting.

    Attributes:
        kind: `str`, `int` or `float`.
        choices: the values that it may have; empty where these are not listed.
        default: its default.
        help: a sentence for a list of options.
        usual: what the default comes to, in words; empty where that is clear.
        least, most: of a number.
        metavar: what a list of options calls its value.
        read: makes the value of what a person gives; raises `UsageError`.
    """

    kind: type
    choices: tuple[str, ...]
    default: Any
    help: str
    usual: str = ""
    least: int | None = None
    most: int | None = None
    metavar: str | None = None
    read: Callable[[str], str] | None = None


@cache
def known_settings() -> dict[str, Setting]:
    """Every setting by its name, in order."""
    hints = get_type_hints(RunSettings)
    by_name = {}
    for item in dataclasses.fields(RunSettings):
        hint = hints[item.name]
        # None says that the default is somebody else's, such as the dataset's.
        kind = get_args(hint)[0] if item.default is None else hint
        choices = get_args(kind) if get_origin(kind) is Literal else ()
        by_name[item.name] = Setting(kind if kind in (int, float) else str, choices, item.default, **item.metadata)
    return by_name


def option(name: str) -> str:
    """The option of the command line for a setting."""
    return f"--{name.replace('_', '-')}"


def check_settings(given: Mapping[str, Any]) -> RunSettings:
    """Settings that a program gives, numbers of NumPy among them.

    Raises:
        UsageError: there is no such setting, or it cannot have that value.
    """
    known = known_settings()
    for name in given:
        if name not in known:
            raise UsageError(f"there is no setting {name!r} of a run; there are {', '.join(known)}.")
    return RunSettings(**{name: check_setting(name, value) for name, value in given.items()})


def check_setting(name: str, value: Any) -> Any:
    """A value of a setting that a program gives; errors as of `checked_settings`."""
    setting = known_settings()[name]
    if value is None and setting.default is None:
        return None
    if setting.choices:
        if value not in setting.choices:
            *most, last = setting.choices
            raise UsageError(f"{name} is {value!r}; it must be {', '.join(most)} or {last}.")
        return value
    if setting.kind is int:
        return _whole_number(name, value, setting)
    if setting.kind is float:
        try:
            return float(value)
        except (TypeError, ValueError):
            raise UsageError(f"{name} is {value!r}; it must be a number.") from None
    if not isinstance(value, str):
        raise UsageError(f"{name} is {value!r}; it must be a name or the path of a Jinja file, as a string.")
    return value if setting.read is None else setting.read(value)


def _whole_number(name: str, value: Any, setting: Setting) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or (setting.least is not None and number < setting.least):
        raise UsageError(f"{name} is {value!r}; it must be a whole number of {setting.least} or more.")
    return number
