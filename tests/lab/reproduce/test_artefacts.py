"""The registry of trained models: commands, order, what is there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from bench.base.errors import DataError
from bench.base.parameters import check_parameters
from bench.base.spec import Spec, parse
from bench.lab.reproduce.artefacts import (
    adding_command,
    artefact,
    artefacts,
    command,
    commands_for,
    folder_of,
    is_there,
    names_in,
    read_artefacts,
    resolve_references,
    with_needed,
)
from bench.lab.reproduce.recipes import RecipeQuestion
from bench.lab.training.train import trainer_class
from bench.models.trainingcard import CARD, TrainingCard, read_card, write_card


def test_the_command_of_an_artefact_names_what_it_is_made_from() -> None:
    words = command("unseen-reranker")
    assert words[:4] == ["train", "reranker", "--dataset", "toollens-unseen"]
    assert words[words.index("--out") + 1] == str(folder_of("unseen-reranker"))
    assert f"retriever={folder_of('unseen-retriever')}" in words


def test_a_reference_in_a_spec_becomes_its_folder_whatever_the_folder_is_called(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BENCH_DATA", str(tmp_path / "a folder, with (odd) signs"))
    spec = parse(resolve_references("dense(encoder=$toollens-retriever)"))
    assert dict(spec.arguments)["encoder"] == str(folder_of("toollens-retriever"))
    spec = parse(resolve_references("query-generation(llm=local:$domains-generator, queries=3)"))
    assert dict(spec.arguments) == {"llm": f"local:{folder_of('domains-generator')}", "queries": 3}
    assert names_in("tgr(base=dense(encoder=$toollens-retriever), discriminator=$dependency-discriminator)") == [
        "toollens-retriever",
        "dependency-discriminator",
    ]


def test_what_an_artefact_is_made_from_is_made_before_it() -> None:
    assert with_needed(["unseen-reranker"]) == ["unseen-retriever", "unseen-reranker"]
    assert with_needed(["unseen-classifier"]) == ["unseen-classifier"]
    assert with_needed(list(artefacts())) == list(artefacts())


def test_an_artefact_is_there_once_it_has_its_card() -> None:
    folder = folder_of("toollens-retriever")
    assert not is_there("toollens-retriever")
    folder.mkdir(parents=True)
    assert not is_there("toollens-retriever")
    (folder / CARD).write_text(json.dumps({"kind": "retriever"}))
    with pytest.raises(DataError, match="train the model again"):
        is_there("toollens-retriever")


def _made(name: str, **changes: object) -> None:
    """Put a card into an artefact's folder, as `bench train` would have, but for these changes."""
    wanted = artefact(name)
    settings = check_parameters(
        trainer_class(wanted.kind).Parameters, Spec(wanted.kind, tuple(wanted.settings.items())), "training"
    )
    card = TrainingCard(
        kind=wanted.kind,
        base=wanted.base or trainer_class(wanted.kind).default_base,
        base_revision="",
        dataset=wanted.dataset,
        content_hash="",
        split="train",
        template="description",
        examples=1,
        queries=[],
        tools=[],
        settings=settings.model_dump(mode="json"),
        validation="",
        measure="",
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
    folder_of(name).mkdir(parents=True, exist_ok=True)
    write_card(folder_of(name), card.model_copy(update=changes))


def test_another_model_in_an_artefacts_folder_is_told() -> None:
    name = "unseen-reranker"
    _made(name)
    assert is_there(name)
    settings = read_card(folder_of(name))
    assert settings is not None
    # The location of its source models, and how often it was saved, do not make it another model.
    _made(name, base="/elsewhere", settings={**settings.settings, "retriever": "/elsewhere", "checkpoint_every": 1})
    assert is_there(name)
    # A setting that came later had its default then.
    _made(name, settings={key: value for key, value in settings.settings.items() if key != "distillation"})
    assert is_there(name)
    for changes, sentence in (
        ({"kind": "retriever"}, "it is a retriever and not a reranker"),
        ({"dataset": "toollens"}, "dataset is 'toollens' and not 'toollens-unseen'"),
        ({"settings": {**settings.settings, "learning_rate": 0.1}}, r"learning_rate is 0\.1 and not 0\.0002"),
        ({"settings": {**settings.settings, "seed": 7}}, "seed is 7 and not 0"),
    ):
        _made(name, **changes)
        with pytest.raises(DataError, match=sentence):
            is_there(name)
    _made("toollens-retriever", base="/elsewhere")
    with pytest.raises(DataError, match="base is '/elsewhere' and not 'minilm'"):
        is_there("toollens-retriever")


def test_the_commands_begin_with_what_must_come_first() -> None:
    methods, metrics = ["rerank(reranker=$toolbench-reranker)"], ["recall@5", "recall@11", "tools"]
    assert commands_for(methods, RecipeQuestion(on=("apibank-full", "toolbench")), metrics) == [
        "bench data add apibank-full --from FOLDER",
        "bench data add toolbench-full --from FOLDER",
        "bench reproduce train toolbench-retriever toolbench-reranker",
    ]
    _made("toolbench-retriever")
    assert commands_for(methods, RecipeQuestion(on=("toolbench",)), metrics) == [
        "bench data add toolbench-full --from FOLDER",
        "bench reproduce train toolbench-reranker",
    ]


def test_where_data_and_models_are_here_the_command_is_the_run() -> None:
    question = RecipeQuestion(on=("toolbench-i1-inst", "toolbench-i1-tool"), template="description")
    (line,) = commands_for(["dense(encoder=nobody/has-it)"], question, ["recall@5", "recall@11", "tools"])
    assert line == (
        "bench run --method 'dense(encoder=nobody/has-it)' --dataset toolbench-i1-inst --dataset toolbench-i1-tool "
        "--template description --metric recall@11"
    )


def test_only_a_dataset_that_must_be_brought_is_added() -> None:
    assert adding_command("apibank-full") == "bench data add apibank-full --from FOLDER"
    assert adding_command("starter") is None
    assert adding_command("nothing-of-the-kind") is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[a]\nkind = "toaster"\ndataset = "starter"\nsummary = "x"\n', "kind"),
        ('[a]\nkind = "reranker"\ndataset = "starter"\nsummary = "x"\nbase = "$b"\n', "a is made from b"),
        ("[a\n", "cannot read the artefacts"),
    ],
)
def test_a_damaged_registry_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(DataError, match=sentence):
        read_artefacts(path)
