"""Shared fixtures. Tests never touch the user's cache, data or network."""

from __future__ import annotations

import gc
import hashlib
import json
import os
import shutil
import signal
import ssl
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Where the environment forbids to keep compiled files, as images of containers like to, every worker and every process
# that a test starts would compile bench, its tests and all libraries anew: a third of the time of a run.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell in the background has its children ignore Ctrl-C, and so would the commands that tests end by it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

import hypothesis
import pytest

# Before numpy and torch are imported: as many processes as cores test side by side, and their threads would be in each
# other's way.
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")

from kit.once import Once, changed, folder_of_run, makes_once
from kit.results import LOCKS, of_this_run

from bench.__main__ import run
from bench.evaluation.machine import cores

if TYPE_CHECKING:
    from kit.chatserver import ChatServer
    from kit.interpreter import Interpreter
    from kit.searchservice import Service

    from bench.data.dataset import Dataset

ROOT = Path(__file__).resolve().parent.parent

pytest_plugins = ["kit.selection"]
_wrong = pytest.StashKey[list[str]]()

# A test is no slower for a machine that has other things to do: time is measured in benchmarks/. Every run has other
# examples, so that a fault which one run misses, the next may find.
hypothesis.settings.register_profile("patient", deadline=None, max_examples=40)
hypothesis.settings.load_profile("patient")

