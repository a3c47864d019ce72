"""Train, dev and test out of test queries alone, so that models can be trained and some parents stay unseen."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import replace

from bench.data.card import Card
from bench.data.dataset import Dataset
from bench.data.derive import held_units, shuffle
from bench.data.novelty import with_parent_slice
from bench.data.parents import Parent, parent_of
from bench.data.tables import Split, Tables

#: Share of the parents in use that train and dev never use, and share of the queries that become dev.
HELD, DEV = 0.3, 0.1
#: Parents that more than this share of the queries need are never held out.
COMMON = 0.02


def hold_out(tables: Tables, card: Card, seed: int) -> Tables:
    """The tables with every query put in train, dev or test, by whole units of the card's rule.

    1. Parents are drawn, in the sets in which queries use them (`bench.data.derive.held_units`), until a share `HELD`
       of those in use is held out. Units that need one of them are test.
    2. Of the other units, in the order of the sha256 of `SEED:` and their first query, the first are dev, up to a share
       `DEV` of all queries.
    3. A unit of the rest is test, in the same order, where every parent that it needs is still needed by a unit that is
       left. What is left is train, so each of these test queries has nothing but seen parents.

    Dev and test queries get the slice `parent` (`bench.data.novelty`).

    Raises:
        DataError: nothing can be held out.
    """
    dataset = Dataset.build(card.id, card, tables)
    parents = {tool.tool_id: parent_of(tool) for tool in tables.tools}
    members: defaultdict[int, list[str]] = defaultdict(list)
    needs: defaultdict[int, set[Parent]] = defaultdict(set)
    sets: list[frozenset[Parent]] = []
    for query, unit in zip(dataset.queries, dataset.units.tolist(), strict=True):
        needed = frozenset(parents[tool] for tool in query.gold)
        members[unit].append(query.query_id)
        needs[unit] |= needed
        sets.append(needed)
    uses = Counter(parent for needed in sets for parent in needed)
    common = {parent for parent, count in uses.items() if count > COMMON * len(sets)}
    held = held_units(sets, HELD * len(uses), seed, common)
    first = {queries[0]: unit for unit, queries in members.items()}
    rest = [first[name] for name in shuffle(first, seed) if not needs[first[name]] & held]
    splits: dict[str, Split] = {}
    dev = 0
    while rest and dev < DEV * len(sets):
        unit = rest.pop(0)
        for name in members[unit]:
            splits[name] = "dev"
        dev += len(members[unit])
    left = Counter(parent for unit in rest for parent in needs[unit])
    for unit in rest:
        tested = all(left[parent] > 1 for parent in needs[unit])
        for name in members[unit]:
            splits[name] = "test" if tested else "train"
        if tested:
            left.subtract(needs[unit])
    queries = [replace(query, split=splits.get(query.query_id, "test")) for query in tables.queries]
    return replace(tables, queries=with_parent_slice(queries, tables.tools))
