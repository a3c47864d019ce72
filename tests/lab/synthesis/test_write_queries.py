"""`bench data write-queries` against models on loopback: good ones, bad ones, and ones that go away."""

from __future__ import annotations

import json
import re
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from kit.chatserver import Body, ChatServer, hang, status
from kit.forked import Forked

Bench = Callable[..., Any]
Answer: TypeAlias = Callable[[str], str | None]

#: The command in a process of its own, in batches of eight queries.
COMMAND = """
import sys
from bench.__main__ import run
from bench.lab.synthesis import writer
writer.BATCH = 8
sys.exit(run(sys.argv[1:]))
"""

TOOLS = {
    "post": {
        "send_letter": "Send a letter by post",
        "send_parcel": "Send a parcel by post",
        "track_parcel": "Tell where a shipment is now",
    },
    "weather": {"forecast": "Forecast rain and sun for one day", "stormWarnings": "Warn of storms and floods"},
    "music": {"play_song": "Play a song on the speakers", "find_lyrics": "Find the words of a song"},
}
#: The two that are most alike.
PAIR = {"post/send_letter", "post/send_parcel"}
#: What is asked for where a test does not say otherwise: 7 + 2 + 4 + 3 queries.
NUMBERS = ("--single", "7", "--pairs", "2", "--chains", "4", "--no-tool", "3")


def is_writing(prompt: str) -> bool:
    return "Choices:" not in prompt


def listed(prompt: str) -> list[str]:
    """The descriptions in a prompt's list, in order; empty for "none of these tools"."""
    lines = re.findall(r"^\d+\. (.*)$", prompt, re.MULTILINE)
    return [line.partition(": ")[2].partition(" (takes")[0] for line in lines]


class Model:
    """Writes requests in the words of the descriptions, and picks by the same words; every reply can be changed."""

    def __init__(self) -> None:
        self.change: Answer = lambda prompt: None
        self.written = 0

    def __call__(self, body: Body) -> str:
        prompt: str = body["messages"][-1]["content"]
        changed = self.change(prompt)
        if changed is not None:
            return changed
        tools = listed(prompt)
        if is_writing(prompt):
            self.written += 1
            wanted = tools[:1] if "easily confused" in prompt else [] if "none of these tools can" in prompt else tools
            said = " and then ".join(wanted) or "Paint my portrait in oil"
            return json.dumps({"request": f"Please: {said}, for the {self.written}th time."})
        request = prompt.partition("Choices:")[0]
        picked = [number for number, text in enumerate(tools, start=1) if text and text in request]
        return json.dumps({"numbers": picked or [tools.index("") + 1]})


@pytest.fixture
def catalogue(tmp_path: Path) -> Path:
    """The catalogue as a file of several servers."""
    path = tmp_path / "tools.json"
    servers = {
        server: {"tools": [{"name": name, "description": text, "inputSchema": {}} for name, text in tools.items()]}
        for server, tools in TOOLS.items()
    }
    path.write_text(json.dumps(servers), "utf-8")
    return path


@pytest.fixture
def model(chat_server: ChatServer, bench: Bench, catalogue: Path) -> Model:
    """A model that behaves, behind the endpoint of this test; the catalogue is imported as `office`."""
    bench("data", "import", "office", catalogue)
    chat_server.answer = made = Model()
    return made


@pytest.fixture
def write(bench: Bench, tmp_path: Path) -> Callable[..., Any]:
    """Run the command; gives what it said."""

    def write(*more: object, code: int = 0) -> Any:
        given = ("data", "write-queries", "office", "--llm", "some-model", "--out", tmp_path / "queries.jsonl")
        return bench(*given, *(more or NUMBERS), code=code)

    return write


@pytest.fixture
def rows(tmp_path: Path) -> Callable[[], list[dict[str, Any]]]:
    """The rows that were written."""
    return lambda: [json.loads(line) for line in (tmp_path / "queries.jsonl").read_text("utf-8").splitlines()]


Rows: TypeAlias = Callable[[], list[dict[str, Any]]]


