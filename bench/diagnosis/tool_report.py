"""A report per tool: how often it is found, shown without being wanted, and behind which others and why.

It is for people who edit descriptions: which tools are missed, which push in, and which are confused. The command, the
page and the API call it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.base.errors import ResultError, UsageError
from bench.base.progress import QUIET, Progress
from bench.base.records import Record
from bench.data.alternatives import alternatives
from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.data.goldgroups import GoldGroups
from bench.data.template import Template
from bench.diagnosis.confusions import ConfusedPair, Pair, Why, WordStatistics, explain_pairs
from bench.diagnosis.explain import find_id
from bench.diagnosis.tool_counts import Confusions, ToolCounts, count_tools
from bench.interface.ranking import PAD
from bench.metrics.goldranks import MISSING
from bench.models.tokens import can_count_tokens, count_tokens
from bench.results.comparability import check_content
from bench.results.store import StoredResult
from bench.search.similar import TextVectors
from bench.show.numbers import number_or_none, several
from bench.show.objects import Displayable, frame
from bench.show.tables import Table, table_of

if TYPE_CHECKING:
    import pandas

#: Default number of tools of each ranking that count as shown.
FIRST = 5
#: Default number of worst tools whose pairs the method explains.
EXPLAINED = 20
#: Maximum rivals named in a row.
_MOST_NAMED = 5
#: Maximum missed queries, and queries that wrongly show the tool, in a tool's detail.
_MOST_LISTED = 50
#: Maximum tools in a representation; DataFrames contain all.
_MOST_SHOWN = 15
#: Counts of a tool that have the same name in a row.
_COUNTED = (
    *("wanted", "groups", "found", "by_other", "absent", "accepted", "shown", "unwanted"),
    *("forbidden", "forbidden_shown"),
)
#: Maximum ranks of all rankings together: a gigabyte.
_MOST_CELLS = 1 << 28


class Confusion(Record):
    """Another tool that was among the first k when this one was wanted and missed.

    Attributes:
        tool_id: the other tool.
        queries: number of queries.
        example: the id of the query in which the missed tool ranks best.
        rank: rank of the missed tool in it; null if it is not in the ranking.
        cosine: TF-IDF cosine of the two texts.
        why: what decides between the two, over these queries or, in the method's own words, in the example; null if
            it was not computed.
        why_by: `method` for the method's own explanation, `words` for a comparison of query words with the two texts.
    """

    tool_id: str
    queries: int
    example: str
    rank: int | None
    cosine: float
    why: str | None
    why_by: Literal["method", "words"] | None


class ToolRow(Record):
    """One tool of the library.

    Attributes:
        tool_id, name, parent: identify the tool.
        wanted: number of queries that want it (it is the gold tool of one of their requirements).
        groups: number of units of independence of these.
        found: number of those with it, or another tool of the same requirement, among the first k.
        low, high: the 95% interval of the share found / wanted; null for fewer than 30 units.
        by_other: those of `found` with only another tool of the requirement among the first k.
        absent: queries that want it and rank no tool of the requirement at all.
        mean_rank: over the queries that rank it; null if there are none.
        median_rank: over all queries that want it; null if it is beyond the ranking.
        accepted: queries in which it may replace the gold tool; they neither want it nor count it as unwanted.
        shown: queries with it among the first k.
        unwanted: those of `shown` that do not want it.
        unwanted_share: share among the queries that do not want it; null if there are none.
        forbidden: queries that forbid it.
        forbidden_shown: those of them with it among the first k.
        loses_to: tools shown in its place, most queries first; the first few.
        near_duplicates: number of tools with nearly the same text.
        nearest, nearest_cosine: the nearest of them, and its cosine.
        tokens: number of tokens of its text; null if the tokeniser is not installed.
    """

    tool_id: str
    name: str
    parent: str
    wanted: int
    groups: int
    found: int
    low: float | None
    high: float | None
    by_other: int
    absent: int
    mean_rank: float | None
    median_rank: float | None
    accepted: int
    shown: int
    unwanted: int
    unwanted_share: float | None
    forbidden: int
    forbidden_shown: int
    loses_to: list[Confusion]
    near_duplicates: int
    nearest: str | None
    nearest_cosine: float | None
    tokens: int | None

    @property
    def missed(self) -> int:
        """Queries that want it and do not find it."""
        return self.wanted - self.found


class Place(Record):
    """A tool among the first k of a query, and whether the query wants it."""

    tool_id: str
    wanted: bool


class MissedQuery(Record):
    """A query that wants a tool and does not find it.

    Attributes:
        query_id, text: the query.
        rank: rank of the tool, or of another tool of its requirement; null if none is in the ranking.
        first: the first k tools, best first.
        why: why the first unwanted tool ranks above it; null if there is none.
        why_by: as in `Confusion`.
    """

    query_id: str
    text: str
    rank: int | None
    first: list[Place]
    why: str | None
    why_by: Literal["method", "words"] | None


class UnwantedQuery(Record):
    """A query with a tool among its first k that it does not want; `wanted` are ids of the tools that it wants."""

    query_id: str
    text: str
    rank: int
    forbidden: bool
    wanted: list[str]


class ToolDetail(Record):
    """The queries of one tool, best ranks first, up to a maximum; and tools with the same words.

    Attributes:
        missed: queries that want it and do not find it.
        unwanted: queries that show it and do not want it.
        alternatives: ids of the tools of other parents with the same words and parameters (`bench.data.alternatives`).
    """

    missed: list[MissedQuery]
    unwanted: list[UnwantedQuery]
    alternatives: list[str]


class ToolsReport(Displayable, Record):
    """What a stored ranking does with the tools of its library.

    Attributes:
        result_id, label, dataset, split: identify the result.
        repeat: number of the repeat; null without repeats.
        k: number of tools of each ranking that count as shown.
        depth: maximum tools of a ranking.
        queries: number of queries; `judged` of them want a tool.
        requirements: how often tools are wanted; `found` is how often they are found.
        library: number of tools; `wanted_tools` of them are wanted by a query.
        never_found: ids of wanted tools that no ranking of a query that wants them contains.
        near_duplicate_tools: number of tools that have a near-duplicate.
        forbidden_shown: occurrences among the first k of a tool that the query forbids.
        warnings: warnings for readers, in sentences.
        why_note: why the method was not asked for reasons; empty if it was.
        tools: rows, most often missed first, then most often shown unwanted.
        detail: the queries of the requested tool; null otherwise.
        confused: the pairs of tools confused in most queries, with the words that decide; as many as requested.
    """

    schema_name: Literal["tools-report"] = "tools-report"
    schema_version: Literal[1] = 1
    result_id: str
    label: str
    dataset: str
    split: str
    repeat: int | None
    k: int
    depth: int
    queries: int
    judged: int
    requirements: int
    found: int
    library: int
    wanted_tools: int
    never_found: list[str]
    near_duplicate_tools: int
    forbidden_shown: int
    warnings: list[str]
    why_note: str
    tools: list[ToolRow]
    detail: ToolDetail | None
    confused: list[ConfusedPair] = []

    @cached_property
    def table(self) -> pandas.DataFrame:
        """One row per tool of the library; the columns are those of the schema `tools-report`.

        Raises:
            UnavailableError: pandas is not installed.
        """
        columns = [name for name in ToolRow.model_fields if name != "loses_to"]
        return frame([row.model_dump(include=set(columns)) for row in self.tools], columns)

    @cached_property
    def pairs(self) -> pandas.DataFrame:
        """One row per pair of a missed tool and one shown in its place, most frequent pairs of each first.

        Columns: `missed` and `shown`, ids; `queries`, their number; `example`, the id of one, and the `rank` of the
            missed tool in it; `cosine` of the two texts; `why` and `why_by`, what decides in the example, for the worst
            tools.

        Raises:
            UnavailableError: pandas is not installed.
        """
        rows = [
            {"missed": row.tool_id, "shown": pair.tool_id, **pair.model_dump(exclude={"tool_id"})}
            for row in self.tools
            for pair in row.loses_to
        ]
        return frame(rows, ("missed", "shown", *(name for name in Confusion.model_fields if name != "tool_id")))

    def to_dict(self) -> dict[str, Any]:
        """Everything, as in `bench tools --json`."""
        return self.model_dump(mode="json")

    def _line(self) -> str:
        share = f"found in the first {self.k}: {self.found}/{self.requirements}"
        return f"{self.label} ({self.split}), {several(self.library, 'tool')}, {share}"

    def _tables(self) -> list[Table]:
        rows = [
            [
                row.tool_id,
                str(row.found),
                str(row.wanted),
                "-" if row.median_rank is None else f"{row.median_rank:g}",
                str(row.unwanted),
                ", ".join(f"{pair.tool_id} ({pair.queries})" for pair in row.loses_to[:2]),
            ]
            for row in self.tools[:_MOST_SHOWN]
        ]
        title = f"{self.label} ({self.split}): found in the first {self.k}: {self.found}/{self.requirements}"
        left = len(self.tools) - len(rows)
        notes = [f"{several(left, 'more tool')} in .table"] if left else []
        notes.append(f"never found, though wanted: {len(self.never_found)}")
        return [table_of(("tool", "found", "wanted", "median rank", "unwanted", "loses to"), rows, title, notes)]


@dataclass(frozen=True, eq=False)
class CountedRanking:
    """A result's ranking, counted by tool.

    Attributes:
        result, dataset: the result, or one of its repeats, and the data it was made on.
        repeat: number of the repeat.
        rows: (queries,) rows of the dataset.
        depth: maximum tools of a ranking.
        counts: what the ranking does with each tool.
        confusions: pairs of missed and shown tools.
        notes: notes on the counts for readers, in sentences.
    """

    result: StoredResult
    dataset: Dataset
    repeat: int
    rows: NDArray[np.int64]
    depth: int
    counts: ToolCounts
    confusions: Confusions
    notes: list[str]


def count_ranking(result: StoredResult, dataset: Dataset, k: int = FIRST, repeat: int = 1) -> CountedRanking:
    """Count a stored ranking by tool.

    Args:
        result, dataset: the result, and the data it was made on.
        k: number of tools of each ranking that count as shown; in a library of fewer than `FIRST`, all of them.
        repeat: number of the repeat, if there are several.

    Raises:
        ResultError: the result is on other data, or its ranking is missing or damaged.
        UsageError: there is no such repeat, or rankings are shorter than k.
    """
    check_content(result.manifest, dataset)
    k, notes = cut_to_library(k, result, dataset)
    one = result.of_repeat(repeat)
    one.check_ids(dataset)
    rows = np.array([dataset.query_codes[name] for name in one.per_query["query_id"].to_pylist()], dtype=np.int64)
    gold = dataset.gold.take(rows)
    ranked, tools = _read_codes(one, dataset), len(dataset.tools)
    counts = count_tools(ranked, requirements(gold), gold.forbidden, one.units, tools, k)
    depth = min(result.manifest.depth, len(dataset.tools))
    return CountedRanking(one, dataset, repeat, rows, depth, counts, counts.confusions(), notes)


def cut_to_library(k: int, result: StoredResult, dataset: Dataset) -> tuple[int, list[str]]:
    """How many tools of a ranking count as shown, and a sentence if the library has fewer than `FIRST`.

    Raises:
        UsageError: rankings are shorter than k.
    """
    tools = len(dataset.tools)
    depth = min(result.manifest.depth, tools)
    if k <= depth:
        return k, []
    if tools >= FIRST:
        raise UsageError(f"k is {k}, but the rankings of {result.label} have at most {depth} tools.")
    return depth, [
        f"k is {depth} and not {k}: the {'library has' if depth == tools else 'rankings have'} no more tools"
    ]


def tools_report(
    counted: CountedRanking,
    *,
    most: int | None = None,
    explained: int = EXPLAINED,
    confused: int = 0,
    tool: str | None = None,
    library: TextVectors | None = None,
    ask: bool = True,
    progress: Progress = QUIET,
) -> ToolsReport:
    """The report of a counted ranking.

    Args:
        most: maximum rows, worst first; None for all tools of the library.
        explained: number of worst tools to explain against the tool that they lose to most often.
        confused: number of most frequent pairs to explain by deciding words.
        tool: the id of one tool: the report then has only its row, with its queries in detail.
        library: from `tool_texts`, if already known.
        ask: whether to rebuild the method and ask it why; otherwise tool texts are compared.

    Raises:
        UsageError: there is no such tool.
    """
    dataset, counts = counted.dataset, counted.counts
    codes = counts.worst_first() if tool is None else np.array([tool_named(dataset, tool)])
    codes = codes[:most]
    vectors = tool_texts(dataset, counted.result.manifest.dataset.template) if library is None else library
    every = counted.confusions
    listed = {code: every.of(code)[:_MOST_NAMED] for code in codes.tolist()}
    # Confused in most queries; for a single tool, those in which it is missed.
    worst = np.arange(len(every.missed)) if tool is None else every.of(int(codes[0]))
    worst = worst[np.lexsort((every.shown[worst], every.missed[worst], -every.queries[worst]))][:confused]
    # For every tool the pair with most queries; for a single tool all that are listed.
    chosen = [pair for code in codes[:explained].tolist() for pair in listed[code][: None if tool else 1].tolist()]
    pairs = {pair: _pair(counted, pair) for pair in dict.fromkeys((*worst.tolist(), *chosen))}
    lost = counts.missed_cases(int(codes[0]))[:_MOST_LISTED] if tool is not None else np.zeros(0, dtype=np.int64)
    alone = {case: pair for case in lost.tolist() if (pair := _pair_of_case(counted, case)) is not None}
    wording = WordStatistics(vectors, dataset, counted.rows.tolist())
    said, note = explain_pairs(
        counted.result,
        dataset,
        [*pairs.values(), *alone.values()],
        wording,
        repeat=counted.repeat,
        ask=ask,
        progress=progress,
    )
    reasons = dict(zip(pairs, said, strict=False))
    reasons_alone = dict(zip(alone, said[len(pairs) :], strict=True))
    detail = None
    if tool is not None:
        missed = [_report_missed(counted, case, reasons_alone.get(case)) for case in lost.tolist()]
        code = int(codes[0])
        same = [dataset.tools[other].tool_id for other in alternatives(dataset.tools, [code]).get(code, ())]
        detail = ToolDetail(missed=missed, unwanted=_list_unwanted(counted, code), alternatives=same[:_MOST_LISTED])
    rows = _rows(counted, codes, listed, {pair: reasons[pair] for pair in chosen}, vectors)
    manifest = counted.result.manifest
    wanted = counts.wanted > 0
    never = np.flatnonzero(wanted & (counts.absent == counts.wanted))
    return ToolsReport(
        result_id=manifest.result_id,
        label=counted.result.label,
        dataset=manifest.dataset.spec,
        split=manifest.dataset.split,
        repeat=counted.repeat if manifest.repeats > 1 else None,
        k=counts.k,
        depth=counted.depth,
        queries=len(counted.rows),
        judged=len(np.unique(counts.query)),
        requirements=len(counts.query),
        found=int(counts.found.sum()),
        library=len(dataset.tools),
        wanted_tools=int(wanted.sum()),
        never_found=[dataset.tools[code].tool_id for code in never.tolist()],
        near_duplicate_tools=int((vectors.near_duplicates.count > 0).sum()),
        forbidden_shown=int(counts.forbidden_shown.sum()),
        warnings=[*manifest.notes, *counted.notes],
        why_note=note,
        tools=rows,
        detail=detail,
        confused=[reasons[pair].pair for pair in worst.tolist()],
    )


def _pair(counted: CountedRanking, pair: int) -> Pair:
    """A pair with its queries."""
    every, counts = counted.confusions, counted.counts
    missed, shown = int(every.missed[pair]), int(every.shown[pair])
    lost = counts.missed_cases(missed)
    both = lost[((counts.first == shown) & ~counts.right)[counts.query[lost]].any(axis=1)]
    return Pair(missed, shown, counted.rows[counts.query[both]], rank_or_none(int(counts.rank[both[0]])))


def _pair_of_case(counted: CountedRanking, case: int) -> Pair | None:
    """A missed tool and the best ranked unwanted one; None if the query wants all of the first k."""
    counts = counted.counts
    query = counts.query[case]
    wrong = np.flatnonzero((counts.first[query] != PAD) & ~counts.right[query])
    if not len(wrong):
        return None
    rows = counted.rows[[query]]
    return Pair(int(counts.tool[case]), int(counts.first[query, wrong[0]]), rows, rank_or_none(int(counts.rank[case])))


def tool_texts(dataset: Dataset, template: Template) -> TextVectors:
    """The texts of a library by a template, with their similarities."""
    return TextVectors([tool.text(template) for tool in dataset.tools])


def tool_named(dataset: Dataset, name: str) -> int:
    """The code of a tool, from its id or an unambiguous prefix of it.

    Raises:
        UsageError: the library has no such tool, or several.
    """
    ids = [tool.tool_id for tool in dataset.tools]
    return dataset.tool_codes[find_id(name, ids, dataset.spec, "tool", "tools")]


def _read_codes(result: StoredResult, dataset: Dataset) -> NDArray[np.int32]:
    """(queries, depth) the stored ranking as codes."""
    queries = {name: i for i, name in enumerate(result.per_query["query_id"].to_pylist())}
    query = _encode_ids(result.run["query_id"], queries)
    tool = _encode_ids(result.run["tool_id"], dataset.tool_codes)
    place = _numbers(result.run["rank"].combine_chunks()).astype(np.int64) - 1
    width = int(place.max(initial=-1)) + 1
    # Tables of a site are untrusted.
    if width > len(dataset.tools) or width * len(queries) > _MOST_CELLS:
        raise ResultError(f"the ranking of {result.label} has ranks that no ranking of it can have; run it again.")
    ranked = np.full((len(queries), width), PAD, dtype=np.int32)
    ranked[query, place] = tool
    return ranked


def _encode_ids(column: pa.ChunkedArray, codes: Mapping[str, int]) -> NDArray[np.int64]:
    """A column of ids as codes."""
    encoded = column.combine_chunks().dictionary_encode()
    known = np.array([codes[name] for name in encoded.dictionary.to_pylist()], dtype=np.int64)
    return known[_numbers(encoded.indices)]


def _numbers(column: pa.Array) -> NDArray[np.int32]:
    """A column of numbers; not by to_numpy, which imports pandas."""
    return np.array(np.from_dlpack(column) if len(column) else (), dtype=np.int32)


def requirements(gold: Gold) -> GoldGroups:
    """The requirements of queries, including those with a single tool."""
    if gold.groups is not None:
        return gold.groups
    return GoldGroups(gold.starts, np.arange(len(gold.tools) + 1), gold.tools, gold.grades)


def rank_or_none(rank: int) -> int | None:
    """A rank; None for an unranked tool."""
    return None if rank >= MISSING else rank


def _rows(
    counted: CountedRanking,
    codes: NDArray[np.int64],
    listed: Mapping[int, NDArray[np.int64]],
    reasons: Mapping[int, Why],
    vectors: TextVectors,
) -> list[ToolRow]:
    """The rows of some tools."""
    counts, tools = counted.counts, counted.dataset.tools
    near = vectors.near_duplicates
    pairs = np.concatenate([*listed.values(), np.zeros(0, dtype=np.int64)])
    cosines = vectors.cosines(counted.confusions.missed[pairs], counted.confusions.shown[pairs]).tolist()
    likeness = dict(zip(pairs.tolist(), cosines, strict=True))
    tokens = count_tokens([vectors.texts[code] for code in codes.tolist()]).tolist() if can_count_tokens() else None
    rows = []
    for place, code in enumerate(codes.tolist()):
        ends = counts.interval(code)
        others = len(counted.rows) - int(counts.wanted[code] + counts.accepted[code])
        nearest = int(near.nearest[code])
        rows.append(
            ToolRow(
                tool_id=tools[code].tool_id,
                name=tools[code].name,
                parent=tools[code].parent,
                **{name: int(getattr(counts, name)[code]) for name in _COUNTED},
                low=None if ends is None else ends[0],
                high=None if ends is None else ends[1],
                mean_rank=number_or_none(counts.mean_rank[code]),
                median_rank=number_or_none(counts.median_rank[code]),
                unwanted_share=int(counts.unwanted[code]) / others if others else None,
                loses_to=_confusions(counted, listed[code], reasons, likeness),
                near_duplicates=int(near.count[code]),
                nearest=tools[nearest].tool_id if nearest >= 0 else None,
                nearest_cosine=float(near.cosine[code]) if nearest >= 0 else None,
                tokens=None if tokens is None else tokens[place],
            )
        )
    return rows


def _confusions(
    counted: CountedRanking, pairs: NDArray[np.int64], reasons: Mapping[int, Why], likeness: Mapping[int, float]
) -> list[Confusion]:
    counts, every = counted.counts, counted.confusions
    listed = []
    for pair in pairs.tolist():
        case, why = int(every.example[pair]), reasons.get(pair)
        listed.append(
            Confusion(
                tool_id=counted.dataset.tools[int(every.shown[pair])].tool_id,
                queries=int(every.queries[pair]),
                example=counted.dataset.queries[counted.rows[counts.query[case]]].query_id,
                rank=rank_or_none(int(counts.rank[case])),
                cosine=likeness[pair],
                **_said(why),
            )
        )
    return listed


def _report_missed(counted: CountedRanking, case: int, why: Why | None) -> MissedQuery:
    counts, dataset = counted.counts, counted.dataset
    place = counts.query[case]
    query = dataset.queries[counted.rows[place]]
    first = [
        Place(tool_id=dataset.tools[code].tool_id, wanted=bool(right))
        for code, right in zip(counts.first[place].tolist(), counts.right[place].tolist(), strict=True)
        if code != PAD
    ]
    return MissedQuery(
        query_id=query.query_id,
        text=query.text,
        rank=rank_or_none(int(counts.rank[case])),
        first=first,
        **_said(why),
    )


def _said(why: Why | None) -> dict[str, Any]:
    return {"why": why and why.text, "why_by": why and why.by}


def _list_unwanted(counted: CountedRanking, tool: int) -> list[UnwantedQuery]:
    counts, dataset = counted.counts, counted.dataset
    places, ranks = counts.unwanted_places(tool)
    listed = []
    for place, rank in zip(places[:_MOST_LISTED].tolist(), ranks[:_MOST_LISTED].tolist(), strict=True):
        query = dataset.queries[counted.rows[place]]
        listed.append(
            UnwantedQuery(
                query_id=query.query_id,
                text=query.text,
                rank=rank,
                forbidden=bool(counts.harmful[place, rank - 1]),
                wanted=sorted(query.gold),
            )
        )
    return listed
