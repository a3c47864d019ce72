"""Money as a cost, like latency and tokens: what a result states, and nothing that is guessed."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.results import edit, folder_of

from bench.leaderboard.pages import charts
from bench.results.costs import money_per_query
from bench.results.store import StoredResult
from bench.show import numbers

USE = {"requests": 10, "from_journal": 4, "failures": 0, "input_tokens": 5000, "output_tokens": 100, "cost": 0.25}


def _cost(folder: Path) -> float | None:
    return money_per_query(StoredResult.read(folder).manifest)


def test_what_a_query_costs_is_known_or_said_to_be_unknown(ready: Path, scored: Callable[[str], Path]) -> None:
    folder = folder_of(ready, "random")
    assert _cost(folder) == 0
    edit(folder, method__needs_llm=True)
    assert _cost(folder) is None
    edit(folder, model_use={**USE, "cost": None})
    assert _cost(folder) is None
    edit(folder, model_use=USE)
    assert _cost(folder) == 0.25 / StoredResult.read(folder).manifest.dataset.queries
    # Only what it depends on counts, not what a parameter looks like.
    edit(folder, model_use=None, method__needs_llm=False, method__full_spec="mine(note=openai:)")
    assert _cost(folder) == 0
    edit(folder, method__revisions={"openai:text-embedding-3-small": "text-embedding-3-small at https://example.com"})
    assert _cost(folder) is None
    assert _cost(scored("theirs")) is None


def test_a_dataset_page_draws_quality_against_cost_and_names_what_is_not_known(
    ready_site: Any, marked_site: Any
) -> None:
    board = ready_site.only("d/*.html")
    assert "recall@5 against cost" not in board.text
    assert "No result here is known to have made paid calls." in board.text
    paid = marked_site.row("bm25(b=0.5)")
    board = marked_site.page(f"d/{marked_site.board.slug}.html")
    assert "recall@5 against cost" in board.text
    # A bundle and a run file; a floor is in no picture of costs, whatever it costs.
    assert "unknown cost (run files, models or embeddings without prices): 2." in board.text
    assert numbers.money(250 / paid.result.manifest.dataset.queries) in board.texts
    assert "not known" in board.texts
    page = marked_site.page(f"r/{paid.id}.html")
    assert "10 requests, 5,000 tokens in, 100 out" in page.text


def test_exports_say_what_a_query_costs(marked_site: Any) -> None:
    paid, unknown, free = (marked_site.row(key) for key in ("bm25(b=0.5)", "random(seed=3)", "bm25"))
    cost = 0.25 / paid.result.manifest.dataset.queries
    exported = json.loads(marked_site.page("results.json").text)["results"]
    costs = {item["result_id"]: item["cost_per_query"] for item in exported}
    assert [costs[row.id] for row in (paid, unknown, free)] == [cost, None, 0]
    lines = list(csv.DictReader(marked_site.page("results.csv.gz").text.splitlines()))
    for row, told in ((paid, str(cost)), (unknown, "")):
        assert {line["cost_per_query"] for line in lines if line["result_id"] == row.id} == {told}


def test_what_is_free_stands_left_of_the_scale_and_on_the_front() -> None:
    points = [
        charts.ChartPoint("free", 0.0, 0.5),
        charts.ChartPoint("dear", 2.0, 0.7),
        charts.ChartPoint("worse", 3.0, 0.6),
    ]
    assert [point.name for point in charts.front(points)] == ["free", "dear"]
    svg = charts.cost_picture("t", points, "money", "recall@5", numbers.money)
    assert svg.count("<circle") == 3
    assert ">0</text>" in svg
    assert charts.cost_picture("t", points[:1], "money", "recall@5", numbers.money) == ""


@pytest.mark.parametrize(
    ("amount", "text"), [(None, "not known"), (0.0, "0"), (0.01234, "0.0123"), (1.5, "1.50"), (12345.6, "12,345.60")]
)
def test_amounts_are_read_at_a_glance(amount: float | None, text: str) -> None:
    assert numbers.money(amount) == text
