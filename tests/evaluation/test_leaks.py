"""Models that knew the test: what a result says of them, and marks that methods ask for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.base.config import config_context, current_session
from bench.base.errors import DataError, UnavailableError
from bench.data.dataset import Dataset
from bench.data.tables import Tables, Tool
from bench.evaluation.contamination import DECLARED, LEAKED, NEAR, SEEN, UNKNOWN, training_leaks
from bench.interface.marks import ALL_ALIKE
from bench.models.declared import declared_training_sets, registered_training_sets, registry
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


def leaks(models: list[str], dataset: Dataset, rows: NDArray[np.int64]) -> dict[str, str]:
    return training_leaks(models, dataset, rows, load_dataset)


def test_a_model_that_learnt_from_other_queries_and_tools_is_not_marked(tmp_path: Path, starter: Dataset) -> None:
    write_card(tmp_path, card(["something else"], [Tool("send_email", "nothing", "like it")]))
    # That these texts are in no dataset is all that is said.
    assert list(leaks([str(tmp_path)], starter, starter.rows("test"))) == [UNKNOWN]


def test_a_model_that_knew_test_queries_is_marked_with_their_number(tmp_path: Path, starter: Dataset) -> None:
    rows = starter.rows("test")
    judged = [starter.queries[row] for row in rows if starter.gold.counts[row]]
    # Case and white space do not make another query.
    write_card(tmp_path, card([judged[0].text.upper(), f"  {judged[1].text}\n"], []))
    marks = leaks([str(tmp_path), str(tmp_path)], starter, rows)
    assert list(marks) == [LEAKED]
    assert f"was trained on 2 of these {len(judged)} queries" in marks[LEAKED]


def test_every_call_of_a_query_is_looked_at(tmp_path: Path, starter: Dataset) -> None:
    rows = starter.rows("test")
    name = next(starter.queries[row].query_id for row in rows if starter.gold.counts[row])
    queries = [
        replace(query, calls=("first search", "second search")) if query.query_id == name else query
        for query in starter.queries
    ]
    dataset = Dataset.build("starter", starter.card, replace(starter.rows_again(), queries=queries))
    write_card(tmp_path, card(["Second  search"], []))
    assert list(leaks([str(tmp_path)], dataset, rows)) == [LEAKED, UNKNOWN]


def test_a_model_that_knew_the_gold_tools_is_marked_with_their_number(tmp_path: Path, starter: Dataset) -> None:
    rows = starter.rows("test")
    gold = [starter.tools[tool] for tool in np.unique(starter.gold.take(rows).tools)]
    write_card(tmp_path, card([], gold[:3]))
    marks = leaks([str(tmp_path)], starter, rows)
    assert list(marks) == [SEEN]
    assert f"was trained on 3 of the {len(gold)} tools that are gold here" in marks[SEEN]


def test_tools_are_known_by_what_they_say_and_not_by_their_ids(tmp_path: Path, starter: Dataset) -> None:
    rows = starter.rows("test")
    gold = [starter.tools[tool] for tool in np.unique(starter.gold.take(rows).tools)]
    renamed = [replace(tool, tool_id=f"elsewhere.{tool.tool_id}", category="Other") for tool in gold[:4]]
    namesakes = [replace(tool, description="does something else") for tool in gold[4:]]
    write_card(tmp_path, card([], [*renamed, *namesakes]))
    assert f"was trained on 4 of the {len(gold)} tools" in leaks([str(tmp_path)], starter, rows)[SEEN]


def test_a_name_alone_does_not_make_two_tools_the_same() -> None:
    bare = Tool("a", "search", "", "Books", "Library")
    assert tool_digest(bare) != tool_digest(replace(bare, parent="Shop"))
    assert tool_digest(bare) == tool_digest(replace(bare, tool_id="b"))
    assert tool_digest(Tool("a", "one", "two three")) != tool_digest(Tool("a", "one two", "three"))


def test_queries_without_gold_are_no_leak(tmp_path: Path, starter: Dataset) -> None:
    rows = np.array([row for row in starter.rows("test") if not starter.gold.counts[row]])
    write_card(tmp_path, card([starter.queries[row].text for row in rows], []))
    assert leaks([str(tmp_path)], starter, rows) == {}


def test_models_that_bench_did_not_train_are_not_marked(tmp_path: Path, starter: Dataset) -> None:
    assert leaks(["minilm", "owner/model", str(tmp_path)], starter, starter.rows("test")) == {}


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"kind": "retriever"}'])
def test_a_card_that_cannot_be_read_is_told(tmp_path: Path, starter: Dataset, damage: str) -> None:
    (tmp_path / CARD).write_text(damage)
    with pytest.raises(DataError, match=r"the training card .* (is|does) not .*; train the model again\.$"):
        leaks([str(tmp_path)], starter, starter.rows("test"))


def test_a_card_reads_back(tmp_path: Path) -> None:
    written = card(["a"], [Tool("b", "b", "b")])
    write_card(tmp_path, written)
    assert read_card(tmp_path) == written
    assert "a" not in json.loads((tmp_path / CARD).read_text())["queries"]


def test_marks_stand_on_the_row_and_in_the_notes(tmp_path: Path) -> None:
    from bench.base.spec import Spec
    from bench.comparison.rows import marks, usual
    from bench.evaluation.plan import Plan
    from bench.evaluation.runner import Runner
    from bench.interface import Context, Library, Method, Queries, Ranking
    from bench.registry import build_method
    from bench.results.store import StoredResult

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
    assert isinstance(result, StoredResult)
    assert isinstance(plain, StoredResult)
    # It gives every query the same answer.
    assert [(mark.kind, mark.text) for mark in result.manifest.marks] == [("method", "rules"), ("method", ALL_ALIKE)]
    assert "rules: uses rules instead of a language model" in result.manifest.notes
    assert [mark.text for mark in marks(result, usual([result]))] == ["rules", ALL_ALIKE, "synthetic queries"]
    assert plain.manifest.method.marks == []


def test_near_copies_of_queries_and_tools_are_counted_beside_exact_ones(tmp_path: Path, starter: Dataset) -> None:
    rows = starter.rows("test")
    judged = [starter.queries[row] for row in rows if starter.gold.counts[row]]
    long = sorted(judged, key=lambda query: -len(query.text.split()))[:3]
    gold = [starter.tools[tool] for tool in np.unique(starter.gold.take(rows).tools)]
    described = sorted(gold, key=lambda tool: -len(tool.description.split()))[0]
    past = [
        replace(query, query_id=f"past-{query.query_id}", text=f"Please: {query.text}", gold={}) for query in long[:2]
    ]
    tool = replace(described, tool_id="copy", description=f"{described.description} Now.")
    other = Dataset.build("past", starter.card, Tables([*starter.tools, tool], past))
    write_card(
        tmp_path,
        card([past[0].text, past[1].text, long[2].text], [tool]).model_copy(
            update={"dataset": "past", "before": ["gone"]}
        ),
    )

    def load(spec: str) -> Dataset:
        if spec == "past":
            return other
        raise UnavailableError(f"there is no {spec}.")

    result = training_leaks([str(tmp_path)], starter, rows, load)
    name = f"the retriever {tmp_path.name} (trained on gone, then past)"
    unknown = result[UNKNOWN]
    assert {mark: why for mark, why in result.items() if mark != UNKNOWN} == {
        LEAKED: f"{name} was trained on 1 of these {len(judged)} queries",
        NEAR: f"{name} was trained on near copies of 2 of these {len(judged)} queries",
        SEEN: f"{name} was trained on near copies of 1 of the {len(gold)} tools that are gold here",
    }
    # The third query's text is in no dataset that is here.
    assert unknown == (
        f"{name} was trained on 1 texts that no dataset here has: gone is not on this machine; near copies of them "
        "were not looked for"
    )


@pytest.mark.parametrize(
    ("declared", "marked"),
    [
        ("datasets:\n- ms_marco\n- someone/Starter", "someone/Starter"),
        ("datasets: starter", "starter"),
        ("datasets:\n- ms_marco", ""),
        ("datasets: [1, {a: b}, null]", ""),
        ("license: mit", ""),
        ("datasets: [", ""),
        ("a: &a [x]\nb: &b [*a, *a]\ndatasets: *b", ""),
    ],
)
def test_a_model_card_that_names_the_dataset_is_a_mark(
    tmp_path: Path, starter: Dataset, declared: str, marked: str
) -> None:
    (tmp_path / "README.md").write_text(f"---\n{declared}\n---\n\n# A model\n")
    result = leaks([str(tmp_path)], starter, starter.rows("test"))
    why = (
        f"the card of the model {tmp_path.name} names {marked} among its training sets, and does not say whether the "
        "evaluated queries were part of it"
    )
    assert result == ({DECLARED: why} if marked else {})


@pytest.mark.parametrize("content", [b"", b"no front matter", b"---\n\xff\xfe\n---\n", b"---\n" + b"a: b\n" * 300_000])
def test_a_model_card_that_cannot_be_read_says_nothing(tmp_path: Path, starter: Dataset, content: bytes) -> None:
    (tmp_path / "README.md").write_bytes(content)
    assert leaks([str(tmp_path)], starter, starter.rows("test")) == {}


def test_a_model_of_the_hub_is_looked_up_in_its_cache(
    tmp_path: Path, starter: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot = tmp_path / "models--owner--model" / "snapshots" / "1"
    snapshot.mkdir(parents=True)
    (tmp_path / "models--owner--model" / "refs").mkdir()
    (tmp_path / "models--owner--model" / "refs" / "main").write_text("1")
    (snapshot / "config.json").write_text("{}")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.file_download.HF_HUB_CACHE", str(tmp_path), raising=False)
    with config_context(replace(current_session(), offline=True)):
        assert declared_training_sets("owner/model") == ()
        (snapshot / "README.md").write_text("---\ndatasets:\n- starter\n---\n")
        assert declared_training_sets("owner/model") == ("starter",)
        assert declared_training_sets("owner/other") == ()
        assert declared_training_sets("no name of a model: ../..") == ()


def test_the_embedded_encoder_declares_its_training_sets() -> None:
    result = declared_training_sets("minilm")
    assert "ms_marco" in result
    assert len(result) > 20


def test_a_look_at_training_data_fetches_nothing(tmp_path: Path, starter: Dataset) -> None:
    write_card(tmp_path, card(["something else"], []))
    offline = []

    def load(spec: str) -> Dataset:
        offline.append(current_session().offline)
        return starter

    with config_context(offline=False):
        training_leaks([str(tmp_path)], starter, starter.rows("test"), load)
        assert not current_session().offline
    assert offline == [True]


@pytest.mark.parametrize(
    ("model", "source", "marked"),
    [
        ("mangopy/ToolRet-trained-e5-base-v2", "toolret", "ToolRet"),
        ("MANGOPY/toolret-trained-bge-large-en-v1.5", "toolret", "ToolRet"),
        ("ToolBench/ToolBench_IR_bert_based_uncased", "toolbench", "ToolBench"),
        ("Tool-COLT/contriever-base-msmarco-v1-ToolLens", "toollens", "ToolLens"),
        ("ThakiCloud/SKILLRET-Embedding-0.6B", "skillret", "ThakiCloud/SKILLRET"),
        ("ToolBench/ToolBench_IR_bert_based_uncased", "toollens", ""),
        ("somebody/ToolRet-trained-e5-base-v2", "toolret", ""),
        ("sentence-transformers/all-MiniLM-L6-v2", "toolret", ""),
    ],
)
def test_a_model_of_the_registry_is_marked_on_its_training_sets(
    starter: Dataset, model: str, source: str, marked: str
) -> None:
    card = starter.card.model_copy(update={"id": f"{source}-part", "source": source, "aliases": [], "upstream": []})
    other = Dataset.build(f"{source}-part", card, starter.rows_again())
    marks = leaks([model], other, other.rows("test"))
    assert list(marks) == ([DECLARED] if marked else [])
    if marked:
        assert f"the model {model.rpartition('/')[2]} was trained on {marked} by " in marks[DECLARED]


def test_a_folder_is_known_to_the_registry_by_its_name(tmp_path: Path) -> None:
    folder = tmp_path / "ToolRet-trained-e5-base-v2"
    folder.mkdir()
    (entry,) = registered_training_sets(str(folder))
    assert "ToolRet" in entry.datasets
    assert registered_training_sets(str(tmp_path / "nothing-there-ToolRet-trained-x")) == ()


def test_every_entry_of_the_registry_says_where_it_is_from() -> None:
    for entry in registry():
        assert entry.models
        assert entry.datasets
        assert "https://" in entry.source or entry.source.startswith("mteb, mteb/models/")
    patterns = [pattern for entry in registry() for pattern in entry.models]
    assert len(set(patterns)) == len(patterns)
