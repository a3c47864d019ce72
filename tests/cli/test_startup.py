"""What a command imports: help nothing heavy, a cached run no model and no pandas."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.registry import load_dataset

Bench = Callable[..., Any]
Planted = Callable[[list[str]], None]

HEAVY = ["numpy", "torch", "pandas", "datasets", "scipy", "sentence_transformers", "pydantic", "rich", "pyarrow"]
MODELS = [
    "torch",
    "sentence_transformers",
    "transformers",
    "tokenizers",
    "pandas",
    "datasets",
    "scipy.stats",
    "sklearn",
]
PROGRAM = """
import contextlib, io, json, sys
from bench.__main__ import run
wanted, seen = json.loads(sys.argv[2]), set()
for arguments in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()):
        code = run(arguments)
    assert code == 0, (arguments, code)
    found = [name for name in wanted if name in sys.modules and name not in seen]
    seen.update(found)
    print(json.dumps(found))
"""


def imported(commands: list[list[str]], names: list[str], variables: Mapping[str, str] = {}) -> dict[str, list[str]]:
    """Which of the modules each command imports; one after the other in a process of their own."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(commands), json.dumps(names)],
        capture_output=True,
        text=True,
        env={**os.environ, **variables},
    )
    assert done.returncode == 0, done.stderr
    result = map(json.loads, done.stdout.splitlines())
    return {" ".join(command): names for command, names in zip(commands, result, strict=True) if names}


def test_help_imports_nothing_heavy() -> None:
    assert imported([["--help"], ["--version"]], HEAVY) == {}


def test_a_list_of_datasets_reads_cards_alone() -> None:
    commands = [["data", "--help"], ["list", "datasets"]]
    assert imported(commands, ["numpy", "pyarrow", "scipy", "pandas", "bench.registry"]) == {}


def test_comparing_imports_no_scipy_and_reading_a_ranking_no_pandas(bench: Bench) -> None:
    bench("run", "-m", "bm25", "-m", "tfidf")
    commands = [["compare", "bm25@starter", "tfidf@starter"], ["show", "bm25@starter"]]
    assert imported(commands, ["scipy", "pandas", "torch"]) == {}
    query = load_dataset("starter").queries[0].query_id
    assert imported([["explain", "bm25@starter", query], ["tools", "bm25@starter"]], ["pandas", "scipy.stats"]) == {}


def test_other_commands_import_no_model(bench: Bench) -> None:
    bench("run", "-m", "bm25", "--limit", 8)
    commands = [
        ["run", "--help"],
        ["list", "methods"],
        ["list", "datasets"],
        ["list", "metrics", "ndcg"],
        ["run", "-m", "bm25", "--limit", "8"],
    ]
    assert imported(commands, [name for name in MODELS if name != "tokenizers"]) == {}


def test_the_first_run_of_a_method_without_models_imports_only_what_it_uses(bench: Bench, tmp_path: Path) -> None:
    # Each takes a tenth of a second or more: of every user, and of every process that a run starts.
    names = ["pandas", "pyarrow.compute", "scipy.sparse", "scipy.stats", "bench.cluster.cluster", "torch"]
    cold = {"BENCH_CACHE": str(tmp_path / "cache")}
    assert imported([["run", "-m", "random", "-d", "starter", "--limit", "8"]], names, cold) == {}


def test_a_run_whose_texts_are_all_in_the_cache_imports_no_model(bench: Bench, planted: Planted) -> None:
    data = load_dataset("starter")
    texts = [tool.text("name_description") for tool in data.tools] + [query.text for query in data.queries]
    by_id = {tool.tool_id: tool for tool in data.tools}
    texts += ["\n".join(by_id[tool].text("name_description") for tool in sorted(query.gold)) for query in data.queries]
    planted(list(dict.fromkeys(texts)))
    methods = ["tgr", "dense", "nearest-query", "rrf", "nearest-bundle"]
    run = ["run", *(word for name in methods for word in ("-m", name)), "--limit", "8", "--json"]
    # The first run counts the tokens of the library; that too is kept.
    first = bench(*run).json
    again = [["run", "-m", name, "--limit", "8", "--overwrite", "always"] for name in methods]
    # And a result that is there is read, not made.
    assert imported([*again, *(words[:-2] for words in again)], MODELS) == {}
    assert [result["metrics"] for result in bench(*run).json] == [result["metrics"] for result in first]


OURS = """
import contextlib, io, sys
from bench.__main__ import run
with contextlib.redirect_stdout(io.StringIO()):
    code = run(sys.argv[1:])
assert code == 0, code
sys.__stdout__.write(" ".join(name for name in sys.modules if name.partition(".")[0] == "bench"))
"""


def test_a_command_imports_the_modules_of_bench_that_it_uses(bench: Bench, tmp_path: Path) -> None:
    policy = tmp_path / "gate.toml"
    policy.write_text('[[rule]]\nmetric = "recall@5"\nmargin = 0.05\n', "utf-8")
    bench("run", "-m", "bm25", "-m", "tfidf")
    bench("bless", "bm25@starter", "--out", "baseline.json", "--by", "a test")
    # Of some 500. A module more is no fault; ten more are a room that few need.
    most = {
        "run -m bm25 -d starter --overwrite always": 150,
        "run -m bm25 -d starter": 124,
        "show bm25@starter": 103,
        "compare bm25@starter tfidf@starter": 139,
        f"gate bm25@starter --baseline baseline.json --policy {policy}": 119,
    }
    for command, bound in most.items():
        done = subprocess.run([sys.executable, "-c", OURS, *command.split()], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        names = done.stdout.split()
        assert len(names) <= bound, f"{command} imports {len(names)} modules: {sorted(names)}"


INTERRUPTED = """
import runpy, signal, sys
wanted = sys.argv.pop(1)
class Interrupt:
    def find_spec(name, *rest):
        if name == wanted:
            signal.raise_signal(signal.SIGINT)
sys.meta_path.insert(0, Interrupt)
runpy.run_module("bench", run_name="__main__")
"""


@pytest.mark.parametrize("module", ["bench.base.errors", "bench.base.secrets", "click", "bench.cli", "bench.cli.show"])
def test_an_interrupt_while_modules_are_imported_is_a_sentence(module: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED, module, "show", "--help"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr.startswith("bench: interrupted")
    assert done.stderr.count("\n") == 1
