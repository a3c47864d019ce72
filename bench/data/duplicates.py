"""Near-duplicates of judged tools among the tools of another catalogue. Libraries with distractors use them.

A distractor that does what a gold tool does is right but would count as wrong. A tool is a near-duplicate of another
one if

- the sets of words of their names and descriptions are equal,
- the TF-IDF cosine of these texts is at least `COSINE`, or
- their names are equal up to case, and the cosine is at least `COSINE_OF_NAMESAKES`.

The rule reads only texts and no model, so the same files give the same tools on every machine. Words are runs of
letters and digits after case folding, in every script; another rule would change the content of datasets with
distractors. The limits were set by reading pairs of LiveMCPBench's gold tools and tools of the dataset `mcp-servers`:
above them nearly all pairs do the same, below them most do not. `docs/studies/2026-11-library-size.md` has the shares
and intervals.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence

from bench.data.nearcopies import similar_pairs
from bench.data.tables import Tool

COSINE, COSINE_OF_NAMESAKES = 0.8, 0.6

_WORD = re.compile(r"[^\W_]+")


def near_duplicates(tools: Sequence[Tool], judged: Sequence[Tool]) -> dict[str, tuple[str, ...]]:
    """Find tools that are near-duplicates of a judged tool.

    The weights of words come from both whole collections, so the answer for a tool does not depend on which tools are
    drawn later.

    Args:
        tools: a catalogue.
        judged: tools that queries of the other catalogue name.

    Returns:
        tool_id -> sorted ids of the judged tools it duplicates. A tool without words duplicates none.
    """
    if not tools or not judged:
        return {}
    texts, others = ([f"{tool.name} {tool.description}" for tool in collection] for collection in (tools, judged))
    near: defaultdict[str, set[str]] = defaultdict(set)
    words, other_words = ([_WORD.findall(text.casefold()) for text in collection] for collection in (texts, others))
    pairs = similar_pairs(words, other_words, min(COSINE, COSINE_OF_NAMESAKES))
    for i, j, cosine in zip(*(array.tolist() for array in pairs), strict=True):
        if cosine >= COSINE - 1e-9 or tools[i].name.casefold() == judged[j].name.casefold():
            near[tools[i].tool_id].add(judged[j].tool_id)
    same: defaultdict[frozenset[str], set[str]] = defaultdict(set)
    for tool, tool_words in zip(judged, map(frozenset, other_words), strict=True):
        same[tool_words].add(tool.tool_id)
    for tool, tool_words in zip(tools, map(frozenset, words), strict=True):
        if tool_words and tool_words in same:
            near[tool.tool_id] |= same[tool_words]
    return {tool: tuple(sorted(ids)) for tool, ids in near.items()}
