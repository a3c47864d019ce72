"""`bench graph`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.data.edges import read_edges
from bench.registry import load_dataset

Bench = Callable[..., object]


def test_the_graph_is_counted_and_held_against_annotated_edges(bench: Bench) -> None:
    said = bench("graph", "starter")
    assert "63 edges; 79 of 179 tools have one (share 0.441)" in said.out  # type: ignore[attr-defined]
    assert "62 right of 63 found and 116 annotated" in said.out  # type: ignore[attr-defined]
    found = bench("graph", "starter", "--json").json  # type: ignore[attr-defined]
    assert found["agreement"]["recall"] == pytest.approx(62 / 116)
    assert sum(row["tools"] for row in found["categories"]) == 179
    assert "pairs_classified" not in found


def test_the_annotated_graph_is_not_compared_with_itself(bench: Bench) -> None:
    said = bench("graph", "starter", "--graph", "manual", "--by-category")
    assert "116 edges" in said.out  # type: ignore[attr-defined]
    assert "annotated edges" not in said.out  # type: ignore[attr-defined]
    assert "Health" in said.out  # type: ignore[attr-defined]


def test_edges_written_are_edges_read(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "edges.tsv"
    bench("graph", "starter", "--graph", "manual", "--out", path)
    written = {(edge.dependent, edge.prerequisite, edge.reason) for edge in read_edges(path)}
    assert written == {(edge.dependent, edge.prerequisite, edge.reason) for edge in load_dataset("starter").edges}
    said = bench("graph", "starter", "--graph", path)
    assert "116 right of 116 found and 116 annotated" in said.out  # type: ignore[attr-defined]


def test_the_drawing_is_an_svg_that_shows_what_is_missed(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "graph.svg"
    bench("graph", "starter", "--svg", path)
    kinds = [node.get("class") for node in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}path")]
    assert kinds.count("edge") == 62
    assert kinds.count("edge extra") == 1
    assert kinds.count("edge missed") == 54


def test_what_cannot_be_had_is_told(bench: Bench) -> None:
    said = bench("graph", "starter", "--graph", "discriminator", code=2)
    assert "`bench train discriminator --dataset starter --out FOLDER` trains one" in said.err  # type: ignore[attr-defined]
    said = bench("graph", "starter", "--graph", "nowhere.tsv", code=2)
    assert "neither `rules`, `manual`, `discriminator` nor an existing file" in said.err  # type: ignore[attr-defined]
    bench("graph", "starter", "--graph", "discriminator", "--discriminator", "./nowhere", code=4)


def test_a_discriminator_is_shown_with_what_it_learnt_from(bench: Bench, tiny_models: dict[str, str]) -> None:
    settings = ("most_steps=2", "batch_size=4", "most_tokens=32")
    options = [word for setting in settings for word in ("--set", setting)]
    base = ("--base", tiny_models["encoder"])
    bench("train", "discriminator", "-q", "-d", "starter", *base, "--out", "learnt", *options)
    asked = ("graph", "starter", "--graph", "discriminator", "--discriminator", "learnt", "--nearest", 0)
    found = bench(*asked, "--json").json  # type: ignore[attr-defined]
    assert 0 < found["tools_learnt_from"] <= 179
    assert found["pairs_classified"] == 571
    said = bench(*asked)
    line = f"note: the discriminator learnt from {found['tools_learnt_from']} of these 179 tools"
    assert line in said.out  # type: ignore[attr-defined]
    assert "means over the three categories" in said.out  # type: ignore[attr-defined]
