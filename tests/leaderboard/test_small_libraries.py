"""Every verb works on a library of one to four tools, with one to three queries."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bench as api

Bench = Callable[..., Any]
TOOLS = {
    "crm.find": "Looks up the contact of a customer.",
    "mail.send": "Sends a letter to an address.",
    "cal.add": "Adds a meeting to the calendar.",
    "map.way": "Finds the way between two places.",
}
QUERIES = {"who is the contact of the bakery?": 0, "send a letter to Anna": 1, "when do we meet?": 2}


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(("tools", "queries"), [(1, 1), (1, 3), (2, 2), (3, 1), (4, 3)])
def test_every_verb(tools: int, queries: int, bench: Bench, tmp_path: Path) -> None:
    library = list(TOOLS)[:tools]
    rows = [{"query": text, "tools": [library[min(code, tools - 1)]]} for text, code in QUERIES.items()][:queries]
    rows += [{**row, "query": f"{row['query']} {number}", "split": "dev"} for number, row in enumerate(rows)]
    Path("tools.json").write_text(json.dumps([{"name": name, "description": TOOLS[name]} for name in library]))
    Path("queries.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("edit.json").write_text(json.dumps({library[0]: "Finds the telephone of a shop."}))
    Path("gate.toml").write_text('margin = 0.1\n[[rule]]\nmetric = "recall@5"\n')
    bench("data", "import", "small", "tools.json", "--queries", "queries.jsonl")
    bench("run", "-q", "-m", "bm25", "-m", "dense", "-m", "random", "-d", "small")
    for more in ((), ("--tool", library[0]), ("--html", "tools.html"), ("--try", "edit.json")):
        said = bench("tools", "bm25@small", *more).out
        assert "--html" in more or f"note: k is {tools} and not 5: the library has no more tools" in said
    assert f"k is {tools} and not 5" in Path("tools.html").read_text()
    assert bench("tools", "bm25@small", "--json").json["k"] == tools
    assert bench("tools", "bm25@small", "--k", "1").out.count("note: k is") == 0
    bench("show", "bm25@small", "--all")
    bench("compare", "bm25@small", "dense@small", "random@small")
    bench("bless", "bm25@small", "--out", "blessed.json", "--reason", "first")
    bench("gate", "bm25@small", "--baseline", "blessed.json", "--policy", "gate.toml")
    run = bench("show", "bm25@small", "--format", "jsonl").out
    Path("run.jsonl").write_text(run)
    bench("explain", "bm25@small", json.loads(run.splitlines()[0])["query_id"])
    bench("score", "run.jsonl", "-d", "small", "--name", "ours")
    bench("tune", "-m", "bm25", "-d", "small", "--grid", "k1=0.5,1.0")
    bench("check", "method", "bm25", "--dataset", "small")
    bench("submit", "pack", "bm25@small", "--out", "packed.zip")
    bench("submit", "check", "packed.zip")
    bench("leaderboard", "build", "--out", tmp_path / "site")
    assert any("k is" in page.read_text() for page in (tmp_path / "site" / "t").glob("*.html")) == (tools < 5)
    result = api.load_result("bm25@small")
    assert result.tools().k == tools
    assert api.compare(result, "dense@small") is not None
