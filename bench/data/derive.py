"""Train/test splits for datasets whose upstream has none: seeded, and the same for ever.

No random generator is involved, whose stream a new version may change. Groups of queries are put in
the order of the sha256 of `SEED:GROUP` and the first ones become the test split. So a split depends on
the seed, the share and the groups alone: not on the machine, the library's versions, or the order of a file.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Literal

from pydantic import Field

from bench.data.tables import Query
from bench.errors import DataError
from bench.parameters import ParameterSet


class SplitOptions(ParameterSet):
    """The options of a loader that makes its own split."""

    split: Literal["random", "bundle-disjoint"] = Field(
        default="random",
        description="random: any query may be tested; bundle-disjoint: no gold set stands in both train and test.",
    )
    seed: int = Field(default=0, description="Another seed is another split.")
    test_share: float = Field(default=0.2, gt=0, lt=1, description="Share of the queries that are tested.")


def with_splits(queries: Iterable[Query], options: SplitOptions) -> list[Query]:
    """The queries, in the order given, each put in `train` or `test`.

    Raises:
        DataError: there are not two queries (for `bundle-disjoint`: two bundles) to put on two sides.
    """
    queries = list(queries)
    whole_bundles = options.split == "bundle-disjoint"
    groups = [bundle_id(query.gold) if whole_bundles else query.query_id for query in queries]
    tested = tested_groups(Counter(groups), options.seed, options.test_share)
    return [
        replace(query, split="test" if group in tested else "train")
        for query, group in zip(queries, groups, strict=True)
    ]


def bundle_id(gold: Iterable[str]) -> str:
    """One text for a set of tools, whatever order they come in; a single tool's is its own id."""
    # No tool_id holds a line end: `Dataset.build` refuses control characters.
    return "\n".join(sorted(set(gold)))


def tested_groups(sizes: Mapping[str, int], seed: int, share: float) -> frozenset[str]:
    """The groups that make the test split.

    Groups are taken whole, in hash order, and the cut is made where the number of tested queries comes
    nearest to `share` of all; of two equally near cuts, the one with fewer. The last group taken may thus
    overshoot, by at most half its size. Each side keeps at least one group, whatever the share.

    Args:
        sizes: number of queries in each group.
        seed: any integer; a part of what is hashed.
        share: of all queries, between 0 and 1.

    Returns:
        The chosen groups. Their queries miss `share` by less than the largest group.

    Raises:
        DataError: there are fewer than two groups.
    """
    if len(sizes) < 2:
        raise DataError(f"cannot make a train and a test split of {len(sizes)} group(s) of queries; it takes two.")
    order = sorted(sizes, key=lambda group: hashlib.sha256(f"{seed}:{group}".encode()).digest())
    sums = list(accumulate(sizes[group] for group in order))
    wanted = share * sums[-1]
    # `min` keeps the first of equals, and the sums only grow: fewer tested queries.
    cut = min(range(1, len(order)), key=lambda count: abs(sums[count - 1] - wanted))
    return frozenset(order[:cut])
