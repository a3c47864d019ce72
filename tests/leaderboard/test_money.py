"""Money as a cost, like latency and tokens: what a result states, and nothing that is guessed."""

from __future__ import annotations

import csv
import importlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.results.costs import money_per_query
from bench.results.store import Result

charts = importlib.import_module("bench.leaderboard.pages.charts")
numbers = importlib.import_module("bench.leaderboard.numbers")

USE = {
    "requests": 10,
    "from_journal": 4,
    "failures": 0,
    "input_tokens": 5000,
    "output_tokens": 100,
    "cost": 0.25,
}


def _folder(results: Path, method: str) -> Path:
    return next(results.glob(f"*/{method}-*"))


def _cost(folder: Path) -> float | None:
    return money_per_query(Result.read(folder).manifest)


def test_what_a_query_costs_is_known_or_said_to_be_unknown(
    ready: Path, edit: Callable[..., None], scored: Callable[[str], Path]
) -> None:
    folder = _folder(ready, "random")
    assert _cost(folder) == 0
    edit(folder, method__needs_llm=True)
    assert _cost(folder) is None
    edit(folder, model_use={**USE, "cost": None})
    assert _cost(folder) is None
    edit(folder, model_use=USE)
    assert _cost(folder) == 0.25 / Result.read(folder).manifest.dataset.queries
    # Only what it depends on counts, not what a parameter looks like.
    edit(folder, model_use=None, method__needs_llm=False, method__full_spec="mine(note=openai:)")
    assert _cost(folder) == 0
    edit(folder, method__revisions={"openai:text-embedding-3-small": "text-embedding-3-small at https://example.com"})
    assert _cost(folder) is None
    assert _cost(scored("theirs")) is None


def test_a_dataset_page_draws_quality_against_cost_and_names_what_is_not_known(
    ready: Path, build: Callable[..., Any], edit: Callable[..., None]
) -> None:
    free = build()
    board = free.only("d/*.html")
    assert "recall@5 against cost" not in board.text
    assert "No result here is known to have made paid calls." in board.text
    queries = Result.read(_folder(ready, "random")).manifest.dataset.queries
    paid, own = ready / "starter" / "bm25-paid", "c" * 12
    shutil.copytree(_folder(ready, "bm25"), paid)
    edit(paid, result_id=own, metrics={"result_id": own}, method__spec="bm25(b=0.5)", method__needs_llm=True)
    edit(paid, model_use=USE)
    edit(_folder(ready, "nearest-bundle"), method__needs_llm=True)
    # A floor is in no picture of costs, whatever it costs.
    edit(_folder(ready, "random"), method__needs_llm=True)
    site = build()
    board = site.only("d/*.html")
    assert "recall@5 against cost" in board.text
    assert "unknown cost (run files, models or embeddings without prices): 1." in board.text
    assert numbers.money(250 / queries) in board.texts
    assert "not known" in board.texts
    page = site.page(f"r/{own}.html")
    assert "10 requests, 5,000 tokens in, 100 out" in page.text


def test_exports_say_what_a_query_costs(ready: Path, build: Callable[..., Any], edit: Callable[..., None]) -> None:
    queries = Result.read(_folder(ready, "random")).manifest.dataset.queries
    edit(_folder(ready, "random"), method__needs_llm=True, model_use=USE)
    edit(_folder(ready, "oracle"), method__needs_llm=True)
    site = build()
    costs = {item["label"]: item["cost_per_query"] for item in _json(site)["results"]}
    assert costs["random @ starter"] == 0.25 / queries
    assert costs["oracle @ starter"] is None
    assert costs["bm25 @ starter"] == 0
    lines = list(csv.DictReader((site.folder / "results.csv").read_text("utf-8").splitlines()))
    assert {row["cost_per_query"] for row in lines if row["method"] == "random"} == {str(0.25 / queries)}
    assert {row["cost_per_query"] for row in lines if row["method"] == "oracle"} == {""}


def _json(site: Any) -> Any:
    return json.loads((site.folder / "results.json").read_text("utf-8"))


def test_what_is_free_stands_left_of_the_scale_and_on_the_front() -> None:
    points = [charts.Point("free", 0.0, 0.5), charts.Point("dear", 2.0, 0.7), charts.Point("worse", 3.0, 0.6)]
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
