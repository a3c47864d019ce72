"""Scoring: every form of a run gives the numbers that `bench score` gives for a file of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

import bench
from bench.base.errors import ResultError, UsageError

Run = dict[str, dict[str, float]]


@pytest.fixture
def scores(starter: bench.Dataset) -> Run:
    """Twelve scored tools for each test query but the first, with ties; gold tools are often among them."""
    rng = np.random.default_rng(5)
    by_key: Run = {}
    for row in starter.rows("test")[1:]:
        query = starter.queries[int(row)]
        codes = rng.choice(len(starter.tools), 12, replace=False)
        tools = dict.fromkeys([*query.gold, *(starter.tools[int(code)].tool_id for code in codes)])
        by_key[query.query_id] = {tool: float(rng.integers(0, 9)) / 8 for tool in tools}
    return by_key


def ordered(scores: Run) -> dict[str, list[str]]:
    """By score, then id: the protocol's order."""
    return {
        query: [tool for tool, _ in sorted(tools.items(), key=lambda item: (-item[1], item[0]))]
        for query, tools in scores.items()
    }


def values(result: bench.Result) -> Any:
    """All that a result says of metrics and of queries."""
    return result.stored.metrics.model_dump(exclude={"result_id"}), result.stored.per_query.to_pylist()


@pytest.fixture
def from_the_command(command: Callable[..., Any], scores: Run) -> bench.Result:
    """`bench score` of a TREC file."""
    lines = [
        f"{query} Q0 {tool} 0 {score!r} mine\n" for query, tools in scores.items() for tool, score in tools.items()
    ]
    Path("run.trec").write_text("".join(lines))
    said = command("score", "run.trec", "-d", "starter", "--json")
    return bench.load_result(said.json["folder"])


def test_scores_in_every_form_give_the_numbers_of_the_command(
    from_the_command: bench.Result, scores: Run, starter: bench.Dataset
) -> None:
    rows = [(query, tool, score) for query, tools in scores.items() for tool, score in tools.items()]
    frame = pandas.DataFrame(rows, columns=["query_id", "tool_id", "score"]).sample(frac=1, random_state=3)
    matrix = np.full((len(starter.rows("test")), len(starter.tools)), -np.inf)
    for i, row in enumerate(starter.rows("test")):
        for tool, score in scores.get(starter.queries[int(row)].query_id, {}).items():
            matrix[i, starter.tool_codes[tool]] = score
    assert bench.score("run.trec", "starter").id == from_the_command.id
    expected = values(from_the_command)
    assert expected[0]["n_failed"] == 1
    assert expected[0]["n_tied"] > 10
    for run in (Path("run.trec"), scores, frame, matrix):
        assert values(bench.score(run, starter)) == expected


def test_orders_in_every_form_give_the_same_numbers(
    command: Callable[..., Any], scores: Run, starter: bench.Dataset
) -> None:
    lists = ordered(scores)
    Path("run.jsonl").write_text("".join(json.dumps({"query_id": q, "tools": t}) + "\n" for q, t in lists.items()))
    said = command("score", "run.jsonl", "-d", "starter", "--json")
    expected = values(bench.load_result(said.json["folder"]))
    assert expected[0]["n_tied"] is None
    rows = [(query, tool, place) for query, tools in lists.items() for place, tool in enumerate(tools, start=1)]
    frame = pandas.DataFrame(rows, columns=["query_id", "tool_id", "rank"])
    codes = np.full((len(starter.rows("test")), 40), -1)
    for i, row in enumerate(starter.rows("test")):
        tool_codes = [starter.tool_codes[tool] for tool in lists.get(starter.queries[int(row)].query_id, [])]
        codes[i, : len(tool_codes)] = tool_codes
    shuffled = frame.sample(frac=1, random_state=3)
    for run in (
        "run.jsonl",
        lists,
        {q: tuple(t) for q, t in lists.items()},
        shuffled,
        frame.drop(columns="rank"),
        codes,
    ):
        assert values(bench.score(run, starter)) == expected


def test_the_ranking_of_a_result_can_be_scored_again(starter: bench.Dataset) -> None:
    made = bench.run("bm25", starter)
    again = bench.score(made.ranking, starter, name="again", metrics=["ndcg@7"])
    assert again.method == "again"
    assert again.mean("ndcg@10") == made.mean("ndcg@10")
    assert "ndcg@7" in again.metrics.index


def test_what_was_scored_is_written_down(scores: Run) -> None:
    stored = bench.score(scores, "starter", name="ours").stored.manifest
    assert stored.method.run_file is not None
    assert stored.method.run_file.startswith("ours (in memory) sha256:")
    assert stored.environment.command == "bench.score(run, 'starter', name='ours')"
    other = {**scores, next(iter(scores)): {}}
    assert bench.score(other, "starter", name="ours").id != stored.result_id