#: What tests may not take from the user's environment: an endpoint there costs money.
_ENDPOINT_VARIABLES = (
    *("BENCH_LLM_URL", "BENCH_LLM_KEY", "BENCH_LLM_JOURNAL", "BENCH_LLM_LIMIT", "BENCH_LLM_PRICE", "BENCH_LLM_PRICES"),
    *("BENCH_LLM_CONCURRENCY", "BENCH_LLM_TIMEOUT", "BENCH_EMBEDDING_URL", "BENCH_EMBEDDING_KEY"),
    *("BENCH_EMBEDDING_PRICE", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
    *("ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
)


def mirror_folder() -> Path | None:
    """The mirror of upstream's files: BENCH_MIRROR, else ../shared/mirror next to the checkout."""
    named = os.environ.get("BENCH_MIRROR")
    folder = Path(named).expanduser() if named else ROOT.parent / "shared" / "mirror"
    return folder.resolve() if folder.is_dir() else None


MIRROR = mirror_folder()
#: Files of what bench found in its source files, above which all are removed: each edit of a module leaves some.
MOST_KEPT = 5000


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: some tests wait for the processes that they have started."""
    return cores() + 1


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The mirror; a test that asks for it is skipped where there is none (and CI fails if any is)."""
    if MIRROR is None:
        reason = "no mirror of upstream's files: set BENCH_MIRROR or put it at ../shared/mirror"
        if os.environ.get("BENCH_REQUIRE_MIRROR"):
            pytest.fail(reason)
        pytest.skip(reason)
    return MIRROR


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config) -> Path:
    """One cache for all tests of a run, so that each text is encoded once; shared by the workers of xdist.

    What bench finds in its own source files takes five seconds in an empty cache. It is kept from run to run, for as
    long as the code that finds it is the same; bench itself keeps it by the content of the files.
    """
    cache = folder_of_run(tmp_path_factory) / "bench-cache"
    cache.mkdir(exist_ok=True)
    if not pytestconfig.pluginmanager.has_plugin("cacheprovider"):
        return cache
    code = b"".join(path.read_bytes() for path in sorted((ROOT / "bench" / "identity").glob("*.py")))
    assert pytestconfig.cache is not None
    kept = pytestconfig.cache.mkdir(f"bench-code-{hashlib.sha256(code).hexdigest()[:12]}")
    if len(files := list(kept.iterdir())) > MOST_KEPT:
        for path in files:
            path.unlink(missing_ok=True)
    with suppress(FileExistsError):
        (cache / "code").symlink_to(kept)
    return cache


def pytest_sessionfinish(session: pytest.Session) -> None:
    """What is shared is as it was made: a test that changes it fails the run, whichever test reads it later."""
    factory = session.config._tmp_path_factory  # type: ignore[attr-defined]
    if hasattr(session.config, "workerinput") or factory._basetemp is None:
        return
    if wrong := changed(factory.getbasetemp() / "once"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
        session.config.stash[_wrong] = wrong


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Name what was changed."""
    for name in config.stash.get(_wrong, [])[:10]:
        terminalreporter.write_line(f"FAILED: a test changed {name}, which all tests share; it must change a copy.")


@pytest.fixture(scope="session")
def once(tmp_path_factory: pytest.TempPathFactory) -> Once:
    """Makes a folder once in a run of the tests, for all workers (`kit/once.py`): read it, or change a copy."""
    return makes_once(folder_of_run(tmp_path_factory) / "once")


@pytest.fixture(scope="session")
def interpreter() -> Iterator[Interpreter]:
    """Runs a program as `python -c` would, without the time that Python and libraries need to start."""
    from kit.interpreter import Interpreter

    with closing(Interpreter()) as made:
        yield made


@pytest.fixture(scope="session")
def starter() -> Dataset:
    """The embedded dataset, loaded once in a process: read it."""
    from kit.datasets import loaded

    return loaded("starter")


@pytest.fixture(scope="session")
def starter_results(once: Once, shared_cache: Path) -> Path:
    """Results of five methods on the embedded dataset, made once in a run: read them, or change a copy (`ready`)."""
    methods = ["bm25", "bm25(k1=0.5)", "random", "oracle", "nearest-bundle(base=bm25)"]

    def make(folder: Path) -> None:
        words = [word for name in methods for word in ("-m", name)]
        with of_this_run(shared_cache):
            assert run(["run", *words, "-d", "starter", "-q", "--results", str(folder)]) == 0

    return once("starter-results", make)


@pytest.fixture
def ready(starter_results: Path, isolated: None) -> Path:
    """A copy of `starter_results`, as this test's own results."""
    from bench.base.paths import results_folder

    shutil.copytree(starter_results, results_folder(), ignore=LOCKS)
    return results_folder()


@pytest.fixture(scope="session")
def starter_baseline(once: Once, starter_results: Path, shared_cache: Path) -> Path:
    """A baseline of bm25 on starter, blessed by "a person", made once in a run: read it, or change a copy."""

    def make(folder: Path) -> None:
        bless = ["bless", "bm25@starter", "--results", str(starter_results), "--by", "a person"]
        with of_this_run(shared_cache):
            assert run([*bless, "--out", str(folder / "b.json")]) == 0

    return once("starter-baseline", make) / "b.json"


@pytest.fixture(autouse=True)
def settled() -> None:
    """Each run of a method collects garbage; what is there already need not be looked at again every time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def hurried() -> Iterator[None]:
    """What takes time in every test and matters to few.

    All clients share what a TLS connection would need: it takes 60 ms to make, and no service of a test has TLS. A run
    times five single queries, not a hundred. No file waits until the disk has it: no test cuts the power.
    """
    from bench.evaluation import ask

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        patch.setattr(ask, "_LATENCY_QUERIES", 5)
        patch.setattr(os, "fsync", lambda handle: None)
        yield


@pytest.fixture(autouse=True)
def isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shared_cache: Path) -> None:
    """Own data and results folders for each test, a cache of this test run, no network, no mirror but by fixture."""
    monkeypatch.setenv("BENCH_CACHE", str(shared_cache))
    monkeypatch.setenv("BENCH_DATA", str(tmp_path / "bench-data"))
    monkeypatch.setenv("BENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    for name in ("BENCH_NO_CACHE", *_ENDPOINT_VARIABLES):
        monkeypatch.delenv(name, raising=False)
    if MIRROR is not None:
        monkeypatch.setenv("BENCH_MIRROR", str(MIRROR))
    return


@pytest.fixture
def fewer_flips(monkeypatch: pytest.MonkeyPatch) -> int:
    """Tests of the difference between systems draw a tenth of the random signs: their number."""
    from kit.flips import draw_fewer

    return draw_fewer(monkeypatch)


@pytest.fixture
def own_cache(isolated: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """An empty cache of this test's own: its folder."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def chat_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, isolated: None) -> Iterator[ChatServer]:
    """An endpoint on loopback (`chatserver.py`), named in the environment, with a journal of this test."""
    from kit.chatserver import ChatServer

    from bench.models.llm import transport

    server = ChatServer()
    monkeypatch.setenv("BENCH_LLM_URL", server.url)
    monkeypatch.setenv("BENCH_LLM_KEY", "sk-of-the-test")
    monkeypatch.setenv("BENCH_LLM_JOURNAL", str(tmp_path / "journal.jsonl"))
    monkeypatch.setenv("BENCH_LLM_TIMEOUT", "10")
    monkeypatch.delenv("BENCH_OFFLINE")
    # A test waits for retries no longer than it must.
    monkeypatch.setattr(transport, "FIRST_WAIT", 0.001)
    yield server
    server.close()


@pytest.fixture
def service() -> Iterator[Service]:
    """A search service on loopback (`searchservice.py`), which answers as a test sets it."""
    from kit.searchservice import serving

    with serving() as server:
        yield server


@pytest.fixture
def few_resamples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Intervals of means from 200 resamples, not 10,000, which are a fifth of the time of a small run."""
    from bench.results import intervals
    from bench.stats.bootstrap import bca_intervals

    monkeypatch.setattr(intervals, "bca_intervals", partial(bca_intervals, resamples=200))


_WORDS = "send a letter to post mail the weather in tomorrow rain train ticket book find price stock query tool and or"


@pytest.fixture(scope="session")
def tiny_models(once: Once) -> dict[str, str]:
    """Folders of three untrained models of two small layers: `encoder`, `reranker` (one output), `classifier` (two)."""
    kinds = {"encoder": (), "reranker": ("relevant",), "classifier": ("single", "multi")}

    def make(folder: Path) -> None:
        from kit.models import untrained_bert

        signs = "abcdefghijklmnopqrstuvwxyz0123456789.,:?!'-"
        words = [*signs, *(f"##{sign}" for sign in signs), *_WORDS.split()]
        for name, labels in kinds.items():
            # An untrained classifier with the usual small weights answers nearly the same to everything.
            untrained_bert(folder / name, words, labels, seed=7, initializer_range=0.5 if labels else 0.1)

    folder = once("tiny-models", make)
    return {name: str(folder / name) for name in kinds}


@dataclass(frozen=True)
class Said:
    """Exit code, standard output and standard error of one command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Said]:
    """Run one command in a working folder of its own; its exit code must be the expected one."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def bench(*arguments: object, code: int = 0) -> Said:
        capsys.readouterr()
        result = run([str(argument) for argument in arguments])
        said = Said(result, *capsys.readouterr())
        assert said.code == code, said.err or said.out
        assert "Traceback" not in said.err
        return said

    return bench
