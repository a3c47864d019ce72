"""What shells complete, by the scripts that click makes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.interpreter import Interpreter

Bench = Callable[..., Any]


Completed = Callable[..., set[str]]


@pytest.fixture
def completed(interpreter: Interpreter, tmp_path: Path) -> Completed:
    """What the command line proposes for the last word."""

    def completed(*words: str) -> set[str]:
        done = interpreter(
            "import runpy; runpy.run_module('bench', run_name='__main__', alter_sys=True)",
            folder=tmp_path,
            _BENCH_COMPLETE="bash_complete",
            COMP_WORDS=" ".join(("bench", *words)),
            COMP_CWORD=str(len(words)),
        )
        return {line.partition(",")[2] for line in done.stdout.splitlines()}

    return completed


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["s"], {"show", "score", "stress", "submit"}),
        (["to"], {"tools"}),
        (["data", "f"], {"fetch", "from-traffic"}),
        (["run", "--method", "bm"], {"bm25", "bm25-fields", "bm25-okapi"}),
        (["run", "-m", "bm25", "-d", "meta"], {"metatool", "metatool-ptr", "metatool-single"}),
        (["run", "--cut", "g"], {"gap"}),
        (["run", "--template", "name"], {"name_description", "name_parameters"}),
        (["data", "im"], {"import"}),
        (["data", "import", "mine", "tools.json", "--as", "open"], {"openai", "openapi"}),
        (["check", "method", "tf"], {"tfidf"}),
        (["data", "audit", "star"], {"starter"}),
        (["list", "metrics", "ndcg"], {"ndcg", "ndcg_ptr"}),
    ],
)
def test_names_are_completed(completed: Completed, words: list[str], expected: set[str]) -> None:
    assert completed(*words) == expected


def test_ids_of_results_are_completed(bench: Bench, completed: Completed) -> None:
    identifier = bench("run", "-m", "bm25", "--limit", 8, "--json").json[0]["manifest"]["result_id"]
    assert completed("show", identifier[:3]) == {identifier}


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not here")
def test_bash_completes_with_the_script() -> None:
    program = """
eval "$(_BENCH_COMPLETE=bash_source bench)"
COMP_WORDS=(bench run --method popu)
COMP_CWORD=3
_bench_completion bench
echo "${COMPREPLY[@]}"
"""
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", program], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "popularity\n"
