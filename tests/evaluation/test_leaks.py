"""Models that knew the test: what a result says of them, and marks that methods ask for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.data.dataset import Dataset
from bench.data.tables import Tool
from bench.errors import DataError
from bench.evaluation.leaks import LEAKED, SEEN, training_marks
from bench.models.trainingcard import CARD, TrainingCard, read_card, text_digest, tool_digest, write_card
from bench.registry import load_dataset


def card(queries: list[str], tools: list[Tool]) -> TrainingCard:
    return TrainingCard(
        kind="retriever",
        base="minilm",
        base_revision="",
        dataset="starter",
        content_hash="",
        split="train",
        template="description",
        examples=1,
        queries=[text_digest(text) for text in queries],
        tools=[tool_digest(tool) for tool in tools],
        settings={},
        validation="",
        measure="recall@5",
        evaluations=[],
        best_step=1,
        steps=1,
        seconds=1.0,
        resumed=0,
        command="",
        created="",
        packages={},
        hardware={},
    )


@pytest.fixture
def starter() -> Dataset:
    return load_dataset("starter")


def test_a_model_that_learnt_from_other_queries_and_tools_is_not_marked(tmp_path: Path, starter: Dataset) -> None:
    write_card(tmp_path, card(["something else"], [Tool("send_email", "nothing", "like it")]))
    assert training_marks([str(tmp_path)], starter, starter.rows("test")) == {}


def test_a_model_that_knew_test_queries_is_marked_with_their_number(tmp_path: Path, starter: Dataset) -> None:
    rows = starter.rows("test")
    judged = [starter.queries[row] for row in rows if starter.gold.counts[row]]
    # Case and white space do not make another query.
    write_card(tmp_path, card([judged[0].text.upper(), f"  {judged[1].text}\n"], []))
    found = training_marks([str(tmp_path), str(tmp_path)], starter, rows)
    assert list(found) == [LEAKED]
    assert f"was trained on 2 of these {len(judged)} queries" in found[LEAKED]


def test_a_model_that_knew_the_gold_tools_is_marked_with_their_number(tmp_path: Path, starter: Dataset) -> None:
    rows = starter.rows("test")
    gold = [starter.tools[tool] for tool in np.unique(starter.gold.take(rows).tools)]
    write_card(tmp_path, card([], gold[:3]))
    found = training_marks([str(tmp_path)], starter, rows)
    assert list(found) == [SEEN]
    assert f"was trained on 3 of the {len(gold)} tools that are gold here" in found[SEEN]


def test_tools_are_known_by_what_they_say_and_not_by_their_ids(tmp_path: Path, starter: Dataset) -> None:
    rows = starter.rows("test")
    gold = [starter.tools[tool] for tool in np.unique(starter.gold.take(rows).tools)]
    renamed = [replace(tool, tool_id=f"elsewhere.{tool.tool_id}", category="Other") for tool in gold[:4]]
    namesakes = [replace(tool, description="does something else") for tool in gold[4:]]
    write_card(tmp_path, card([], [*renamed, *namesakes]))
    assert f"was trained on 4 of the {len(gold)} tools" in training_marks([str(tmp_path)], starter, rows)[SEEN]


def test_a_name_alone_does_not_make_two_tools_the_same() -> None:
    bare = Tool("a", "search", "", "Books", "Library")
    assert tool_digest(bare) != tool_digest(replace(bare, parent="Shop"))
    assert tool_digest(bare) == tool_digest(replace(bare, tool_id="b"))
    assert tool_digest(Tool("a", "one", "two three")) != tool_digest(Tool("a", "one two", "three"))


def test_queries_without_gold_are_no_leak(tmp_path: Path, starter: Dataset) -> None:
    rows = np.array([row for row in starter.rows("test") if not starter.gold.counts[row]])
    write_card(tmp_path, card([starter.queries[row].text for row in rows], []))
    assert training_marks([str(tmp_path)], starter, rows) == {}


def test_models_that_bench_did_not_train_are_not_marked(tmp_path: Path, starter: Dataset) -> None:
    assert training_marks(["minilm", "owner/model", str(tmp_path)], starter, starter.rows("test")) == {}


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"kind": "retriever"}'])
def test_a_card_that_cannot_be_read_is_told(tmp_path: Path, starter: Dataset, damage: str) -> None:
    (tmp_path / CARD).write_text(damage)
    with pytest.raises(DataError, match=r"the training card .* cannot be read"):
        training_marks([str(tmp_path)], starter, starter.rows("test"))


def test_a_card_reads_back(tmp_path: Path) -> None:
    written = card(["a"], [Tool("b", "b", "b")])
    write_card(tmp_path, written)
    assert read_card(tmp_path) == written
    assert "a" not in json.loads((tmp_path / CARD).read_text())["queries"]


def test_marks_stand_on_the_row_and_in_the_notes(tmp_path: Path) -> None:
    from bench.evaluation.plan import Plan
    from bench.evaluation.runner import Runner
    from bench.protocol import Context, Library, Method, Queries, Ranking
    from bench.registry import build_method
    from bench.results.comparing import marks
    from bench.results.store import Result
    from bench.specs.spec import Spec

    class Marked(Method):
        """A method with a misleading name."""

        name = "marked"

        def marks(self) -> dict[str, str]:
            return {"rules": "uses rules instead of a language model"}

        def index(self, library: Library) -> None:
            return

        def rank(self, queries: Queries, depth: int) -> Ranking:
            return Ranking.of_lists([[0] for _ in queries.texts])

    def build(spec: Spec) -> Method:
        if spec.name != "marked":
            return build_method(spec)
        return Marked(Marked.Parameters(), Context(build_method))

    runner = Runner(tmp_path, load=load_dataset, build=build)
    result, plain = runner.run([Plan(Spec("starter"), Spec("marked")), Plan(Spec("starter"), Spec("bm25"))])
    assert isinstance(result, Result)
    assert isinstance(plain, Result)
    assert [(mark.kind, mark.text) for mark in result.manifest.marks] == [("method", "rules")]
    assert "rules: uses rules instead of a language model" in result.manifest.notes
    assert [mark.text for mark in marks(result, "name_description")] == ["rules"]
    assert plain.manifest.method.marks == []
