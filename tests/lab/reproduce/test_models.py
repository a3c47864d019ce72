"""`--model ROLE=MODEL`: another language model in the place of a paper's, which is never called the paper's."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench.base.errors import UsageError
from bench.base.spec import parse
from bench.lab.reproduce.artefacts import resolve_references
from bench.lab.reproduce.cells import PrintedCell, cells
from bench.lab.reproduce.claims import claims
from bench.lab.reproduce.claimtests import with_models
from bench.lab.reproduce.recipes import Recipe, fill_roles, paper_models, read_roles, recipes_of
from bench.lab.reproduce.reproduction import reproduce
from bench.lab.reproduce.runs import MethodRuns

if TYPE_CHECKING:
    from kit.chatserver import ChatServer

Bench = Callable[..., Any]
Written = Callable[[Sequence[PrintedCell], Sequence[dict[str, Any]]], None]
RunsOf = Callable[..., MethodRuns]
ROLES = ["recommender-weak", "recommender-middle", "recommender-strong", "rewriter", "agent"]


def test_every_language_model_of_a_paper_has_a_role() -> None:
    assert sorted(paper_models()) == sorted(ROLES)
    named = {model.name for model in paper_models().values()}
    for cell in cells():
        for recipe in recipes_of(cell):
            value = dict(parse(resolve_references(recipe.method)).arguments).get("llm", "rules")
            assert value in named | {"rules"} or str(value).startswith("local:")


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        (["rewriterr=x"], "did you mean 'rewriter'"),
        (["reader=x"], r"the roles are recommender-weak \(open-mistral-7b\), .*rewriter \(LLaMA-13B\)"),
        (["=x"], "names no role"),
        (["rewriter"], "write rewriter=MODEL"),
        (["rewriter= "], "names no model"),
        (["rewriter=x", "rewriter=y"], "twice"),
    ],
)
def test_a_role_that_does_not_exist_is_answered_with_the_roles(texts: list[str], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as caught:
        read_roles(texts)
    assert "\n" not in str(caught.value)


def test_the_paper_s_own_model_is_no_other_model() -> None:
    assert read_roles(["recommender-strong=gpt-4o", "rewriter=a=b"]) == {"rewriter": "a=b"}


@pytest.mark.parametrize("model", ["some-model", "local:/a b/m.gguf", "x, y)"])
def test_cells_with_another_model_ask_for_a_direction_alone(model: str) -> None:
    given = dict.fromkeys(ROLES, model)
    changed: dict[str, list[Recipe]] = {}
    for cell in cells():
        for recipe in recipes_of(cell, given):
            assert not any(map(recipe.asks, ("gpt-4o", "gpt-3.5-turbo", "open-mistral-7b", "llama-13b")))
            if recipe.role:
                changed.setdefault(f"{cell.table}, {cell.row}, {cell.place}", []).append(recipe)
                if not cell.is_difference:
                    assert recipe.opponent(cell).metric == cell.metric
    # 17 rows of PTR's table 2 and 3 of table 3 on three datasets; zero-shot queries in two tables and two domains; 7
    # rows of ToolRerank's table 4.
    assert len(changed) == 17 * 3 + 3 * 3 + 2 * 2 + 7
    for recipe in (recipe for listed in changed.values() for recipe in listed):
        assert recipe.rival is not None
        assert "other model" in recipe.differences
        assert dict(parse(resolve_references(recipe.method)).arguments)["llm"] == model
        assert "The paper's language model is" in recipe.note


def test_without_a_model_there_is_no_recipe_for_one() -> None:
    assert not [recipe for cell in cells() for recipe in recipes_of(cell) if recipe.role]


def test_a_claim_s_tests_name_models_by_role() -> None:
    assert fill_roles("ptr(llm={rewriter})", {}) == ("ptr(llm=llama-13b)", False)
    assert fill_roles("ptr(llm={rewriter})", {"rewriter": "a b"}) == ('ptr(llm="a b")', True)
    assert fill_roles("dense", {"rewriter": "x"}) == ("dense", False)
    claim = next(claim for claim in claims() if claim.id == "stronger-models-recommend-better")
    plain, other = with_models(claim, {}), with_models(claim, {"recommender-strong": "mine"})
    assert "llm=gpt-4o" in plain.tests[0].better
    assert "llm=mine" in other.tests[0].better
    assert "other model" in other.tests[0].differences


def test_an_unknown_role_is_a_usage_error_of_the_command(bench: Bench) -> None:
    said = bench("reproduce", "ptr-3", "--model", "strong=x", code=2).err
    assert "the roles are recommender-weak" in said
    assert "Traceback" not in said


def test_list_and_train_take_no_model(bench: Bench) -> None:
    for word in ("list", "train"):
        assert f"bench reproduce {word}" in bench("reproduce", word, "--model", "rewriter=x", code=2).err


def test_a_cell_with_a_model_of_the_user_s_is_never_reproduced(
    written: Written, runs: RunsOf, chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The recipe of the paper's model, which would be tried first, is left out; the other one names the model."""
    monkeypatch.setenv("BENCH_LLM_URL", chat_server.url)
    monkeypatch.setenv("BENCH_LLM_JOURNAL", str(tmp_path / "journal.jsonl"))
    chat_server.answer = lambda body: "[2] > [1]"
    cells = [
        PrintedCell("tgr-2", row, "D", "", "recall@1", printed, "share")
        for row, printed in (("A", "0.9"), ("B", "0.5"))
    ]
    more = {"role": "recommender-strong", "against": "B", "rival": "half", "differences": ["other model"]}
    note = "The paper's language model is {paper}; here it is {given}."
    recipes: list[dict[str, Any]] = [
        {"rows": ["A"], "on": ["tiny"], "method": "rankgpt(base=random, llm=gpt-4o)"},
        {"rows": ["A"], "on": ["tiny"], "method": "rankgpt(base=random, llm={given})", "note": note, **more},
        {"rows": ["B"], "on": ["tiny"], "method": "half"},
    ]
    written(cells, recipes)
    ours = runs("recall@1")
    ours.models = {"recommender-strong": "mine"}
    report = reproduce(["tgr-2"], (), ours, "bench reproduce tgr-2")
    assert [cell.verdict for cell in report.cells] == ["direction only", "not decided"]
    block = report.blocks[report.cells[0].block]
    assert block.measurement is not None
    assert block.measurement.method == "rankgpt(base=random, llm=mine)"
    assert block.note == "The paper's language model is GPT-4o; here it is mine."
    assert block.lacking == []
    assert {body["model"] for body in chat_server.requests} == {"mine"}


