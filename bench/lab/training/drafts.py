"""Sample drafts of queries, reward them by retrieval, and select training examples.

Algorithm 1 of Kachuee et al. 2024, "Improving Tool Retrieval by Leveraging Large Language Models for Query Generation".
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import UsageError
from bench.base.paths import storage_errors, write_text
from bench.base.progress import Progress
from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.data.template import Template
from bench.evaluation.ask import prepare
from bench.interface import Library, Queries, Ranking
from bench.interface.parts import is_oracle, needs_history, needs_llm
from bench.methods.query_generation.interleaving import round_robin
from bench.metrics.goldranks import GoldRanks
from bench.metrics.measures import average_precision, multiple_mean_reciprocal_rank, recall
from bench.registry import build_method
from bench.results.ids import method_hash

Reward = Literal["mmrr", "map", "recall"]
#: The reward `recall` is the mean of recall at these cut-offs (Table 4 of the paper).
_RECALL_AT = (5, 11)
_DRAFTS = 1024  # number of rankings in memory at once


class Searcher:
    """A method indexed on a dataset's library, to search with sets of queries.

    Args:
        spec: a method that needs neither past queries nor a language model.
        dataset, template: the library and its tool text.
        include_utterance: whether the utterance is the last query.

    Raises:
        UsageError: the method would see the gold of its queries.
    """

    def __init__(
        self, spec: Spec, dataset: Dataset, template: Template, include_utterance: bool, progress: Progress
    ) -> None:
        self._base = build_method(spec, progress=progress)
        if is_oracle(self._base) or needs_history(self._base) or needs_llm(self._base):
            raise UsageError(f"retriever={spec} cannot reward drafts: it must search by the text of a query alone.")
        library = Library.of(dataset, template)
        prepare(self._base, library)
        self._tools = len(library)
        self._include_utterance = include_utterance

    @property
    def revision(self) -> str:
        """sha256 over the method: its parameters, its code and the models it searches with."""
        return method_hash(self._base)

    def ranks(self, utterances: Sequence[str], lines: Sequence[Sequence[str]], gold: Gold, depth: int) -> GoldRanks:
        """The ranks of each utterance's gold tools when these lines are the queries."""
        row_queries = [
            tuple(dict.fromkeys([*part, *((text,) if self._include_utterance or not part else ())]))
            for text, part in zip(utterances, lines, strict=True)
        ]
        asked = Queries(tuple(utterances), np.arange(len(utterances)))
        rankings, _ = round_robin(self._base, row_queries, asked, self._tools, depth)
        return GoldRanks.of(Ranking.of_lists(rankings).tools, gold)

    def recall(self, utterances: Sequence[str], lines: Sequence[Sequence[str]], gold: Gold, k: int) -> float:
        """Mean recall@k."""
        return float(recall(self.ranks(utterances, lines, gold, k), np.full(len(gold), k)).mean())

    def rewards(
        self, utterances: Sequence[str], lines: Sequence[Sequence[str]], gold: Gold, reward: Reward, depth: int
    ) -> NDArray[np.float64]:
        """(drafts,) the reward of each draft; 0 for a draft without lines.

        Args:
            utterances: of each draft.
            lines: its queries.
            gold: row i is the gold of draft i's utterance.
            reward: `mmrr` and `map` use the cut-off `depth`.
        """
        values = [np.empty(0)]
        # In blocks: the rankings of all drafts at once would need much memory.
        for start in range(0, len(lines), _DRAFTS):
            rows = np.arange(start, min(len(lines), start + _DRAFTS))
            part = slice(start, start + _DRAFTS)
            ranks = self.ranks(utterances[part], lines[part], gold.take(rows), max(depth, *_RECALL_AT))
            if reward == "recall":
                values.append(np.mean([recall(ranks, np.full(len(rows), k)) for k in _RECALL_AT], axis=0))
            else:
                measure = multiple_mean_reciprocal_rank if reward == "mmrr" else average_precision
                values.append(measure(ranks, np.full(len(rows), depth)))
        return np.where([bool(part) for part in lines], np.concatenate(values), 0.0)


def keep_drafts(
    rewards: NDArray[np.float64], texts: Sequence[Sequence[str]], n_draft: int, r_min: float, p_top: float
) -> list[tuple[int, int]]:
    """Select drafts for training by (utterances, drafts) rewards: positions (utterance, draft), in this order.

    First the `n_draft` best of each utterance, the earlier ones among equals; a repeated text counts once, a blank one
    never. Of these, those with a reward of at least `r_min`, and of all of them the best `p_top` percent; equal rewards
    at the edge are all kept.
    """
    best: list[tuple[int, int]] = []
    for row, drafts in enumerate(texts):
        order = np.argsort(-rewards[row], kind="stable").tolist()
        distinct = {drafts[i]: i for i in reversed(order) if drafts[i]}
        best += [(row, i) for i in order if distinct.get(drafts[i]) == i][:n_draft]
    if not best:
        return []
    values = np.array([rewards[place] for place in best])
    edge = -np.sort(-values)[max(1, round(len(best) * p_top / 100)) - 1]
    return sorted(place for place, value in zip(best, values.tolist(), strict=True) if value >= max(r_min, edge))


def distribution(rewards: NDArray[np.float64], r_min: float) -> dict[str, float]:
    """Mean, quartiles and the share of rewards of at least `r_min`."""
    names = ("mean", "lower_quartile", "median", "upper_quartile", "at_least_r_min")
    values = (rewards.mean(), *np.percentile(rewards, (25, 50, 75)), (rewards >= r_min).mean())
    return {name: round(float(value), 4) for name, value in zip(names, values, strict=True)}


def drafts_in(
    path: Path, identity: str, rows: Sequence[int], make: Callable[[Sequence[int]], list[list[str]]], block: int
) -> list[list[str]]:
    """The drafts of each row: those in the file, and the rest from `make`, appended block by block.

    A training killed while making drafts resumes after the last complete block.

    Args:
        path: lines of JSON, the first with the identity.
        identity: what the drafts depend on; a file with another identity is overwritten.
        make: returns the drafts of at most `block` rows.
    """
    by_row = dict(_read_drafts(path, identity))
    # Rewritten, so that a truncated line does not precede others.
    write_text(path, json.dumps(identity) + "\n" + _lines(by_row))
    missing = [row for row in rows if row not in by_row]
    for start in range(0, len(missing), block):
        part = missing[start : start + block]
        made = dict(zip(part, make(part), strict=True))
        with storage_errors(str(path)), path.open("a", encoding="utf-8", newline="\n") as file:
            file.write(_lines(made))
        by_row |= made
    return [by_row[row] for row in rows]


def _lines(by_row: Mapping[int, list[str]]) -> str:
    return "".join(json.dumps([row, drafts]) + "\n" for row, drafts in by_row.items())


def _read_drafts(path: Path, identity: str) -> Iterator[tuple[int, list[str]]]:
    """The whole lines of a file of this identity."""
    if not path.is_file():
        return
    with suppress(ValueError, TypeError):
        lines = path.read_text("utf-8").split("\n")[:-1]
        if not lines or json.loads(lines[0]) != identity:
            return
        for line in lines[1:]:
            row, drafts = json.loads(line)
            yield int(row), [str(draft) for draft in drafts]
