"""The page of a board's slices: methods on the queries of each value, with intervals and ranks of their own."""

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

#: Maximum values of a slice, and maximum methods of a value.
_MOST_VALUES, _MOST_ROWS = 16, 20


def slices_path(board: Board) -> str:
    """The path of a board's page."""
    return f"s/{board.slug}.html"


def write_slices(board: Board, slices: Mapping[str, Mapping[str, NDArray[np.bool_]]], writer: Writer) -> bool:
    """Write the page and return whether there is one.

    Args:
        board: a board whose rows have values.
        slices: slice -> value -> (judged queries,) mask.
        writer: the site's writer.
    """
    parts = []
    for name, masks in slices.items():
        kept = sorted(masks, key=lambda value: -int(masks[value].sum()))[:_MOST_VALUES]
        # The largest values, in display order.
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
    """A mean in the form that templates show."""
    low, high = (None if np.isnan(end) else float(end) for end in span)
    return MetricValue(mean=float(mean), low=low, high=high, n=n)


PAGE = Page("slices", "s/*.html")