def test_the_command_asks_the_endpoint_and_fetches_no_encoder(
    bench: Bench, written: Written, chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BENCH_LLM_URL", chat_server.url)
    monkeypatch.setenv("BENCH_LLM_JOURNAL", str(tmp_path / "journal.jsonl"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    hub: set[str | None] = set()

    def answer(body: dict[str, Any]) -> str:
        hub.add(os.environ.get("HF_HUB_OFFLINE"))
        return "[2] > [1]"

    chat_server.answer = answer
    more = {"role": "recommender-strong", "against": "B", "rival": "random", "differences": ["other model"]}
    cells = [
        PrintedCell("tgr-2", row, "D", "", "recall@1", printed, "share")
        for row, printed in (("A", "0.9"), ("B", "0.5"))
    ]
    method = "rankgpt(base=random, llm={given}, depth=2)"
    written(cells, [{"rows": ["A"], "on": ["starter"], "method": method, **more}])
    made = bench("reproduce", "tgr-2", "--model", "recommender-strong=mine", "--json")
    report = made.json
    assert report["environment"]["command"] == "bench reproduce tgr-2 --model recommender-strong=mine"
    assert [cell["verdict"] for cell in report["cells"]] == ["direction only", "not run"]
    assert report["estimate"]["to_run"] == 2
    assert "to run: 2 results (2 methods, 1 dataset)" in made.err
    assert {body["model"] for body in chat_server.requests} == {"mine"}
    assert hub == {"1"}
    assert "HF_HUB_OFFLINE" not in os.environ
