"""Sessions: what is set, shared and counted in one is not seen in another."""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.chatserver import ChatServer

from bench.base.config import Session, config_context, current_session, join_session, meter_requests, time_without_cache
from bench.base.errors import UnavailableError
from bench.base.progress import Progress
from bench.base.spec import Spec, parse
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.interface import Context, Library, Method, Queries, Ranking
from bench.models.cache import CachedModel, Row
from bench.models.encoders import Encoder
from bench.models.llm import LanguageModel, Message, Request
from bench.models.vectorcache import text_key
from bench.registry import build_method, load_dataset
from bench.results.store import StoredResult
from bench.search.topk import top_k

ROOT = Path(__file__).resolve().parent.parent


# Settings -----------------------------------------------------------------------------------------------------------


def test_without_a_session_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BENCH_OFFLINE", "BENCH_NO_CACHE", "BENCH_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    result = current_session()
    assert (result.offline, result.cache, result.mirror) == (False, True, None)
    for name in ("BENCH_OFFLINE", "BENCH_NO_CACHE", "BENCH_MIRROR"):
        monkeypatch.setenv(name, "1")
    result = current_session()
    assert (result.offline, result.cache, result.mirror) == (True, False, Path("1"))


def test_what_is_given_holds_inside_and_the_rest_is_the_parent_s() -> None:
    with config_context(offline=False, cache=False, mirror=Path("a")) as outer:
        with config_context(offline=True) as inner:
            assert current_session() is inner
            assert (inner.offline, inner.cache, inner.mirror) == (True, False, Path("a"))
            with join_session() as joined:
                assert joined is inner
        assert current_session() is outer
        assert not outer.offline


def test_models_are_shared_with_the_parent_and_counts_are_not() -> None:
    with config_context() as outer, meter_requests() as requests, time_without_cache() as timing:
        with config_context() as inner:
            assert inner.loaded is outer.loaded
            assert (inner.meters, inner.timing) == ([], None)
        assert (outer.meters, outer.timing) == ([requests], timing)
    assert (outer.meters, outer.timing) == ([], None)


def test_a_session_ends_with_an_error_too() -> None:
    with pytest.raises(KeyError), config_context() as opened, meter_requests():
        raise KeyError
    assert current_session() is not opened
    assert not opened.meters


def test_an_offline_session_asks_no_endpoint(chat_server: ChatServer) -> None:
    request = Request((Message("user", "a"),))
    model, encoder = LanguageModel("m"), Encoder("openai:emb-1")
    with config_context(offline=True):
        with pytest.raises(UnavailableError, match="offline"):
            model.complete([request])
        with pytest.raises(UnavailableError, match="offline"):
            encoder.encode(["a"])
    assert not chat_server.requests
    model.complete([request])
    assert len(chat_server.requests) == 1


def test_a_model_keeps_its_session_in_threads_of_the_method(chat_server: ChatServer) -> None:
    with config_context(), meter_requests() as requests:
        model = LanguageModel("m")
        with ThreadPoolExecutor(1) as pool:
            pool.submit(model.complete, [Request((Message("user", "a"),))]).result()
    assert requests.requests == 1


# Two runs in one process --------------------------------------------------------------------------------------------


class Met:
    """Two threads that go on in turns: nobody passes a point that the other has not reached."""

    def __init__(self) -> None:
        self._barrier = threading.Barrier(2, timeout=60)

    def __call__(self) -> None:
        self._barrier.wait()


class Interleaved(Method):
    """Asks a language model, while the other run does the same."""

    needs_llm = True
    batch_size = 4

    def __init__(self, model: str, prompts: int, meet: Met) -> None:
        super().__init__(Interleaved.Parameters(), Context(build_method))
        self.name = f"asks-{model}"
        self._model = self.include(LanguageModel(model))
        self._prompts = prompts
        self._meet = meet

    def index(self, library: Library) -> None:
        self._tools = len(library)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        self._meet()
        for i in range(self._prompts):
            self._model.complete([Request((Message("user", f"{i} {text}"),)) for text in queries.texts])
        self._meet()
        return top_k(np.zeros((len(queries), self._tools), dtype=np.float32), depth)


def in_two_threads(first: Callable[[], Any], second: Callable[[], Any]) -> tuple[Any, Any]:
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.submit(first), pool.submit(second)
        return one.result(timeout=120), other.result(timeout=120)


