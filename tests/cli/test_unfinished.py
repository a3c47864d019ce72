"""A result that is older than the last run of its method is judged by no gate, and marked wherever it is shown."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from kit.results import of_this_run
from kit.searchservice import Request, Service, serving

import bench as api
from bench.__main__ import run as run_command
from bench.base.paths import results_folder
from bench.cli.schemas import shipped_schema

Bench = Callable[..., Any]
POLICY = 'margin = 0.5\n[[rule]]\nmetric = "recall@5"\n'


class Search:
    """A service that answers all queries alike, says its version, and can be told to fail."""

    def __init__(self) -> None:
        self.version, self.down, self.dead = "v1", False, False
        #: Queries that it answers before it fails.
        self.left = 1_000_000

    def __call__(self, request: Request) -> None:
        if self.dead or (self.down and request.path != "/version"):
            request.reply({}, 500)
        elif request.path == "/version":
            request.reply({"version": self.version})
        elif not self.left:
            request.reply({}, 500)
        else:
            self.left -= 1
            request.reply({"tools": ["driftshelf.list_folders", "driftshelf.search_files", "driftshelf.share_file"]})


@pytest.fixture(scope="module")
def shared_service() -> Iterator[Service]:
    """One service for all tests, so that they can share results that name it."""
    with serving() as server:
        yield server


@pytest.fixture
def search(shared_service: Service) -> Search:
    """What it answers, as new."""
    shared_service.answer = Search()
    return shared_service.answer


@pytest.fixture(scope="module", params=["", "revision=v1", "version"])
def blessed(
    request: pytest.FixtureRequest,
    shared_service: Service,
    shared_cache: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[str, Path]:
    """A method that asks the service, whose version nobody, the user or the service says; its result and a baseline."""
    more = request.param
    if more == "version":
        more = f'version="{shared_service.url.replace("/search", "/version")}"'
    spec = f'http(tries=1, url="{shared_service.url}"{", " if more else ""}{more})'
    shared_service.answer = Search()
    folder = tmp_path_factory.mktemp("blessed")
    results = ["--results", str(folder / "results")]
    with of_this_run(shared_cache):
        assert run_command(["run", "-q", "-m", spec, "-d", "starter", *results]) == 0
        bless = ["bless", f"{spec}@starter", "--out", str(folder / "b.json"), "--by", "a person"]
        assert run_command([*bless, *results]) == 0
    return spec, folder


@pytest.fixture
def spec(blessed: tuple[str, Path], search: Search, bench: Bench) -> str:
    """The method; the result and the baseline are this test's own."""
    spec, folder = blessed
    shutil.copytree(folder / "results", results_folder())
    shutil.copy(folder / "b.json", "b.json")
    Path("gate.toml").write_text(POLICY)
    return spec


def run(bench: Bench, spec: str, *more: str, code: int = 0) -> Any:
    return bench("run", "-q", "-m", spec, "-d", "starter", *more, code=code)


def gate(bench: Bench, name: str, *more: str, code: int) -> Any:
    return bench("gate", name, "--baseline", "b.json", "--policy", "gate.toml", *more, code=code)


def begun() -> list[Path]:
    return sorted(Path("../results").glob("*/.*.begun"))


def fail(bench: Bench, spec: str, search: Search) -> None:
    """Let the next run of a service fail, whether its version is known or not."""
    search.down = True
    run(bench, spec, *(["--overwrite", "always"] if "version" in spec or "revision" in spec else []), code=4)
    search.down = False


def test_the_gate_does_not_judge_the_result_before_a_run_that_failed(bench: Bench, spec: str, search: Search) -> None:
    stored = bench("show", f"{spec}@starter", "--json").json
    assert "later_run" not in stored
    fail(bench, spec, search)
    (path,) = begun()
    written = json.loads(path.read_text())
    jsonschema.validate(written, shipped_schema("begun"))
    made, later = stored["manifest"]["environment"]["created"], written["begun"][:16]
    refused = gate(bench, f"{spec}@starter", code=3).out
    assert "not run: it could not be evaluated" in refused
    assert made in refused
    assert later in refused
    assert api.gate(f"{spec}@starter", "b.json", "gate.toml").outcome == "not run"
    # Whoever names it by its id means this one, and is told.
    by_id = gate(bench, stored["manifest"]["result_id"], code=0).out
    assert "WARNING: a run of it started at" in by_id
    gate(bench, f"{spec}@starter#{stored['manifest']['result_id']}", code=0)
    shown = bench("show", f"{spec}@starter")
    assert "older than the last run: a run of it started at" in " ".join(shown.out.split())
    assert made in bench("show", f"{spec}@starter", "--json").json["later_run"]
    bench("run", "-q", "-m", "bm25", "-d", "starter")
    compared = bench("compare", f"{spec}@starter", "bm25@starter", "--json").json
    first, second = compared["datasets"][0]["systems"]
    assert "older than the last run" in first["marks"]
    assert "older than the last run" not in second["marks"]
    # A run that ends with a result ends this.
    run(bench, spec)
    assert begun() == []
    gate(bench, f"{spec}@starter", code=0)


