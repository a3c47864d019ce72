"""The journal: on the disk before it is used, mended where torn, told where damaged, shared by processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit.chatserver import ChatServer, message, status

from bench.base.errors import DataError, StorageError
from bench.cli.schemas import shipped_schema
from bench.models.llm.journal import Journal, JournalAnswer, JournalLine, JournalMessage, JournalRequest, journal_at

Ask = Callable[..., Any]


def line(key: str, text: str = "yes", **fields: Any) -> JournalLine:
    request = JournalRequest(
        messages=[JournalMessage(role="user", content=f"prompt of {key}")],
        temperature=0.0,
        top_p=1.0,
        max_tokens=9,
        sample=0,
    )
    return JournalLine(
        **{
            "kind": "reply",
            "key": key,
            "model": "m",
            "endpoint": "e",
            "request": request,
            "text": text,
            "cost": 1,
            **fields,
        }
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A journal in a folder that does not exist yet."""
    return tmp_path / "of the test" / "journal.jsonl"


def texts(path: Path, *keys: str) -> list[str | None]:
    journal = Journal(path)
    return [None if (find := journal.find(key)) is None else find.text for key in keys]


@pytest.mark.parametrize("use", [lambda journal: journal.append(line("b")), lambda journal: journal.find("a")])
def test_it_is_its_owners_alone_an_older_one_too(path: Path, use: Callable[[Journal], object]) -> None:
    before = os.umask(0o022)
    try:
        Journal(path).append(line("a"))
        assert path.stat().st_mode & 0o777 == 0o600
        path.chmod(0o644)
        use(Journal(path))
        assert path.stat().st_mode & 0o777 == 0o600
    finally:
        os.umask(before)


def test_what_is_appended_is_found_by_this_journal_and_the_next(path: Path) -> None:
    journal = Journal(path)
    assert journal.find("a") is None
    assert not path.parent.exists()
    stands = journal.append(line("a", "ä\u2028\n\r\0\x85工具", finish="stop", input_tokens=3, output_tokens=4))
    assert stands == JournalAnswer("reply", "ä\u2028\n\r\0\x85工具", "stop", 3, 4, "e")
    journal.append(line("b", ""))
    for again in (journal, Journal(path)):
        assert again.find("a") == stands
        assert (again.paid, again.endpoints("m"), again.endpoints("other")) == (2, ["e"], [])
    # One line each, whatever line ends the texts hold.
    assert path.read_bytes().count(b"\n") == 2


def test_a_line_follows_the_shipped_schema_and_reads_in_pandas(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask, journal: Path
) -> None:
    import pandas as pd

    monkeypatch.setenv("BENCH_LLM_PRICE", "1/2")
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", "1")
    chat_server.faults.extend([None, message(refusal="no"), *[status(500)] * 6])
    ask("a", "b", "c", temperature=0.5)
    lines = [json.loads(raw) for raw in journal.read_text("utf-8").splitlines()]
    validator = jsonschema.Draft202012Validator(shipped_schema("llm-journal"))
    for item in lines:
        validator.validate(item)
    assert [item["kind"] for item in lines] == ["reply", "refusal", "gave-up"]
    assert lines[0].pop("seconds") >= 0
    assert lines[0] | {"made": "", "check": "", "key": ""} == {
        "version": 1,
        "kind": "reply",
        "key": "",
        "model": "m",
        "endpoint": chat_server.url,
        "served": "m-served",
        "request": {
            "messages": [{"role": "user", "content": "a"}],
            "temperature": 0.5,
            "top_p": 1.0,
            "max_tokens": 1024,
            "sample": 0,
        },
        "text": "reply to: a",
        "finish": "stop",
        "input_tokens": 1,
        "output_tokens": 3,
        "estimated": False,
        "cost": pytest.approx(7e-6),
        "made": "",
        "check": "",
    }
    assert pd.read_json(journal, lines=True)["text"][0] == "reply to: a"


def test_the_first_answer_stays_and_takes_the_place_of_a_request_given_up(path: Path) -> None:
    journal = Journal(path)
    assert journal.append(line("a", "late", kind="gave-up")).kind == "gave-up"
    assert journal.append(line("a", "first")).text == "first"
    assert journal.append(line("a", "second")).text == "first"
    assert journal.append(line("a", "down", kind="gave-up")).text == "first"
    assert journal.append(line("b", "no", kind="refusal")).kind == "refusal"
    assert journal.append(line("b", "yes")).text == "no"
    assert texts(path, "a", "b") == ["first", "no"]
    # All of them were paid.
    assert Journal(path).paid == 6


def test_embeddings_cost_money_and_answer_nothing(path: Path) -> None:
    journal = Journal(path)
    journal.append(JournalLine(kind="embeddings", model="v", endpoint="e", cost=0.5))
    assert (journal.paid, journal.endpoints("v"), journal.find("")) == (0.5, [], None)


