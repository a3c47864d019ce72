"""Building a dataset with a language model: drawing, each check, what is dropped, and going on after a kill."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from kit.chatserver import Body, ChatServer

from bench.__main__ import run
from bench.base.errors import BenchError, DataError, UsageError
from bench.data.card import Card
from bench.data.derive import SplitOptions
from bench.data.tables import Tool
from bench.lab.building.rectools import BuildSettings, Built, build_dataset, known_issues, sample_bundles
from bench.models.llm.client import LanguageModel
from bench.registry import load_dataset

TOOLS = [Tool(f"t{i}", f"tool number {i}", f"does thing {i}") for i in range(8)]
CARD = Card(id="built", title="Made", summary="", licence="none", redistribution=False, template="name_description")
OPTIONS = SplitOptions(split="bundle-disjoint")
SETTINGS = BuildSettings(sizes=(1, 3), bundles=4, requests=2)


def things(prompt: str) -> list[str]:
    """The things that the tools of a prompt do."""
    return re.findall(r"^\d+\. .*: does (thing \d)$", prompt, re.MULTILINE)


class Writer:
    """Writes requests that ask for just what the tools do, and judges by the same words; every reply can be changed."""

    def __init__(self, change: Callable[[str], str | None] | None = None) -> None:
        self.change = change
        self.written = 0

    def __call__(self, body: Body) -> str:
        prompt: str = body["messages"][-1]["content"]
        changed = self.change(prompt) if self.change else None
        if changed is not None:
            return changed
        if "Write one request" in prompt:
            self.written += 1
            return json.dumps({"request": f"Please do {' and '.join(things(prompt))}, for the {self.written}th time"})
        wanted = set(re.findall(r"thing \d", prompt.partition("Tools at hand")[0]))
        given = set(things(prompt))
        return json.dumps({"assessment": "exact" if given == wanted else "over" if given > wanted else "partial"})


def build(settings: BuildSettings = SETTINGS) -> Built:
    return build_dataset(TOOLS, CARD, settings, OPTIONS, LanguageModel("some-model"))[1]


# Drawing ------------------------------------------------------------------------------------------------------------


def test_bundles_are_distinct_of_the_sizes_asked_for_and_the_same_for_ever() -> None:
    ids = [f"t{i}" for i in range(8)]
    result = sample_bundles(ids, BuildSettings(sizes=(1, 2, 7), bundles=8))
    assert [len(bundle) for bundle in result] == [1] * 8 + [2] * 8 + [7] * 8
    assert len(set(result)) == 24
    assert all(list(bundle) == sorted(set(bundle)) for bundle in result)
    assert result == sample_bundles(ids, BuildSettings(sizes=(1, 2, 7), bundles=8))
    # Pinned: a seed draws the same bundles in every version.
    assert sample_bundles(ids, BuildSettings(sizes=(3,), bundles=3)) == PINNED
    assert sample_bundles(ids, BuildSettings(sizes=(3,), bundles=3, seed=1)) != PINNED


PINNED = [(1, 2, 3), (2, 3, 4), (3, 6, 7)]


def test_a_library_that_is_too_small_is_refused_before_anything_is_asked(chat_server: ChatServer) -> None:
    with pytest.raises(UsageError, match="8 tools make 1 different sets of 8, fewer than the 4 asked for"):
        build(BuildSettings(sizes=(8,), bundles=4))
    with pytest.raises(UsageError, match="8 tools make 0 different sets of 9"):
        build(BuildSettings(sizes=(9,), bundles=1))
    with pytest.raises(DataError, match="occurs twice"):
        build_dataset([*TOOLS, TOOLS[0]], CARD, SETTINGS, OPTIONS, LanguageModel("some-model"))
    assert chat_server.requests == []


# The steps ----------------------------------------------------------------------------------------------------------


def test_requests_that_pass_every_check_stay_with_their_bundle(chat_server: ChatServer) -> None:
    chat_server.answer = Writer()
    dataset, built = build_dataset(TOOLS, CARD, SETTINGS, OPTIONS, LanguageModel("some-model"))
    assert (built.requested, len(built.queries), set(built.dropped.values())) == (16, 16, {0})
    for query in dataset.queries:
        assert {f"thing {tool[1]}" for tool in query.gold} == set(re.findall(r"thing \d", query.text))
        assert query.slices["size"] == f"{len(query.gold):02}"
    # 16 requests written and checked; with one tool less only those of three tools.
    assert len(chat_server.prompts) == 16 + 16 + 8
    assert {query.split for query in dataset.queries} == {"train", "test"}
    bundles = {split: {tuple(q.gold) for q in dataset.queries if q.split == split} for split in ("train", "test")}
    assert not bundles["train"] & bundles["test"]


def test_two_requests_for_one_bundle_are_two_draws(chat_server: ChatServer) -> None:
    chat_server.answer = Writer()
    assert len({query.text for query in build().queries}) == 16
    temperatures = {
        body["temperature"] for body in chat_server.requests if "Write one" in body["messages"][-1]["content"]
    }
    assert temperatures == {1.0}


@pytest.mark.parametrize(
    ("step", "said", "reason"),
    [
        ("Write one request", "", "failed"),
        ("Write one request", "Please do it.", "unparsed"),
        ("Write one request", '{"request": "  "}', "unparsed"),
        ("Judge", '{"assessment": "good"}', "unparsed"),
        ("Judge", '{"assessment": "over"}', "not_exact"),
        ("Judge", "", "failed"),
    ],
)
def test_what_fails_a_step_is_dropped_and_counted(chat_server: ChatServer, step: str, said: str, reason: str) -> None:
    # Everything that has to do with thing 3 goes wrong; the bundles of seed 0 have it in some, not in all.
    chat_server.answer = Writer(lambda prompt: said if step in prompt and "does thing 3" in prompt else None)
    built = build()
    with_it = [bundle for bundle in sample_bundles([tool.tool_id for tool in TOOLS], SETTINGS) if 3 in bundle]
    assert 0 < len(with_it) < 8
    assert built.dropped[reason] == 2 * len(with_it)
    assert sum(built.dropped.values()) == built.requested - len(built.queries)
    assert all("t3" not in query.gold for query in built.queries)


def test_a_request_that_one_tool_less_still_solves_is_dropped(chat_server: ChatServer) -> None:
    def generous(prompt: str) -> str | None:
        return '{"assessment": "exact"}' if "Judge" in prompt else None

    chat_server.answer = Writer(generous)
    built = build()
    # Bundles of one tool have no drop-one check.
    assert built.dropped["not_needed"] == 8
    assert {len(query.gold) for query in built.queries} == {1}
    less = [prompt for prompt in chat_server.prompts if "Judge" in prompt and len(things(prompt)) == 2]
    assert len(less) == 8


def test_requests_with_the_same_words_are_kept_once(chat_server: ChatServer) -> None:
    def same(prompt: str) -> str | None:
        made = f"Do {' and '.join(things(prompt))}" + ("!" if len(things(prompt)) == 1 else ", PLEASE")
        return json.dumps({"request": made}) if "Write one" in prompt else None

    chat_server.answer = Writer(same)
    built = build()
    assert (len(built.queries), built.dropped["repeated"]) == (8, 8)
    assert all(query.query_id.endswith("r00") for query in built.queries)


def test_when_nothing_passes_the_error_says_why(chat_server: ChatServer) -> None:
    chat_server.answer = Writer(lambda prompt: '{"assessment": "partial"}' if "Judge" in prompt else None)
    with pytest.raises(DataError, match="none of the 16 requests passed the checks: 16 are not solved exactly"):
        build()


def test_the_card_tells_what_was_dropped(chat_server: ChatServer) -> None:
    chat_server.answer = Writer(lambda prompt: "" if "Judge" in prompt and "does thing 3" in prompt else None)
    dataset, built = build_dataset(TOOLS, CARD, SETTINGS, OPTIONS, LanguageModel("some-model"))
    issues = dataset.card.known_issues
    assert f"some-model at {chat_server.url}" in issues[0]
    lost = built.dropped["failed"]
    assert issues[1] == f"Of 16 requests asked for, {lost} were dropped: {lost} got no reply from the model."
    assert "1: 6, 3: " in issues[2] or "1: 8, 3: " in issues[2]
    named = Built([], 0, {})
    assert known_issues(named, TOOLS, "m", SETTINGS)[1] == "Of 0 requests asked for, 0 were dropped."


# The command --------------------------------------------------------------------------------------------------------


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """A library without queries, as a BEIR corpus."""
    path = tmp_path / "corpus.jsonl"
    path.write_text(
        "".join(json.dumps({"_id": t.tool_id, "title": t.name, "text": t.description}) + "\n" for t in TOOLS)
    )
    return path


def command(corpus: Path, out: Path, *more: str) -> list[str]:
    given = ["data", "build-rectools", str(corpus), "--llm", "some-model", "--out", str(out)]
    return [*given, "--sizes", "1,3", "--bundles", "4", "--requests", "2", *more]


def test_the_folder_can_be_added(
    chat_server: ChatServer, corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chat_server.answer = Writer()
    assert run(command(corpus, tmp_path / "out", "--json")) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["asked"], said["kept"], said["calls"], said["cost"]) == (16, 16, 40, None)
    assert run(["data", "add", "mine", "--from", str(tmp_path / "out")]) == 0
    added = load_dataset("mine")
    assert (len(added.tools), len(added.queries)) == (8, 16)
    assert added.card.known_issues == said["known_issues"]
    assert added.tools[0].name == "tool number 0"


def test_a_build_that_was_stopped_goes_on_and_makes_the_same_folder(
    chat_server: ChatServer, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer()
    chat_server.answer = writer
    # One token costs one unit. The first build is stopped by its limit, on the way.
    monkeypatch.setenv("BENCH_LLM_PRICE", "1000000/1000000")
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", "1")
    assert run(command(corpus, tmp_path / "first", "--budget", "4500")) != 0
    before = len(chat_server.requests)
    assert 0 < before < 40
    assert not (tmp_path / "first").exists()
    assert run(command(corpus, tmp_path / "first", "--budget", "1000000")) == 0
    assert len(chat_server.requests) == 40
    # And from the journal alone, without an endpoint.
    chat_server.close()
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    assert run(command(corpus, tmp_path / "second")) == 0
    files = sorted(path.relative_to(tmp_path / "first") for path in (tmp_path / "first").rglob("*.*"))
    assert len(files) == 5
    for file in files:
        assert (tmp_path / "first" / file).read_bytes() == (tmp_path / "second" / file).read_bytes()


def test_what_cannot_work_is_said(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_LLM_JOURNAL", str(tmp_path / "none.jsonl"))
    assert run(command(corpus, tmp_path / "out")) == 4
    assert "BENCH_LLM_URL" in capsys.readouterr().err
    given = command(corpus, tmp_path / "out")
    given[given.index("some-model")] = "rules"
    assert run(given) == 2
    assert "rules cannot write requests" in capsys.readouterr().err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("")
    assert run(command(corpus, tmp_path / "full")) == 2
    assert "is not empty" in capsys.readouterr().err
    for sizes in ("0", "3-1", "x", "1-", "51", ""):
        assert run([*command(corpus, tmp_path / "out"), "--sizes", sizes]) == 2


def test_an_error_of_the_endpoint_ends_the_build_with_a_sentence(chat_server: ChatServer) -> None:
    from kit.chatserver import status

    chat_server.fault = status(401, "wrong key")
    with pytest.raises(BenchError):
        build()
