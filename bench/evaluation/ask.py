"""The one way to ask a method: check it, prepare it, and get its validated answers batch by batch.

All callers of a method go through this module, so that the order of its calls, what counts as an error, the size of a
batch and the meaning of a failure are the same in a run, a learnt cut, a grid, an audit, an explanation and the
sandbox.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from bench.base.config import time_without_cache
from bench.base.errors import MethodError
from bench.base.progress import QUIET, Progress
from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.data.queryviews import merge_rankings
from bench.data.tables import Query
from bench.evaluation.agreement import place_of_difference
from bench.evaluation.checkpoints import Batch, stored_batches
from bench.evaluation.method_errors import check, check_parts, method_errors
from bench.interface import History, Library, Method, Queries, Ranking, RecommendingMethod, ToolSets
from bench.interface.parts import methods_of, needs_llm, reveal, tree
from bench.interface.ranking import Violation, validate, validate_sets
from bench.metrics.ties import UnseenTies
from bench.models.tokens import can_count_tokens, count_tokens
from bench.remote.answers import AnswerNote
from bench.remote.asking import RemoteMethod
from bench.results.manifest import Latency

#: Timing of single queries stops after this many queries or this many seconds.
_LATENCY_QUERIES = 100
_LATENCY_SECONDS = 2.0

#: Measures the time of a named stage.
Clock = Callable[[str], AbstractContextManager[None]]


def _no_clock(stage: str) -> AbstractContextManager[None]:
    return nullcontext()


# Preparing ------------------------------------------------------------------------------------------------------------


def fit_and_index(
    method: Method, library: Library, history: History, gold: Gold | None = None, clock: Clock = _no_clock
) -> None:
    """Show an oracle the gold, fit the method if there are past queries, and let it index the library.

    Args:
        method: a fresh instance.
        library, history: what the method receives.
        gold: row i belongs to row i of `Queries.rows`; None unless an oracle may be asked.
        clock: measures the stages `fit` and `index`.

    Raises:
        MethodError: the method raised.
    """
    with clock("fit"), method_errors(method, "learning from past queries"):
        if gold is not None:
            reveal(method, gold)
        if len(history):
            method.fit(history)
    with clock("index"), method_errors(method, "indexing the library"):
        method.index(library)


def prepare(
    method: Method,
    library: Library,
    history: History | None = None,
    gold: Gold | None = None,
    *,
    checked: bool = False,
    clock: Clock = _no_clock,
) -> None:
    """Prepare a fresh instance of a method for queries.

    Args:
        method: the instance.
        library: what it searches.
        history: past queries to learn from; None if there are none.
        gold: as in `fit_and_index`.
        checked: whether `check` has seen this instance.
        clock: as in `fit_and_index`.

    Raises:
        BenchError: the method cannot run, raises, or hides a part.
    """
    past = no_history(library) if history is None else history
    if not checked:
        check(method, library, past)
    fit_and_index(method, library, past, gold, clock)
    # By now all the parts that the method builds are known.
    check_parts(method)


def no_history(library: Library) -> History:
    """A history without queries."""
    return History(library, (), Gold.of([]), np.empty(0, dtype=np.int8))


# Asking ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answers:
    """The answers of a method to all queries of a run.

    Attributes:
        ranking: validated, in the protocol's order.
        beyond: tools tied with the last returned one that did not fit, and the gold among them.
        sets: the recommended sets, or None.
        seconds: time spent in the method, over all batches of this and earlier attempts.
        resumed: whether some batches were answered before this process started.
        reply_tokens: (queries,) tokens of the text with which an external search replied, -1 for no text; None if a
            batch had no such texts, or the tokenizer was not installed at the time.
        told: notes about answers of an external retriever, by position.
    """

    ranking: Ranking
    beyond: UnseenTies
    sets: ToolSets | None
    seconds: float = 0.0
    resumed: bool = False
    reply_tokens: NDArray[np.int64] | None = None
    told: Mapping[int, AnswerNote] = field(default_factory=dict)

    def take(self, positions: NDArray[np.int64]) -> Answers:
        """The answers at these positions, in the order given."""
        ranking, beyond, sets = self.ranking.take(positions), self.beyond, self.sets
        return Answers(
            ranking,
            UnseenTies(beyond.counts[positions], beyond.gold.take(positions)),
            None if sets is None else ToolSets.of([sets.row(int(position)) for position in positions]),
            self.seconds,
            self.resumed,
            None if self.reply_tokens is None else self.reply_tokens[positions],
            {i: self.told[at] for i, at in enumerate(positions.tolist()) if at in self.told},
        )


def asking_order(dataset: Dataset, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Positions of `rows` in the order in which a method receives them: by the hash of the query's id.

    Published files are often sorted by gold, and ids follow the files. In the order of ids, a method could guess the
    gold of a query from its neighbours.
    """
    ids = [dataset.queries[row].query_id for row in rows]
    return np.array(sorted(range(len(rows)), key=lambda i: hashlib.sha256(ids[i].encode()).digest()), dtype=np.int64)


