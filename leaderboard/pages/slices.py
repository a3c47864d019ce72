"""The page of a board's slices: who is best among the queries of each value, with intervals and ranks of their own."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from bench.leaderboard.boards.board import Board
from bench.leaderboard.boards.slices import METRIC, inside_slices
from bench.leaderboard.pages.registry import Page
from bench.leaderboard.pages.rendering import anchor, render
from bench.leaderboard.writer import Writer
from bench.results.manifest import MetricValue
from bench.stats.noninferiority import FEWEST_UNITS

#: Values of one slice, and methods of one value.
_MOST_VALUES, _MOST_ROWS = 16, 20


def slices_path(board: Board) -> str:
    """Where the page of a board is, if it has one."""
    return f"s/{board.slug}.html"


def write_slices(board: Board, slices: Mapping[str, Mapping[str, NDArray[np.bool_]]], writer: Writer) -> bool:
    """Write the page; whether there is one.

    Args:
        board: with the values of its rows.
        slices: slice -> value -> (judged queries,) which of them have it.
        writer: writes.
    """
    parts = []
    for name, masks in slices.items():
        kept = sorted(masks, key=lambda value: -int(masks[value].sum()))[:_MOST_VALUES]
        # The largest, in a reader's order.
        rankings = inside_slices(board, {value: mask for value, mask in masks.items() if value in kept})
        if rankings:
            parts.append((name, anchor(name), rankings, len(masks) - len(kept)))
    if not parts:
        return False
    writer.put(
        slices_path(board),
        render(
            "slices",
            "../",
            board=board,
            data=board.first.manifest.dataset,
            parts=parts,
            limit=any(item.standing and not item.standing.exact for _, _, items, _ in parts for item in items),
            metric=METRIC,
            most=_MOST_ROWS,
            fewest=FEWEST_UNITS,
            interval=_interval,
        ),
    )
    return True


def _interval(mean: float, span: NDArray[np.float64], n: int) -> MetricValue:
    """A mean as templates show it."""
    low, high = (None if np.isnan(end) else float(end) for end in span)
    return MetricValue(mean=float(mean), low=low, high=high, n=n)


PAGE = Page("slices", "s/*.html")
