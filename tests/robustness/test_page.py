"""The page of what breaks methods, and its part of a method's page."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.results import LOCKS, folder_of

import bench
from bench.base.config import config_context
from bench.leaderboard.site import build_site
from bench.results.store import STRESS
from bench.robustness.report import read_stress
from bench.show.numbers import format_signed

Bench = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("isolated", "fewer_flips")


@pytest.fixture
def results(starter_results: Path, tmp_path: Path) -> Path:
    """Results of the starter, with what fillers and clones do to three of them."""
    folder = tmp_path / "stressed"
    shutil.copytree(starter_results, folder, ignore=LOCKS)
    with config_context(results=folder):
        bench.stress(["bm25", "bm25(k1=0.5)", "random"], "starter", ["filler", "clone", "hidden-gold"])
    return folder


def page(results: Path, name: str = "stress.html") -> str:
    build_site(results, results.with_name("site"))
    path = results.with_name("site") / name
    return path.read_text("utf-8") if path.exists() else ""


def test_the_board_shows_each_loss_with_its_interval(results: Path) -> None:
    text = page(results)
    for spec in ("bm25", "bm25(k1=0.5)", "random"):
        stressed = read_stress(folder_of(results, spec))
        assert stressed is not None
        for effect in stressed.effects:
            if effect.loss is not None:
                assert f">{format_signed(-effect.loss)}" in text
    # The method with the smallest worst loss is first, as `bench stress` prints them.
    worst = [float(number) for number in re.findall(r"<td>\S+ <small>([-+.\d]+)</small>", text)]
    assert worst == sorted(worst, reverse=True)
    assert len(worst) == 3
    assert "6 tests" in text
    assert "AUROC" in text
    home = results.with_name("site") / "index.html"
    assert '<a href="stress.html">What breaks methods</a>' in home.read_text("utf-8")
    method = (results.with_name("site") / "m" / "bm25.html").read_text("utf-8")
    assert "What breaks it" in method
    assert '<a href="../stress.html">all methods</a>' in method


def test_files_of_other_code_or_damaged_ones_are_named_and_not_shown(results: Path) -> None:
    older, damaged = (folder_of(results, spec) / STRESS for spec in ("bm25", "random"))
    older.write_text(json.dumps(json.loads(older.read_text("utf-8")) | {"code": "0" * 64}))
    damaged.write_text('{"result_id": "<script>"')
    text = page(results)
    assert "bm25: stress.json was made by other code; run `bench stress` again." in text
    assert "random: stress.json" in text
    assert str(results) not in text
    assert "<script>" not in text
    assert len(re.findall(r"<td>\S+ <small>([-+.\d]+)</small>", text)) == 1


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"result_id": "0" * 12}, "is of another result"),
        ({"metric": "recall@7"}, "is not about recall@5"),
        ({"note": "asked again, the method gives other numbers"}, "asked again, the method gives other numbers"),
        ({"k": 0}, "k"),
    ],
)
def test_what_does_not_hold_for_the_row_is_named_and_not_shown(
    results: Path, change: dict[str, Any], said: str
) -> None:
    path = folder_of(results, "bm25") / STRESS
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | change))
    text = page(results)
    (line,) = re.findall(r"not shown</span> (.*?)</p>", text)
    assert line.startswith("bm25: stress.json")
    assert said in line
    assert len(re.findall(r"<td>\S+ <small>([-+.\d]+)</small>", text)) == 2


@pytest.mark.parametrize(
    "change", [{"p": 7.0}, {"loss": None}, {"loss": None, "before": None, "after": None, "p": None}]
)
def test_effects_that_no_measurement_has_are_refused(results: Path, change: dict[str, Any]) -> None:
    path = folder_of(results, "bm25") / STRESS
    raw = json.loads(path.read_text("utf-8"))
    (effect,) = [item for item in raw["effects"] if item["perturbation"] == "filler"]
    effect |= {"decided": True, **change}
    path.write_text(json.dumps(raw))
    assert "not shown</span> bm25: stress.json" in page(results)


def test_hostile_names_are_escaped(results: Path) -> None:
    path = folder_of(results, "bm25") / STRESS
    raw = json.loads(path.read_text("utf-8"))
    raw["effects"][0]["perturbation"] = "<script>alert(1)</script>"
    path.write_text(json.dumps(raw))
    text = page(results)
    assert "&lt;script&gt;" in text
    assert "<script>alert" not in text


def test_without_files_there_is_no_page(starter_results: Path, tmp_path: Path) -> None:
    shutil.copytree(starter_results, tmp_path / "plain", ignore=LOCKS)
    assert page(tmp_path / "plain") == ""
    assert "What breaks" not in page(tmp_path / "plain", "index.html")
