"""What the answers of a run show besides scores: reasons of failures, unknown names, and identical answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import UnresolvedError
from bench.data.dataset import Dataset
from bench.data.tool_names import NameRecord, ToolNames
from bench.evaluation.agreement import describe_alike
from bench.evaluation.ask import Answers, calls_of
from bench.interface.marks import ALL_ALIKE, NAMES_DROPPED
from bench.results.failures import NOT_RECORDED, group_reasons, reason_of_note
from bench.results.manifest import FailureReason


def observe(
    dataset: Dataset, rows: NDArray[np.int64], repeats: Sequence[Answers], *, is_floor: bool = False
) -> tuple[list[FailureReason], dict[str, str], dict[str, int]]:
    """What the answers of all repeats of a run show.

    Args:
        dataset: the data.
        rows: (queries,) the queries that were asked, in the order of the answers.
        repeats: their answers.
        is_floor: whether the method is meant to ignore queries.

    Returns:
        Why queries failed or got an empty answer; marks, as in `Method.marks`; facts, as in `Method.facts`.

    Raises:
        UnresolvedError: the answers name tools, none of the names is known, and no answer has a tool.
    """
    names, lacking, dropped, without = ToolNames(dataset.tools), NameRecord(), NameRecord(), 0
    for note in (note for answers in repeats for note in answers.told.values()):
        for name, description in note.unknown.items():
            (lacking if note.failed else dropped).miss(name, description)
        lacking.known += note.known
        without += bool(note.unknown and not note.failed)
    unknown = lacking.unknown(names)
    if lacking.resolves_nothing and not any((answers.ranking.tools >= 0).any() for answers in repeats):
        raise UnresolvedError(
            f"no name in the answers is a known tool of {dataset.spec}: {unknown}; nothing is stored."
        )
    marks = {}
    if without:
        of = f"{without} of {len(rows) * len(repeats)} answers"
        marks[NAMES_DROPPED] = f"names that the library lacks were left out of {of}: {dropped.unknown(names)}"
    texts = [" ".join(calls_of(dataset.queries[row])) for row in rows.tolist()]
    alike = [describe_alike(answers.ranking, texts, len(dataset.tools), answers.sets) for answers in repeats]
    gold = dataset.gold.take(rows)
    # If all queries need the same tools, identical answers are correct.
    if all(alike) and not is_floor and len({tuple(gold.row(i)) for i in np.flatnonzero(gold.counts).tolist()}) > 1:
        marks[ALL_ALIKE] = f"{alike[0]}: the search may ignore the query"
    failures = group_reasons(pair for answers in repeats for pair in _reasons(dataset, rows, answers, unknown))
    return failures, marks, {"names_dropped": dropped.missed} if without else {}


def _reasons(dataset: Dataset, rows: NDArray[np.int64], answers: Answers, unknown: str) -> Iterator[tuple[str, str]]:
    """Ids of queries that failed or got an empty answer, and the reasons."""
    ranking, judged = answers.ranking, dataset.gold.counts[rows] > 0
    failed = np.zeros(len(rows), dtype=np.bool_) if ranking.failed is None else ranking.failed
    empty = ~(ranking.tools >= 0).any(axis=1) & judged
    if answers.sets is not None:
        empty &= np.diff(answers.sets.starts) == 0
    of_parts = {i for i, note in answers.told.items() if note.failed}
    for i in sorted({*np.flatnonzero(failed | empty).tolist(), *of_parts}):
        reason = reason_of_note(ranking.notes[i]) if ranking.notes is not None else ""
        if i in of_parts:
            reason = f"unknown names: {unknown}" if answers.told[i].unknown else answers.told[i].failed
            reason += "" if failed[i] or empty[i] else " (a part of the method alone)"
        reason = reason or (NOT_RECORDED if failed[i] else "an empty answer")
        yield dataset.queries[int(rows[i])].query_id, reason + ("" if judged[i] else " (queries without gold)")
