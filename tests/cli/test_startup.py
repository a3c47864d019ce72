"""What a command imports: help nothing heavy, a cached run no model and no pandas."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
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
with contextlib.redirect_stdout(io.StringIO()) as said:
    code = run(json.loads(sys.argv[1]))
assert code == 0, code
print(json.dumps([name for name in json.loads(sys.argv[2]) if name in sys.modules]))
"""


def imported(arguments: list[str], names: list[str]) -> list[str]:
    """Which of the modules a command imports, in a process of its own."""
    command = [sys.executable, "-c", PROGRAM, json.dumps(arguments), json.dumps(names)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("arguments", [["--help"], ["--version"]])
def test_help_imports_nothing_heavy(arguments: list[str]) -> None:
    assert imported(arguments, HEAVY) == []


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--help"],
        ["list", "methods"],
        ["data", "list"],
        ["metrics", "ndcg"],
        ["run", "-m", "bm25", "--limit", "8"],
    ],
)
def test_other_commands_import_no_model(bench: Bench, arguments: list[str]) -> None:
    bench("run", "-m", "bm25", "--limit", 8)
    assert imported(arguments, [name for name in MODELS if name != "tokenizers"]) == []


@pytest.mark.parametrize("method", ["tgr", "dense", "nearest-query", "rrf", "nearest-bundle"])
def test_a_run_whose_texts_are_all_in_the_cache_imports_no_model(bench: Bench, planted: Planted, method: str) -> None:
    data = load_dataset("starter")
    texts = [tool.text("name_description") for tool in data.tools] + [query.text for query in data.queries]
    by_id = {tool.tool_id: tool for tool in data.tools}
    texts += ["\n".join(by_id[tool].text("name_description") for tool in sorted(query.gold)) for query in data.queries]
    planted(list(dict.fromkeys(texts)))
    # The first run counts the tokens of the library; that too is kept.
    arguments = ["run", "-m", method, "--limit", "8", "--json"]
    first = bench(*arguments).json[0]
    assert imported([*arguments, "--overwrite", "always"], MODELS) == []
    again = bench(*arguments).json[0]
    assert again["metrics"] == first["metrics"]
    # And a result that is there is read, not made.
    assert imported(arguments, MODELS) == []
