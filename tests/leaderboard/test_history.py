"""The history of a ranking: what days of results changed, computed from the results alone."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

history = importlib.import_module("bench.leaderboard.boards.history")
overall = importlib.import_module("bench.leaderboard.boards.overall")
rankingset = importlib.import_module("bench.leaderboard.boards.rankingset")


def _on(folder: Path, created: str, edit: Callable[..., None]) -> None:
    edit(folder, environment__created=created)


def _moves(day: Any) -> list[tuple[str, int | None, int]]:
    return [(move.name, move.before, move.now) for move in day.moves]


@pytest.fixture
def dated(ready: Path, edit: Callable[..., None]) -> Path:
    """bm25 and random on the first day; nearest-bundle on the third; bm25(k1=0.5) and the oracle on the fifth."""
    days = {"random": 1, "bm25": 1, "nearest-bundle": 3, "oracle": 5}
    for folder in ready.glob("[!.]*/*"):
        spec = json.loads((folder / "manifest.json").read_text())["method"]["spec"]
        day = 5 if "k1" in spec else days[spec.partition("(")[0]]
        _on(folder, f"2026-01-0{day}T00:00:00+00:00", edit)
    return ready


@pytest.mark.usefixtures("dated")
def test_each_day_tells_who_entered_and_who_moved_and_the_last_ends_at_the_ranking(build: Callable[..., Any]) -> None:
    site = build()
    ranking = _ranking(site)
    days = history.changes(ranking)
    assert [day.at.day for day in days] == [1, 3, 5]
    assert _moves(days[0]) == [("bm25", None, 1), ("random", None, 2)]
    assert [move.before for move in days[1].moves].count(None) == 1
    names: dict[str, int] = {}
    for day in days:
        for move in day.moves:
            assert names.get(move.name) == move.before
            names[move.name] = move.now
        assert sorted(names.values()) == list(range(1, day.ranked + 1))
    ranked = [place.row.full_name for place in ranking.places if place.tier is not None]
    assert sorted(names, key=names.__getitem__) == ranked


def test_a_newer_result_of_a_method_moves_it_and_the_older_one_stays_in_the_past(
    dated: Path, build: Callable[..., Any], older: Callable[..., Path]
) -> None:
    # Another version of random has the values of the best method.
    older(next(dated.glob("*/bm25-*")), next(dated.glob("*/random-*")), "aaaaaaaaaaaa", "2026-01-07T00:00:00+00:00")
    site = build()
    assert not site.made.rejected
    days = history.changes(_ranking(site))
    assert days[-1].at.day == 7
    (own,) = (move for move in days[-1].moves if move.name == "random")
    assert own.before == days[-2].ranked
    assert own.now < own.before


@pytest.mark.usefixtures("dated")
def test_the_feed_tells_the_moves_and_links_to_the_ranking_by_its_address(build: Callable[..., Any]) -> None:
    plain, addressed = build(), build("addressed", base_url="https://example.org/board")
    items = ElementTree.parse(addressed.folder / "feed.xml").findall("channel/item")
    told = [item for item in items if (item.findtext("guid") or "").startswith("bench:ranking:")]
    assert [item.findtext("title") for item in told[1:]] == [
        told[1].findtext("title"),
        "Ranking, 2026-01-01: 2 enter",
    ]
    assert "bm25 enters at 1; random enters at 2. 2 methods are ranked" in (told[-1].findtext("description") or "")
    assert {item.findtext("link") for item in told} == {"https://example.org/board/index.html"}
    root = ElementTree.parse(plain.folder / "feed.xml")
    assert not root.findall("channel/item/link")
    before = (plain.folder / "feed.xml").read_bytes()
    assert build().folder.joinpath("feed.xml").read_bytes() == before


def _ranking(site: Any) -> Any:
    """The overall board of a site that was built, as the feed gets it."""
    boards = site.made.boards
    views, _ = rankingset.views_of(rankingset.read_ranking_set(), boards, {})
    return overall.overall_boards(views, {}, {board.slug for board in boards})[0]