# Torn and damaged ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a journal with the keys a, b and c."""
    path = tmp_path_factory.mktemp("three") / "j"
    journal = Journal(path)
    for key in "abc":
        journal.append(line(key, f"é of {key}"))
    return path.read_bytes()


@given(cut=st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_a_journal_cut_off_anywhere_loses_only_what_is_not_whole_and_goes_on(
    three: bytes, tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    data = three[: cut % (len(three) + 1)]
    path = tmp_path_factory.mktemp("cut") / "j"
    path.write_bytes(data)
    # A line that lacks nothing but its end is whole.
    whole = sum(part in three.splitlines() for part in data.splitlines())
    expected = [f"é of {key}" for key in "abc"[:whole]] + [None] * (3 - whole)
    assert texts(path, *"abc") == expected
    assert path.read_bytes() == data
    journal = Journal(path)
    journal.find("a")
    journal.append(line("d", "new"))
    assert journal.find("d") is not None
    assert texts(path, *"abcd") == [*expected, "new"]
    assert path.read_bytes().count(b"\n") == whole + 1


@pytest.mark.parametrize("tail", [b"\0" * 5000, b"x" * 200_000, b'{"version":1,"kind":"reply"', b"\xff\xfe"])
def test_any_torn_tail_is_cut_off_by_the_next_writer(path: Path, three: bytes, tail: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(three + tail)
    assert texts(path, *"abc") == ["é of a", "é of b", "é of c"]
    Journal(path).append(line("d", "new"))
    assert path.read_bytes().startswith(three)
    assert texts(path, *"abcd") == ["é of a", "é of b", "é of c", "new"]


def test_a_tail_that_another_process_is_writing_is_read_when_it_is_whole(path: Path, three: bytes) -> None:
    path.parent.mkdir()
    end = three.rindex(b"\n", 0, -1) + 1
    path.write_bytes(three[: end + 30])
    journal = Journal(path)
    assert [journal.find(key) is None for key in "abc"] == [False, False, True]
    with path.open("ab") as file:
        file.write(three[end + 30 : -1])
    assert journal.find("c") is not None
    with path.open("ab") as file:
        file.write(b"\n" + three[:end])
    assert journal.paid == 5


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "a letter": lambda raw: raw.replace(b"of b", b"of B"),
    "a digit of the cost": lambda raw: raw.replace(b'"cost":1.0', b'"cost":0.0'),
    "the checksum": lambda raw: raw[:-3] + (b"0" if raw[-3:-2] != b"0" else b"1") + raw[-2:],
    "no checksum": lambda raw: raw[: raw.index(b',"check"')] + b"}",
    "cut short": lambda raw: raw[:40],
    "zeros": lambda raw: b"\0" * len(raw),
    "not Unicode": lambda raw: raw.replace(b"of b", b"of \xff"),
    "words": lambda raw: b"hello",
    "two in one": lambda raw: raw + raw,
    "an array": lambda raw: b"[]",
}


@pytest.mark.parametrize("case", DAMAGE)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_damaged_line_is_told_by_its_number(path: Path, three: bytes, case: str, number: int) -> None:
    lines = three.replace(b"of a", b"of b").replace(b"of c", b"of b").splitlines()
    lines = [rechecked(raw) for raw in lines]
    lines[number - 1] = DAMAGE[case](lines[number - 1])
    path.parent.mkdir()
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(DataError) as raised:
        Journal(path).find("c")
    assert str(raised.value) == (
        f"the journal {path} is damaged in line {number}; remove that line (its request will be asked again) or name "
        "another file in BENCH_LLM_JOURNAL."
    )
    # And it is so for a writer, who leaves it as it is.
    before = path.read_bytes()
    with pytest.raises(DataError):
        Journal(path).append(line("d"))
    assert path.read_bytes() == before
    # Without that line the others are as good as ever.
    del lines[number - 1]
    path.write_bytes(b"\n".join(lines) + b"\n")
    assert texts(path, *"abc").count("é of b") == 2


def rechecked(raw: bytes, **fields: Any) -> bytes:
    """A line with other fields and the checksum that goes with them, as a forger would make it."""
    import hashlib

    content = {**json.loads(raw), **fields}
    del content["check"]
    body = json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode()[:-1]
    return body + b',"check":"' + hashlib.sha256(body).hexdigest()[:16].encode() + b'"}'


@pytest.mark.parametrize(
    "fields",
    [
        {"version": 2},
        {"kind": "guess"},
        {"cost": -5},
        {"cost": float("nan")},
        {"cost": "1"},
        {"input_tokens": -1},
        {"input_tokens": 1.5},
        {"output_tokens": True},
        {"text": None},
        {"more": 1},
        {"request": {"messages": []}},
    ],
    ids=str,
)
def test_a_line_of_another_form_is_told_even_if_its_checksum_is_right(
    path: Path, three: bytes, fields: dict[str, Any]
) -> None:
    path.parent.mkdir()
    first, *others = three.splitlines()
    assert rechecked(first) == first
    path.write_bytes(b"\n".join([rechecked(first, **fields), *others]) + b"\n")
    with pytest.raises(DataError, match="damaged in line 1;"):
        texts(path, "b")


def test_empty_lines_and_other_line_ends_do_no_harm(path: Path, three: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(b"\n" + three.replace(b"\n", b"\r\n") + b"\r\n\n")
    assert texts(path, *"abc") == ["é of a", "é of b", "é of c"]
    path.write_bytes(path.read_bytes() + b"damage\n")
    with pytest.raises(DataError, match="damaged in line 7;"):
        texts(path, "a")


def test_a_journal_that_is_taken_away_or_replaced_is_read_anew(path: Path, three: bytes) -> None:
    journal = Journal(path)
    journal.append(line("x"))
    path.unlink()
    assert (journal.find("x"), journal.paid) == (None, 0)
    path.write_bytes(three)
    assert journal.find("a") is not None
    other = path.with_name("other")
    Journal(other).append(line("y", cost=7))
    os.replace(other, path)
    assert (journal.find("a"), journal.paid) == (None, 7)
    journal.append(line("z"))
    assert texts(path, "y", "z") == ["yes", "yes"]


# What the machine refuses -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["", "file/below"])
def test_a_place_that_is_no_file_is_told(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").write_text("")
    journal = Journal(tmp_path / place)
    with pytest.raises(StorageError, match=r"cannot (read the journal|write) "):
        journal.append(line("a"))


def test_a_disk_that_takes_a_part_of_a_line_keeps_none_of_it(path: Path) -> None:
    pytest.importorskip("resource")
    Journal(path).append(line("a"))
    before = path.read_bytes()
    program = """
import resource, signal, sys
from pathlib import Path
from bench.base.errors import StorageError
from bench.models.llm.journal import Journal, JournalLine
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path = Path(sys.argv[1])
journal = Journal(path)
# No file may grow beyond this: as on a disk that is full in the middle of a line.
limit = path.stat().st_size + 50
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    journal.append(JournalLine(kind="reply", key="b", model="m", endpoint="e", cost=1))
except StorageError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"cannot write {path}: ")
    assert path.read_bytes() == before


# Several at once ----------------------------------------------------------------------------------------------------

WRITER = """
import sys
from pathlib import Path
from bench.models.llm.journal import Journal, JournalLine

journal, name = Journal(Path(sys.argv[1])), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
for i in range(60):
    text = name * 3000
    for key in (f"{name}{i}", f"shared{i}"):
        stands = journal.append(JournalLine(kind="reply", key=key, model="m", endpoint="e", text=text, cost=1))
        print(key, stands.text[0])
"""


def test_two_processes_that_write_at_once_lose_nothing_and_agree(path: Path, process: Any) -> None:
    running = [process(WRITER, str(path), name) for name in "xy"]
    for one in running:
        assert one.stdout.readline() == "ready\n"
    for one in running:
        one.stdin.write("go\n")
        one.stdin.flush()
    seen = []
    for one in running:
        out, err = one.communicate(timeout=60)
        assert one.returncode == 0, err
        seen.append(dict(row.split() for row in out.splitlines()))
    journal = Journal(path)
    assert journal.paid == 240
    for i in range(60):
        shared = journal.find(f"shared{i}")
        assert shared is not None
        # Both got the stored answer.
        assert seen[0][f"shared{i}"] == seen[1][f"shared{i}"] == shared.text[0]
        assert [journal.find(f"{name}{i}") is not None for name in "xy"] == [True, True]


def test_threads_share_a_journal(path: Path) -> None:
    journal = journal_at(path)
    assert journal_at(path) is journal

    def write(name: str) -> None:
        for i in range(30):
            journal.append(line(f"{name}{i}"))

    threads = [threading.Thread(target=write, args=(name,)) for name in "pqrs"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert Journal(path).paid == journal.paid == 120


def test_what_another_process_answers_meanwhile_is_not_asked_again(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask, journal: Path
) -> None:
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", "1")
    answered: list[Any] = []

    def answer(body: dict[str, Any]) -> str:
        # While the first is answered, another process answers the second.
        if not answered:
            answered.append(True)
            other = line("", "theirs").model_copy(update={"key": key_of_b})
            Journal(journal).append(other)
        return "ours"

    from bench.models.llm import Message, Request
    from bench.models.llm.messages import request_key

    key_of_b = request_key("m", Request((Message("user", "b"),)))
    chat_server.answer = answer
    assert [reply.text for reply in ask("a", "b")] == ["ours", "theirs"]
    assert chat_server.prompts == ["a"]
