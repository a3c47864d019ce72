"""Larger and smaller libraries for the queries of a dataset: `DATASET(distractors=CATALOGUE, tools=N, seed=0)`.

Queries that no tool answers can be added too: `DATASET(no_tool=QUERIES)`. The registry calls it.

The tools that queries name (gold, alternatives and forbidden tools, of every split) always stay. The rest is drawn: the
dataset's own tools first, then distractors, each in the order of the sha256 of `SEED:ID`. This has three consequences.

- Draws are nested: a larger library contains the smaller one, so points of a curve are comparable.
- A library of the dataset's own size is the dataset, and everything beyond it comes from outside. If both were drawn
  from one pool, small libraries would lose the siblings of gold tools on the same server, which are the hardest to
  distinguish, and size and kind would change together.
- A tool that is edited, added or removed upstream does not change the order of the others.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field, create_model

from bench.base.errors import DataError, UsageError
from bench.base.parameters import ParameterSet
from bench.base.text import one_line
from bench.data.card import Card
from bench.data.dataset import Dataset
from bench.data.tables import Query, Tables, Tool

Duplicates = Literal["drop", "right", "keep"]


class LibraryOptions(ParameterSet):
    """The options that every dataset has: added tools and queries."""

    distractors: str = Field(
        default="",
        description="A dataset whose tools are added, such as mcp-servers. Their ids start with its id.",
    )
    tools: int | None = Field(
        default=None,
        ge=1,
        description="Tools of the library: those that queries name, then the dataset's others, then distractors. "
        "Without it, all.",
    )
    seed: int = Field(default=0, description="Another seed is another draw.")
    duplicates: Duplicates = Field(
        default="drop",
        description="Distractors that are near-duplicates of a tool that queries name: left out (drop), as right as "
        "that tool (right), or wrong like the others (keep).",
    )
    no_tool: str = Field(
        default="",
        description="Queries that no tool answers, such as masstool, to add. Their ids start with its id.",
    )


def with_library_options(declared: type[ParameterSet]) -> type[ParameterSet]:
    """The options of a loader and those of libraries; a loader with its own `seed` shares it.

    Raises:
        DataError: the loader declares another option with one of these names.
    """
    both = declared.model_fields.keys() & LibraryOptions.model_fields.keys() - {"seed"}
    if both:
        raise DataError(f"{declared.__name__} declares the option {min(both)!r}, which every dataset has; rename it.")
    shared: dict[str, Any] = {}
    if (declared_seed := declared.model_fields.get("seed")) is not None:
        shared["seed"] = (declared_seed.annotation, declared_seed)
    # Fields of the last base come first.
    return create_model(
        declared.__name__, __base__=(LibraryOptions, declared), __module__=declared.__module__, **shared
    )


def check_library(options: LibraryOptions, name: str, *, own_seed: bool) -> None:
    """Refuse options that have no effect.

    Args:
        options: options of a dataset.
        name: its id.
        own_seed: whether its loader uses the seed too.

    Raises:
        UsageError: such an option is set.
    """
    if options.duplicates != "drop" and not options.distractors:
        raise UsageError(
            f"duplicates={options.duplicates} of {name} is about distractors; add distractors=mcp-servers, "
            "or leave it out."
        )
    if options.seed and options.tools is None and not own_seed:
        raise UsageError(f"seed={options.seed} of {name} has nothing to draw; add tools=N, or leave it out.")


def is_drawn(options: LibraryOptions) -> bool:
    """Whether the options change the library, or add queries."""
    return bool(options.distractors or options.no_tool) or options.tools is not None


def with_library(
    dataset: Dataset, options: LibraryOptions, distractors: Dataset | None, spec: str, no_tool: Dataset | None = None
) -> Dataset:
    """The dataset with another library, or with added queries that no tool answers.

    Args:
        dataset: with its own tools, queries and gold, which all stay valid.
        options: the draw; `options.distractors` is the id of `distractors`.
        distractors: the catalogue to add; its queries are ignored.
        spec: the spec of the result.
        no_tool: the queries to add; none of them has gold.

    Raises:
        UsageError: the library would be smaller than the tools that queries name, or larger than available.
        DataError: an id of a distractor or of an added query already exists in the dataset, or is too long.
    """
    # Every dataset has these options, and few libraries are drawn.
    from bench.data.derive import shuffle
    from bench.data.duplicates import near_duplicates

    judged = {tool for query in dataset.queries for tool in (*query.meeting, *query.forbidden)}
    unjudged = shuffle((tool.tool_id for tool in dataset.tools if tool.tool_id not in judged), options.seed)
    tools = {tool.tool_id: tool for tool in dataset.tools}
    copies: Mapping[str, tuple[str, ...]] = {}
    offered: Sequence[Tool] = ()
    if distractors is not None:
        parents = {tool.parent for tool in dataset.tools}
        offered = [_qualify_tool(tool, distractors.card.id, parents) for tool in distractors.tools]
        if taken := tools.keys() & {tool.tool_id for tool in offered}:
            raise DataError(
                f"the tool {one_line(min(taken), 120)!r} of {dataset.spec} has the id of a distractor of "
                f"{distractors.card.id}; rename the tool, or import the distractors under another name."
            )
        if options.duplicates != "keep":
            copies = near_duplicates(offered, [tools[tool] for tool in sorted(judged)])
    added = {tool.tool_id: tool for tool in offered if options.duplicates != "drop" or tool.tool_id not in copies}
    tools |= added
    # The order of gold has no meaning: all of it stays.
    order = [*sorted(judged), *unjudged, *shuffle(added, options.seed)]
    size = len(order) if options.tools is None else options.tools
    if size < len(judged):
        raise UsageError(
            f"tools={size} is too small for {dataset.spec}: its queries name {len(judged)} tools, which always stay; "
            f"set tools={len(judged)} or more."
        )
    if size > len(order):
        hint = "" if distractors is not None else ", or add distractors=mcp-servers"
        raise UsageError(f"tools={size} is too large for {spec}: there are {len(order)} tools; set fewer{hint}.")
    kept = set(order[:size])
    right = {} if options.duplicates != "right" else {tool: near for tool, near in copies.items() if tool in kept}
    queries = [_narrow_scope(_add_near_duplicates(query, right), kept) for query in dataset.queries]
    if no_tool is not None:
        queries += [replace(query, query_id=f"{no_tool.card.id}/{query.query_id}") for query in no_tool.queries]
    rows = Tables(
        [tools[tool] for tool in order[:size]],
        queries,
        [edge for edge in dataset.edges if edge.dependent in kept and edge.prerequisite in kept],
        dataset.unknown_gold,
        remarks=dataset.remarks,
    )
    notes = []
    if options.distractors or options.tools is not None:
        notes.append(_note(options, len(judged), kept & added.keys(), copies))
    if no_tool is not None:
        notes.append(f"{len(no_tool.queries)} queries of {no_tool.card.id} are added; no tool answers them.")
    return Dataset.build(spec, _card(dataset.card, [distractors, no_tool], notes), rows)


def _qualify_tool(tool: Tool, catalogue: str, parents: Collection[str]) -> Tool:
    """A tool under the prefix of another catalogue, so that servers of the same name stay apart."""
    parent = f"{catalogue}/{tool.parent}" if tool.parent and tool.parent in parents else tool.parent
    return replace(tool, tool_id=f"{catalogue}/{tool.tool_id}", parent=parent)


def _add_near_duplicates(query: Query, right: Mapping[str, tuple[str, ...]]) -> Query:
    """A query whose requirements near-duplicates of its tools meet too, and whose forbidden tools include them."""
    if not right:
        return query
    any_of: dict[str, tuple[str, ...]] = dict(query.any_of)
    meeting: set[str] = set()
    for tool in query.gold:
        group = {tool, *query.any_of.get(tool, ())}
        more = sorted(other for other, near in right.items() if group.intersection(near))
        if more:
            any_of[tool] = (*query.any_of.get(tool, ()), *more)
            meeting.update(more)
    harmful = {other for other, near in right.items() if set(query.forbidden).intersection(near)} - meeting
    return replace(query, any_of=any_of, forbidden=(*query.forbidden, *sorted(harmful)))


def _narrow_scope(query: Query, kept: Collection[str]) -> Query:
    """A query whose scope is limited to tools still in the library; copies in other catalogues are outside it."""
    scope = tuple(tool for tool in query.scope if tool in kept)
    if query.scope and not scope:
        raise UsageError(f"no tool of the scope of query {query.query_id} is left in this library; set tools higher.")
    return replace(query, scope=scope) if scope != query.scope else query


def _note(options: LibraryOptions, judged: int, drawn: Collection[str], copies: Mapping[str, object]) -> str:
    text = (
        f"The library is drawn (seed {options.seed}): {judged} tools that queries name, which always stay, and others."
    )
    if not options.distractors:
        return text
    what = {
        "drop": f"{len(copies)} near-duplicates of tools that queries name are left out",
        "right": f"{len(copies.keys() & set(drawn))} of them are near-duplicates of tools that queries name, and count "
        "as these do",
        "keep": "near-duplicates of tools that queries name count as wrong",
    }
    return f"{text} {len(drawn)} are distractors of {options.distractors}; {what[options.duplicates]}."


def _card(card: Card, added: Sequence[Dataset | None], notes: Sequence[str]) -> Card:
    """The card with the provenance of all tools and queries; its counts are those of the dataset on its own."""
    own = card.licence
    card = card.model_copy(update={"counts": None, "known_issues": [*notes, *card.known_issues]})
    for dataset in added:
        if dataset is None:
            continue
        other = dataset.card
        changed = {
            "upstream": [*card.upstream, *(item for item in other.upstream if item not in card.upstream)],
            "licence": card.licence if other.licence == own else f"{card.licence}; {other.id}: {other.licence}",
            "redistribution": card.redistribution and other.redistribution,
        }
        card = card.model_copy(update=changed)
    return card