# What is written ----------------------------------------------------------------------------------------------------


def test_queries_of_every_kind_are_written_checked_and_kept(write: Bench, model: Model, rows: Rows) -> None:
    said = write(*NUMBERS, "--json").json
    assert (said["kept"], said["calls"], said["from_journal"], said["cost"]) == (16, 32, 0, None)
    assert {kind: (item["asked"], item["written"], item["kept"]) for kind, item in said["kinds"].items()} == {
        "single": (7, 7, 7),
        "pair": (2, 2, 2),
        "chain": (4, 4, 4),
        "no-tool": (3, 3, 3),
    }
    result = rows()
    assert Counter(row["tags"]["kind"] for row in result) == {"single": 7, "pair": 2, "chain": 4, "no-tool": 3}
    assert {row["origin"] for row in result} == {"model some-model"}
    by_name = {f"{server}/{name}": text for server, tools in TOOLS.items() for name, text in tools.items()}
    for row in result:
        assert all(by_name[tool] in row["query"] for tool in row["tools"])
        assert len(row["tools"]) in {"single": {1}, "pair": {1}, "chain": {2, 3}, "no-tool": {0}}[row["tags"]["kind"]]
    assert {row["tools"][0] for row in result if row["tags"]["kind"] == "pair"} == PAIR
    groups = {row["group"] for row in result if row["tags"]["kind"] != "chain" and set(row["tools"]) & PAIR}
    assert groups == {"post/send_letter + post/send_parcel"}


def test_the_table_has_written_and_kept_by_kind(write: Bench, model: Model) -> None:
    model.change = lambda prompt: '{"numbers": [1, 2]}' if "Choices:" in prompt and "portrait" in prompt else None
    said = write()
    assert re.search(r"^ ?queries +asked for +written +kept +other tools picked *$", said.out, re.M)
    assert re.search(r"^ ?no-tool +3 +3 +0 +3 *$", said.out, re.M)
    assert re.search(r"^ ?single +7 +7 +7 +0 *$", said.out, re.M)
    assert "32 calls, 0 replies from the journal" in said.out
    assert "next: bench data import NAME SOURCE --queries" in said.out


def test_the_second_call_is_another_prompt_and_is_not_told_what_is_meant(
    write: Bench, model: Model, chat_server: ChatServer
) -> None:
    write()
    systems: dict[bool, set[str]] = {True: set(), False: set()}
    places = Counter[int]()
    for body in chat_server.requests:
        system, user = (message["content"] for message in body["messages"])
        systems[is_writing(user)].add(system)
        assert body["temperature"] == (1.0 if is_writing(user) else 0.0)
        if not is_writing(user):
            tools, request = listed(user), user.partition("Choices:")[0]
            assert tools.count("") == 1
            assert len(set(tools)) == len(tools) == 8
            places.update(place for place, text in enumerate(tools) if text and text in request)
    assert not systems[True] & systems[False]
    # The tools stand anywhere in the list.
    assert len(places) > 4
    assert max(places.values()) < 0.5 * places.total()


def test_prompts_ask_for_no_names_and_hold_one_line_a_tool(write: Bench, model: Model, chat_server: ChatServer) -> None:
    write()
    for prompt in filter(is_writing, chat_server.prompts):
        assert "do not use the names of these" in prompt
        numbers = re.findall(r"^(\d+)\. ", prompt, re.M)
        assert numbers == [str(number) for number in range(1, len(numbers) + 1)]


# Models that do not behave ------------------------------------------------------------------------------------------


GARBAGE = ["", "Sure!", "{", '{"request": 3}', '{"request": "  \\u200b "}', '{"request": "a", "more": 1}', "[1]"]


@pytest.mark.parametrize("said", GARBAGE)
def test_garbage_in_place_of_queries_keeps_nothing_and_says_so(
    said: str, write: Bench, model: Model, tmp_path: Path
) -> None:
    model.change = lambda prompt: said
    told = write(code=3)
    reason = "no reply 16" if not said else "unreadable reply 16"
    assert f"none of the 16 queries passed the checks: {reason}." in told.err
    assert not (tmp_path / "queries.jsonl").exists()