def test_a_kept_result_stays_older_unless_the_run_has_known_it_to_be_todays(
    bench: Bench, spec: str, search: Search
) -> None:
    fail(bench, spec, search)
    run(bench, spec, "--overwrite", "missing")
    gate(bench, f"{spec}@starter", code=3)


def test_a_run_that_fails_before_it_asks_is_a_later_run_too(bench: Bench, spec: str, search: Search) -> None:
    if "version" not in spec:
        pytest.skip("only a service that says its version is asked before")
    search.dead = True
    bench("run", "-q", "-m", "bm25", "-m", spec, "-d", "starter", code=4)
    search.dead = False
    gate(bench, f"{spec}@starter", code=3)
    # What the command would have kept is what it was.
    bench("run", "-q", "-m", "bm25", "-d", "starter")
    search.dead = True
    bench("run", "-q", "-m", spec, "-m", "bm25", "-d", "starter", code=4)
    assert len(begun()) == 1


def test_a_service_of_another_version_needs_another_run(bench: Bench, spec: str, search: Search) -> None:
    search.version = "v2"
    if "version" not in spec:
        gate(bench, f"{spec}@starter", code=0)
        return
    refused = gate(bench, f"{spec}@starter", code=3).out
    assert "is v2 now and was v1" in refused
    # A run of the new version that fails is told with both times, once the service is as it was.
    search.down = True
    run(bench, spec, code=4)
    search.down, search.version = False, "v1"
    assert "a run of it started at" in gate(bench, f"{spec}@starter", code=3).out
    # The run that keeps the old result has asked for the version.
    run(bench, spec)
    gate(bench, f"{spec}@starter", code=0)
    # A service that does not answer names no other version.
    search.dead = True
    gate(bench, f"{spec}@starter", code=0)


def test_other_settings_are_other_runs(bench: Bench, spec: str, search: Search) -> None:
    search.down = True
    run(bench, spec, "--depth", "7", code=4)
    run(bench, spec, "--limit", "12", code=4)
    search.down = False
    gate(bench, f"{spec}@starter", code=0)


def test_a_run_of_own_code_that_is_killed_is_a_later_run(bench: Bench, tmp_path: Path) -> None:
    Path("slow.py").write_text(
        "import os, time\n"
        "def search(text, limit):\n"
        "    while os.path.exists('hang'):\n"
        "        print('asked', flush=True)\n"
        "        time.sleep(0.05)\n"
        "    return ['driftshelf.list_folders']\n"
    )
    sys.path.insert(0, str(Path.cwd()))
    try:
        run(bench, "slow:search")
        bench("bless", "slow:search@starter", "--out", "b.json", "--by", "a person")
        Path("gate.toml").write_text(POLICY)
        gate(bench, "slow:search@starter", code=0)
        Path("hang").touch()
        command = ["run", "-q", "-m", "slow:search", "-d", "starter", "--overwrite", "always"]
        with subprocess.Popen([sys.executable, "-m", "bench", *command], stdout=subprocess.PIPE) as process:
            assert process.stdout is not None
            assert process.stdout.readline()
            process.send_signal(signal.SIGKILL)
        Path("hang").unlink()
        gate(bench, "slow:search@starter", code=3)
        run(bench, "slow:search", "--overwrite", "always")
        gate(bench, "slow:search@starter", code=0)
    finally:
        sys.path.remove(str(Path.cwd()))
        sys.modules.pop("slow", None)


def test_a_damaged_file_of_a_run_is_named_and_is_no_pass(bench: Bench, spec: str, search: Search) -> None:
    fail(bench, spec, search)
    (path,) = begun()
    for content in ("{", '{"schema_name": "begun", "schema_name": "begun"}', "{}"):
        path.write_text(content)
        assert path.name in gate(bench, f"{spec}@starter", code=3).out
    path.unlink()
    gate(bench, f"{spec}@starter", code=0)


def test_a_folder_that_was_copied_takes_no_run_with_it(bench: Bench, spec: str, search: Search) -> None:
    stored = bench("show", f"{spec}@starter", "--json").json
    fail(bench, spec, search)
    shutil.copytree(stored["folder"], "elsewhere/starter/copied")
    gate(bench, "elsewhere/starter/copied", code=0)


def test_answers_that_were_kept_of_a_run_that_broke_off_are_no_verdict(bench: Bench, spec: str, search: Search) -> None:
    always = [] if spec.endswith('search")') else ["--overwrite", "always"]
    search.left = 70
    run(bench, spec, *always, code=4)
    search.left = 1_000_000
    shown = run(bench, spec, *always).out
    if always:
        # Somebody says that the service is the one that answered first.
        gate(bench, f"{spec}@starter", code=0)
        return
    assert "resumed: some answers come from an earlier run" in " ".join(shown.split())
    assert "some answers come from an earlier run" in gate(bench, f"{spec}@starter", code=3).out
    run(bench, spec)
    gate(bench, f"{spec}@starter", code=0)
