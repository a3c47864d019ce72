"""How many requests of a dataset their gold solves exactly, by a language model's judgement (PTR's table 1).

"PTR: Precision-Driven Tool Recommendation for Large Language Models", section 4: a request passes if the model judges
that its gold tools solve it exactly, and that they solve it only in part once one of them, drawn at random, is taken
away. Those are the checks that `bench.lab.building.rectools` drops requests by. The paper's released code takes the
last tool away, and asks about an empty list where there was one tool; here an empty list solves nothing, unasked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import DataError
from bench.base.progress import QUIET, Progress
from bench.data.dataset import Dataset
from bench.data.derive import shuffle
from bench.data.units import unit_codes
from bench.lab.building.rectools import Builder, BuildSettings, Draft
from bench.results.units import number_units
from bench.stats.bootstrap import bca_intervals
from bench.stats.bounded import SHARE

if TYPE_CHECKING:
    from bench.models.llm.client import LanguageModel


@dataclass(frozen=True)
class ExactShare:
    """The share of requests that pass.

    Attributes:
        requests: how many were asked about.
        units: in how many units of independence they are.
        share: of them that pass; a request without a usable reply does not.
        low, high: the share's 95% interval; None where it has none.
    """

    requests: int
    units: int
    share: float
    low: float | None
    high: float | None

    @staticmethod
    def of(passed: NDArray[np.bool_], units: NDArray[np.int64]) -> ExactShare:
        """The share among requests, by the unit of each."""
        codes = number_units(units)
        ends = bca_intervals(passed[:, None].astype(np.float64), units=codes, span=SHARE)[0]
        low, high = (None if np.isnan(end) else float(end) for end in ends)
        return ExactShare(len(passed), int(codes.max()) + 1, float(passed.mean()), low, high)


@dataclass(frozen=True)
class ExactCheck:
    """What a check found.

    Attributes:
        every: of all requests that were asked about.
        by_size: of those with so many gold tools.
        dropped: how many requests did not pass, for each reason of `bench.lab.building.rectools.DROPPED`.
    """

    every: ExactShare
    by_size: dict[int, ExactShare]
    dropped: Mapping[str, int]


def check_exact(
    dataset: Dataset, sample: int, seed: int, model: LanguageModel, progress: Progress = QUIET
) -> ExactCheck:
    """Ask about a sample of a dataset's judged requests, of all splits.

    Args:
        dataset: its requests and their gold tools, each described by name and description.
        sample: how many requests, chosen by a hash of seed and id.
        seed: another seed chooses other requests, and takes other tools away.
        model: the language model; two questions a request at most.
        progress: where steps are reported to.

    Raises:
        DataError: no request has gold and a text.
        UnavailableError: there is neither an endpoint nor a journal that could answer.
        BenchError: the spending limit is reached; what was paid for is in the journal.
    """
    rows = {query.query_id: row for row, query in enumerate(dataset.queries) if query.gold and query.text.strip()}
    if not rows:
        raise DataError(f"{dataset.spec} has no request with gold tools and a text.")
    chosen = sorted(rows[name] for name in shuffle(rows, seed)[:sample])
    drafts = [
        Draft(dataset.queries[row].query_id, tuple(dataset.gold.row(row).tolist()), 0, dataset.queries[row].text)
        for row in chosen
    ]
    model.preflight()
    builder = Builder(dataset.tools, BuildSettings(seed=seed), model, progress)
    kept = {draft.query_id for draft in builder.check(drafts)}
    passed = np.array([draft.query_id in kept for draft in drafts])
    sizes = np.array([len(draft.bundle) for draft in drafts])
    units = unit_codes(dataset)[chosen]
    by_size = {int(size): ExactShare.of(passed[sizes == size], units[sizes == size]) for size in np.unique(sizes)}
    return ExactCheck(ExactShare.of(passed, units), by_size, builder.dropped)