def scope_sentences(dataset: Dataset, rows: NDArray[np.int64]) -> list[str]:
    """A sentence for reports about requests that may see only part of the library; empty if all may see every tool."""
    sizes = [len(dataset.queries[row].scope) for row in rows.tolist() if dataset.queries[row].scope]
    if not sizes:
        return []
    return [
        f"{len(sizes)} of {len(rows)} requests may see only part of the library, a median of {median(sizes):g} of "
        f"{len(dataset.tools)} tools; no method returns other tools for such a request"
    ]


def calls_of(query: Query) -> tuple[str, ...]:
    """The texts of a query, each a call of the method: most queries have one."""
    return query.calls or (query.text,)


def ask(
    method: Method,
    dataset: Dataset,
    rows: NDArray[np.int64],
    depth: int,
    folder: Path | None = None,
    progress: Progress = QUIET,
    stage_name: str = "rank",
    keep: Callable[[], None] = lambda: None,
) -> Answers:
    """Rank (and recommend) for queries of a dataset, except those whose answers are in `folder`.

    Each finished batch is written there at once, so that the same command asks only the remaining queries. Without a
    folder, nothing is written.

    Returns:
        The answers in the order of `rows`.

    Raises:
        MethodError: the method raised, or returned what the protocol does not allow; the sentence names the method, the
            query and the tool. Finished batches remain.
    """
    order = asking_order(dataset, rows)
    ordered = rows[order]
    queries = Queries.of(dataset, ordered)
    batches = [] if folder is None else stored_batches(folder, len(rows))
    done = np.zeros(len(rows), dtype=np.bool_)
    for batch in batches:
        done[batch.positions] = True
    resumed = bool(done.any())
    left = np.flatnonzero(~done)
    calls = [len(calls_of(dataset.queries[row])) for row in ordered[left].tolist()]
    with progress.stage(stage_name, len(rows), "queries") as stage:
        stage.advance(len(rows) - len(left))
        for part in _split(calls, method.batch_size):
            positions = left[part]
            batch = _ask_batch(method, dataset, ordered[positions], queries.take(positions), positions, depth)
            if folder is not None:
                batch.write(folder)
                keep()
            batches.append(batch)
            stage.advance(len(positions))
    answers = _join_batches(batches, resumed)
    place = np.empty(len(rows), dtype=np.int64)
    place[order[np.concatenate([batch.positions for batch in batches])]] = np.arange(len(rows))
    return answers.take(place)


def ask_queries(
    method: Method, queries: Queries, library: int, depth: int, doing: str = ""
) -> tuple[Ranking, ToolSets | None]:
    """Rank (and recommend) for queries outside a dataset, in the order given.

    Args:
        method: prepared.
        queries: each has one text.
        library: number of tools.
        depth: maximum number of tools for a query.
        doing: what the method was doing, for errors; if empty, they say how many queries it was ranking.

    Raises:
        MethodError: the method raised, or returned what the protocol does not allow.
    """
    rankings, sets = [], []
    for part in _split([1] * len(queries), method.batch_size):
        with method_errors(method, doing or f"ranking {len(part)} queries"):
            ranking, recommended, _ = _call_and_validate(method, queries.take(part), library, depth)
        rankings.append(ranking)
        if recommended is not None:
            sets.append(recommended)
    return Ranking.join(rankings), ToolSets.join(sets) if sets else None


def ask_again(
    method: Method, dataset: Dataset, rows: NDArray[np.int64], depth: int, ranking: Ranking
) -> tuple[Latency | None, str]:
    """Ask single queries, spread over the run, a second time: measure their time and compare their answers.

    Paid services are not asked twice. The last bits of embeddings depend on what is encoded together. So if the method
    has a model, a query with a different answer is asked alone once more, and counts only if that answer differs too.

    Args:
        method: prepared.
        dataset, rows, depth: as passed to `ask`.
        ranking: the answers of `ask`.

    Returns:
        The times, and a sentence about queries with different answers, empty if there are none.
    """
    if needs_llm(method):
        return None, ""
    order = asking_order(dataset, rows)
    queries = Queries.of(dataset, rows[order])
    encodes = any(not isinstance(part, Method) for part in tree(method))
    # Backwards, to find methods whose answer depends on the previous query.
    positions = np.linspace(len(queries) - 1, 0, min(_LATENCY_QUERIES, len(queries))).round().astype(np.int64)
    seconds: list[float] = []
    compared, differing = 0, []
    with time_without_cache() as encoding:
        for position in positions:
            single = queries.take(np.array([position]))
            answer, _, spent = _call_method(method, single, depth)
            seconds.append(spent)
            query = dataset.queries[int(rows[order[position]])]
            if len(calls_of(query)) == 1:
                compared += 1
                first = ranking.take(order[[position]])
                if not _agree(first, answer, len(dataset.tools), depth) and not (
                    encodes and _agree(answer, _call_method(method, single, depth)[0], len(dataset.tools), depth)
                ):
                    differing.append(query.query_id)
            if sum(seconds) > _LATENCY_SECONDS:
                break
    sentence = f"{len(differing)} of {compared} queries that were asked twice were answered differently, such as "
    return Latency.of(seconds, cached=encoding.cached), sentence + differing[0] if differing else ""


