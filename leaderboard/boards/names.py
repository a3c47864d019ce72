"""Display names of methods: bench's own have a name, which `names.toml` may declare; others show their spec.

All pages use them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic import Field

from bench.base.errors import BenchError, UsageError
from bench.base.records import StrictRecord, toml_table, validate_record
from bench.base.spec import Spec, Value, format_value, parse
from bench.base.text import label
from bench.leaderboard.boards.registered import describe_method
from bench.lookup.aliases import caseless
from bench.registry.methods import built_in_methods
from bench.results.manifest import MethodIdentity, looks_latin

#: Where the names are declared.
DECLARED = Path(__file__).with_name("names.toml")


class Name(StrictRecord):
    """The display name of a method of this repository; `names.toml` explains the fields."""

    name: str = Field(min_length=1, max_length=40)
    say: list[str] = []
    quiet: list[str] = []
    words: dict[str, dict[str, str]] = {}


@dataclass(frozen=True)
class Title:
    """A display name.

    Attributes:
        stem: the method with the parameters that are part of its name; settings with one stem differ in the others.
        rest: its other parameters, such as `k1=0.5`; empty at their defaults.
    """

    stem: str
    rest: str = ""

    def __str__(self) -> str:
        return label(f"{self.stem} ({self.rest})" if self.rest else self.stem)


@cache
def declared_names() -> Mapping[str, Name]:
    """The names of bench's own methods: that of `names.toml`, else the method's name in words."""
    table = toml_table(DECLARED, "the display names", UsageError)
    return {name: Name(name=name.replace("-", " ").capitalize()) for name in built_in_methods()} | {
        name: validate_record(Name, entry, f"the name of {name} in {DECLARED}", UsageError)
        for name, entry in table.items()
    }


def title_of(method: MethodIdentity) -> Title:
    """The display name of a result's method: its alias, else the declared name, else its spec.

    Declared names belong to methods of this repository, as the spec shows. A run file may have any name: if it reads
    like a declared name, it is quoted.
    """
    cut = f" + {method.cut}" if method.cut else ""
    title = None
    if not method.run_file and not method.alias:
        with suppress(BenchError):
            title = _title(parse(method.spec))
    if title is not None:
        return Title(label(title.stem + cut), title.rest)
    spec = label(method.name)
    reads = {_fold_name(spec), _fold_name(re.split(r"[(,]", spec, maxsplit=1)[0])}
    return Title(f"“{spec}”" if looks_latin(spec) or reads & _taken_names() else spec)


def name_of(method: MethodIdentity) -> str:
    """The name of a method in all of its settings; empty if it has no display name."""
    name = method.spec.partition("(")[0]
    return "" if method.run_file or name not in declared_names() else declared_names()[name].name


def apart(titles: Sequence[Title], settings: Sequence[str], specs: Sequence[str], ids: Sequence[str]) -> list[str]:
    """Unique names for rows that are shown together.

    Rows with the same name add their run settings, then their spec, then the result id.

    Args:
        titles: display names of the rows.
        settings: what distinguishes each run besides its spec, such as `depth 50`.
        specs: specs of the rows.
        ids: unique ids of the rows.
    """
    names = [str(title) for title in titles]
    for more in (settings, specs):
        names = _longer(names, more)
    # Repeat, because a method may be called "X, " plus the id of another result of X.
    while len(set(map(caseless, names))) < len(names):
        names = _longer(names, ids)
    return names


def _longer(names: Sequence[str], more: Sequence[str]) -> list[str]:
    often = Counter(map(caseless, names))
    pairs = zip(names, more, strict=True)
    return [f"{name}, {extra}" if extra and often[caseless(name)] > 1 else name for name, extra in pairs]


def _title(spec: Spec) -> Title | None:
    entry, description = declared_names().get(spec.name), describe_method(spec.name)
    if entry is None or description is None:
        return None
    defaults = {item.name: item.default for item in description.parameters}
    given = dict(spec.arguments)
    said = [
        _say_value(given[name], entry.words.get(name, {})) if name in given else _default(entry, name, defaults)
        for name in entry.say
    ]
    parts = sorted(description.methods - set(entry.say))
    stem = [entry.name, *said, *(f"on {method_name(given[name])}" for name in parts if name in given)]
    silent = {*entry.say, *entry.quiet, *parts}
    rest = [f"{name}={label(format_value(value))}" for name, value in spec.arguments if name not in silent]
    return Title(", ".join(filter(None, stem)), ", ".join(rest))


def _default(entry: Name, name: str, defaults: Mapping[str, str]) -> str:
    """A parameter's value as text; a list of methods as their names."""
    text = defaults.get(name, "")
    if text.startswith("["):
        return " + ".join(_short(item.strip()) for item in text[1:-1].split(","))
    return entry.words.get(name, {}).get(text, "" if text == '""' else text)


def _say_value(value: Value, words: Mapping[str, str]) -> str:
    if isinstance(value, tuple):
        return " + ".join(method_name(item) for item in value)
    text = format_value(value)
    # `local:models/mine` is the model `mine`: readers do not need its location.
    return words.get(text) or label(text.rpartition("/")[2].removesuffix('"') if isinstance(value, str) else text)


def method_name(value: Value) -> str:
    """A method inside another method's spec: its short name at its defaults, else its full name."""
    if isinstance(value, Spec) and value.arguments:
        title = _title(value)
        return label(str(value)) if title is None else str(title)
    return _short(value.name if isinstance(value, Spec) else str(value))


def _short(name: str) -> str:
    name = name.removesuffix("()")
    return declared_names()[name].name if name in declared_names() else label(name)


@cache
def _taken_names() -> frozenset[str]:
    """Reserved names: the declared names, with and without parameters, and the names of their methods."""
    titles = {name: _title(Spec(name)) for name in declared_names()}
    texts = {text for name, entry in declared_names().items() for text in (name, entry.name)}
    return frozenset(map(_fold_name, texts | {title.stem for title in titles.values() if title is not None}))


def _fold_name(text: str) -> str:
    """A name without differences that readers overlook: case, width, spaces and punctuation."""
    return re.sub(r"[\W_]+", "", caseless(text))
