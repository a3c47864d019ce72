"""Why one tool ranks above another for a query: as the method says, or by the words of the query that the texts have.

What a method says is the sentence that `bench explain` shows for a gold tool. Where a method says nothing (a run file,
a service, a paid model, code that has changed since), the texts of the two tools are compared with the query instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pyarrow.compute as pc

from bench.base.arrow import strings
from bench.base.config import config_context
from bench.base.errors import BenchError
from bench.base.progress import QUIET, Progress
from bench.comparison.explain import AskedQuery, ShownTool, answers_today, unexplainable
from bench.data.dataset import Dataset
from bench.interface.explanation import Explanation, Position, name_with_id
from bench.interface.method import Method
from bench.registry import build_method
from bench.results.store import StoredResult
from bench.search.similar import TextVectors
from bench.search.words import words

#: Words of a sentence that are named.
_MOST_WORDS = 4


@dataclass(frozen=True)
class Rivalry:
    """A query that wants a tool, and another tool that ranks above it: row of the dataset, and two codes."""

    row: int
    missed: int
    shown: int


@dataclass(frozen=True)
class Why:
    """What decides between the two tools, in words, and who says so."""

    text: str
    by: Literal["method", "words"]


def whys(
    result: StoredResult,
    dataset: Dataset,
    rivalries: Sequence[Rivalry],
    library: TextVectors,
    *,
    repeat: int = 1,
    ask: bool = True,
    progress: Progress = QUIET,
) -> tuple[list[Why], str]:
    """Why the shown tools rank above the missed ones.

    Args:
        result: the result, or one of its repeats.
        dataset: the data it was made on.
        rivalries: the queries and the tools.
        library: the texts of the tools that the method was given.
        repeat: which repeat it is.
        ask: whether the method is asked; its texts alone are compared if not.
        progress: where long work reports to.

    Returns:
        One reason for each; and in a sentence why the method was not asked, empty where it was.
    """
    said: list[str] = [""] * len(rivalries)
    note = ""
    if ask and rivalries:
        note = silent(result)
        if not note:
            said, note = _ask_method(result, dataset, rivalries, repeat, progress)
    reasons = [
        Why(text, "method") if text else Why(_words(dataset, item, library), "words")
        for item, text in zip(rivalries, said, strict=True)
    ]
    return reasons, note


def silent(result: StoredResult) -> str:
    """Why a method is not asked, in a sentence; empty if it is."""
    if note := unexplainable(result.manifest):
        return note
    try:
        with config_context(offline=True):
            method = build_method(result.manifest.method.full_spec)
    except BenchError as error:
        return f"The method cannot be made again: {error}"
    # A service would be asked for every query, and say nothing.
    return "" if type(method).explain is not Method.explain else "The method does not say how it ranks."


def _ask_method(
    result: StoredResult, dataset: Dataset, rivalries: Sequence[Rivalry], repeat: int, progress: Progress
) -> tuple[list[str], str]:
    """What the method says of each, empty where it says nothing; and why, where it says nothing of all."""
    cases = [_case(result, dataset, item) for item in rivalries]
    said, notes = [], []
    for item, (answer, note) in zip(rivalries, answers_today(result, dataset, cases, progress, repeat), strict=True):
        reason = None if answer is None else answer.explanation.reasons.get(item.missed)
        said.append("" if reason is None else reason.because)
        notes.append(note)
    return said, "" if any(said) else next(filter(None, notes), "")


def ask_reasons(
    result: StoredResult, dataset: Dataset, rivalries: Sequence[Rivalry], repeat: int = 1, progress: Progress = QUIET
) -> tuple[list[Explanation | None], str]:
    """What the method says of both tools of each, with the parts of their scores, None where it says nothing today.

    And why, in a sentence, where it says nothing of all.
    """
    cases = [_case(result, dataset, item) for item in rivalries]
    answers = answers_today(result, dataset, cases, progress, repeat)
    explanations = [None if answer is None else answer.explanation for answer, _ in answers]
    return explanations, "" if any(explanations) else next((note for _, note in answers if note), "")


def _case(result: StoredResult, dataset: Dataset, item: Rivalry) -> AskedQuery:
    """The gold tools of the query and the tool that is shown in place of one, as the ranking has them."""
    query = dataset.queries[item.row]
    # A Python string would import pandas.
    stored = result.run.filter(pc.equal(result.run["query_id"], strings([query.query_id])[0]))
    ids = stored["tool_id"].to_pylist()
    positions = dict(zip(ids, zip(stored["rank"].to_pylist(), stored["score"].to_pylist(), strict=True), strict=True))
    shown = []
    meeting = query.meeting
    for code in sorted({item.shown, *(dataset.tool_codes[tool] for tool in meeting)}):
        tool = dataset.tools[code]
        rank, score = positions.get(tool.tool_id, (None, None))
        gold = tool.tool_id in meeting
        shown.append(ShownTool(code, tool.tool_id, name_with_id(tool), gold, Position(rank, score), 0))
    # Best first; those that are not in the ranking come last.
    shown.sort(key=lambda entry: np.inf if entry.position.rank is None else entry.position.rank)
    return AskedQuery(item.row, tuple(shown), {item.missed: item.shown})


def _words(dataset: Dataset, item: Rivalry, library: TextVectors) -> str:
    """The words of the query that one of the two texts has and the other one lacks, the rarest first."""
    query_words = library.rarest_first(dict.fromkeys(words(dataset.queries[item.row].text)))
    missed_words, other = set(words(library.texts[item.missed])), set(words(library.texts[item.shown]))
    name = name_with_id(dataset.tools[item.shown])
    theirs = [word for word in query_words if word in other - missed_words]
    mine = [word for word in query_words if word in missed_words - other]
    both = [word for word in query_words if word in missed_words & other]
    parts = [f"{name} alone has {_quote_words(theirs)}"] if theirs else []
    parts += [f"it alone has {_quote_words(mine)}"] if mine else []
    parts += [f"both have {_quote_words(both)}"] if both else []
    return f"of the query's words, {'; '.join(parts)}" if parts else "neither text has a word of the query"


def _quote_words(chosen: Sequence[str]) -> str:
    named = ", ".join(f"'{word}'" for word in chosen[:_MOST_WORDS])
    return named + (f" and {len(chosen) - _MOST_WORDS} more" if len(chosen) > _MOST_WORDS else "")
