"""The exact-solving check: what passes, how it is counted, and the command on a dataset of one's own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from kit.chatserver import Body, ChatServer

from bench.__main__ import run
from bench.base.errors import DataError
from bench.data.card import Card
from bench.data.dataset import Dataset
from bench.data.tables import Query, Tables, Tool
from bench.lab.building.exact import check_exact
from bench.models.llm.client import LanguageModel

CARD = Card(id="made", title="Made", summary="", licence="none", redistribution=False, template="name_description")
TOOLS = [Tool(f"t{i}", f"tool {i}", f"does thing {i}") for i in range(4)]
#: Requests by what they ask for, with their gold: the last needs less than its gold, the one before it more.
REQUESTS = [
    ("thing 0", ["t0"]),
    ("thing 1", ["t1"]),
    ("thing 0 and thing 1", ["t0", "t1"]),
    ("thing 1, thing 2 and thing 3", ["t1", "t2", "t3"]),
    ("thing 0 and thing 3", ["t0"]),
    ("thing 2", ["t2", "t3"]),
    ("anything", []),
    ("", ["t1"]),
]


def made(*requests: tuple[str, list[str]]) -> Dataset:
    queries = [Query(str(number), text, dict.fromkeys(gold, 1)) for number, (text, gold) in enumerate(requests)]
    return Dataset.build("made", CARD, Tables(TOOLS, queries))


def judge(body: Body) -> str:
    """Judges by what a request names and what its tools do."""
    prompt = body["messages"][-1]["content"]
    request, _, tools = prompt.partition("Tools at hand")
    wanted, given = set(re.findall(r"thing \d", request)), set(re.findall(r"does (thing \d)", tools))
    return json.dumps({"assessment": "exact" if given == wanted else "over" if given > wanted else "partial"})


def test_what_is_solved_exactly_and_only_by_all_tools_passes(chat_server: ChatServer) -> None:
    chat_server.answer = judge
    found = check_exact(made(*REQUESTS), 100, 0, LanguageModel("some-model"))
    passing = {size: (share.requests, round(share.share, 3)) for size, share in found.by_size.items()}
    assert passing == {1: (3, 0.667), 2: (2, 0.5), 3: (1, 1.0)}
    assert found.dropped["not_exact"] == 2
    assert (found.every.requests, found.every.units) == (6, 5)  # two requests have t0 for gold
    assert found.every.share == pytest.approx(4 / 6)
    assert found.every.low is not None
    assert found.every.high is not None
    assert 0 <= found.every.low <= found.every.share <= found.every.high <= 1
    # One unit alone has no interval.
    assert found.by_size[3].low is None
    # One question a request, and a second for those with several tools that passed the first.
    assert len(chat_server.prompts) == 6 + 2


def test_a_tool_that_is_not_needed_and_replies_that_say_nothing_fail(chat_server: ChatServer) -> None:
    chat_server.answer = lambda body: (
        "I would say so." if "thing 3" in body["messages"][-1]["content"] else '{"assessment": "exact"}'
    )
    found = check_exact(made(*REQUESTS), 100, 0, LanguageModel("some-model"))
    assert found.dropped["not_needed"] == 1
    assert found.dropped["unparsed"] == 3
    assert found.by_size[2].share == found.by_size[3].share == 0


def test_a_sample_is_the_same_every_time(chat_server: ChatServer) -> None:
    chat_server.answer = judge
    dataset = made(*REQUESTS)
    first = check_exact(dataset, 2, 0, LanguageModel("some-model"))
    asked = len(chat_server.prompts)
    assert first.every.requests == 2
    assert check_exact(dataset, 2, 0, LanguageModel("some-model")) == first
    assert len(chat_server.prompts) == asked


def test_a_dataset_without_gold_is_refused(chat_server: ChatServer) -> None:
    dataset = made(("anything", []), ("", ["t1"]))
    with pytest.raises(DataError, match="no request with gold tools and a text"):
        check_exact(dataset, 1, 0, LanguageModel("some-model"))


def test_the_command(
    chat_server: ChatServer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chat_server.answer = lambda body: '{"assessment": "exact"}'
    words = ["data", "check-exact", "starter", "--llm", "some-model", "--limit", "20"]
    assert run([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["requests"] == 20
    # All sets are judged exact, with one tool less too: what has several tools fails.
    assert said["share"] == pytest.approx(said["by_size"]["1"]["requests"] / 20)
    assert said["model"] == f"some-model at {chat_server.url}"
    assert run(words) == 0
    shown = capsys.readouterr().out
    assert "any number" in shown
    assert "0 calls" in shown or "replies from the journal" in shown
    assert run([*words[:4], "rules"]) == 2
    assert "rules cannot judge" in capsys.readouterr().err
    monkeypatch.delenv("BENCH_LLM_URL")
    monkeypatch.setenv("BENCH_LLM_JOURNAL", str(tmp_path / "none.jsonl"))
    assert run(words) == 4