@pytest.mark.parametrize(
    "said", ["no", '{"numbers": []}', '{"numbers": [0]}', '{"numbers": [99]}', '{"numbers": ["1"]}']
)
def test_a_pick_that_cannot_be_read_drops_the_query(said: str, write: Bench, model: Model) -> None:
    model.change = lambda prompt: (
        None if is_writing(prompt) or "storms" not in prompt.partition("Choices:")[0] else said
    )
    kinds = write(*NUMBERS, "--json").json["kinds"]
    assert kinds["single"]["dropped"]["unparsed"] == 1
    assert kinds["single"]["kept"] == 6


def test_a_model_that_always_picks_the_first_passes_rarely(write: Bench, model: Model) -> None:
    model.change = lambda prompt: None if is_writing(prompt) else '{"numbers": [1]}'
    kinds = write("--single", "70", "--pairs", "0", "--chains", "10", "--no-tool", "20", "--json").json["kinds"]
    # One of eight by chance.
    assert 0 < kinds["single"]["kept"] < 20
    assert kinds["chain"]["kept"] == 0
    assert kinds["no-tool"]["kept"] < 10
    assert kinds["single"]["dropped"]["not_picked"] == 70 - kinds["single"]["kept"]


def test_a_model_that_always_says_none_keeps_only_queries_without_a_tool(
    write: Bench, model: Model, rows: Rows
) -> None:
    model.change = lambda prompt: (
        None if is_writing(prompt) else json.dumps({"numbers": [listed(prompt).index("") + 1]})
    )
    write()
    assert {row["tags"]["kind"] for row in rows()} == {"no-tool"}


def test_queries_that_echo_a_name_are_dropped_before_they_are_checked(
    write: Bench, model: Model, rows: Rows, chat_server: ChatServer
) -> None:
    def echo(prompt: str) -> str | None:
        names = re.findall(r"^\d+\. (\w+): ", prompt, re.M)
        return json.dumps({"request": f"Use {names[0]} for {model.written}"}) if is_writing(prompt) else None

    model.change = echo
    result = write("--single", "7", "--pairs", "0", "--chains", "4", "--no-tool", "0", "--json", code=3)
    assert "names a tool" in result.err
    # `forecast` is an ordinary word; all others name their tool, and are not checked.
    assert len([prompt for prompt in chat_server.prompts if not is_writing(prompt)]) <= 3


def test_the_same_words_are_kept_once(write: Bench, model: Model, rows: Rows) -> None:
    def same(prompt: str) -> str | None:
        return json.dumps({"request": f"{listed(prompt)[0]}!"}) if is_writing(prompt) else None

    model.change = same
    kinds = write("--single", "21", "--pairs", "0", "--chains", "0", "--no-tool", "0", "--json").json["kinds"]
    assert (kinds["single"]["written"], kinds["single"]["kept"]) == (21, 7)
    assert kinds["single"]["dropped"]["repeated"] == 14
    assert len({row["query"] for row in rows()}) == 7


def test_text_from_the_model_is_one_clean_line(write: Bench, model: Model, rows: Rows) -> None:
    def odd(prompt: str) -> str | None:
        said = f"Please\n\n{listed(prompt)[0]}\x1b[31m\u202e \u200bnow"
        return json.dumps({"request": said}) if is_writing(prompt) else None

    model.change = odd
    write("--single", "7", "--pairs", "0", "--chains", "0", "--no-tool", "0")
    for row in rows():
        assert row["query"].isprintable()
        assert not set(row["query"]) & set("\n\x1b\u202e\u200b")


# Going on -----------------------------------------------------------------------------------------------------------


