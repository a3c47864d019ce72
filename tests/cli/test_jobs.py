"""`bench run --jobs N`: the same results as one at a time; failures and dead workers cost one cell."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kit.grids import alive, files, manifests, soon

from bench.base.paths import results_folder
from bench.results.store import StoredResult, find_results

ROOT = Path(__file__).parents[2]
Bench = Callable[..., Any]

#: A method that does what its name says when it comes to the third batch.
ODD = """
import os, signal, time
from pathlib import Path
import numpy as np
from bench.interface import Method
from bench.search.topk import top_k

class Odd(Method):
    batch_size = 8
    end = "well"
    batches = 0

    def index(self, library):
        self.size = len(library)

    def rank(self, queries, depth):
        self.batches += 1
        print("methods may print", flush=True)
        # By a pattern: a file that the code names is a part of what the method is, which may not change meanwhile.
        # A run that goes on begins with this batch.
        if queries.rows[0] == 16 and not any(Path().glob("go-*")):
            if self.end == "raises":
                raise ConnectionError("the service is away")
            if self.end == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.end == "waits":
                Path(f"waiting-{os.getpid()}-{self.batches}").touch()
                time.sleep(60)
        codes = np.arange(self.size)
        return top_k(np.array([(row * codes) % 7 for row in queries.rows], dtype=float), depth)

class Raises(Odd):
    end = "raises"

class Dies(Odd):
    end = "dies"

class Waits(Odd):
    end = "waits"
"""


@pytest.fixture(autouse=True)
def _own_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """Methods from the working folder are forgotten after the test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "odd", raising=False)


def ended(process: int) -> bool:
    return not alive(process)


def test_two_jobs_give_the_bytes_of_one(bench: Bench, tmp_path: Path) -> None:
    Path("grid.toml").write_text('methods = ["bm25", "tfidf", "random"]\ndatasets = ["starter"]\nlimit = 20\n')
    alone = bench("run", "grid.toml", "--results", tmp_path / "one")
    beside = bench("run", "grid.toml", "--results", tmp_path / "two", "--jobs", 2)
    assert beside.out == alone.out
    assert beside.err == alone.err
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert len(files(tmp_path / "one")) == 9
    assert manifests(tmp_path / "one") == manifests(tmp_path / "two")
    for name, jobs in (("one", None), ("two", 2)):
        for result in find_results(tmp_path / name):
            assert isinstance(result, StoredResult)
            result.verify()
            # Timings of cells that shared a machine say so.
            assert result.manifest.environment.hardware.get("jobs") == jobs


def test_a_cell_that_fails_or_dies_ends_no_other_and_goes_on(bench: Bench, tmp_path: Path) -> None:
    Path("odd.py").write_text(ODD)
    grid = ["-m", "odd:Raises", "-m", "odd:Dies", "-m", "random", "-d", "starter", "--jobs", 2]
    said = bench("run", *grid, code=5)
    assert "1/3 failed: method odd:Raises failed while ranking the batch of 8 queries" in said.err
    assert (
        "2/3 failed: the process of odd:Dies @ starter was ended by SIGKILL before it had a result; "
        "the other cells are not affected, and the same command continues with this one."
    ) in said.err
    assert "3/3 random @ starter" in said.err
    # What both had answered is there, and the same command goes on from it.
    Path("go-on").touch()
    again = bench("run", *grid, "--json").json
    assert [result["manifest"]["resumed"] for result in again] == [True, True, False]


def test_checks_come_first_for_all_cells(bench: Bench) -> None:
    Path("odd.py").write_text(ODD)
    said = bench("run", "-m", "odd:Odd", "-m", "oddd:Odd", "-d", "starter", "--jobs", 2, code=2)
    assert "oddd" in said.err
    assert not list(Path().glob("results/*/*/manifest.json"))
    bench("run", "-m", "random", "-d", "starter", "--limit", 4)
    said = bench("run", "-m", "random", "-m", "bm25", "--limit", 4, "--overwrite", "never", "--jobs", 2, code=2)
    assert "already exists, and --overwrite is never" in said.err


def test_workers_end_with_the_command_and_the_same_one_goes_on(bench: Bench) -> None:
    Path("odd.py").write_text(ODD)
    grid = ["run", "-m", "odd:Waits", "-m", "random", "-d", "starter", "--jobs", "2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    # What goes on after the one is ended by the next: each process takes a second to begin.
    for sent in (signal.SIGINT, signal.SIGKILL, signal.SIGTERM):
        process = subprocess.Popen(
            [sys.executable, "-m", "bench", *grid],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # A shell in the background has its children ignore Ctrl-C.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        (waits,) = soon(lambda: list(Path().glob("waiting-*")))
        worker, batches = map(int, waits.name.split("-")[1:])
        # Only the first one is asked for the two batches before.
        assert batches == (3 if sent == signal.SIGINT else 1)
        soon(lambda: list(results_folder().glob("starter/random-*/manifest.json")))
        assert alive(worker)
        process.send_signal(sent)
        assert process.wait(60) in (130, -sent)
        soon(partial(ended, worker), 20)
        waits.unlink()
    Path("go-on").touch()
    waited = bench(*grid, "--json").json[0]["manifest"]
    assert waited["method"]["spec"] == "odd:Waits"
    assert waited["resumed"]
