"""A team's own board: its catalogue changes, and today's counts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

TEXTS = {
    "first": "Tells whether it will rain tomorrow.",
    "second": "Finds the way.",
    "third": "Sends a letter by post.",
}
RANKING = 'version = "ours-1"\n[[views]]\nname = "ours"\ntitle = "Our gateway"\nwhy = "Ours."\ndatasets = ["mine"]\n'


@pytest.fixture
def measured(bench: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Import the catalogue with other descriptions, in place of the one before, and run methods on it."""
    monkeypatch.chdir(tmp_path)
    queries = [{"query": text.lower(), "tools": [name]} for name, text in TEXTS.items()]
    queries.append({"query": "how old is the universe", "tools": []})
    Path("queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))

    def measured(*methods: str, **edited: str) -> None:
        tools = [{"name": name, "description": text, "inputSchema": {}} for name, text in (TEXTS | edited).items()]
        Path("tools.json").write_text(json.dumps({"tools": tools}))
        bench("data", "import", "mine", "tools.json", "--queries", "queries.jsonl", "--replace")
        bench("run", "-q", "-d", "mine", *(word for name in methods for word in ("-m", name)))

    return measured


def test_an_edited_catalogue_counts_as_it_is_now(
    bench: Callable[..., Any], measured: Callable[..., None], build: Callable[..., Any]
) -> None:
    measured("bm25", "bm25-fields", "tfidf")
    # Fewer results than on the first catalogue, which count no more.
    measured("bm25", first="Does things.")
    Path("ranking.toml").write_text(RANKING)
    words = ("leaderboard", "build", "--out", "ours", "--ranking-set", "ranking.toml", "--strict", "--json")
    built = bench(*words).json
    assert (built["boards"], built["incomplete"]) == (2, [])
    (now,) = (board for board in build().made.boards if len(board.rows) == 1)
    home = Path("ours/index.html").read_text()
    assert f"{now.slug}.html" in Path("ours/d/mine.html").read_text()
    assert "ranking set ours-1" in home
    assert home.count(f'<th scope="col" class="n d" data-c="d:mine" hidden><a href="d/{now.slug}.html">') == 1
    # Who knows when no tool fits is asked of today's catalogue alone.
    assert home.count('href="n/') == home.count(f'href="n/{now.slug}.html"') == 1
    # A site that declares nothing lacks nothing.
    assert not build().made.incomplete


def test_results_whose_dataset_is_nowhere_are_told(
    bench: Callable[..., Any], measured: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    measured("bm25")
    Path("ranking.toml").write_text(RANKING)
    monkeypatch.setenv("BENCH_DATA", str(tmp_path / "elsewhere"))
    words = ("leaderboard", "build", "--out", "ours", "--ranking-set", "ranking.toml", "--strict")
    assert "mine: This installation has no dataset of that name" in bench(*words, code=4).err
