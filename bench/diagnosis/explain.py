"""Why one query was answered as it was: the ranks of its gold tools in a stored result, what ranks above, and why.

Ranks and scores are the stored ones. The reasons come from the method (`Method.explain`), rebuilt from the result's
full spec on the same data, and are shown only if it still gives the stored scores. The command and the API call it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.base.arrow import strings
from bench.base.config import config_context
from bench.base.errors import BenchError, ResultError, UsageError
from bench.base.progress import QUIET, Progress
from bench.base.spec import Spec, parse
from bench.base.text import one_line
from bench.data.dataset import Dataset
from bench.data.tables import Query
from bench.evaluation.ask import prepare
from bench.evaluation.method_errors import method_errors
from bench.interface import History, Library, Method, Queries
from bench.interface.explanation import Case, ExplainedAnswer, Position, agrees, name_with_id
from bench.registry import build_method
from bench.results.comparability import check_content, data_differences
from bench.results.manifest import Manifest
from bench.results.slices import slice_values
from bench.results.store import StoredResult
from bench.show.numbers import format_fixed
from bench.show.objects import Displayable
from bench.show.tables import Table, table_of

#: How much of the ranking to show, and how many tools directly above a lower gold tool.
FIRST = 10
_RIGHT_ABOVE = 2
_MOST_IDS = 5
#: Maximum parts of a score in a table.
_MOST_PARTS = 4


@dataclass(frozen=True)
class ShownTool:
    """One tool of a ranking.

    Attributes:
        tool: its code.
        tool_id: its id.
        title: its name in tables: its id, with its name if the id is only a number.
        gold: whether it answers the query.
        position: its stored rank and score; rank None if it is not in the stored ranking.
        tied: number of other tools in the stored ranking with the same score.
    """

    tool: int
    tool_id: str
    title: str
    gold: bool
    position: Position
    tied: int

    def to_dict(self) -> dict[str, Any]:
        """The entry as JSON."""
        return {"tool_id": self.tool_id, "gold": self.gold, **vars(self.position), "tied": self.tied}


@dataclass(frozen=True, repr=False)
class Explained(Displayable):
    """One query of a stored result, explained.

    Attributes:
        result, query: the result, and its query with the gold.
        slices: slice -> value of the query.
        values: metric -> the query's value.
        failed: whether the method failed on it or gave no answer.
        recommended: ids of the recommended set, if the result has sets.
        ranking: ids of the stored ranking, best first.
        shown: the top of the ranking, the gold tools and the tools directly above them, by rank; unranked gold
            comes last.
        answer: the method's current answer with reasons; None if only the stored numbers are available.
        missing: why there are only these, in a sentence.
        repeat: number of the repeat.
    """

    result: StoredResult
    query: Query
    slices: Mapping[str, str]
    values: Mapping[str, float]
    failed: bool
    recommended: tuple[str, ...] | None
    ranking: tuple[str, ...]
    shown: tuple[ShownTool, ...]
    answer: ExplainedAnswer | None
    missing: str
    repeat: int = 1

    @property
    def gold(self) -> tuple[ShownTool, ...]:
        """The gold tools, by rank."""
        return tuple(entry for entry in self.shown if entry.gold)

    def to_dict(self) -> dict[str, Any]:
        """Everything, as in `bench explain --json`; `above` lists the ids above a gold tool, best first."""
        manifest, answer = self.result.manifest, self.answer
        gold = []
        for item in self.gold:
            rank = item.position.rank
            gold.append(
                {
                    **item.to_dict(),
                    "relevance": self.query.meeting[item.tool_id],
                    "rank_of_library": None if answer is None else answer.positions[item.tool].rank,
                    "above": list(self.ranking if rank is None else self.ranking[: rank - 1]),
                }
            )
        return {
            "result_id": manifest.result_id,
            "label": self.result.label,
            **({"repeat": self.repeat} if manifest.repeats > 1 else {}),
            "query_id": self.query.query_id,
            "text": self.query.text,
            "slices": dict(self.slices),
            "metrics": dict(self.values),
            "failed": self.failed,
            "recommended": None if self.recommended is None else list(self.recommended),
            "gold": gold,
            "shown": [item.to_dict() for item in self.shown],
            "missing": self.missing or None,
            "why": None if answer is None else _answer_dict(answer, self.shown),
        }

    def _line(self) -> str:
        ranks = ", ".join(f"{entry.tool_id} at {entry.position.rank or 'no rank'}" for entry in self.gold)
        return f"{self.result.label}, query {self.query.query_id}: {ranks or 'no gold'}"

    def _tables(self) -> list[Table]:
        reasons = {} if self.answer is None else self.answer.explanation.reasons
        rows = []
        for entry in self.shown:
            rank, score = entry.position.rank, entry.position.score
            reason = reasons.get(entry.tool)
            why = "" if reason is None else reason.because or reason.note
            if reason is not None and not why:
                why = " · ".join(f"{part.name} {part.value:.3f}" for part in reason.parts[:_MOST_PARTS])
            mark = "*" if entry.gold else ""
            rows.append([entry.title, mark, str(rank or "-"), format_fixed(score), one_line(why, 200)])
        title = f"{self.result.label}, query {self.query.query_id}: {one_line(self.query.text, 300)}"
        notes = [self.missing] if self.missing else []
        return [table_of(("tool", "gold", "rank", "score", "why"), rows, title, notes)]


def _answer_dict(answer: ExplainedAnswer, shown: Iterable[ShownTool]) -> dict[str, Any]:
    """An answer as JSON."""
    explanation = answer.explanation
    tools = []
    for item in shown:
        reason = explanation.reasons.get(item.tool)
        row: dict[str, Any] = {"tool_id": item.tool_id, **vars(answer.positions[item.tool])}
        if reason is not None:
            row["parts"] = [{"name": part.name, "value": part.value} for part in reason.parts]
            row["columns"] = dict(zip(explanation.columns, reason.cells, strict=True))
            row |= {"note": reason.note, "because": reason.because}
        tools.append(row)
    return {
        "method": answer.label,
        "title": explanation.title,
        "notes": list(explanation.notes),
        "tools": tools,
        "bases": [_answer_dict(base, shown) for base in explanation.bases],
    }


def query_named(result: StoredResult, name: str, dataset: Dataset) -> str:
    """Resolve the id of a result's query from the id or an unambiguous prefix.

    The dataset serves to recognise queries of it that were not evaluated.

    Raises:
        UsageError: the result has no such query, or several.
    """
    ids: list[str] = result.per_query["query_id"].to_pylist()
    other = next((query for query in dataset.queries if query.query_id == name), None)
    if other is not None and not any(query.startswith(name) for query in ids):
        data = result.manifest.dataset
        limit = "" if data.limit is None else f", limit {data.limit}"
        raise UsageError(
            f"{result.label} has no query {name!r}: it is a {other.split} query of {data.spec}, and the result is of "
            f"{data.split} queries{limit}; `bench run --split {other.split}` evaluates it."
        )
    return find_id(name, ids, result.label, "query", "queries")


def find_id(name: str, ids: Sequence[str], owner: str, kind: str, kinds: str) -> str:
    """Resolve one of some ids from the id or an unambiguous prefix.

    Errors call the ids by the nouns `kind` and `kinds`, and what contains them `owner`.

    Raises:
        UsageError: no id begins with the name, or several do.
    """
    if name in ids:
        return name
    matches = [each for each in ids if each.startswith(name)] if name else []
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise UsageError(f"{len(matches)} {kinds} of {owner} begin with {name!r}, {_some(matches)}; give more of it.")
    near = difflib.get_close_matches(name, ids, n=_MOST_IDS)
    known = f"the nearest are {_some(near)}" if near else f"it has {_some(ids)}"
    raise UsageError(f"{owner} has no {kind} {name!r}; {known}.")


def _some(ids: Sequence[str]) -> str:
    return ", ".join(repr(query)[1:-1] for query in ids[:_MOST_IDS]) + (", …" if len(ids) > _MOST_IDS else "")


def check_same_data(first: StoredResult, second: StoredResult) -> None:
    """Refuse to show results on different data side by side (rule 8).

    Raises:
        ResultError: data or protocol differ; says how.
    """
    for difference in data_differences(first.manifest, second.manifest):
        raise ResultError(
            f"{first.label} and {second.label} cannot be compared: {difference.sentence(first.label, second.label)}."
        )


def explain(
    result: StoredResult, dataset: Dataset, query_id: str, progress: Progress = QUIET, *, repeat: int = 1
) -> Explained:
    """Explain one query of a stored result on its data, with the values of a repeat, not the means.

    Raises:
        ResultError: the result is on other data.
        UsageError: it has no such repeat.
    """
    result = result.of_repeat(repeat)
    check_content(result.manifest, dataset)
    result.check_ids(dataset)
    row = dataset.query_codes[query_id]
    query = dataset.queries[row]
    place = result.per_query["query_id"].to_pylist().index(query_id)
    ranking, scores = read_ranking(result, query_id)
    shown = _select_tools(dataset, query, ranking, scores)
    answer, missing = None, unexplainable(result.manifest)
    failed = bool(result.per_query["failed"][place].as_py())
    if failed and not ranking:
        missing = "The method failed on this query or returned nothing: there is nothing to explain."
    if not missing:
        ((answer, missing),) = answers_today(result, dataset, [(row, shown, _rivals(shown))], progress, repeat)
    recommended = result.per_query["recommended"][place].as_py()
    values = {name: result.per_query[name][place].as_py() for name in result.metrics.metrics}
    return Explained(
        result,
        query,
        _slices(dataset, query),
        {name: value for name, value in values.items() if value is not None},
        failed,
        None if recommended is None else tuple(recommended),
        tuple(ranking),
        shown,
        answer,
        missing,
        repeat,
    )


def read_ranking(result: StoredResult, query_id: str) -> tuple[list[str], list[float | None]]:
    """The stored ranking of one query: tool ids, best first, and their scores."""
    import pyarrow.compute as pc

    # A Python string would import pandas.
    rows = result.run.filter(pc.equal(result.run["query_id"], strings([query_id])[0])).sort_by("rank")
    return rows["tool_id"].to_pylist(), rows["score"].to_pylist()


def _select_tools(
    dataset: Dataset, query: Query, ranking: list[str], scores: list[float | None]
) -> tuple[ShownTool, ...]:
    ranks = {tool: place for place, tool in enumerate(ranking)}
    wanted = set(range(min(FIRST, len(ranking))))
    for tool in query.meeting:
        if tool in ranks:
            wanted.update(range(max(0, ranks[tool] - _RIGHT_ABOVE), ranks[tool] + 1))
    ids = [ranking[place] for place in sorted(wanted)]
    ids += sorted(set(query.gold) - set(ranks))
    return show_tools(dataset, query, ids, ranking, scores)


def show_tools(
    dataset: Dataset, query: Query, ids: Iterable[str], ranking: list[str], scores: list[float | None]
) -> tuple[ShownTool, ...]:
    """Some tools with their entries in the stored ranking of a query."""
    ranks = {tool: place for place, tool in enumerate(ranking)}
    shown = []
    for tool in ids:
        place = ranks.get(tool)
        score = None if place is None else scores[place]
        tied = 0 if score is None else scores.count(score) - 1
        position = Position(None if place is None else place + 1, score)
        code = dataset.tool_codes[tool]
        shown.append(ShownTool(code, tool, name_with_id(dataset.tools[code]), tool in query.meeting, position, tied))
    return tuple(shown)


def _slices(dataset: Dataset, query: Query) -> dict[str, str]:
    """The query's own slices, and the novelty of its gold if the dataset has a history."""
    slices = dict(query.slices)
    if len(dataset.rows("train")):
        for name in ("parent", "tool"):
            value = slice_values(dataset, name).get(query.query_id)
            if value is not None:
                slices.setdefault(name, value)
    return slices


