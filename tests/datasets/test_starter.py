"""Starter: the review of its gold, and the option that counts what the review found."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from kit.datasets import loaded

from bench.data.entries import dataset_entry

OURS = dataset_entry("starter").folder


def review() -> list[dict[str, Any]]:
    return [json.loads(line) for line in (OURS / "review.jsonl").read_text("utf-8").splitlines()]


def test_decisions_of_the_review_name_gold_and_another_tool() -> None:
    starter = loaded("starter")
    queries = {query.query_id: query for query in starter.queries}
    assert len({(row["query_id"], row["gold"], row["tool"]) for row in review()}) == len(review())
    for row in review():
        gold = queries[row["query_id"]].gold
        assert row["gold"] in gold
        assert row["tool"] in starter.tool_codes.keys() - gold.keys()
        assert row["reason"]
    met = Counter(queries[row["query_id"]].split for row in review() if row["meets"])
    assert met == {"test": 5, "dev": 1, "train": 2}


def test_reviewed_gold_has_alternatives_and_is_otherwise_the_same() -> None:
    starter, reviewed = loaded("starter"), loaded("starter(gold=reviewed)")
    collected = {(row["query_id"], row["gold"], row["tool"]) for row in review() if row["meets"]}
    alternatives = {
        (query.query_id, gold, other)
        for query in reviewed.queries
        for gold, others in query.any_of.items()
        for other in others
    }
    assert alternatives == collected
    assert not any(query.any_of for query in starter.queries)
    assert [(q.query_id, q.gold, q.split, q.slices) for q in reviewed.queries] == [
        (q.query_id, q.gold, q.split, q.slices) for q in starter.queries
    ]
    assert reviewed.content_hash != starter.content_hash
    assert loaded("starter(gold=annotated)").content_hash == starter.content_hash
