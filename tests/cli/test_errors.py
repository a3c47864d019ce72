"""What goes wrong is told in one sentence on standard error, with the documented exit code, and harms nothing."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.processes import Command, forked

from bench.base.errors import EXIT_CODES, UsageError
from bench.base.paths import results_folder
from bench.registry import dataset_entry

Bench = Callable[..., Any]

METHODS = '''
"""Methods that break the protocol."""

import numpy as np

from bench.interface import Method, Ranking


class Good(Method):
    """Returns the first three tools."""

    tools, scores = [0, 1, 2], [3.0, 2.0, 1.0]

    def index(self, library):
        pass

    def rank(self, queries, depth):
        tools = np.tile(np.array(self.tools), (len(queries), 1))
        return Ranking(tools, np.tile(np.array(self.scores), (len(queries), 1)))


class NotANumber(Good):
    """Scores NaN."""

    scores = [3.0, float("nan"), 1.0]


class Twice(Good):
    """Returns a tool twice."""

    tools = [0, 1, 0]


class Stranger(Good):
    """Returns an unknown tool."""

    tools = [0, 1, 12345]


class Raises(Good):
    """Raises."""

    def rank(self, queries, depth):
        raise RuntimeError("out of luck")


class RaisesEarly(Good):
    """Raises when it is indexed."""

    def index(self, library):
        raise RuntimeError("out of luck")


class Other:
    """No method."""
'''


@pytest.fixture(autouse=True)
def methods(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> Iterator[None]:
    """`broken.py` in the working folder, forgotten after the test."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    Path("broken.py").write_text(METHODS)
    yield
    sys.modules.pop("broken", None)


def sentence(said: Any) -> str:
    """The one sentence that a command said; nothing but it, and nothing on standard output."""
    assert said.out == ""
    lines = said.err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("bench: ")
    assert lines[0].endswith(".")
    return str(lines[0].removeprefix("bench: "))


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# The command --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("run -m bm52", "there is no method 'bm52' (did you mean 'bm25'?); `bench list methods` lists them"),
        ("run -d strater", "there is no dataset 'strater' (did you mean 'starter'?); `bench list datasets` lists them"),
        ("run -m bm25 --metric ndgc@5", "there is no metric 'ndgc' (did you mean 'ndcg'?)"),
        ("run -m bm25 --metric ndcg@0", "the cut-off of 'ndcg@0' must be between 1 and 1000000."),
        ("run -m bm25 --set k1=high", "parameter 'k1' of method bm25 is 'high': input should be a valid number"),
        ("run -m bm25 --set k2=1", "method bm25 has no parameter 'k2'; its parameters: k1, b, tokens."),
        ("run -m bm25(k1=-1)", "parameter 'k1' of method bm25 is -1: input should be greater than or equal to 0."),
        ("run -m bm25 --set k1", "--set 'k1' is not of the form NAME=VALUE."),
        ("run -m bm25 -m tfidf --set k1=1", "--set goes with one method"),
        ("run -m bm25(", "cannot read 'bm25(': expected an argument's name at character 6."),
        ("run -m tgr(base=popularity)", "tgr cannot use base=popularity"),
        ("run -m tgr(graph=absent.tsv)", "graph=absent.tsv is neither `rules`, `manual`, `discriminator`"),
        ("run -m broken:Absent", "the module broken has no class or function 'Absent'."),
        ("run -m absent:Method", "there is no module 'absent' to import for the method 'absent:Method'."),
        ("run -m popularity --split all", "method popularity needs past queries, and starter has none when all"),
        ("run -m oracle --cut size", "method oracle recommends its own sets; --cut is for methods that only rank."),
        ("run -m random --cut threshold", "--cut threshold needs scores, but random returns an order without scores"),
        ("run -d starter(split=random)", "dataset starter has no parameter 'split'; its parameters: gold,"),
        ("run absent.toml", "cannot read the experiment file absent.toml: "),
        ("show absent", "there is no result 'absent' in "),
        ("data info absent", "there is no dataset 'absent'"),
        ("data add starter --from .", "a dataset 'starter' already exists; choose another name."),
        ("data add mine --from .", ". has an unknown format: it has neither corpus.jsonl (BEIR) nor "),
        ("data add mine --from absent", "absent is not a folder."),
        ("list metrics ndgc", "there is no metric 'ndgc' (did you mean 'ndcg'?)"),
        ("list schemas manifst", "there is no schema 'manifst' (did you mean 'manifest'?)"),
        ("check method bm52", "there is no method 'bm52'"),
    ],
)  # fmt: skip
def test_a_wrong_command_is_told_in_one_sentence(bench: Bench, command: str, told: str) -> None:
    assert sentence(bench(*command.split(), code=2)).startswith(told)


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("rnu", "there is no command 'rnu'. Did you mean 'run'?"),
        ("run --limit 0", "Invalid value for '--limit': 0 is not in the range x>=1."),
        ("run --split tset", "Invalid value for '--split': 'tset' is not one of 'train', 'dev', 'test', 'all'."),
        ("run --colour red", "No such option '--colour'."),
        ("score x.trec", "Missing option '-d' / '--dataset'."),
        ("data add x", "Missing option '--from'."),
    ],
)
def test_a_wrong_option_is_told_with_the_usage(bench: Bench, command: str, told: str) -> None:
    said = bench(*command.split(), code=2)
    assert said.out == ""
    assert said.err.startswith("Usage: bench ")
    assert f"Error: {told}" in said.err