def _agree(one: Ranking, two: Ranking, library: int, depth: int) -> bool:
    """Whether two answers to one query agree; failures agree, and an answer that breaks the protocol agrees with none.

    The last bits of scores, and the order of tools with nearly equal scores, do not matter.
    """
    try:
        one, two = validate(one, 1, library, depth), validate(two, 1, library, depth)
    except Violation:
        return False
    failed = [ranking.failed is not None and bool(ranking.failed[0]) for ranking in (one, two)]
    return failed[0] == failed[1] and place_of_difference(one, two, 0) is None


# One batch ------------------------------------------------------------------------------------------------------------


def _split(texts: Sequence[int], size: int) -> Iterator[NDArray[np.int64]]:
    """Positions of consecutive queries with at most `size` texts in total; a query with more texts is asked alone.

    Args:
        texts: the texts of each query.
        size: the batch size of the method.
    """
    start = filled = 0
    for position, count in enumerate(texts):
        if position > start and filled + count > size:
            yield np.arange(start, position)
            start, filled = position, 0
        filled += count
    if start < len(texts):
        yield np.arange(start, len(texts))


def _call_method(method: Method, queries: Queries, depth: int) -> tuple[Ranking, ToolSets | None, float]:
    """What a method returns for a batch, unchanged, and the seconds that it took."""
    started = time.perf_counter()
    ranking = method.rank(queries, depth)
    sets = method.recommend(queries) if isinstance(method, RecommendingMethod) else None
    return ranking, sets, time.perf_counter() - started


def _call_and_validate(
    method: Method, queries: Queries, library: int, depth: int, refuse: Callable[[Violation], MethodError] | None = None
) -> tuple[Ranking, ToolSets | None, float]:
    """Like `_call_method`, in the order of the protocol, and without the sets of failed queries.

    Raises:
        Violation: the protocol does not allow an answer; `refuse` may turn it into another error.
    """
    answer, recommended, seconds = _call_method(method, queries, depth)
    try:
        ranking = validate(answer, len(queries), library, depth)
        sets = None if recommended is None else validate_sets(recommended, len(queries), library)
    except Violation as violation:
        if refuse is None:
            raise
        raise refuse(violation) from None
    return ranking, _empty_failed_sets(ranking, sets), seconds


def _empty_failed_sets(ranking: Ranking, sets: ToolSets | None) -> ToolSets | None:
    """The sets, empty for failed queries."""
    if sets is None or ranking.failed is None:
        return sets
    nothing = np.empty(0, dtype=np.int32)
    return ToolSets.of([nothing if ranking.failed[i] else sets.row(i) for i in range(len(sets))])


def _ask_batch(
    method: Method,
    dataset: Dataset,
    rows: NDArray[np.int64],
    queries: Queries,
    positions: NDArray[np.int64],
    depth: int,
) -> Batch:
    first = dataset.queries[int(rows[0])].query_id
    told: dict[int, AnswerNote] = {}
    owners, queries = _each_call(dataset, rows, queries)

    def refuse(violation: Violation) -> MethodError:
        return MethodError(_violation(method, dataset, rows[owners], violation))

    with method_errors(method, f"ranking the batch of {len(rows)} queries from {first}"):
        ranking, sets, seconds = _call_and_validate(method, queries, len(dataset.tools), depth, refuse)
    for part in methods_of(method):
        for position, note in part.take_notes().items() if isinstance(part, RemoteMethod) else ():
            told[position] = told.get(position, AnswerNote()) | note
    if len(queries) > len(rows):
        ranking, sets = _merge_calls(ranking, sets, owners, depth)
    counts = np.zeros(len(rows), dtype=np.int64)
    gold: list[dict[int, int]] = [{} for _ in range(len(rows))]
    if ranking.tied_beyond is not None:
        counts = np.bitwise_count(ranking.tied_beyond).sum(axis=1, dtype=np.int64)
        meeting = dataset.gold.take(rows).members()
        for i in np.flatnonzero(counts):
            members = meeting.row(int(i))
            # The bit order of `numpy.packbits`: the first tool is the highest bit of a byte.
            tied = (ranking.tied_beyond[i, members >> 3] >> (7 - (members & 7))) & 1
            start, end = meeting.starts[i : i + 2]
            judged = zip(members, meeting.grades[start:end], tied, strict=True)
            gold[i] = {int(tool): int(grade) for tool, grade, beyond in judged if beyond}
    # Kept per query: a bit per tool would be the largest part of a result. The batch is written without it.
    plain = replace(ranking, tied_beyond=None, replies=None)
    return Batch(positions, plain, UnseenTies(counts, Gold.of(gold)), sets, seconds, _reply_tokens(ranking), told)


