"""`bench graph`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.datasets import make_dataset

from bench.data.edges import read_edges
from bench.data.parquet import write_dataset
from bench.data.tables import Edge, Query, Tool
from bench.registry import load_dataset

Bench = Callable[..., Any]


def test_the_graph_is_counted_and_held_against_annotated_edges(bench: Bench) -> None:
    said = bench("graph", "starter")
    assert "63 edges; 79 of 179 tools have one (share 0.441)" in said.out
    assert "62 right of 63 found and 116 annotated" in said.out
    result = bench("graph", "starter", "--json").json
    assert result["agreement"]["recall"] == pytest.approx(62 / 116)
    assert sum(row["tools"] for row in result["categories"]) == 179
    assert "pairs_classified" not in result


def test_the_annotated_graph_is_not_compared_with_itself(bench: Bench) -> None:
    said = bench("graph", "starter", "--graph", "manual", "--by-category")
    assert "116 edges" in said.out
    assert "annotated edges" not in said.out
    assert "Health" in said.out


def test_edges_written_are_edges_read(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "edges.tsv"
    bench("graph", "starter", "--graph", "manual", "--out", path)
    written = {(edge.dependent, edge.prerequisite, edge.reason) for edge in read_edges(path)}
    assert written == {(edge.dependent, edge.prerequisite, edge.reason) for edge in load_dataset("starter").edges}
    said = bench("graph", "starter", "--graph", path)
    assert "116 right of 116 found and 116 annotated" in said.out


def test_what_cannot_be_had_is_told(bench: Bench) -> None:
    said = bench("graph", "starter", "--graph", "discriminator", code=2)
    assert "`bench train discriminator --dataset starter --out FOLDER` trains one" in said.err
    said = bench("graph", "starter", "--graph", "nowhere.tsv", code=2)
    assert "neither `rules`, `manual`, `discriminator` nor an existing file" in said.err
    bench("graph", "starter", "--graph", "discriminator", "--discriminator", "./nowhere", code=4)


def test_a_discriminator_is_shown_with_what_it_learnt_from(
    bench: Bench, tiny_models: dict[str, str], tmp_path: Path
) -> None:
    """On twelve tools of three parents: documents of whole libraries, cut at 32 tokens, take a minute to be read."""
    tools = [Tool(f"{parent}{i}", f"{parent}{i}", "mail", "c", parent) for parent in "abc" for i in range(4)]
    edges = [Edge(f"{parent}{i}", f"{parent}{i + 1}", "result") for parent in "abc" for i in range(2)]
    write_dataset(make_dataset(tools, [Query("q", "mail", {"a1": 1})], edges, id="linked"), tmp_path / "d")
    bench("data", "add", "linked", "--from", tmp_path / "d")
    settings = ("most_steps=2", "batch_size=4", "most_tokens=32", "annotated=linked", "pretraining_epochs=0")
    options = [word for setting in settings for word in ("--set", setting)]
    base = ("--base", tiny_models["encoder"])
    bench("train", "discriminator", "-q", "-d", "linked", *base, "--out", "learnt", *options)
    requests = ("graph", "linked", "--graph", "discriminator", "--discriminator", "learnt")
    result = bench(*requests, "--json").json
    assert 0 < result["tools_learnt_from"] <= 12
    # Those of one parent, three times six, and the nearest by text.
    assert 18 <= result["pairs_classified"] <= result["pairs"] == 66
    said = bench(*requests)
    line = f"note: the discriminator learnt from {result['tools_learnt_from']} of these 12 tools"
    assert line in said.out
    assert "means over the three categories" in said.out
