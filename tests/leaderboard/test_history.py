"""The history of a ranking: what days of results changed, computed from the results alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from kit.results import edit, folder_of, older
from kit.sites import board_of

from bench.leaderboard.boards import history
from bench.leaderboard.boards.overall import Overall, overall
from bench.leaderboard.boards.rankingset import read_ranking_set, views_of


def moves_of(day: history.Day) -> list[tuple[str, int | None, int]]:
    return [(move.name, move.before, move.now) for move in day.moves]


def ranking_of(results: Path) -> Overall:
    """The overall board of results, as the feed gets it."""
    views, _ = views_of(read_ranking_set(), [board_of(results)], {})
    return overall(views[0], "recall@5", "all", {})


@pytest.fixture
def dated(ready: Path) -> Path:
    """bm25 and random on the first day; nearest-bundle on the third; bm25(k1=0.5) and the oracle on the fifth."""
    days = {"random": 1, "bm25": 1, "nearest-bundle(base=bm25())": 3, "bm25(k1=0.5)": 5, "oracle": 5}
    for spec, day in days.items():
        edit(folder_of(ready, spec), environment__created=f"2026-01-0{day}T00:00:00+00:00")
    return ready


def test_each_day_tells_who_entered_and_who_moved_and_the_last_ends_at_the_ranking(dated: Path) -> None:
    ranking = ranking_of(dated)
    days = history.changes(ranking)
    assert [day.at.day for day in days] == [1, 3, 5]
    assert moves_of(days[0]) == [("bm25", None, 1), ("random", None, 2)]
    assert [move.before for move in days[1].moves].count(None) == 1
    names: dict[str, int] = {}
    for day in days:
        for move in day.moves:
            assert names.get(move.name) == move.before
            names[move.name] = move.now
        assert sorted(names.values()) == list(range(1, day.ranked + 1))
    ranked = [place.row.full_name for place in ranking.places if place.tier is not None]
    assert sorted(names, key=names.__getitem__) == ranked


def test_a_newer_result_of_a_method_moves_it_and_the_older_one_stays_in_the_past(dated: Path) -> None:
    # Another version of random has the values of the best method.
    older(folder_of(dated, "bm25"), folder_of(dated, "random"), "a" * 12, "2026-01-07T00:00:00+00:00")
    days = history.changes(ranking_of(dated))
    assert days[-1].at.day == 7
    (own,) = (move for move in days[-1].moves if move.name == "random")
    assert own.before == days[-2].ranked
    assert own.now < own.before


@pytest.mark.usefixtures("quick")
def test_the_feed_tells_the_moves_and_links_to_the_ranking_by_its_address(
    dated: Path, build: Callable[..., Any], ready_site: Any
) -> None:
    items = ElementTree.parse(build(base_url="https://example.org/board").folder / "feed.xml").findall("channel/item")
    told = [item for item in items if (item.findtext("guid") or "").startswith("bench:ranking:")]
    assert [item.findtext("title") for item in told[1:]] == [
        told[1].findtext("title"),
        "Ranking, 2026-01-01: 2 enter",
    ]
    assert "bm25 enters at 1; random enters at 2. 2 methods are ranked" in (told[-1].findtext("description") or "")
    assert {item.findtext("link") for item in told} == {"https://example.org/board/index.html"}
    # Without an address there are no links.
    assert not ElementTree.parse(ready_site.folder / "feed.xml").findall("channel/item/link")