def _reply_tokens(ranking: Ranking) -> NDArray[np.int64] | None:
    """(queries,) tokens of the replies, -1 for no reply; None for a ranking without replies, or without a tokenizer."""
    if ranking.replies is None or not can_count_tokens():
        return None
    tokens = np.full(len(ranking.replies), -1, dtype=np.int64)
    present = [i for i, reply in enumerate(ranking.replies) if reply is not None]
    # JSON may contain half a surrogate pair, which cannot be encoded.
    texts = [(ranking.replies[i] or "").encode("utf-8", "replace").decode() for i in present]
    tokens[present] = count_tokens(texts)
    return tokens


def _each_call(dataset: Dataset, rows: NDArray[np.int64], queries: Queries) -> tuple[NDArray[np.int64], Queries]:
    """The calls for queries: the position of the query of each call, and the texts."""
    texts = [calls_of(dataset.queries[row]) for row in rows.tolist()]
    owners = np.repeat(np.arange(len(rows)), [len(calls) for calls in texts])
    if len(owners) == len(rows):
        return owners, queries
    return owners, queries.reworded(tuple(text for calls in texts for text in calls), owners)


def _merge_calls(
    ranking: Ranking, sets: ToolSets | None, owners: NDArray[np.int64], depth: int
) -> tuple[Ranking, ToolSets | None]:
    """Merge the rankings of the calls of each query, by first rank and without scores: scores of two texts are not
    comparable. A query fails if one of its calls does, and its set is the union of their sets.
    """
    ends = np.flatnonzero(np.diff(owners, append=-1)) + 1
    parts = [range(start, end) for start, end in zip([0, *ends.tolist()[:-1]], ends.tolist(), strict=True)]
    tools = [
        merge_rankings([[tool for tool in ranking.tools[i].tolist() if tool >= 0] for i in part], depth)
        for part in parts
    ]
    failed = None if ranking.failed is None else [bool(ranking.failed[part].any()) for part in parts]
    if failed is not None:
        tools = [[] if bad else codes for codes, bad in zip(tools, failed, strict=True)]
    if sets is not None:
        sets = ToolSets.of([np.unique(np.concatenate([sets.row(i) for i in part])) for part in parts])
    replies = None
    if ranking.replies is not None:
        # An agent reads the replies to all its searches.
        read = [[reply for i in part if (reply := ranking.replies[i]) is not None] for part in parts]
        replies = tuple("\n".join(texts) if texts else None for texts in read)
    notes = None
    if ranking.notes is not None:
        notes = tuple(f"[{', '.join(ranking.notes[i] or 'null' for i in part)}]" for part in parts)
    joined = replace(Ranking.of_lists(tools, failed), replies=replies, notes=notes)
    return joined, _empty_failed_sets(joined, sets)


def _violation(method: Method, dataset: Dataset, rows: NDArray[np.int64], violation: Violation) -> str:
    where = ""
    if violation.query is not None:
        where = f" for query {dataset.queries[int(rows[violation.query])].query_id}"
    if violation.tool is not None:
        where += f", tool {dataset.tools[violation.tool].tool_id}"
    return f"method {method.spec} {violation}{where}; the protocol does not allow it (rule 4)."


def _join_batches(parts: Sequence[Batch], resumed: bool) -> Answers:
    gold = [part.beyond.gold for part in parts]
    starts = np.concatenate([[0], np.cumsum(np.concatenate([part.counts for part in gold]))])
    beyond = UnseenTies(
        np.concatenate([part.beyond.counts for part in parts]),
        Gold(starts, np.concatenate([part.tools for part in gold]), np.concatenate([part.grades for part in gold])),
    )
    sets = [part.sets for part in parts if part.sets is not None]
    tokens = [part.reply_tokens for part in parts if part.reply_tokens is not None]
    pairs = enumerate((part, position) for part in parts for position in part.positions.tolist())
    return Answers(
        Ranking.join([part.ranking for part in parts]),
        beyond,
        ToolSets.join(sets) if len(sets) == len(parts) else None,
        sum(part.seconds for part in parts),
        resumed,
        np.concatenate(tokens) if len(tokens) == len(parts) else None,
        {i: part.told[position] for i, (part, position) in pairs if position in part.told},
    )
