"""`bench curve`: a table and a picture out of the results of an experiment."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from bench.cli.schemas import shipped_schema

Bench = Callable[..., Any]
SVG = "{http://www.w3.org/2000/svg}"
OF = "starter(distractors=extra)"
SIZES = ("starter(distractors=extra, tools=179)", "starter(distractors=extra, tools=190)", OF)


@pytest.fixture(autouse=True)
def extra(bench: Bench, tmp_path: Path) -> None:
    """A catalogue of 30 tools."""
    tools = [{"name": f"make_{i}", "description": f"Makes {i} things.", "inputSchema": {}} for i in range(30)]
    (tmp_path / "tools.json").write_text(json.dumps(tools))
    bench("data", "import", "extra", tmp_path / "tools.json")


def experiment(folder: Path, *datasets: str, methods: tuple[str, ...] = ("bm25", "random"), more: str = "") -> Path:
    path = folder / "sizes.toml"
    quoted = (", ".join(f'"{name}"' for name in names) for names in (methods, datasets))
    path.write_text("methods = [{}]\ndatasets = [{}]\n".format(*quoted) + more)
    return path


def test_a_curve_is_drawn_from_the_results_of_the_same_file(bench: Bench, tmp_path: Path) -> None:
    path, picture = experiment(tmp_path, *SIZES), tmp_path / "sizes.svg"
    missing = bench("curve", path, code=2).err
    assert (
        "6 of 6 results are not there, first bm25@starter(distractors=extra, tools=179); `bench run` with the same file"
        in missing
    )
    bench("run", path)
    report = bench("curve", path, "--json", "--picture", picture).json
    jsonschema.Draft202012Validator(shipped_schema("library-sizes")).validate(report)
    assert (report["dataset"], report["metric"], report["n"]) == (OF, "recall@5", 126)
    for curve in report["curves"]:
        assert [point["tools"] for point in curve["points"]] == [179, 190, 209]
        for point, dataset in zip(curve["points"], SIZES, strict=True):
            shown = bench("show", f"{curve['method']}@{dataset}", "--json").json["metrics"]["metrics"]["recall@5"]
            assert point["value"] == shown
    root = ElementTree.fromstring(picture.read_text("utf-8"))
    texts = [item.text for item in root.iter(f"{SVG}text")]
    assert {f"recall@5 on {OF}", "bm25", "random", "179", "209"} <= set(texts)
    assert len(list(root.iter(f"{SVG}circle"))) == 6
    # A lower value stands lower, and more tools farther right.
    dots = [(float(dot.attrib["cx"]), float(dot.attrib["cy"])) for dot in root.iter(f"{SVG}circle")]
    values = [point["value"]["mean"] for curve in _from_top(report) for point in curve["points"]]
    assert sorted(range(6), key=lambda i: -values[i]) == sorted(range(6), key=lambda i: (dots[i][1], i))
    assert [x for x, _ in dots[:3]] == sorted(x for x, _ in dots[:3])
    table = bench("curve", path, "-m", "ndcg@5").out
    assert "ndcg@5" in table
    assert "209" in table
    lines = bench("curve", path, "--format", "markdown").out.splitlines()
    assert lines[0] == "| recall@5 | 179 | 190 | 209 |"
    assert len(lines) == 4


def _from_top(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Curves in the order in which they are drawn: by their last point, the highest first."""
    return sorted(report["curves"], key=lambda curve: -curve["points"][-1]["value"]["mean"])


@pytest.mark.parametrize(
    ("datasets", "sentence"),
    [
        (("starter", "apibank"), "a curve is of one dataset, and the experiment has 2: starter, apibank."),
        ((SIZES[0], OF.replace(")", ", seed=1, tools=180)")), "a curve is of one dataset, and the experiment has 2"),
        (("nowhere(tools=3)",), "there is no dataset 'nowhere'"),
    ],
)
def test_what_is_no_curve_is_refused(bench: Bench, tmp_path: Path, datasets: tuple[str, ...], sentence: str) -> None:
    assert sentence in bench("curve", experiment(tmp_path, *datasets), code=2).err


def test_one_size_and_too_many_methods_are_refused(bench: Bench, tmp_path: Path) -> None:
    path = experiment(tmp_path, "starter", methods=("random",))
    bench("run", path)
    assert "a curve needs libraries of at least two sizes" in bench("curve", path, code=2).err
    many = tuple(f"random(seed={seed})" for seed in range(9))
    path = experiment(tmp_path, *SIZES[1:], methods=many)
    bench("run", path)
    bench("curve", path)
    said = bench("curve", path, "--picture", tmp_path / "x.svg", code=2).err
    assert "a picture shows at most 8 methods, and the experiment has 9" in said
    assert not (tmp_path / "x.svg").exists()


def test_results_with_other_settings_are_not_taken(bench: Bench, tmp_path: Path) -> None:
    bench("run", experiment(tmp_path, *SIZES, methods=("random",), more="limit = 20"))
    assert (
        "3 of 3 results are not there" in bench("curve", experiment(tmp_path, *SIZES, methods=("random",)), code=2).err
    )


def test_a_metric_that_results_lack_is_told(bench: Bench, tmp_path: Path) -> None:
    path = experiment(tmp_path, *SIZES[1:], methods=("random",))
    bench("run", path)
    assert "has no metric 'ndcg@7'" in bench("curve", path, "-m", "ndcg@7", code=2).err
