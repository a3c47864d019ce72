"""`bench choose` whole, against a scripted endpoint: calibration, arms, what became of each query, replay."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from kit.chatserver import ChatServer, by_words, message, status, usage

from bench.__main__ import run
from bench.base.errors import ResultError
from bench.choices.outcomes import FAULTS, MEANINGS, read_replies
from bench.choices.runs import LONGEST_DESCRIPTION
from bench.lookup.finding import find_result
from bench.methods.choose import _LONGEST_DESCRIPTION, Fault
from bench.registry import load_dataset
from bench.results.store import NOTES, StoredResult, find_results


@pytest.fixture
def choose(tmp_path: Path, chat_server: ChatServer, capsys: pytest.CaptureFixture[str]) -> Any:
    """Runs `bench choose` over bm25 on the first queries of starter; gives the exit code, the output and the JSON."""
    results = tmp_path / "results"
    assert run(["run", "-m", "bm25", "-d", "starter", "--limit", "40", "--results", str(results), "-q"]) == 0
    capsys.readouterr()

    def choose(*more: str) -> tuple[int, str, Any]:
        words = ["choose", "bm25@starter", "--model", "scripted", "--results", str(results), *more]
        code = run(words)
        out, err = capsys.readouterr()
        return code, out + err, json.loads(out) if "--json" in more and code == 0 else None

    return choose


def test_choices_are_results_of_their_own(choose: Any, chat_server: ChatServer, tmp_path: Path) -> None:
    chat_server.calls, chat_server.answer = by_words, (lambda body: "no tool fits")
    code, told, _ = choose("--shown", "1,5")
    assert code == 0
    assert "fit to judge" in told
    assert re.search(r"at most \d+ calls, with about [\d,]+ tokens of tools", told)
    asked = len(chat_server.requests)
    code, _, report = choose("--shown", "1,5", "--json", "-q")
    assert code == 0
    assert len(chat_server.requests) == asked
    test = report["calibration"]["starter"]["random"]
    # A picker that reads words finds the gold among random tools more often than chance.
    assert test["faults"] == []
    assert test["above_chance"] > test["low"] > 0
    assert report["calibration"]["starter"]["hard"]["same"] == 1.0
    assert [(row["arm"], row["shown"]) for row in report["choices"]] == [("retrieved", 1), ("retrieved", 5)]
    for row in report["choices"]:
        assert list(row["outcomes"]) == list(MEANINGS)
        assert sum(row["outcomes"].values()) == 40
        folder = Path(row["folder"])
        assert row["outcomes"]["right"] == round(40 * share_right(folder))
        # One notion of a right choice: that of the metric.
        result = StoredResult.read(folder)
        assert read_replies(result).summary.accuracy == result.metrics.metrics["choice"]
    # By hand: with one tool shown, the gold set of a query with one gold tool is chosen where bm25 ranks it first and
    # the script calls it.
    assert 0 < report["choices"][0]["outcomes"]["not retrieved"] < 40


def share_right(folder: Path) -> float:
    return read_replies(StoredResult.read(folder)).summary.accuracy.mean


def test_comparisons_name_what_was_shown_and_to_whom(
    choose: Any, chat_server: ChatServer, tmp_path: Path, capsys: Any
) -> None:
    chat_server.calls = by_words
    _, _, report = choose("--shown", "1,5", "--json", "-q")
    ids = [row["manifest"]["result_id"] for row in report["choices"]]
    assert run(["compare", *ids, "-m", "set_pass", "--results", str(tmp_path / "results"), "--json"]) == 0
    told = capsys.readouterr().out
    assert '"bm25, 1 shown, scripted"' in told
    assert '"bm25, 5 shown, scripted"' in told


def test_every_arm(choose: Any, chat_server: ChatServer) -> None:
    chat_server.calls, chat_server.answer = by_words, (lambda body: "no tool fits")
    arms = ["retrieved", "gold", "library", "sample", "with-gold", "without-gold"]
    code, told, report = choose("--json", "-q", *(word for arm in arms for word in ("--arm", arm)))
    assert code == 0, told
    by_arm = {row["arm"]: row["outcomes"] for row in report["choices"]}
    assert list(by_arm) == arms
    assert by_arm["gold"]["not retrieved"] == by_arm["library"]["not retrieved"] == 0
    (library,) = (row for row in report["choices"] if row["arm"] == "library")
    notes = read_replies(StoredResult.read(Path(library["folder"]))).notes
    assert {len(note.shown) for note in notes if note is not None} == {len(load_dataset("starter").tools)}
    # A query with more gold tools than are shown.
    assert by_arm["sample"]["not retrieved"] == by_arm["with-gold"]["not retrieved"] <= 1
    # Random tools mislead less often than the first ones of a ranking.
    assert by_arm["sample"]["right"] > by_arm["with-gold"]["right"]
    assert by_arm["with-gold"]["not retrieved"] <= 1 < by_arm["retrieved"]["not retrieved"]
    # Nothing that is shown is right: it is right to call none.
    assert by_arm["without-gold"]["right"] + by_arm["without-gold"]["called without need"] == 40
    assert by_arm["without-gold"]["called without need"] > 0


def test_a_picker_that_always_takes_the_first_is_unfit(choose: Any, chat_server: ChatServer) -> None:
    chat_server.calls = lambda body: [(body["tools"][0]["function"]["name"], "{}")]
    code, told, report = choose("--json", "-q")
    assert code == 0, told
    test = report["calibration"]["starter"]["random"]
    assert "it does not find the gold more often than chance" in " ".join(test["faults"])
    # Its choices measure the model, so they say nothing of metrics.
    code, told, _ = choose("--shown", "1,3,5")
    assert "NOT fit to judge" in told
    assert "recall@k" not in told


def test_a_model_that_always_refuses_is_unfit(choose: Any, chat_server: ChatServer) -> None:
    chat_server.fault = message(refusal="no")
    code, told, report = choose("--json", "-q")
    assert code == 0, told
    test = report["calibration"]["starter"]["random"]
    assert (test["n"], test["faults"]) == (0, ["too few query groups to decide"])
    (row,) = report["choices"]
    assert (row["outcomes"]["filtered"], row["faults"]["filtered"], row["estimated_replies"]) == (40, 40, 0)
    # What was withheld was made, and is paid for.
    assert row["mean_tokens"]["input"] > 50
    assert row["mean_tokens"]["output"] >= 1
    assert re.search(r" filtered .*\n.*\n bm25 +5 +0 +0 +0 +0 +0 +40 ", choose("-q")[1])


HALF = '''
import numpy as np

from bench import Method
from bench.interface.ranking import Ranking


class Half(Method):
    """Finds nothing for every third request, and fails for the next one."""

    def index(self, library):
        self.first = list(range(min(5, len(library))))

    def rank(self, queries, depth):
        kinds = [len(text) % 3 for text in queries.texts]
        rows = [self.first[:depth] if kind == 2 else [] for kind in kinds]
        return Ranking.of_lists(rows, [kind == 1 for kind in kinds])
'''


def test_where_the_search_found_nothing_or_failed_nobody_is_asked(
    chat_server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "half.py").write_text(HALF)
    monkeypatch.syspath_prepend(str(tmp_path))
    chat_server.calls, chat_server.answer = by_words, (lambda body: "no tool fits")
    options = ["--results", str(tmp_path / "results"), "-q"]
    assert run(["run", "-m", "half:Half", "-d", "starter", "--limit", "40", *options]) == 0
    capsys.readouterr()
    assert run(["choose", "half:Half@starter", "--model", "scripted", "--json", *options]) == 0
    (row,) = json.loads(capsys.readouterr().out)["choices"]
    dataset = load_dataset("starter")
    ids = StoredResult.read(Path(row["folder"])).per_query["query_id"].to_pylist()
    queries = [dataset.queries[dataset.query_codes[name]] for name in ids]
    kinds = [len(query.text) % 3 for query in queries]
    assert min(map(kinds.count, range(3))) > 5
    outcomes = read_replies(StoredResult.read(Path(row["folder"]))).outcomes
    for query, kind, outcome in zip(queries, kinds, outcomes, strict=True):
        if kind == 1:
            assert outcome == "failed"
        elif kind == 0:
            # To call none is right where no tool is wanted.
            assert outcome == ("not retrieved" if query.gold else "right")
    assert row["outcomes"]["right"] == round(40 * row["metrics"]["metrics"]["choice"]["mean"])
    shown = [sorted(tool["function"]["name"] for tool in body["tools"]) for body in chat_server.requests]
    assert shown.count(shown[-1]) == kinds.count(2)


def test_tokens_that_the_endpoint_does_not_count_are_told_to_be_estimated(
    choose: Any, chat_server: ChatServer, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_LLM_PRICE", "1/2")
    chat_server.fault = usage(None)
    code, told, report = choose("--json", "-q", "--limit", "12")
    assert code == 0, told
    (row,) = report["choices"]
    assert (row["estimated_replies"], row["mean_tokens"]["output"]) == (12, 1024)
    told = choose("-q", "--limit", "12")[1]
    assert "~ estimated: the endpoint counted no tokens in so many replies" in told
    assert re.search(r" bm25 +5 +~[\d,]+ +0 +~1,024 +12 .* +~0\.\d+ ", told)
    assert run(["show", row["manifest"]["result_id"], "--results", str(tmp_path / "results")]) == 0
    assert "tokens estimated: the endpoint counted no tokens in 12 of 12 replies" in capsys.readouterr().out


def test_who_takes_no_tools_is_told_of_other_forms(choose: Any, chat_server: ChatServer) -> None:
    chat_server.fault = status(400, "this model does not support tools")
    code, told, _ = choose("-q")
    assert code == 2
    assert "--form json" in told


@pytest.mark.parametrize("tools", [1, 3])
def test_a_library_is_not_larger_than_it_is(tools: int, bench: Any, chat_server: ChatServer) -> None:
    chat_server.calls = by_words
    names = ["find_customer", "send_letter", "find_way"][:tools]
    Path("tools.json").write_text(json.dumps([{"name": name, "description": f"To {name}."} for name in names]))
    Path("queries.jsonl").write_text("".join(json.dumps({"query": f"{n}, please", "tools": [n]}) + "\n" for n in names))
    bench("data", "import", "small", "tools.json", "--queries", "queries.jsonl")
    bench("run", "-q", "-m", "bm25", "-d", "small")
    words = [
        "choose",
        "bm25@small",
        "--model",
        "scripted",
        "--shown",
        "1,5,9",
        "--arm",
        "retrieved",
        "--arm",
        "library",
    ]
    assert [row["shown"] for row in bench(*words, "--json").json["choices"]] == [*dict.fromkeys([1, tools]), 0]
    assert f"k is {tools}: small has no more tools." in bench(*words).out


@pytest.mark.parametrize(
    ("calls", "answer", "outcome"),
    [
        ([("no_such_tool", "{}")], "", "unknown name"),
        ([], '{"name": "%s", "arguments": {}}', "unreadable"),
    ],
)
def test_nonsense_is_no_abstention(
    calls: list[tuple[str, str]], answer: str, outcome: str, choose: Any, chat_server: ChatServer
) -> None:
    chat_server.calls = lambda body: calls
    chat_server.answer = lambda body: answer.replace("%s", body["tools"][0]["function"]["name"])
    code, told, report = choose("--json", "-q", "--arm", "retrieved", "--arm", "without-gold")
    assert code == 0, told
    for row in report["choices"]:
        # Of 40 queries, some without gold: to call none would be right for these, and for all where the gold is left
        # out.
        assert row["outcomes"][outcome] == 40
        metrics = StoredResult.read(Path(row["folder"])).metrics
        assert metrics.metrics["choice"].mean == 0
        assert metrics.n_failed == metrics.n
    test = report["calibration"]["starter"]["random"]
    assert test["n"] > 30
    assert (test["hit"], test["faults"]) == (0, ["it does not find the gold more often than chance"])


def test_faults_beside_the_right_tools_are_told(choose: Any, chat_server: ChatServer) -> None:
    chat_server.calls = lambda body: [*by_words(body), ("no_such_tool", "{}"), ("no_such_tool", "{}")]
    code, told, report = choose("--json", "-q")
    assert code == 0, told
    (row,) = report["choices"]
    # The script calls without the arguments that most tools require.
    assert row["faults"] == {**dict.fromkeys(FAULTS, 0), "unknown name": 40, "arguments": row["faults"]["arguments"]}
    assert 0 < row["faults"]["arguments"] <= 40
    assert row["outcomes"]["unknown name"] < 40
    assert row["outcomes"]["right"] > 0
    counts = [row["outcomes"][name] for name in ("right", "not retrieved")]
    assert re.search(rf"bm25 +5 +{counts[0]} +{counts[1]} .* 40 +{row['faults']['arguments']} ", choose("-q")[1])


def test_the_faults_are_those_of_the_method() -> None:
    assert set(FAULTS) == set(get_args(Fault))


def test_a_replay_makes_the_same_bytes(
    choose: Any, chat_server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat_server.calls = by_words
    assert choose("-q")[0] == 0
    results = tmp_path / "results"

    def files() -> dict[str, bytes]:
        found = [item for item in find_results(results) if isinstance(item, StoredResult)]
        return {
            f"{item.folder.name}/{name}": (item.folder / name).read_bytes()
            for item in found
            if item.manifest.method.full_spec.startswith("choose")
            for name in (NOTES, "run.parquet", "per_query.parquet")
        }

    first = files()
    assert len(first) == 5 * 3
    damaged = next(results.glob("*/choose-*/notes.parquet"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    with pytest.raises(ResultError, match=r"notes\.parquet is truncated or changed"):
        StoredResult.read(damaged.parent).verify()
    for item in list(results.glob("*/choose-*/manifest.json")):
        item.unlink()
    chat_server.close()
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    code, told, _ = choose("-q")
    assert code == 0, told
    assert files() == first


def test_what_it_costs_is_told_by_prices_that_are_named(
    choose: Any, chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat_server.calls = by_words
    _, _, report = choose("--json", "-q", "--limit", "8")
    (row,) = report["choices"]
    assert (report["prices"], row["cost_of_100"], row["break_even"]) == (None, None, None)
    _, _, report = choose("--json", "-q", "--limit", "8", "--price", "claude-sonnet-5-5")
    assert report["prices"]["date"] == "2026-10-24"
    (row,) = report["choices"]
    tokens = read_replies(StoredResult.read(Path(row["folder"]))).summary.tokens
    # The script has read nothing from a cache.
    assert row["cost_of_100"] == pytest.approx(100 * (tokens[0] * 2 + tokens[2] * 10) / 1e6)
    assert row["break_even"]["hit_share"] == 0.9
    # 5 tools at 2; a cached one costs 0.9 x 0.10 + 0.1 x 2.50 = 0.34: some 29 tools of the same size.
    assert 20 < row["break_even"]["search_cheaper_from_tools"] < 45
    # What the user says of prices counts before the table.
    monkeypatch.setenv("BENCH_LLM_PRICE", "4/20")
    code, told, _ = choose("-q", "--limit", "8")
    assert code == 0
    assert "Costs of 100 requests in BENCH_LLM_PRICE." in told
    assert "a prompt that 90% of the requests find in the cache" in told
    assert re.search(r"\d tools ", told)
    code, told, _ = choose("-q", "--limit", "8", "--price", "no-such-model")
    assert code == 2
    assert "the table of prices has no model no-such-model" in told


@pytest.mark.parametrize("form", ["calls", "json", "names"])
def test_both_sides_of_the_break_even_are_in_the_tokens_of_the_endpoint(
    form: str, choose: Any, chat_server: ChatServer
) -> None:
    chat_server.calls = by_words if form == "calls" else (lambda body: [])
    chat_server.answer = lambda body: '{"tools": []}'
    more = ["--form", form, "--arm", "library", "--arm", "retrieved", "--limit", "20", "--price", "claude-sonnet-5-5"]
    _, _, report = choose("--json", "-q", *more)
    library, search = report["choices"]
    (measured, _, _), (given, _, made) = (row["mean_tokens"].values() for row in (library, search))
    # The prompt of the search at 2 for a million, the reply at 10, as the endpoint counts them.
    told = search["break_even"]
    assert told["search_cost_of_100"] == pytest.approx(100 * (2 * given + 10 * made) / 1e6)
    # The whole library was shown, too: what its prompt has more than that of the search, at 0.34 for a million.
    rest = given - (measured - given) / (len(load_dataset("starter").tools) - 5) * 5
    expected = 100 * (0.34 * (measured - rest) + 2 * rest + 10 * made) / 1e6
    assert told["library_cost_of_100"] == pytest.approx(expected, rel=0.1)


def test_the_cut_of_descriptions_is_that_of_the_prompt() -> None:
    assert LONGEST_DESCRIPTION == _LONGEST_DESCRIPTION


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--shown", "0"], "list of numbers from 1 to 100"),
        (["--shown", "a,b"], "list of numbers from 1 to 100"),
        (["--budget", "3"], "BENCH_LLM_PRICE"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(more: list[str], said: str, choose: Any, chat_server: ChatServer) -> None:
    code, told, _ = choose(*more)
    assert code == 2
    assert said in told
    assert "Traceback" not in told
    assert chat_server.requests == []


def test_a_choice_is_no_source_of_choices(choose: Any, chat_server: ChatServer, tmp_path: Path, capsys: Any) -> None:
    chat_server.calls = by_words
    _, _, report = choose("--json", "-q")
    identifier = report["choices"][0]["manifest"]["result_id"]
    results = tmp_path / "results"
    assert run(["choose", identifier, "--model", "scripted", "--results", str(results)]) == 2
    assert "is a choice itself" in capsys.readouterr().err
    with pytest.raises(Exception, match="is not a choice"):
        read_replies(find_result(results, "bm25@starter"))