def test_a_repeat_is_answered_from_the_journal_to_the_same_bytes(
    write: Bench, model: Model, chat_server: ChatServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write()
    first = (tmp_path / "queries.jsonl").read_bytes()
    count = len(chat_server.requests)
    chat_server.close()
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    said = write(*NUMBERS, "--json").json
    assert (said["calls"], said["from_journal"]) == (0, count)
    assert (tmp_path / "queries.jsonl").read_bytes() == first


def test_an_endpoint_that_dies_in_the_middle_costs_nothing_twice(
    write: Bench, model: Model, chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, rows: Rows
) -> None:
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", "1")
    chat_server.faults.extend([None] * 20)
    chat_server.fault = status(401, "wrong key")
    assert "BENCH_LLM_KEY" in write(code=4).err
    chat_server.fault = None
    before = len(chat_server.requests)
    said = write(*NUMBERS, "--json").json
    assert len(chat_server.requests) - before == said["calls"] == 32 - 20
    assert len(rows()) == 16


def test_what_was_kept_stays_when_the_budget_runs_out(
    write: Bench,
    model: Model,
    chat_server: ChatServer,
    monkeypatch: pytest.MonkeyPatch,
    rows: Rows,
) -> None:
    from bench.lab.synthesis import writer

    monkeypatch.setattr(writer, "BATCH", 4)
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", "1")
    # One token costs one unit.
    monkeypatch.setenv("BENCH_LLM_PRICE", "1000000/1000000")
    monkeypatch.setenv("BENCH_LLM_LIMIT", "6000")
    said = write(code=4)
    assert "raise it where it was set (BENCH_LLM_LIMIT or --budget), and the same command continues" in said.err
    part = rows()
    assert 0 < len(part) < 16
    assert f"{len(part)} queries that were kept so far are in" in said.err
    assert len({row["tags"]["kind"] for row in part}) > 1
    paid = len(chat_server.requests)
    monkeypatch.setenv("BENCH_LLM_LIMIT", "1000000")
    write()
    assert rows()[: len(part)] == part
    assert len(rows()) == 16
    assert len(chat_server.requests) == 32 > paid


def test_a_killed_run_goes_on_from_the_journal(
    write: Bench, model: Model, chat_server: ChatServer, catalogue: Path, tmp_path: Path
) -> None:
    chat_server.faults.extend([None] * 10)
    chat_server.fault = hang()
    given = ["data", "write-queries", "office", "--llm", "some-model", "--out", str(tmp_path / "queries.jsonl")]
    running = Forked(COMMAND, *given, *NUMBERS)
    while len(chat_server.requests) < 11 and not running.ended:
        time.sleep(0.02)
    assert not running.ended
    running.signal(signal.SIGKILL)
    assert running.wait()[0] == -signal.SIGKILL
    assert not (tmp_path / "queries.jsonl").exists()
    chat_server.fault = None
    said = write(*NUMBERS, "--json").json
    assert said["kept"] == 16
    # What was in the journal is not asked again; up to four calls were under way.
    assert 32 - 10 <= said["calls"] <= 32 - 6


def test_ctrl_c_leaves_what_was_kept(model: Model, chat_server: ChatServer, rows: Rows, tmp_path: Path) -> None:
    # A whole batch is written and checked, and the next one waits.
    chat_server.faults.extend([None] * 16)
    chat_server.fault = hang()
    given = ["data", "write-queries", "office", "--llm", "some-model", "--out", str(tmp_path / "queries.jsonl")]
    more = ["--single", "14", "--pairs", "0", "--chains", "0", "--no-tool", "0"]
    running = Forked(COMMAND, *given, *more)
    while len(chat_server.requests) < 17 and not running.ended:
        time.sleep(0.02)
    running.signal(signal.SIGINT)
    code, _, told = running.wait()
    assert code == 130, told
    assert "8 queries that were kept so far are in" in told
    assert len(rows()) == 8


def test_more_queries_ask_only_for_the_new_ones(write: Bench, model: Model) -> None:
    others = ("--pairs", "0", "--chains", "0", "--no-tool", "0", "--json")
    assert write("--single", "7", *others).json["calls"] == 14
    said = write("--single", "12", *others).json
    assert (said["calls"], said["from_journal"], said["kept"]) == (10, 14, 12)


# What is refused ----------------------------------------------------------------------------------------------------


def test_what_cannot_work_is_said_before_anything_is_asked(
    write: Bench, model: Model, chat_server: ChatServer, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = tmp_path / "queries.jsonl"
    for content in ("query,tools\nmine,forecast\n", '{"query": "mine", "tools": []}\n', "[]", ""):
        output.write_text(content)
        assert "exists and holds something else; name a new one" in write(code=2).err
        assert output.read_text() == content
    output.unlink()
    assert "nothing to write" in write("--single", "0", "--pairs", "0", "--chains", "0", "--no-tool", "0", code=2).err
    given = ("data", "write-queries", "office", "--out", output)
    assert "rules cannot write queries" in bench(*given, "--llm", "rules", code=2).err
    assert "--llm" in bench(*given, code=2).err
    assert "no dataset" in bench("data", "write-queries", "nowhere", "--llm", "m", "--out", output, code=2).err
    assert write("--single", "-1", code=2).err
    monkeypatch.delenv("BENCH_LLM_URL")
    assert "BENCH_LLM_URL" in write(code=4).err
    assert chat_server.requests == []


def test_another_model_does_not_replace_the_queries_of_the_first(
    write: Bench, model: Model, bench: Bench, tmp_path: Path
) -> None:
    write()
    output = tmp_path / "queries.jsonl"
    before = output.read_bytes()
    given = ("data", "write-queries", "office", "--llm", "other", "--out", output)
    assert "holds something else" in bench(*given, code=2).err
    # Nor does the same model replace a file to which somebody has added a line.
    output.write_bytes(before + b'{"query": "mine", "tools": []}\n')
    assert "holds something else" in write(code=2).err
    output.write_bytes(before)
    assert output.read_bytes() == before


# The whole path -----------------------------------------------------------------------------------------------------


def test_from_written_queries_to_a_marked_table(
    write: Bench, model: Model, bench: Bench, catalogue: Path, tmp_path: Path
) -> None:
    write()
    bench(
        "data",
        "import",
        "office",
        catalogue,
        "--queries",
        tmp_path / "queries.jsonl",
        "--replace",
        "--unit",
        "gold+group",
    )
    assert "16 of 16 queries are written by some-model" in " ".join(bench("data", "info", "office").out.split())
    assert bench("data", "info", "office", "--json").json["origins"] == {"model some-model": 16}
    findings = {row["check"]: row for row in bench("data", "audit", "office", "--json").json["findings"]}
    assert findings["synthetic-query"]["count"] == 16
    assert findings["synthetic-query"]["what"] == "queries written by some-model"
    # The one name that is an ordinary word may occur.
    assert all(": forecast" in example for example in findings["named-gold"]["examples"])
    said = bench("run", "-m", "bm25", "-m", "random", "-d", "office", "-q")
    shown = " ".join(said.out.split())
    assert "synthetic queries: 16 of 16 queries are written by some-model" in shown
    assert "; synthetic queries)" in shown
    by_kind = bench("show", "bm25@office", "--by", "kind", "--json").json["slices"]
    assert {item["value"]: item["n"] + item["n_no_gold"] for item in by_kind} == {
        "single": 7,
        "pair": 2,
        "chain": 4,
        "no-tool": 3,
    }
    told = "synthetic queries: 16 of 16 queries are written by some-model"
    for form in (["--details"], ["--format", "markdown"]):
        compared = bench("compare", "bm25@office", "random@office", *form).out
        assert told in " ".join(compared.split())
        # What all systems share is said once in a terminal.
        assert ("bm25: synthetic queries" in compared) == ("markdown" in form)
    (tmp_path / "gate.toml").write_text('[[rule]]\nmetric = "recall@5"\nmargin = 0.05\n')
    bench("bless", "bm25@office", "--out", tmp_path / "base.json", "--by", "me")
    gate = ("gate", "bm25@office", "--baseline", tmp_path / "base.json", "--policy", tmp_path / "gate.toml")
    assert f"note: {told}" in bench(*gate).out
