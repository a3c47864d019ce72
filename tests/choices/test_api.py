"""`bench.choose`: the same as `bench choose`, as an object."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from kit.chatserver import Body, ChatServer

import bench
from bench.base.errors import UnavailableError, UsageError


def first_shown(body: Body) -> list[tuple[str, str]]:
    return [(body["tools"][0]["function"]["name"], "{}")]


def test_choices_are_results_with_what_became_of_each(tmp_path: Path, chat_server: ChatServer) -> None:
    chat_server.calls = first_shown
    ranked = bench.run("bm25", "starter", limit=12, results=tmp_path)
    made = bench.choose(ranked, "scripted", shown=[1, 3], results=tmp_path)
    assert repr(made) == "<Choices of 2 rankings on starter>"
    assert "12" in str(made)
    # Who calls whatever stands first does not find the gold more often than chance, and order decides all.
    calibration = made.calibration["starter"]
    assert calibration.faults
    assert calibration.same_reordered is not None
    assert calibration.same_reordered < 0.9
    table = made.table
    assert table[["method", "shown", "queries"]].values.tolist() == [["bm25", 1, 12], ["bm25", 3, 12]]
    assert [result.n for result in made.results] == [ranked.n, ranked.n]
    assert table["right"].tolist() == [round(12 * share) for share in table["accuracy"]]
    asked = len(chat_server.requests)
    again = bench.choose(["bm25@starter"], "scripted", shown=3, results=tmp_path)
    assert len(chat_server.requests) == asked
    assert json.loads(json.dumps(again.to_dict()))["choices"][0]["arm"] == "retrieved"


def test_a_budget_holds_without_the_environment(
    tmp_path: Path, chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_LLM_PRICE", "1/1")
    chat_server.calls = first_shown
    ranked = bench.run("bm25", "starter", limit=3, results=tmp_path)
    with pytest.raises(UnavailableError, match="next call may cost up to"):
        bench.choose(ranked, "scripted", shown=1, budget=1e-6, results=tmp_path)
    assert not chat_server.requests


def test_what_no_choice_can_be_is_said(tmp_path: Path) -> None:
    ranked = bench.run("bm25", "starter", limit=3, results=tmp_path)
    with pytest.raises(UsageError, match="form is 'call'"):
        bench.choose(ranked, "scripted", form="call", results=tmp_path)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="arm is 'all'"):
        bench.choose(ranked, "scripted", arms=["all"], results=tmp_path)  # type: ignore[list-item]
    with pytest.raises(UsageError, match="shown is 0"):
        bench.choose(ranked, "scripted", shown=0, results=tmp_path)