def unexplainable(manifest: Manifest) -> str:
    """Why a method is not rebuilt, in a sentence; empty if it is."""
    method = manifest.method
    if method.run_file is not None:
        return "A run file has only ranks and scores: its method is unknown."
    with suppress(UsageError):  # an unreadable spec is reported when the method is rebuilt
        if _writes(parse(method.full_spec)):
            return "A local language model would have to run again: only ranks and scores are shown."
    if method.needs_llm:
        return "The method calls a paid language model, which `explain` never does: only ranks and scores are shown."
    return ""


def _writes(spec: Spec) -> bool:
    """Whether the spec, or one within it, names a local language model."""
    values = [value for _, value in spec.arguments]
    flat = [item for value in values for item in (value if isinstance(value, tuple) else (value,))]
    nested = any(_writes(item) for item in flat if isinstance(item, Spec))
    return nested or any(name == "llm" and str(value).startswith("local:") for name, value in spec.arguments)


#: A query to ask a method again: its row of the dataset; the tools to explain, best first, with their stored positions,
#: all gold tools included; and the rivals as in `Case`.
AskedQuery = tuple[int, tuple[ShownTool, ...], Mapping[int, int]]


def answers_today(
    result: StoredResult, dataset: Dataset, cases: Sequence[AskedQuery], progress: Progress = QUIET, repeat: int = 1
) -> list[tuple[ExplainedAnswer | None, str]]:
    """The current answer of a result's method, rebuilt once, to each query, with reasons.

    Returns:
        For each query the answer; or None, and a sentence why it cannot be shown with the stored numbers.
    """
    calls = [len(dataset.queries[row].calls) for row, _, _ in cases]
    note = "Only the stored numbers can be shown, because the ranking is merged from {} searches."
    merged = [note.format(count) if count else "" for count in calls]
    if all(merged):
        return [(None, note) for note in merged]
    rows = np.array([row for row, _, _ in cases], dtype=np.int64)
    queries = Queries.of(dataset, rows)
    # An explanation downloads nothing and spends nothing: only what is on this machine is explained.
    with config_context(offline=True, repeat=repeat):
        try:
            method, library, history = rebuild(result, dataset, rows, progress)
        except BenchError as error:
            return [(None, _not_again(error)) for _ in cases]
        answers: list[tuple[ExplainedAnswer | None, str]] = []
        for i, (_, shown, rivals) in enumerate(cases):
            if merged[i]:
                answers.append((None, merged[i]))
                continue
            gold = frozenset(entry.tool for entry in shown if entry.gold)
            tools = tuple(entry.tool for entry in shown)
            case = Case(library, history, queries.take(np.array([i])), gold, tools, rivals)
            try:
                with method_errors(method, "ranking the query that is explained"):
                    answer = case.answer(method)
            except BenchError as error:
                answers.append((None, _not_again(error)))
                continue
            difference = _difference(answer, shown)
            answers.append((None, difference) if difference else (answer, ""))
        return answers


