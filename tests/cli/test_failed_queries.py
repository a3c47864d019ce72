"""Why queries failed is said by every command that shows a result."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

Bench = Callable[..., Any]

PROGRAM = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    tools = ["crateful.get_catalogue"] * (1 + (asked["id"] % 4 == 1)) if asked["id"] % 4 else []
    print(json.dumps({"id": asked["id"], "tools": tools, "next_cursor": "p2"}), flush=True)
"""


def test_reasons_are_told_by_run_and_show_and_in_json(bench: Bench) -> None:
    Path("search.py").write_text(PROGRAM)
    asked = ("-m", f'command(run="{sys.executable} search.py")', "-d", "starter", "--limit", 20)
    said = bench("run", *asked, "--name", "mine")
    assert "mine @ starter: answers have fields that are not read: next_cursor (in 15 answers)\n" in said.err
    lines = [line for line in said.out.splitlines() if line.startswith("failed: ")]
    assert lines[0] == "failed: 5 x an empty answer, such as 0028"
    # Of the five answers with a tool twice, some are to queries without gold.
    twice = [int(line.split()[1]) for line in lines if " x the tool 'crateful.get_catalogue' twice" in line]
    assert (sum(twice), len(lines)) == (5, 1 + len(twice))
    for words in (["show", "mine"], ["show", "mine", "--all"]):
        shown = [line for line in bench(*words).out.splitlines() if line.startswith("failed: ")]
        assert shown == lines
    result = bench("show", "mine", "--json").json
    assert result["failures"] == result["manifest"]["failures"]
    rows = [(each["count"], each["text"], each["query_id"]) for each in result["failures"]]
    assert [f"failed: {count} x {text}, such as {query}" for count, text, query in rows] == lines
    # Beside others, each line names its result.
    several = bench("run", *asked, "-m", "bm25", "--overwrite", "missing").out
    assert f"failed: mine @ starter: {lines[0].removeprefix('failed: ')}" in several.replace("\n", " ")
    assert "failed: bm25" not in several


def test_rankings_that_are_too_short_for_the_first_metrics_show_what_they_have(bench: Bench) -> None:
    one = bench("run", "-m", "bm25", "-d", "starter", "--limit", 8, "--depth", 1).out
    assert " recall@1 " in one
    two = bench("run", "-m", "bm25", "-m", "random", "-d", "starter", "--limit", 8, "--depth", 1).out
    assert " recall@1 " in two
    assert "nothing to compare" not in two


def test_a_result_without_any_answer_is_no_baseline_and_gets_no_verdict(bench: Bench) -> None:
    def run(answer: str) -> None:
        Path("search.py").write_text(f"import sys\nfor line in sys.stdin:\n    print('{answer}', flush=True)\n")
        bench("run", "-q", "-m", command, "-d", "starter", "--limit", 8)

    command = f'command(run="{sys.executable} search.py")'
    run("[]")
    refused = bench("bless", f"{command}@starter", "--out", "b.json", code=2).err
    assert " judged queries failed (" in refused
    assert "there is nothing to compare a change with" in refused
    run('["crateful.get_catalogue"]')
    bench("bless", f"{command}@starter", "--out", "b.json")
    run("[]")
    # However many may fail, some query must be answered.
    Path("gate.toml").write_text('margin = 0.5\nmax_failed = 100\n[[rule]]\nmetric = "recall@5"\n')
    said = bench("gate", f"{command}@starter", "--baseline", "b.json", "--policy", "gate.toml", code=3).out
    assert "judged queries failed or were not answered, but at most " in said
