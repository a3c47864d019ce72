"""What differs from the paper, in what `bench show` says of a result."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bench as package
from bench.registry.differences import differences, with_differences
from bench.results.store import StoredResult

Bench = Callable[..., Any]

#: Results that the repository keeps, of the four systems among others.
KEPT = Path(package.__file__).resolve().parent.parent / "board" / "results" / "toollens-unseen"


def kept(name: str) -> Path:
    """A result of a method with whatever parameters."""
    return next(
        folder
        for folder in sorted(KEPT.iterdir())
        if (folder / "manifest.json").is_file()
        and StoredResult.read(folder).manifest.method.spec.partition("(")[0] == name
    )


@pytest.mark.parametrize("name", with_differences())
def test_a_result_says_what_differs_from_the_paper(bench: Bench, name: str) -> None:
    table = differences(name)
    assert table is not None
    folder = str(kept(name))
    said = bench("show", folder, "--json").json
    assert said["differs"] == {name: table.model_dump()}
    assert said["differs"][name]["rows"][0].keys() == {"aspect", "paper", "released", "here", "why"}
    # Folded to a line, which says how to see it.
    short = bench("show", folder).out
    assert f"what differs from the paper ({len(table.rows)} rows): `bench show " in " ".join(short.split())
    assert "released code" not in short
    long = bench("show", folder, "--all").out
    assert long.count("what differs in ") == 1
    assert re.search(r"^ aspect +paper +released code +here +why *$", long, re.M)
    words = " ".join(long.split())
    assert table.url in words
    for row in table.rows:
        assert row.aspect.split()[0] in words
    assert all(len(line) <= 100 for line in long.partition("what differs in ")[2].splitlines()[1:-1])


def test_a_method_without_a_paper_of_the_four_says_nothing(bench: Bench, lexical: Path) -> None:
    assert "differs" not in bench("show", "bm25@starter", "--json").json
    assert "differs" not in bench("show", "bm25@starter").out + bench("show", "bm25@starter", "--all").out


def test_a_run_file_that_is_called_like_a_method_is_none(bench: Bench, lexical: Path, tmp_path: Path) -> None:
    run = tmp_path / "tgr.jsonl"
    run.write_text(bench("show", "bm25@starter", "--format", "jsonl").out, "utf-8")
    bench("score", str(run), "-d", "starter", "--name", "tgr")
    assert "differs" not in bench("show", "tgr@starter", "--json").json
    assert "differs" not in bench("show", "tgr@starter", "--all").out
