"""Alternatives of gold tools: tools of another parent that read the same. Lenient means and audits use them.

Libraries of collected APIs hold the same tool several times, under several providers, and gold names the one that a
query was written for. Two tools are alternatives of each other if

- the sets of words of their names and descriptions are equal (case, order, repetition and punctuation do not count; the
  signs in `C++` and `C#` do),
- the names of their parameters are equal, and
- their parents differ: within one parent, tools with the same words are different tools. A parent that only repeats the
  name of its tool, as in imported BEIR data, does not count as a parent.

Tools without words have no alternatives. A similarity below equality does not show an alternative: two tools often
differ in one word of many, such as the country in descriptions of 26 words. In ToolBench and ToolLens, the sets
of words of 47 pairs of a gold tool and a tool of another parent have a Jaccard index from 0.7 to below 1; 34 of these
pairs do different things by our reading. The rule above finds 41 groups of tools around their gold; 5 of them do
different things, such as two services that each return their version.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from bench.data.gold import Gold
from bench.data.goldgroups import GoldGroups
from bench.data.parents import parent_of
from bench.data.tables import Tool

_WORD = re.compile(r"[^\W_]+[+#]*")
#: Splits a text of ASCII without `+` and `#` into the same words, in less than half the time.
_SPACES = {code: " " for code in range(128) if not chr(code).isalnum()}


def readings(tools: Sequence[Tool]) -> NDArray[np.int64]:
    """(tools,) numbers, equal for tools that read the same, whatever their parents; -1 for a tool without words."""
    # The keys of a whole library would fill the memory; most tools differ in the hashes of theirs already.
    hashes = [hash(_key(tool)) for tool in tools]
    shared = {code for code, times in Counter([hash(None), *hashes]).items() if times > 1}
    numbers: dict[Hashable, int] = {None: -1}
    keys = (_key(tool) if code in shared else code for tool, code in zip(tools, hashes, strict=True))
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)


def alternatives(
    tools: Sequence[Tool], wanted: Iterable[int], read: NDArray[np.int64] | None = None
) -> dict[int, tuple[int, ...]]:
    """The alternatives of the wanted tools that have any.

    Args:
        tools: the library; a tool's code is its position.
        wanted: codes.
        read: the `readings` of the tools, if already computed.

    Returns:
        Code -> codes, ascending.
    """
    read = readings(tools) if read is None else read
    codes = [code for code in wanted if read[code] >= 0]
    alike: defaultdict[int, list[int]] = defaultdict(list)
    for other in np.flatnonzero(np.isin(read, read[codes])).tolist():
        alike[int(read[other])].append(other)
    by_tool: dict[int, tuple[int, ...]] = {}
    for code in codes:
        others = (other for other in alike[int(read[code])] if other != code)
        if substitutes := tuple(other for other in others if not _siblings(tools[other], tools[code])):
            by_tool[code] = substitutes
    return by_tool


def _key(tool: Tool) -> Hashable:
    """Equal for tools that read the same; None for a tool without words."""
    text = f"{tool.name} {tool.description}".casefold()
    simple = text.isascii() and "+" not in text and "#" not in text
    words = frozenset(text.translate(_SPACES).split() if simple else _WORD.findall(text))
    return (words, frozenset(parameter.name.casefold() for parameter in tool.parameters)) if words else None


def _siblings(first: Tool, second: Tool) -> bool:
    return parent_of(first) == parent_of(second) and first.parent != first.name


def with_alternatives(gold: Gold, tools: Sequence[Tool], read: NDArray[np.int64] | None = None) -> GoldGroups:
    """Judgements that a gold tool or one of its alternatives satisfies; a group starts with its gold tool.

    A tool that is gold for a query is not an alternative of another of its gold tools. If gold has alternatives of its
    own, a group has those of all its tools.

    Args:
        gold: judgements of the queries.
        tools: the library.
        read: the `readings` of the tools, if already computed.
    """
    meeting = gold.members()
    known = alternatives(tools, np.unique(meeting.tools).tolist(), read)
    rows: list[list[tuple[list[int], int]]] = [[] for _ in range(len(gold))]
    for query, group, grade in gold.judgements():
        gold_tools = set(meeting.row(query).tolist())
        more = dict.fromkeys(other for tool in group for other in known.get(tool, ()) if other not in gold_tools)
        rows[query].append(([*group, *more], grade))
    return GoldGroups.of(rows)
