"""Perturbations: functions from (queries, tools) to the same, whose gold follows from the old one by construction.

    @perturbation("request", invariant="the request means the same", source="keyboard neighbours")
    def typing_errors(queries, tools, seed, *, rate=0.1):
        return [replace(query, text=...) for query in queries], tools

`queries` are the evaluated ones with their gold (`Query.gold`), `tools` the library, `seed` a whole number. Keywords
are the parameters; an annotation such as `Share` bounds them. A function of the user is named `module:function`, and
needs no decorator: if it changes the tools it is of the kind `library`, else `request`.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, create_model

from bench.base.errors import BenchError, DataError, UsageError, raised_at
from bench.base.parameters import ParameterSet, check_parameters, suggestion
from bench.base.records import StrictRecord
from bench.base.spec import Spec, Value, parse
from bench.base.text import one_line
from bench.data.dataset import Dataset
from bench.data.derive import order_hash
from bench.data.tables import Query, Tables, Tool

Kind = Literal["request", "library", "attack", "absence", "growth"]
Changed = tuple[Sequence[Query], Sequence[Tool]]
F = TypeVar("F", bound=Callable[..., Changed])
#: Returns the ids of the first tools for each text, if the method searched these tools.
Ask = Callable[[Sequence[Tool], Sequence[str]], list[list[str]]]

#: A share or rate of what is changed.
Share = Annotated[float, Field(gt=0, le=1)]

#: Modules of this folder with perturbations.
BUILT_IN = ("requests", "descriptions", "attacks", "absence", "growth")


class _Arguments(ParameterSet, StrictRecord):
    """Arguments of a perturbation: `true` is not a number, and functions of users may have parameters of any type."""

    model_config = ConfigDict(arbitrary_types_allowed=True)


@dataclass(frozen=True)
class Perturbation:
    """A kind of change.

    Attributes:
        name: its name, or `module:function`.
        function: the function. One with an argument `ask` receives a black box of the method (`Ask`).
        kind: what it changes; empty if this depends on what it returns.
        invariant: the claim about the gold, a clause.
        source: where it comes from.
        usual: the arguments with which it runs if it is not named with others.
    """

    name: str
    function: Callable[..., Changed]
    kind: Kind | Literal[""] = ""
    invariant: str = "the gold that it returns is right"
    source: str = "the user"
    usual: tuple[Mapping[str, Value], ...] = ({},)

    @property
    def parameters(self) -> type[ParameterSet]:
        """Its keywords but `ask` and private ones; one without a readable annotation has the type of its default."""
        known, found = {}, inspect.signature(self.function).parameters.values()
        with suppress(Exception):
            known = get_type_hints(self.function, include_extras=True)
        fields: dict[str, Any] = {}
        for item in found:
            if item.kind is item.KEYWORD_ONLY and item.name != "ask" and not item.name.startswith("_"):
                default = ... if item.default is item.empty else item.default
                usual = Any if default in (None, ...) else type(default)
                fields[item.name] = (known.get(item.name, usual), default)
        return create_model("Parameters", __base__=_Arguments, **fields)

    @property
    def asks(self) -> bool:
        """Whether it is made against one method."""
        return "ask" in inspect.signature(self.function).parameters


@dataclass(frozen=True)
class Chosen:
    """A perturbation with arguments; `str` names it."""

    perturbation: Perturbation
    spec: Spec

    def __str__(self) -> str:
        return str(self.spec)


def perturbation(
    kind: Kind, *, invariant: str, source: str, usual: Sequence[Mapping[str, Value]] = ({},)
) -> Callable[[F], F]:
    """Declare a function as a perturbation; the arguments are those of `Perturbation`."""

    def declare(function: F) -> F:
        name = function.__name__.replace("_", "-")
        made = Perturbation(name, function, kind, invariant, source, tuple(usual))
        function.perturbation = made  # type: ignore[attr-defined]
        return function

    return declare


@cache
def built_in() -> dict[str, Perturbation]:
    """Name -> perturbation, by kind."""
    modules = [importlib.import_module(f"{__package__}.{name}") for name in BUILT_IN]
    found = [getattr(value, "perturbation", None) for module in modules for value in vars(module).values()]
    return {item.name: item for item in found if isinstance(item, Perturbation)}


def choose(names: Iterable[str] = ()) -> list[Chosen]:
    """Perturbations by name, kind or `module:function`, with arguments in parentheses; all built-in ones if none.

    Raises:
        UsageError: there is no such perturbation or parameter, or its module cannot be imported.
    """
    chosen: list[Chosen] = []
    for name in names or get_args(Kind):
        spec = parse(name)
        if spec.name in get_args(Kind) and not spec.arguments:
            of_kind = [item for item in built_in().values() if item.kind == spec.name]
            chosen += [Chosen(item, _spec(item, usual)) for item in of_kind for usual in item.usual]
            continue
        item = _find(spec.name)
        given = [dict(spec.arguments)] if spec.arguments else item.usual
        chosen += [Chosen(item, _spec(item, arguments)) for arguments in given]
    return list({str(item): item for item in chosen}.values())


def _spec(item: Perturbation, arguments: Mapping[str, Value]) -> Spec:
    """The spec of checked arguments, without defaults."""
    known = item.parameters
    check_parameters(known, Spec.of(item.name, arguments), "perturbation")
    return Spec.of(
        item.name, {name: value for name, value in arguments.items() if value != known.model_fields[name].default}
    )


def _find(name: str) -> Perturbation:
    if name in built_in():
        return built_in()[name]
    module_name, colon, function_name = name.partition(":")
    if not colon:
        names = [*get_args(Kind), *built_in()]
        raise UsageError(
            f"there is no perturbation {name!r}{suggestion(name, names)}; there are {', '.join(names)}; name your own "
            "as module:function."
        )
    with suppress(FileNotFoundError):  # the working folder may have been removed
        if str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
    try:
        function = getattr(importlib.import_module(module_name), function_name, None)
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"the perturbation {name!r} cannot be imported: {type(error).__name__}: {one_line(str(error), 200)}"
            f"{raised_at(error, [module_name])}."
        ) from None
    if not callable(function):
        raise UsageError(f"the module {module_name} has no function {function_name!r}.")
    declared = getattr(function, "perturbation", None)
    return replace(declared, name=name) if isinstance(declared, Perturbation) else Perturbation(name, function)


def apply(
    chosen: Chosen, dataset: Dataset, rows: NDArray[np.int64], seed: int, ask: Ask | None = None
) -> tuple[Dataset, Kind]:
    """The dataset with perturbed tools, and perturbed queries in these rows; all queries keep their rows.

    Raises:
        UsageError: the function fails, or returns something that breaks a promise: it loses a gold tool or a query,
            repeats an id, or returns nothing.
    """
    item = chosen.perturbation
    queries, arguments = [dataset.queries[row] for row in rows.tolist()], dict(chosen.spec.arguments)
    if item.asks:
        arguments["ask"] = ask  # type: ignore[assignment]
    try:
        returned: Any = item.function(queries, dataset.tools, seed, **arguments)
    except BenchError:
        raise
    except (Exception, SystemExit) as error:
        at = raised_at(error, [item.function.__module__])
        raise UsageError(
            f"the perturbation {chosen} failed: {type(error).__name__}: {one_line(str(error), 200)}{at}."
        ) from None
    changed, tools = _check(chosen, queries, returned)
    kind = item.kind or ("request" if tuple(tools) == dataset.tools else "library")
    by_id = {query.query_id: query for query in changed}
    known = {tool.tool_id for tool in tools}
    for query in dataset.queries:
        now = by_id.get(query.query_id, query)
        lost = sorted(tool for tool in query.gold if tool not in known or (kind != "absence" and tool not in now.gold))
        if lost:
            raise UsageError(
                f"the perturbation {chosen} loses {lost[0]!r}, a gold tool of query {query.query_id}; keep the gold of "
                "every query, and its tools in the library."
            )
    all_queries = [by_id.get(query.query_id, query) for query in dataset.queries]
    edges = [edge for edge in dataset.edges if {edge.dependent, edge.prerequisite} <= known]
    try:
        return Dataset.build(dataset.spec, dataset.card, Tables(tools, all_queries, edges)), kind
    except DataError as error:
        raise UsageError(f"what the perturbation {chosen} returns is not a dataset: {error}") from None


def _check(chosen: Chosen, queries: Sequence[Query], returned: Any) -> tuple[list[Query], list[Tool]]:
    """The queries and tools that a function returned."""
    try:
        changed, tools = (list(part) for part in returned)
    except (TypeError, ValueError):
        changed, tools = [], []
    whole = changed and tools and all(isinstance(query, Query) for query in changed)
    if not whole or not all(isinstance(tool, Tool) for tool in tools):
        raise UsageError(f"the perturbation {chosen} must return queries and tools, and returns something else.")
    for what, ids in (("query", [query.query_id for query in changed]), ("tool", [tool.tool_id for tool in tools])):
        repeated = next((name for name in ids if ids.count(name) > 1), None) if len(set(ids)) < len(ids) else None
        if repeated is not None:
            raise UsageError(f"the perturbation {chosen} returns the {what} {one_line(repeated, 80)!r} twice.")
    if {query.query_id for query in changed} != {query.query_id for query in queries}:
        raise UsageError(
            f"the perturbation {chosen} returns {len(changed)} queries for {len(queries)}; return each query under its "
            "id, and no other."
        )
    return changed, tools


def draw(seed: int, *parts: object) -> float:
    """A number in [0, 1) that depends only on the seed and the parts, on every machine."""
    digest = order_hash(":".join(map(str, (seed, *parts))))
    return int.from_bytes(digest[:7], "big") / 2**56


def pick(items: Sequence[Any], seed: int, *parts: object) -> Any:
    """One of some items, drawn as by `draw`."""
    return items[int(draw(seed, *parts) * len(items))]


def edit_tool(tool: Tool, **fields: str) -> Tool:
    """A tool with another name or description, also in the text that upstream has of it.

    Upstream's text is left out (`source` is None) if it does not have the old words exactly once; templates then make
    the text of the fields.
    """
    source = tool.source
    for name, new in fields.items():
        source = _edit_source(source, getattr(tool, name), new)
    return replace(tool, **fields, source=source)  # type: ignore[arg-type]


def _edit_source(source: str | None, old: str, new: str) -> str | None:
    if source is None or old == new:
        return source
    forms = [(old, new)]
    if source.startswith("{"):
        # In JSON the words are a whole value, with quotes and escapes.
        forms = [(json.dumps(old, ensure_ascii=mode), json.dumps(new, ensure_ascii=mode)) for mode in (False, True)]
    for before, after in forms if old else []:
        found = list(re.finditer(rf"(?<!\w){re.escape(before)}(?!\w)", source))
        if len(found) == 1:
            return source[: found[0].start()] + after + source[found[0].end() :]
    return None
