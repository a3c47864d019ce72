"""Seeded, reproducible splits and derived datasets. Loaders call it.

No random generator is involved, because a new version may change its stream. Items are sorted by the sha256 of
`SEED:ITEM` and the first ones are taken. So a derivation depends only on the seed, the shares and the items, not on the
machine, the versions of libraries, or the order of a file.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Literal

from pydantic import Field

from bench.base.errors import DataError
from bench.base.parameters import ParameterSet
from bench.data.novelty import with_parent_slice, with_slice
from bench.data.parents import parent_of
from bench.data.tables import Query, Tables, Tool

#: Limits of the query-generation paper (section 4.1): words of a description, gold tools of a query.
FEWEST_WORDS, MOST_WORDS, MOST_GOLD = 5, 50, 3

#: What is held out: a parent as (category, parent), or a category as (category,).
Unit = tuple[str, ...]


class SplitOptions(ParameterSet):
    """The options of a loader that makes its own split."""

    split: Literal["random", "bundle-disjoint"] = Field(
        default="random",
        description="random: any query may be in test; bundle-disjoint: no gold set is in both train and test.",
    )
    seed: int = Field(default=0, description="Another seed is another split.")
    test_share: float = Field(default=0.2, gt=0, lt=1, description="Share of the queries that are tested.")


class _HeldOptions(ParameterSet):
    """Parameters of both derivations that hold something out of train."""

    share: float = Field(default=0.2, gt=0, lt=1, description="Share of the parents in use that are kept out of train.")
    common: float = Field(
        default=0.02, gt=0, le=1, description="What more than this share of queries use always stays in train."
    )
    dev: int = Field(default=600, ge=0, description="Train queries that become the dev split, if there is none.")
    seed: int = Field(default=0, description="Another seed is another choice of parents and of dev queries.")


class DomainOptions(_HeldOptions):
    """The options of a loader that keeps some parents for an out-of-domain test."""


class HoldOutOptions(_HeldOptions):
    """The options of a loader that holds parents, or whole categories, out of train."""

    share: float = Field(default=0.15, gt=0, lt=1, description="Share of what is in use that is held out of train.")
    by: Literal["parent", "category"] = Field(
        default="parent", description="What is held out; no category is rare, so by=category needs a higher `common`."
    )


def with_splits(queries: Iterable[Query], options: SplitOptions) -> list[Query]:
    """The queries in order, each assigned to `train` or `test`.

    Raises:
        DataError: there are fewer than two queries (for `bundle-disjoint`: two gold sets) to split.
    """
    queries = list(queries)
    whole_bundles = options.split == "bundle-disjoint"
    groups = [bundle_id(query.gold) if whole_bundles else query.query_id for query in queries]
    tested = tested_groups(Counter(groups), options.seed, options.test_share)
    return [
        replace(query, split="test" if group in tested else "train")
        for query, group in zip(queries, groups, strict=True)
    ]


def with_ptr_split(queries: Sequence[Query], tested: int = 100) -> list[Query]:
    """The split of PTR's released code: the first 100 queries are tested, and the gold sets of all queries are in the
    history.

    A gold set that only tested queries have enters the history through a train query without text, so that it can be
    retrieved while no tested query can.

    Args:
        queries: in the order of PTR's file.
        tested: number of tested queries.
    """
    test = [replace(query, split="test") for query in queries[:tested]]
    train = [replace(query, split="train") for query in queries[tested:]]
    past = {bundle_id(query.gold) for query in train}
    unseen = {bundle_id(query.gold): query.gold for query in test if bundle_id(query.gold) not in past}
    leaked = [Query(f"bundle-{number}", "", gold, "train") for number, gold in enumerate(unseen.values())]
    return [*test, *train, *leaked]


def bundle_id(gold: Iterable[str]) -> str:
    """A set of tools as text, independent of their order; the text of a single tool is its id."""
    # No tool_id contains a newline: `Dataset.build` refuses control characters.
    return "\n".join(sorted(set(gold)))


def tested_groups(sizes: Mapping[str, int], seed: int, share: float) -> frozenset[str]:
    """Choose the groups of the test split.

    Whole groups are taken in hash order, up to the cut with the number of tested queries closest to `share`; of two
    equally close cuts, the smaller one. The last group may overshoot by at most half its size. Each side keeps at least
    one group.

    Args:
        sizes: number of queries in each group.
        seed: any integer; part of what is hashed.
        share: share of all queries, between 0 and 1.

    Returns:
        The chosen groups. The number of their queries differs from `share` by less than the largest group.

    Raises:
        DataError: there are fewer than two groups.
    """
    if len(sizes) < 2:
        raise DataError(f"cannot split {len(sizes)} group(s) of queries into train and test; at least two are needed.")
    order = shuffle(sizes, seed)
    sums = list(accumulate(sizes[group] for group in order))
    wanted = share * sums[-1]
    # `min` keeps the first of equals, and the sums only grow: fewer tested queries win.
    cut = min(range(1, len(order)), key=lambda count: abs(sums[count - 1] - wanted))
    return frozenset(order[:cut])


def hold_out(tables: Tables, options: HoldOutOptions) -> Tables:
    """Hold parents (or categories) out of train, so that test has seen and unseen ones. The library keeps all tools.

    1. `held_units` chooses `share` of the units in use among the sets that test queries use; train and dev queries
       that need one of them are left out.
    2. Without a dev split, `dev` train queries become one. So that settings for unseen parents can be chosen on dev,
       half as many further units are held out of train for dev, in the same way: train queries that need one and were
       not drawn for dev are left out too.
    3. Dev and test queries get the slice `parent` (see `bench.data.novelty`), computed from the final train split: a
       parent that was only used together with a held-out one is unseen as well.

    Raises:
        DataError: nothing can be held out, or train or dev would be empty.
    """
    needs = _needs(tables, options.by)
    in_use = {unit for units in needs.values() for unit in units}
    train = [query for query in tables.queries if query.split == "train"]
    uses = Counter(unit for query in train for unit in needs[query.query_id])
    common = {unit for unit, count in uses.items() if count > options.common * len(train)}
    tested = [needs[query.query_id] for query in tables.queries if query.split == "test"]
    held = held_units(tested, options.share * len(in_use), options.seed, common)
    kept = [query for query in tables.queries if query.split == "test" or not needs[query.query_id] & held]
    if options.dev and all(query.split != "dev" for query in kept):
        kept = with_dev(kept, options.dev, options.seed)
        past = [needs[query.query_id] for query in kept if query.split != "test"]
        held_for_dev = held_units(past, options.share * len(in_use) / 2, options.seed, common)
        kept = [query for query in kept if query.split != "train" or not needs[query.query_id] & held_for_dev]
    return _derive_tables(tables, tables.tools, with_parent_slice(kept, tables.tools))


def split_domains(tables: Tables, options: DomainOptions) -> Tables:
    """The dataset of the query-generation paper (section 4.1): an in-domain and an out-of-domain test.

    1. Tools whose description has fewer than 5 or more than 50 words (separated by white space) leave the library, with
       every query that needs one. Queries without gold or with more than 3 gold tools are left out.
    2. `held_units` chooses `share` of the parents in use as out-of-domain. A query that needs only such parents is a
       test query, whatever its split was; one that needs none keeps its split; one that needs both kinds is left out.
    3. Without a dev split, `dev` train queries become one. All of dev is in-domain.

    So no tool and no parent of an out-of-domain query is gold in train or dev. Dev and test queries get the slice
    `domain`, `in` or `out`. All of them use the same library, which has the tools of both domains.

    Raises:
        DataError: nothing can be held out, or train or dev would be empty.
    """
    tools = [tool for tool in tables.tools if FEWEST_WORDS <= len(tool.description.split()) <= MOST_WORDS]
    known = {tool.tool_id for tool in tools}
    queries = [query for query in tables.queries if 1 <= len(query.gold) <= MOST_GOLD and query.gold.keys() <= known]
    needs = _needs(Tables(tools, queries), "parent")
    uses = Counter(unit for needed in needs.values() for unit in needed)
    common = {unit for unit, count in uses.items() if count > options.common * len(queries)}
    outside = held_units(needs.values(), options.share * len(uses), options.seed, common)
    domains = {name: "out" if needed <= outside else "in" for name, needed in needs.items()}
    kept = [
        replace(query, split="test") if domains[query.query_id] == "out" else query
        for query in queries
        if needs[query.query_id] <= outside or not needs[query.query_id] & outside
    ]
    if options.dev and all(query.split != "dev" for query in kept):
        kept = with_dev(kept, options.dev, options.seed)
    evaluated = {query.query_id for query in kept if query.split != "train"}
    kept = with_slice(kept, "domain", {name: domain for name, domain in domains.items() if name in evaluated})
    return _derive_tables(tables, tools, kept)


def held_units(
    sets: Iterable[frozenset[Unit]], wanted: float, seed: int, common: Collection[Unit] = ()
) -> frozenset[Unit]:
    """Choose units to hold out, in whole sets, so that some queries need only held-out units.

    Units drawn one by one would mostly leave queries that mix held-out units with others. So the sets of units that
    queries use are taken in hash order until `wanted` units or more have been chosen. Sets with a common unit are
    skipped: holding out what a tenth of all queries need would remove those queries from train.

    Args:
        sets: the units of each query; repeated sets count once.
        wanted: number of units; the last set may add a few more.
        seed: any integer; part of what is hashed.
        common: units that stay in train.

    Raises:
        DataError: every set has a common unit.
    """
    usable = {json.dumps(sorted(units)): units for units in sets if units and not units & frozenset(common)}
    chosen: frozenset[Unit] = frozenset()
    for name in shuffle(usable, seed):
        if len(chosen) >= wanted:
            break
        chosen |= usable[name]
    if not chosen:
        raise DataError("nothing can be held out: every query needs a tool of a common unit; raise `common`.")
    return chosen


def with_dev(queries: Sequence[Query], count: int, seed: int) -> list[Query]:
    """The queries in order, with `count` of the train queries moved to dev.

    Raises:
        DataError: there are not more train queries than that.
    """
    train = [query.query_id for query in queries if query.split == "train"]
    if len(train) <= count:
        raise DataError(f"cannot move {count} of {len(train)} train queries to dev: none would be left; lower `dev`.")
    drawn = set(shuffle(train, seed)[:count])
    return [replace(query, split="dev") if query.query_id in drawn else query for query in queries]


def shuffle(names: Iterable[str], seed: int) -> list[str]:
    """Names in the order of the sha256 of `SEED:NAME`; the order of two names does not depend on the others."""
    return sorted(names, key=lambda name: order_hash(f"{seed}:{name}"))


def order_hash(text: str) -> bytes:
    """The sha256 that defines the order."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def _needs(tables: Tables, by: Literal["parent", "category"]) -> dict[str, frozenset[Unit]]:
    """query_id -> the units of its gold tools."""
    units: dict[str, Unit] = {
        tool.tool_id: parent_of(tool) if by == "parent" else (tool.category,) for tool in tables.tools
    }
    return {
        # `Dataset.build` refuses gold tools outside the library with a better message.
        query.query_id: frozenset(units[tool] for tool in query.gold if tool in units)
        for query in tables.queries
    }


def _derive_tables(tables: Tables, tools: Sequence[Tool], queries: Sequence[Query]) -> Tables:
    """The tables with these tools and queries; the ids of all other queries are listed as left out."""
    if not any(query.split == "train" and query.gold for query in queries):
        raise DataError("no train query would remain; hold out less (lower `share` or `common`), or lower `dev`.")
    known = {tool.tool_id for tool in tools}
    kept = {query.query_id for query in queries}
    return Tables(
        tools,
        queries,
        [edge for edge in tables.edges if {edge.dependent, edge.prerequisite} <= known],
        [pair for pair in tables.unknown_gold if pair[0] in kept],
        [*tables.left_out, *(query.query_id for query in tables.queries if query.query_id not in kept)],
    )