def test_two_runs_in_two_threads_count_their_requests_separately(chat_server: ChatServer, tmp_path: Path) -> None:
    meet = Met()
    dataset = load_dataset("starter")

    def run(model: str, prompts: int) -> Callable[[], StoredResult]:
        def build(spec: Spec) -> Method:
            return Interleaved(model, prompts, meet)

        def work() -> StoredResult:
            plan = Plan(parse("starter"), parse("bm25"), limit=8)
            (outcome,) = Runner(tmp_path / model, load=lambda spec: dataset, build=build).run([plan])
            assert isinstance(outcome, StoredResult), outcome
            return outcome

        return work

    one, other = in_two_threads(run("a", 1), run("b", 3))
    uses = [result.manifest.model_use for result in (one, other)]
    assert [use and use.requests for use in uses] == [8, 24]


class Lengths(CachedModel[str]):
    """Gives the length of a text."""

    @property
    def identity(self) -> str:
        return "lengths"

    def lengths(self, texts: Sequence[str]) -> list[float]:
        return [float(row[0]) for row in self._rows(texts)]

    def _key(self, given: str) -> bytes:
        return text_key(given)

    def _compute(self, missing: dict[bytes, str], progress: Progress) -> Iterator[dict[bytes, Row]]:
        yield {key: np.array([len(text)], dtype=np.float32) for key, text in missing.items()}


def test_two_threads_time_their_models_separately() -> None:
    meet = Met()
    assert Lengths("lengths").lengths(["tea", "oat", "tea", "rye"]) == [3, 3, 3, 3]

    def timed() -> tuple[bool, int]:
        """Nothing is loaded here: the number comes from the cache, and that is noted."""
        with config_context():
            model = Lengths("lengths")
            with time_without_cache() as timing:
                meet()
                model.lengths(["tea"])
                meet()
            return timing.cached, model.from_cache

    def untimed() -> tuple[int, int]:
        """What the other thread times is no reason not to count."""
        with config_context():
            model = Lengths("lengths")
            meet()
            model.lengths(["tea", "new"])
            meet()
            return model.from_cache, model.computed

    assert in_two_threads(timed, untimed) == ((True, 0), (1, 1))


def test_two_threads_have_settings_of_their_own() -> None:
    meet = Met()

    def seen(offline: bool) -> Callable[[], bool]:
        def work() -> bool:
            with config_context(offline=offline):
                meet()
                result = current_session().offline
                meet()
            return result

        return work

    assert in_two_threads(seen(True), seen(False)) == (True, False)


# The environment ----------------------------------------------------------------------------------------------------


def environment_writes(source: str) -> list[int]:
    """Lines that change `os.environ`: assignments, deletions, and calls of its methods that write."""
    writing = {"update", "setdefault", "pop", "popitem", "clear", "__setitem__", "__delitem__"}
    collected = []

    def is_environment(node: ast.expr) -> bool:
        return (isinstance(node, ast.Attribute) and node.attr == "environ") or (
            isinstance(node, ast.Name) and node.id == "environ"
        )

    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            written = is_environment(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            called = node.func
            written = called.attr in {"putenv", "unsetenv"} or (called.attr in writing and is_environment(called.value))
        elif isinstance(node, ast.AugAssign | ast.Assign):
            targets = [node.target] if isinstance(node, ast.AugAssign) else node.targets
            written = any(is_environment(target) for target in targets)
        else:
            written = False
        if written and isinstance(node, ast.expr | ast.stmt):
            collected.append(node.lineno)
    return collected


@pytest.mark.parametrize(
    "line",
    [
        *('os.environ["A"] = "1"', 'del os.environ["A"]', 'os.environ.setdefault("A", "1")', "environ.update(a)"),
        *('os.environ.pop("A")', 'os.putenv("A", "1")', "os.environ |= a"),
    ],
)
def test_a_write_to_the_environment_is_found(line: str) -> None:
    assert environment_writes(line) == [1]
    assert not environment_writes('x = {**os.environ, "A": "1"}; y = os.environ["A"]; z = os.environ.get("A")')


def test_nothing_writes_to_the_environment() -> None:
    """Arguments travel as arguments: a variable would hold for every thread, and outlive the call."""
    collected = {
        f"{path.relative_to(ROOT)}:{line}"
        for folder in ("bench", "methods", "datasets", "leaderboard")
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in environment_writes(path.read_text("utf-8"))
    }
    assert not collected


def test_sessions_of_the_environment_are_not_kept() -> None:
    assert current_session() is not current_session()
    assert isinstance(current_session(), Session)
