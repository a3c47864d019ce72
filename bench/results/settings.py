"""The settings of a run: how a method is run on a dataset.

`RunSettings` is the only list of them. The options of `bench run`, the keys of an experiment file, the settings in a
manifest and the content of a result's id follow from it. A plan consists of settings, a method and a dataset. To add a
setting, add a field of `RunSettings`, its line in `Keywords` below, and what uses it.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal, NotRequired, TypedDict, get_args, get_origin

from pydantic import AfterValidator, Field

from bench.base.errors import UsageError
from bench.base.protocol import DEFAULT_DEPTH, MOST_REPEATS
from bench.base.records import Record
from bench.data.template import Template, read_template, valid_template

EvaluatedSplit = Literal["train", "dev", "test", "all"]
CutKind = Literal["none", "size", "threshold", "gap"]
#: The name of a template, or the source of a Jinja template.
TemplateText = Annotated[Template, AfterValidator(valid_template)]


@dataclass(frozen=True)
class _Option:
    """How `--help` shows a setting.

    Attributes:
        usual: the default in words; empty if the default itself is clear.
        metavar: placeholder of the value.
        read: converts the user's text to the value; raises `UsageError`.
    """

    usual: str = ""
    metavar: str | None = None
    read: Callable[[str], str] | None = None


class RunSettings(Record):
    """How a method is run on a dataset.

    Attributes:
        split: the queries that are evaluated; None for the dataset's default.
        limit: at most this many queries, spread evenly over the split; None for all.
        template: the text of a tool, as the name or the source of a template; None for the dataset's default.
        depth: maximum number of tools ranked for a query.
        cut: how to cut a set from the ranking of a method that recommends none.
        cut_at: the size or score to cut at; None to learn it from past queries.
        repeats: how often a nondeterministic method answers every query. Others run once.
    """

    split: Annotated[EvaluatedSplit | None, _Option("test")] = Field(
        None, description="Queries to evaluate; methods never learn from them"
    )
    limit: int | None = Field(None, ge=1, description="Evaluate only N queries, sampled evenly over the split")
    template: Annotated[TemplateText | None, _Option("the dataset's", read=read_template)] = Field(
        None, description="Template of the indexed tool text"
    )
    depth: Annotated[int, _Option(str(DEFAULT_DEPTH))] = Field(
        DEFAULT_DEPTH, ge=1, description="Maximum number of tools per query"
    )
    cut: Annotated[CutKind, _Option("none")] = Field("none", description="Cut the ranking to a set")
    cut_at: Annotated[float | None, _Option("learnt on train/dev", "VALUE")] = Field(
        None, description="Size or score to cut at"
    )
    repeats: Annotated[int, _Option("1", "K")] = Field(
        1,
        ge=1,
        le=MOST_REPEATS,
        description="Run nondeterministic methods, such as those with a language model, K times, and average",
    )

    def non_defaults(self) -> dict[str, Any]:
        """Name -> value of the settings that differ from their defaults; other fields of a record are left out."""
        values = {name: getattr(self, name) for name in known_settings()}
        return {name: value for name, value in values.items() if value != known_settings()[name].default}


class Keywords(TypedDict):
    """The same as keywords of a function: type checkers cannot derive them from a class. A test keeps the two equal."""

    split: NotRequired[EvaluatedSplit | None]
    limit: NotRequired[int | None]
    template: NotRequired[Template | None]
    depth: NotRequired[int]
    cut: NotRequired[CutKind]
    cut_at: NotRequired[float | None]
    repeats: NotRequired[int]


@dataclass(frozen=True)
class Setting:
    """Description of a setting.

    Attributes:
        kind: `str`, `int` or `float`.
        choices: the values that it may have; empty if there is no list.
        default: its default.
        help: a sentence for `--help`.
        least, most: bounds of a number.
        option: how `--help` shows it.
    """

    kind: type
    choices: tuple[str, ...]
    default: Any
    help: str
    least: int | None
    most: int | None
    option: _Option


@cache
def known_settings() -> dict[str, Setting]:
    """All settings by name, in order."""
    by_name = dict[str, Setting]()
    for name, field in RunSettings.model_fields.items():
        # None means that another object has the default, such as the dataset.
        kind: Any = get_args(field.annotation)[0] if field.default is None else field.annotation
        bounds = {at: getattr(item, at) for item in field.metadata for at in ("ge", "le") if hasattr(item, at)}
        by_name[name] = Setting(
            kind=kind if kind in (int, float) else str,
            choices=get_args(kind) if get_origin(kind) is Literal else (),
            default=field.default,
            help=field.description or "",
            least=bounds.get("ge"),
            most=bounds.get("le"),
            option=next((item for item in field.metadata if isinstance(item, _Option)), _Option()),
        )
    return by_name


def option(name: str) -> str:
    """The option of the command line for a setting."""
    return f"--{name.replace('_', '-')}"


def check_settings(given: Mapping[str, Any]) -> RunSettings:
    """Check settings from Python, which may be NumPy numbers.

    Raises:
        UsageError: there is no such setting, or the value is invalid.
    """
    known = known_settings()
    for name in given:
        if name not in known:
            raise UsageError(f"there is no setting {name!r} of a run; there are {', '.join(known)}.")
    return RunSettings(**{name: check_setting(name, value) for name, value in given.items()})


def check_setting(name: str, value: Any) -> Any:
    """Check the value of one setting from Python; raises as `check_settings` does."""
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
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise UsageError(f"{name} is {value!r}; it must be a finite number.")
        return number
    if not isinstance(value, str):
        raise UsageError(f"{name} is {value!r}; it must be a name or the path of a Jinja file, as a string.")
    return value if setting.option.read is None else setting.option.read(value)


def _whole_number(name: str, value: Any, setting: Setting) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    least, most = setting.least or 0, setting.most
    if number is None or number < least or (most is not None and number > most):
        between = f"from {least} to {most}" if most is not None else f"of {least} or more"
        raise UsageError(f"{name} is {value!r}; it must be a whole number {between}.")
    return number