def first(starter: bench.Dataset) -> str:
    return starter.queries[int(starter.rows("test")[0])].query_id


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        (3, "a run is a path, a dictionary, a DataFrame or an array, not int"),
        ("nowhere.trec", "cannot read the run file nowhere.trec: No such file or directory."),
        ({}, "is empty."),
        ({"Q": "crm.find"}, "query 'FIRST' has 'crm.find'; write a list of tool ids, or {tool_id: score}."),
        ({"Q": 5}, "query 'FIRST' has 5; write a list of tool ids"),
        ({"Q": [1, 2]}, "the ids of a query and its tools must be strings"),
        ({5: ["a"]}, "the ids of a query and its tools must be strings"),
        ({"Q": {"a": "high"}}, "query 'FIRST': a score is not a number"),
        ({"Q": {"a": float("nan")}}, "query FIRST, tool a: the score nan is not a finite number."),
        ({"Q": ["rolobox.find_contact", "no.such.tool"]}, "there is no tool 'no.such.tool'; it was scored on starter"),
        ({"no-such-query": []}, "starter has no query 'no-such-query'"),
        (pandas.DataFrame({"query": ["a"]}), "the DataFrame has no column 'query_id'; it needs query_id, tool_id"),
        (
            np.zeros((2, 3)),
            "the array has shape (2, 3) and type float64; starter needs a row of numbers for each of its",
        ),
        (np.zeros((3, 2), dtype=object), "type object; starter needs a row of numbers"),
    ],
)
def test_what_is_wrong_with_a_run_is_said_in_a_sentence(run: Any, sentence: str, starter: bench.Dataset) -> None:
    if isinstance(run, dict):
        run = {first(starter) if query == "Q" else query: answer for query, answer in run.items()}
    with pytest.raises((UsageError, ResultError)) as caught:
        bench.score(run, starter)
    assert sentence.replace("FIRST", first(starter)) in str(caught.value)


def test_what_is_wrong_with_an_array_is_said_in_a_sentence(starter: bench.Dataset) -> None:
    queries, tools = len(starter.rows("test")), len(starter.tools)
    with pytest.raises(UsageError, match=f"has scores of 3 tools, and starter has {tools}"):
        bench.score(np.zeros((queries, 3)), starter)
    scores = np.zeros((queries, tools))
    scores[1, 2] = np.nan
    query = starter.queries[int(starter.rows("test")[1])].query_id
    with pytest.raises(ResultError, match=f"a score that is NaN for query {query}"):
        bench.score(scores, starter)
    for wrong in (-2, tools):
        codes = np.zeros((queries, 1), dtype=np.int32)
        codes[0, 0] = wrong
        with pytest.raises(ResultError, match=f"a tool code outside -1 to {tools - 1}"):
            bench.score(codes, starter)


def frame(**columns: list[Any]) -> pandas.DataFrame:
    return pandas.DataFrame({"query_id": ["0001", "0001"], "tool_id": ["a", "b"], **columns})


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        ({"0001": {"a": 10**400}}, "a score is not a number"),
        ({"0001": {"a", "b"}}, "write a list of tool ids"),
        ({"0001": ["\ud800"]}, "is not valid Unicode"),
        (frame(query_id=["0001", None]), "the column query_id of the DataFrame lacks values"),
        (frame(rank=[1, None]), "the column rank of the DataFrame has a value that is not a number"),
        (frame(score=[1, 10**400]), "the column score of the DataFrame has a value that is not a number"),
        (pandas.concat([frame(), frame()], axis=1), "two columns of the same name"),
    ],
)
def test_what_would_be_left_out_or_ranked_by_chance_is_refused(run: Any, sentence: str, starter: bench.Dataset) -> None:
    with pytest.raises(UsageError, match=sentence):
        bench.score(run, starter)


def test_ranks_that_are_text_are_numbers(starter: bench.Dataset) -> None:
    tools = [tool.tool_id for tool in starter.tools[:3]]
    run = pandas.DataFrame({"query_id": "0001", "tool_id": tools, "rank": ["10", "2", "1"]})
    assert bench.score(run, starter).ranking["tool_id"].tolist() == tools[::-1]


def test_a_split_that_there_is_not(starter: bench.Dataset) -> None:
    with pytest.raises(UsageError, match="split is 'tests'; it must be train, dev, test or all"):
        bench.score({}, starter, split="tests")  # type: ignore[arg-type]
