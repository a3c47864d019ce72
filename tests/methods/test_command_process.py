"""Programs that hang, die, flood and lie, as real processes."""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from pathlib import Path

import pytest

from bench.base.errors import UnavailableError, UsageError
from bench.methods.command import process
from bench.methods.command.process import ProcessClient
from bench.remote.answers import Unusable

HEAD = "import json, os, sys, time\n"
ECHO = "for line in sys.stdin:\n    asked = json.loads(line)\n"


def client(tmp_path: Path, code: str, timeout: float = 10.0) -> ProcessClient:
    (tmp_path / "program.py").write_text(HEAD + code)
    (tmp_path / "tools.jsonl").write_text("{}\n")
    return ProcessClient(f"{sys.executable} -u {tmp_path / 'program.py'}", timeout, tmp_path / "tools.jsonl")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return not Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].startswith(" Z")


def test_one_process_answers_line_by_line_and_knows_the_tools(tmp_path: Path) -> None:
    tools = "[asked['query'], str(os.getpid()), os.environ['BENCH_TOOLS']]"
    requests = client(tmp_path, ECHO + f"    print(json.dumps({{'id': asked['id'], 'tools': {tools}}}))\n")
    first, second = (json.loads(requests.ask({"query": text}))["tools"] for text in ("é\n", "b"))
    assert first[0] == "é\n"
    assert first[1:] == second[1:]
    assert first[2] == str(tmp_path / "tools.jsonl")
    requests.close()
    assert not alive(int(first[1]))


def test_a_process_ends_with_what_started_it(tmp_path: Path) -> None:
    code = ECHO + "    child = os.fork() or time.sleep(60)\n    print(json.dumps([os.getpid(), child]))\n"
    requests: ProcessClient | None = client(tmp_path, code)
    assert requests is not None
    pids = json.loads(requests.ask({}))
    assert all(map(alive, pids))
    del requests
    gc.collect()
    deadline = time.monotonic() + 5
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(alive, pids))


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("time.sleep(60)\n", r"no answer within [\d.]+ seconds"),
        (
            "sys.stderr.write('out of \\x1b[31m memory'); sys.exit(3)\n",
            r"the process ended with 3; it said 'out of .*memory'",
        ),
        ("sys.stdin.readline(); print('ready')\n", "a line that is not JSON \\('ready'\\)"),
        (
            ECHO + "    print(json.dumps({'id': asked['id'] - 1, 'tools': []}))\n",
            "the answer to question 0 instead of 1",
        ),
        ("sys.stdout.write('x' * 3_000_000)\ntime.sleep(60)\n", "an answer of more than 1 MiB"),
        ("while True: sys.stderr.write('y' * 100_000)\n", r"no answer within .*it said 'y+"),
    ],
)
def test_a_program_that_does_not_answer_is_stopped_and_said(
    tmp_path: Path, code: str, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "LONGEST", 1 << 20)
    monkeypatch.setattr(process, "START", 0.5)
    requests = client(tmp_path, code, timeout=0.5)
    started = time.monotonic()
    with pytest.raises(Unusable, match=why) as caught:
        requests.ask({"query": "x" * 500_000})
    assert time.monotonic() - started < 4
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    "code",
    [
        "sys.stdin.readline(); print('x' * 70 + KEY)\n",
        "sys.stderr.write(KEY * 999); sys.exit(3)\n",
        ECHO + "    print(json.dumps({'id': KEY}))\n",
    ],
)
def test_no_part_of_a_key_is_left_where_a_text_is_cut(
    tmp_path: Path, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_LLM_KEY", "sk-abcdefghijklmnopqrstuvw")
    with pytest.raises(Unusable, match=r"\[the key\]|the ke") as caught:
        client(tmp_path, "KEY = os.environ['BENCH_LLM_KEY']\n" + code).ask({})
    assert not any(part in str(caught.value) for part in ("sk-a", "abcd", "jklm", "tuvw"))


def test_a_program_that_dies_is_started_again_but_not_for_ever(tmp_path: Path) -> None:
    requests = client(tmp_path, ECHO + "    if asked['query'] == 'die': sys.exit(1)\n    print('[]')\n")
    for _ in range(process.RESTARTS):
        assert requests.ask({"query": "live"}) == b"[]\n"
        with pytest.raises(Unusable, match="ended with 1"):
            requests.ask({"query": "die"})
    assert requests.ask({"query": "live"}) == b"[]\n"
    with pytest.raises(Unusable):
        requests.ask({"query": "die"})
    with pytest.raises(UnavailableError, match="4 times"):
        requests.ask({"query": "live"})


def test_a_program_that_writes_more_than_it_is_asked_for_is_out_of_step(tmp_path: Path) -> None:
    requests = client(tmp_path, ECHO + "    print(json.dumps({'id': asked['id'], 'tools': []}) + '\\n{\"id\": 0}')\n")
    requests.ask({})
    with pytest.raises(Unusable, match="the answer to question 0 instead of 2"):
        requests.ask({})


@pytest.mark.parametrize(("command", "why"), [("", "needs a command"), ("a 'b", "cannot split")])
def test_a_command_that_is_none_is_said(tmp_path: Path, command: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        ProcessClient(command, 1.0, tmp_path / "tools.jsonl")


def test_a_program_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match="cannot start the command 'no-such-program'"):
        ProcessClient("no-such-program --now", 1.0, tmp_path / "tools.jsonl").ask({})


def test_whether_a_file_was_read_is_told_by_the_time_of_its_last_access(tmp_path: Path) -> None:
    file = tmp_path / "tools.jsonl"
    process.offer(file, "{}")
    # To look whether it was read is no reading, and neither is to look at it from outside.
    assert [process.was_read(file), process.was_read(file)] == [False, False]
    assert file.stat().st_size == 2
    assert process.was_read(file) is False
    file.read_text()
    assert [process.was_read(file), process.was_read(file)] == [True, True]
