"""A dev split for datasets without one: part of the train queries, by whole units of independence. Tuning uses it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace

from bench.base.errors import UsageError
from bench.data.dataset import Dataset
from bench.data.derive import shuffle

#: Share of the judged train queries to hold out, and its maximum, so that methods keep past queries to learn from.
SHARE, MOST = 0.2, 0.5


@dataclass(frozen=True)
class HeldOut:
    """Which train queries became dev.

    Attributes:
        seed: another seed holds out other queries.
        queries, units: number of held-out queries and units.
        train: number of judged train queries before.
    """

    seed: int
    queries: int
    units: int
    train: int

    def __str__(self) -> str:
        return (
            f"{self.queries} of {self.train} train queries, held out by {self.units} whole groups of dependent queries "
            f"(seed {self.seed}), because the dataset has no dev split"
        )


def hold_out_dev(dataset: Dataset, seed: int = 0) -> tuple[Dataset, HeldOut | None]:
    """The dataset itself if it has judged dev queries, else a copy in which a fifth of the judged train queries is dev.

    Units are taken in the order of the sha256 of `SEED:` and the id of their first query until they hold a fifth; a
    unit that would bring the share above a half is skipped. No held-out query depends on a remaining one.

    Args:
        dataset: any.
        seed: seed of the order.

    Raises:
        UsageError: there are no judged train queries, or none can be held out because they form one unit.
    """
    if dataset.gold.counts[dataset.rows("dev")].any():
        return dataset, None
    rows = dataset.rows("train")
    rows = rows[dataset.gold.counts[rows] > 0]
    if not len(rows):
        raise UsageError(
            f"{dataset.spec} has neither dev nor train queries for tuning, and test queries must not be used."
        )
    members: defaultdict[int, list[int]] = defaultdict(list)
    for row, unit in zip(rows.tolist(), dataset.units[rows].tolist(), strict=True):
        members[unit].append(row)
    by_first = {dataset.queries[unit_rows[0]].query_id: unit_rows for unit_rows in members.values()}
    held: list[int] = []
    taken = 0
    for name in shuffle(by_first, seed):
        if len(held) >= SHARE * len(rows):
            break
        if len(held) + len(by_first[name]) <= MOST * len(rows):
            held += by_first[name]
            taken += 1
    if not held:
        raise UsageError(
            f"{dataset.spec} has no dev queries, and no part of its {len(rows)} train queries can be held out: more "
            "than half are one group of dependent queries. Give some of them the split dev."
        )
    dev = set(held)
    queries = [replace(query, split="dev") if row in dev else query for row, query in enumerate(dataset.queries)]
    derived = Dataset.build(dataset.spec, dataset.card, replace(dataset.rows_again(), queries=queries))
    return derived, HeldOut(seed, len(held), taken, len(rows))
