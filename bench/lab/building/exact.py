"""Which share of a dataset's requests is solved exactly by the gold, judged by a language model (PTR's table 1).

"PTR: Precision-Driven Tool Recommendation for Large Language Models", section 4: a request passes if the model judges
that its gold tools solve it exactly, and that they solve it only in part without one of them, drawn at random.
`bench.lab.building.rectools` drops requests by the same checks. The paper's released code removes the last tool, and
asks about an empty list if there was one tool; here an empty list solves nothing, without a question. `check_exact`
calls it.
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
        requests: number of requests.
        units: number of their units of independence.
        share: share that passes; a request without a usable reply does not.
        low, high: the share's 95% interval; None without one.
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
    """The outcome of a check.

    Attributes:
        every: share over all requests.
        by_size: share by number of gold tools.
        dropped: number of requests that did not pass, for each reason of `bench.lab.building.rectools.DROPPED`.
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
        sample: number of requests, chosen by a hash of seed and id.
        seed: another seed chooses other requests and removes other tools.
        model: the language model; at most two questions per request.

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
