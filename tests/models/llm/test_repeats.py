"""Repeats with a language model: each asks anew and is recorded; the journal of the first is as it always was."""

from __future__ import annotations

import itertools
import json
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.chatserver import ChatServer
from kit.datasets import loaded
from kit.forked import Forked

from bench.base.config import config_context
from bench.base.errors import BenchError, UnavailableError
from bench.base.spec import parse
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.models.llm import LanguageModel, Message, Request
from bench.models.llm.messages import request_key
from bench.registry import build_method
from bench.results.costs import money_per_query
from bench.results.store import StoredResult

METHOD = "query-generation(base=bm25, llm=m)"
LIMIT = 12
FILES = ("run.parquet", "per_query.parquet", "metrics.json", "repeats.parquet")
WORDS = ["weather", "train", "letter", "hotel", "bank", "movie", "music", "recipe"]


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., StoredResult]:
    """Run query generation on a few queries of starter, into a folder of results."""

    def run(folder: str, repeats: int = 3) -> StoredResult:
        runner = Runner(tmp_path / folder, load=lambda spec: loaded(str(spec)), build=build_method)
        (outcome,) = runner.run([Plan(parse("starter"), parse(METHOD), limit=LIMIT, repeats=repeats)])
        if isinstance(outcome, BenchError):
            raise outcome
        return outcome

    return run


class Moody:
    """Answers every request otherwise, also the same one."""

    def __init__(self) -> None:
        self._count = itertools.count()
        self._lock = threading.Lock()

    def __call__(self, body: dict[str, Any]) -> str:
        with self._lock:
            number = next(self._count)
        return f"{WORDS[number % 8]} {WORDS[(number // 8) % 8]} number {number}"


def test_each_repeat_asks_anew_and_replays_offline_to_the_same_bytes(
    chat_server: ChatServer, run: Callable[..., StoredResult], journal: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chat_server.answer = Moody()
    monkeypatch.setenv("BENCH_LLM_PRICE", "1/1")
    recorded = run("recorded")
    assert set(Counter(chat_server.prompts).values()) == {3}
    assert len(chat_server.prompts) == 3 * LIMIT
    use = recorded.manifest.model_use
    assert use is not None
    assert (use.requests, use.from_journal) == (3 * LIMIT, 0)
    assert use.cost is not None
    # Who uses the method asks once.
    assert money_per_query(recorded.manifest) == pytest.approx(use.cost / 3 / LIMIT)
    rankings = [recorded.of_repeat(number).run["tool_id"].to_pylist() for number in (1, 2, 3)]
    assert rankings[0] != rankings[1] != rankings[2] != rankings[0]
    lines = [json.loads(line)["request"] for line in journal.read_text("utf-8").splitlines()]
    assert Counter(line.get("repeat") for line in lines) == {None: LIMIT, 2: LIMIT, 3: LIMIT}
    chat_server.close()
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    replayed = run("replayed")
    assert replayed.manifest.result_id == recorded.manifest.result_id
    for name in FILES:
        assert (replayed.folder / name).read_bytes() == (recorded.folder / name).read_bytes()
    # The first repeat is a run without repeats; a repeat that was never asked is missed.
    assert run("single", repeats=1).run.equals(recorded.of_repeat(1).run)
    with pytest.raises(UnavailableError, match=r"lacks 12 of the replies of m.*\(sample 0, repeat 4\)"):
        run("more", repeats=4)


def test_keys_and_lines_of_the_first_repeat_are_those_of_no_repeat(chat_server: ChatServer, journal: Path) -> None:
    request = Request((Message("user", "hello"),))
    # Of bench 0.3.
    assert request_key("m", request) == "1dc8d68d2d57b2fc68f820f16d7213c13c8bd5ab9e0eff0784ea3e149662bdf5"
    assert request_key("m", request, 1) == request_key("m", request)
    assert len({request_key("m", request, repeat) for repeat in (1, 2, 3)}) == 3
    LanguageModel("m").complete([request])
    with config_context(repeat=2):
        LanguageModel("m").complete([request])
    first, second = (json.loads(line)["request"] for line in journal.read_text("utf-8").splitlines())
    assert list(first) == ["messages", "temperature", "top_p", "max_tokens", "sample"]
    assert second == {**first, "repeat": 2}


def test_threads_of_a_method_ask_for_its_repeat(chat_server: ChatServer, journal: Path) -> None:
    with config_context(repeat=3):
        model = LanguageModel("m")
    thread = threading.Thread(target=lambda: model.complete([Request((Message("user", "hello"),))]))
    thread.start()
    thread.join()
    assert json.loads(journal.read_text("utf-8"))["request"]["repeat"] == 3


PROGRAM = f"""
import sys
from pathlib import Path
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.registry import build_method, load_dataset
from bench.base.spec import parse
runner = Runner(Path(sys.argv[1]), load=load_dataset, build=build_method)
(result,) = runner.run([Plan(parse("starter"), parse("{METHOD}"), limit={LIMIT}, repeats=3)])
print(result.manifest.result_id)
"""


def test_after_a_kill_in_a_later_repeat_only_what_lacks_is_asked(
    chat_server: ChatServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Callable[..., StoredResult],
) -> None:
    if not hasattr(signal, "SIGKILL"):
        pytest.skip("no SIGKILL on this system")
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", "1")
    moody = Moody()

    def slowly(body: dict[str, Any]) -> str:
        time.sleep(0.02)
        return moody(body)

    chat_server.answer = slowly
    running = Forked(PROGRAM, str(tmp_path / "killed"))
    until = time.monotonic() + 60
    while len(chat_server.prompts) < LIMIT + 4:
        assert time.monotonic() < until
        assert not running.ended
        time.sleep(0.002)
    running.signal(signal.SIGKILL)
    running.wait()
    time.sleep(0.1)
    result = run("killed")
    # At most the call under way was made twice.
    assert len(chat_server.prompts) - 3 * LIMIT in {0, 1}
    assert result.manifest.resumed
    assert result.manifest.model_use is not None
    assert result.manifest.model_use.cost is None
    again = run("whole")
    assert not again.manifest.resumed
    for name in FILES:
        assert (result.folder / name).read_bytes() == (again.folder / name).read_bytes()
