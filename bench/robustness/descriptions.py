"""Perturbed words of the library. A tool keeps its id, so the gold stays."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, get_args

from bench.data.derive import shuffle
from bench.data.parents import Parent, parent_of
from bench.data.tables import Query, Tool
from bench.robustness.perturbation import Changed, Share, draw, edit_tool, perturbation, pick

_SAME = "a tool does the same under another text"
_ROTBENCH = "RoTBench (Ye et al. 2024), whose noisy names `rotbench(noise=..., half=names)` has"
_BOILERPLATE = (
    "This tool is part of the integration platform. It requires a valid API key. Rate limits apply. Returns a JSON "
    "object. See the documentation for details on errors and authentication."
)
_Level = Literal["slight", "medium", "heavy", "union"]
_SENTENCE = re.compile(r"[.!?](?=\s+[A-Z(`\"'])|\n\s*\n")
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@perturbation("library", invariant=_SAME, source="tools without documentation")
def no_descriptions(queries: Sequence[Query], tools: Sequence[Tool], seed: int) -> Changed:
    """All descriptions emptied; names and parameters stay."""
    return queries, [edit_tool(tool, description="") for tool in tools]


@perturbation("library", invariant=_SAME, source="clients that cut descriptions")
def first_sentences(queries: Sequence[Query], tools: Sequence[Tool], seed: int) -> Changed:
    """Descriptions cut after their first sentence."""
    return queries, [edit_tool(tool, description=first_sentence(tool.description)) for tool in tools]


def first_sentence(text: str) -> str:
    """The first sentence of a text, or its first paragraph if that is shorter."""
    text = text.strip()
    end = _SENTENCE.search(text)
    return text if end is None else text[: end.end()].strip()


@perturbation("library", invariant=_SAME, source="clients that hide schemas")
def no_parameters(queries: Sequence[Query], tools: Sequence[Tool], seed: int) -> Changed:
    """Parameters, schemas and results hidden."""
    return queries, [_hide_schemas(tool) for tool in tools]


def _hide_schemas(tool: Tool) -> Tool:
    if not tool.parameters and tool.input_schema is None and tool.returns is None:
        return tool
    # Upstream's text would still show them.
    return replace(tool, parameters=(), input_schema=None, returns=None, source=None)


@perturbation("library", invariant=_SAME, source=_ROTBENCH, usual=[{"level": level} for level in get_args(_Level)])
def names(queries: Sequence[Query], tools: Sequence[Tool], seed: int, *, level: _Level = "slight") -> Changed:
    """Noisy names, in RoTBench's levels.

    slight: characters added, left out or replaced. medium: the name reversed, or letters without sense. heavy: names
    exchanged among tools. union: names exchanged, then one of the former. Descriptions stay.
    """
    taken = {tool.tool_id: tool.name for tool in tools}
    if level in {"heavy", "union"}:
        order = shuffle(taken, seed)
        taken = {tool: taken[other] for tool, other in zip(order, [*order[1:], *order[:1]], strict=True)}
    change: dict[str, Callable[[str, int, str], str]] = {"slight": _slight, "medium": _medium, "union": _either}
    if level != "heavy":
        taken = {tool: change[level](name, seed, tool) for tool, name in taken.items()}
    return queries, [_rename(tool, taken[tool.tool_id]) for tool in tools]


def _rename(tool: Tool, name: str) -> Tool:
    return replace(edit_tool(tool, name=name), title="")


def _slight(name: str, seed: int, tool: str) -> str:
    """A fifth of the characters, at least one, added, left out or replaced."""
    signs = list(name)
    for i in range(max(1, len(name) // 5)):
        at, letter = int(draw(seed, "place", tool, i) * len(signs)), pick(_LETTERS, seed, "letter", tool, i)
        kind = pick(("add", "leave", "replace"), seed, "kind", tool, i)
        signs[at : at + 1] = {"add": [letter, *signs[at : at + 1]], "leave": [], "replace": [letter]}[kind]
        signs = signs or [letter]
    return "".join(signs)


def _medium(name: str, seed: int, tool: str) -> str:
    if draw(seed, "reversed", tool) < 0.5:
        return name[::-1]
    return "".join(pick(_LETTERS, seed, "letter", tool, i) for i in range(max(4, len(name))))


def _either(name: str, seed: int, tool: str) -> str:
    return (_slight if draw(seed, "either", tool) < 0.5 else _medium)(name, seed, tool)


@perturbation("library", invariant=_SAME, source="servers generated from one template")
def boilerplate(queries: Sequence[Query], tools: Sequence[Tool], seed: int) -> Changed:
    """The same 35 words after every description."""
    return queries, [edit_tool(tool, description=f"{tool.description} {_BOILERPLATE}".strip()) for tool in tools]


@perturbation("library", invariant="a copy is as right as its original", source="one server installed twice")
def duplicate_servers(queries: Sequence[Query], tools: Sequence[Tool], seed: int, *, share: Share = 0.2) -> Changed:
    """Copies of a share of the servers beside the originals; a copy of a gold tool meets the same requirement."""
    copies = {tool.tool_id: copy_of(tool, "copy") for tool in servers(tools, seed, share)}

    def with_copies(query: Query) -> Query:
        any_of = {tool: query.any_of.get(tool, ()) for tool in query.gold}
        meeting = {
            tool: (*others, *(copies[each].tool_id for each in (tool, *others) if each in copies))
            for tool, others in any_of.items()
        }
        scope = (*query.scope, *(copies[tool].tool_id for tool in query.scope if tool in copies))
        forbidden = (*query.forbidden, *(copies[tool].tool_id for tool in query.forbidden if tool in copies))
        met = {other: others for other, others in meeting.items() if others}
        return replace(query, any_of=met, scope=scope if query.scope else (), forbidden=forbidden)

    return [with_copies(query) for query in queries], [*tools, *copies.values()]


def servers(tools: Sequence[Tool], seed: int, share: float) -> list[Tool]:
    """The tools of random servers, in whole, until they are a share of the library; at least one tool.

    The last server is cut, so that a library of one server has the same share.
    """
    by_server: defaultdict[Parent, list[Tool]] = defaultdict(list)
    for tool in tools:
        by_server[parent_of(tool)].append(tool)
    named = {"\n".join(parent): found for parent, found in by_server.items()}
    ordered = [tool for name in shuffle(named, seed) for tool in named[name]]
    return ordered[: max(1, round(share * len(tools)))]


def copy_of(tool: Tool, prefix: str) -> Tool:
    """A tool of another server, whose id is PREFIX/ID."""
    return replace(tool, tool_id=f"{prefix}/{tool.tool_id}", parent=f"{prefix} {tool.parent or tool.tool_id}")