def test_a_wrong_command_starts_nothing(bench: Bench, tmp_path: Path) -> None:
    bench("run", "-m", "bm25", "-m", "popularity", "--split", "all", code=2)
    bench("run", "-m", "bm25", "-d", "starter", "-d", "strater", code=2)
    assert not (tmp_path / "results").exists()


def test_debugging_shows_where_it_happened(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_DEBUG", "1")
    with pytest.raises(UsageError):
        bench("run", "-m", "bm52")


# Methods ------------------------------------------------------------------------------------------------------------


FAILING = {
    "NotANumber": "method broken:NotANumber returned the score nan for query 0373, tool almanac9.get_holidays; ",
    "Twice": "method broken:Twice returned a tool twice for query 0373, tool almanac9.get_entries; ",
    "Stranger": "method broken:Stranger returned the unknown tool code 12345 for query 0373; ",
    "Raises": "method broken:Raises failed while ranking the batch of 8 queries from 0373: RuntimeError: out of ",
    "RaisesEarly": "method broken:RaisesEarly ",
    "Other": "broken:Other is not a method: it must be a subclass of bench.interface.Method.",
}


def test_a_method_that_fails_is_told_and_earlier_results_stay(bench: Bench, tmp_path: Path) -> None:
    bench("run", "-m", "broken:Good", "-m", "bm25", "--limit", 8)
    before = files(tmp_path / "results")
    for method, told in FAILING.items():
        said = bench("run", "-m", f"broken:{method}", "--limit", 8, code=5)
        assert sentence(said).startswith(told)
        assert {name: data for name, data in files(tmp_path / "results").items() if name in before} == before
        # Nor is half a result left where a whole one is looked for.
        assert len(list((tmp_path / "results").glob("*/*/manifest.json"))) == 2


# Files --------------------------------------------------------------------------------------------------------------


@pytest.fixture
def mirror_copy(mirror: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A mirror of API-Bank's files that may be changed, and a cache that knows nothing of them."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    for name in dataset_entry("apibank").card.files():
        target = tmp_path / "mirror" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(mirror / name, target)
        target.chmod(0o644)
    return tmp_path / "mirror"


def test_a_corrupted_download_is_told_and_not_used(bench: Bench, mirror_copy: Path, tmp_path: Path) -> None:
    name = max(dataset_entry("apibank").card.files())
    data = bytearray((mirror_copy / name).read_bytes())
    data[len(data) // 2] ^= 1
    (mirror_copy / name).write_bytes(data)
    said = bench("run", "-m", "bm25", "-d", "apibank", "--mirror", mirror_copy, code=3)
    assert sentence(said).startswith(f"{mirror_copy / name} in the mirror has sha256 ")
    assert "the file is corrupted or not the version named; it was not used." in said.err
    assert not (tmp_path / "results").exists()
    assert not list((tmp_path / "cache").rglob("*.parquet"))


def test_a_file_that_is_missing_is_told(bench: Bench, mirror_copy: Path) -> None:
    name = min(dataset_entry("apibank").card.files())
    (mirror_copy / name).unlink()
    said = bench("data", "fetch", "apibank", "--mirror", mirror_copy, code=4)
    assert sentence(said).startswith(f"the mirror {mirror_copy} has no file {name}; ")


def test_offline_without_the_files_is_told(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("BENCH_MIRROR", raising=False)
    assert sentence(bench("run", "-m", "bm25", "-d", "apibank", code=4)).startswith("offline, and ")


@pytest.mark.parametrize("dataset", ["toolbench-g1", "apibank-full"])
def test_a_dataset_whose_files_one_must_bring_says_how(bench: Bench, dataset: str) -> None:
    said = sentence(bench("run", "-m", "bm25", "-d", dataset, code=4))
    assert said.startswith(f"{dataset} is not available: ")
    assert said.endswith(f"Then run `bench data add {dataset} --from FOLDER`.")


def test_a_truncated_table_of_a_result_is_told(bench: Bench) -> None:
    result = bench("run", "-m", "bm25", "--limit", 8, "--json").json[0]
    path = Path(result["folder"]) / "run.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    said = bench("show", result["manifest"]["result_id"], "--format", "trec", code=6)
    assert sentence(said).startswith(f"{path} is truncated or changed")
    # As it says, the run can be made again.
    bench("run", "-m", "bm25", "--limit", 8, "--overwrite", "always")
    bench("show", result["manifest"]["result_id"], "--format", "trec")


def test_a_truncated_table_of_an_added_dataset_is_told(bench: Bench, folder: Path, tmp_path: Path) -> None:
    bench("data", "add", "mine", "--from", folder)
    path = tmp_path / "bench-data" / "datasets" / "mine" / "gold.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    said = bench("run", "-m", "bm25", "-d", "mine", code=3)
    assert sentence(said).startswith(f"{path} is truncated or changed")


def test_a_truncated_table_in_the_cache_is_made_again(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    first = bench("data", "fetch", "starter").out
    (path,) = (tmp_path / "cache").rglob("gold.parquet")
    path.write_bytes(path.read_bytes()[:-20])
    said = bench("data", "fetch", "starter")
    assert said.out == first
    assert "is truncated or changed" in said.err
    assert bench("data", "fetch", "starter").err == ""


def test_a_run_file_of_other_queries_is_told_and_earlier_results_stay(bench: Bench, tmp_path: Path) -> None:
    bench("run", "-m", "bm25", "--limit", 8)
    before = files(tmp_path / "results")
    Path("mine.trec").write_text("0001 Q0 almanac9.get_entries 1 2.5 x\nzz Q0 almanac9.get_entries 1 2.5 x\n")
    said = bench("score", "mine.trec", "-d", "starter", code=6)
    assert sentence(said) == "mine.trec, line 2: starter has no query 'zz'."
    assert files(tmp_path / "results") == before


# The machine --------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_told_and_earlier_results_stay(bench: Bench, tmp_path: Path) -> None:
    # No file of this process may grow past 4 KiB: a batch of answers does.
    bench("run", "-m", "bm25", "--limit", 8)
    before = files(tmp_path / "results")
    done = subprocess.run(
        [sys.executable, "-m", "bench", "run", "-m", "bm25(k1=2)", "--limit", "60"],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 7
    assert done.stderr.startswith("bench: cannot write ")
    assert done.stderr.count("\n") == 1
    assert {name: data for name, data in files(tmp_path / "results").items() if name in before} == before
    bench("run", "-m", "bm25(k1=2)", "--limit", 60)


def test_a_results_folder_that_is_a_file_is_told(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("taken").write_text("")
    monkeypatch.setenv("BENCH_RESULTS", "taken")
    assert "a part of the path is a file, not a folder" in sentence(bench("run", "-m", "bm25", "--limit", 4, code=7))


def test_a_reader_that_goes_away_is_no_error(bench: Bench) -> None:
    command = [sys.executable, "-m", "bench", "list", "metrics", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read()
    assert process.wait(60) == 0
    assert said == ""


def test_a_check_whose_reader_goes_away_still_comes_to_its_exit_code(bench: Bench) -> None:
    bench("run", "-m", "random", "-d", "starter", "--limit", 4)
    (metrics,) = results_folder().glob("*/*/metrics.json")
    metrics.write_text(metrics.read_text().replace("0.", "1."))
    Path("hasty.py").write_text(METHODS)
    checks = (["submit", "check", str(results_folder())], ["check", "method", "hasty:Twice"])
    commands = [Command([*check, *form], "closed") for check in checks for form in ([], ["--json"])]
    for command, done in zip(
        commands, forked(commands, "bench.validation.method", "pyarrow.compute", "scipy.stats"), strict=True
    ):
        assert done.code == 1, (command, done.err)
        assert "Traceback" not in done.err


def test_the_help_has_every_exit_code(bench: Bench) -> None:
    help_text = " ".join(bench("--help").out.split())
    for code, meaning in EXIT_CODES.items():
        assert f" {code} {meaning}" in help_text