def rebuild(
    result: StoredResult, dataset: Dataset, rows: NDArray[np.int64], progress: Progress
) -> tuple[Method, Library, History]:
    """The method of a result, ready to answer these rows of a dataset; and the library and the history it received."""
    data = result.manifest.dataset
    library = Library.of(dataset, data.template)
    history = History.of(dataset, library, dataset.rows(data.split))
    method = build_method(result.manifest.method.full_spec, progress=progress)
    prepare(method, library, history, dataset.gold.take(rows))
    return method, library, history


def _not_again(error: BenchError) -> str:
    return f"Only the stored numbers can be shown, because the method cannot be made again: {error}"


def _difference(answer: ExplainedAnswer, shown: tuple[ShownTool, ...]) -> str:
    """How an answer differs from the stored one, in a sentence; empty if it does not."""
    for entry in shown:
        now = answer.positions[entry.tool]
        if entry.position.rank is None:
            continue
        scored = entry.position.score is not None and now.score is not None
        if now.rank is None or not (agrees(entry.position, now.score) if scored else now.rank == entry.position.rank):
            return (
                f"Only the stored numbers can be shown: {entry.tool_id} has {_of(entry.position)} in the result and "
                f"{_of(now)} today, so code, models or packages have changed since; `bench run` makes a new result."
            )
    return ""


def _rivals(shown: tuple[ShownTool, ...]) -> dict[int, int]:
    """Gold tool -> the best other tool above it; gold tools without one are missing."""
    best = next((entry for entry in shown if not entry.gold and entry.position.rank is not None), None)
    if best is None or best.position.rank is None:
        return {}
    first = best.position.rank
    below = (entry for entry in shown if entry.gold and (entry.position.rank is None or entry.position.rank > first))
    return {entry.tool: best.tool for entry in below}


def _of(position: Position) -> str:
    rank = "no rank" if position.rank is None else f"rank {position.rank}"
    return rank if position.score is None else f"{rank} (score {position.score:.6g})"
