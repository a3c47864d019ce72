"""How many groups of queries a dataset needs to show a difference. The audit reports it.

The difference of two methods on a query varies more if the methods are less similar, and two queries of one group carry
less information than two groups. Both effects are estimated from stored results on the dataset: from the standard
errors of the differences of recall@5 between pairs of methods whose means are at most 5 points apart, since pairs
further apart need no larger dataset. With fewer than three such pairs, the prior is the median over the datasets of our
own board. The quartiles over pairs stand for similar, typical and dissimilar methods.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import ResultError
from bench.base.text import slug
from bench.data.dataset import Dataset
from bench.data.units import judged_units
from bench.lookup.finding import latest
from bench.results.store import StoredResult, folders_of
from bench.results.units import number_units
from bench.stats.power import expected_error, minimum_detectable_effect, queries_needed
from bench.stats.units import robust_mean

METRIC = "recall@5"
DIFFERENCES = (0.01, 0.02, 0.05)
#: Few queries suffice to separate means further apart than this.
NEAR = 0.05
#: The prior from the board, as `benchmarks/power.py` prints it: quartiles of the standard deviation over pairs of
#: methods, and the correlation of two queries of a group.
BOARD_DEVIATIONS = (0.245, 0.31, 0.365)
BOARD_CORRELATION = 0.35
_FEWEST_PAIRS = 3
_MOST_RESULTS = 60


@dataclass(frozen=True)
class Needed:
    """The number of groups that show a difference.

    Attributes:
        difference: between two means of recall@5.
        groups: number that show it with 80% power at the 5% level, for similar, typical and dissimilar methods.
        queries: number of queries with that many groups, at the dataset's group sizes.
    """

    difference: float
    groups: tuple[int, ...]
    queries: tuple[int, ...]


@dataclass(frozen=True)
class Power:
    """What a dataset can show.

    Attributes:
        judged, groups: the judged queries of the default split, and their units of independence; 0 for a library
            without queries, for which each future query counts as a group.
        pairs: number of pairs of stored results behind the prior; 0 if it comes from the board.
        deviations: the prior: the standard deviation of the difference on one group, for similar, typical and
            dissimilar methods.
        needed: one entry for each of `DIFFERENCES`.
        detectable: the smallest difference that the present groups show, for the same; none without queries.
    """

    judged: int
    groups: int
    pairs: int
    deviations: tuple[float, ...]
    needed: tuple[Needed, ...]
    detectable: tuple[float, ...]


def audit_power(dataset: Dataset, results: Path | None = None) -> Power:
    """The number of groups that show differences of recall@5, from a folder of results, else by the board's prior."""
    units = judged_units(dataset)
    judged, groups = len(units), int(units.max()) + 1 if len(units) else 0
    errors = pair_errors(_kept(dataset, results)) if results is not None else np.empty(0)
    pairs = len(errors) if len(errors) >= _FEWEST_PAIRS else 0
    if pairs:
        deviations = (np.quantile(errors, (0.25, 0.5, 0.75)) * math.sqrt(groups)).tolist()
    else:
        present = units if judged else np.zeros(1, dtype=np.int64)
        scale = math.sqrt(max(groups, 1))
        deviations = [scale * expected_error(sd, BOARD_CORRELATION, present) for sd in BOARD_DEVIATIONS]
    each = judged / groups if judged else 1.0
    needed = []
    for difference in DIFFERENCES:
        counts = [queries_needed(difference, sd) or 1 for sd in deviations]
        needed.append(Needed(difference, tuple(counts), tuple(math.ceil(count * each) for count in counts)))
    detectable = tuple(minimum_detectable_effect(sd, groups) for sd in deviations) if judged else ()
    return Power(judged, groups, pairs, tuple(deviations), tuple(needed), detectable)


def pair_errors(results: Sequence[StoredResult]) -> NDArray[np.float64]:
    """(pairs,) standard errors of the differences of recall@5 between results for one question with close means.

    Pairs that agree on every query are left out.
    """
    return np.array([float(robust_mean(values, units)[1][0]) for values, units in near_pairs(results)])


def near_pairs(results: Sequence[StoredResult]) -> Iterator[tuple[NDArray[np.float64], NDArray[np.int64]]]:
    """(judged queries, 1) differences and (judged queries,) units of each pair of results whose means are close."""
    for one, other in itertools.combinations(results, 2):
        differences = one.values(METRIC) - other.values(METRIC)
        judged = ~np.isnan(differences)
        values, units = differences[judged], number_units(one.units[judged])
        if values.any() and abs(values.mean()) <= NEAR and units.max():
            yield values[:, None], units


def comparable(results: Iterable[StoredResult | ResultError]) -> list[StoredResult]:
    """The results that the prior uses: one for each question, with the metric, without oracles."""
    return latest(
        [
            item
            for item in results
            if isinstance(item, StoredResult)
            and item.manifest.dataset.unit
            and item.manifest.dataset.limit is None
            and METRIC in item.metrics.metrics
            and not item.manifest.method.oracle
        ]
    )


def _kept(dataset: Dataset, results: Path) -> list[StoredResult]:
    """Stored results for the question of the dataset's default split; unreadable ones are left out."""
    folder, question = results / slug(dataset.spec), (dataset.content_hash, dataset.card.split, dataset.unit)
    stored = []
    for place in folders_of(results):
        with suppress(ResultError):
            if place.parent == folder:
                item = StoredResult.read(place)
                data = item.manifest.dataset
                if (data.content_hash, data.split, data.unit) == question and METRIC in item.metrics.metrics:
                    item.values(METRIC)
                    stored.append(item)
    return comparable(stored)[:_MOST_RESULTS]
