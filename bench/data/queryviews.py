"""Views of the queries of a dataset: as users wrote them, or as a model typed them into its tool search.

The registry applies them when a dataset is loaded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Literal

from pydantic import Field

from bench.base.errors import UsageError
from bench.base.parameters import ParameterSet
from bench.data.card import Card
from bench.data.dataset import Dataset
from bench.data.tables import Query

View = Literal["request", "conversation", "search", "searches"]

_WHAT = {"conversation": "earlier turns (context)", "search": "searches", "searches": "searches"}


class ViewOptions(ParameterSet):
    """The options of datasets whose queries may have searches and earlier turns."""

    view: View = Field(
        default="request",
        description="The text that is asked: the request; the conversation up to it; the first search of a model; or "
        "all its searches, each in a call of its own.",
    )


def with_view(dataset: Dataset, view: View) -> Dataset:
    """The dataset with its queries in a view; queries that lack the view keep their request.

    Raises:
        UsageError: no query has the view.
    """
    if view == "request":
        return dataset
    queries = [_view_query(query, view) for query in dataset.queries]
    lacking = sum(query is None for query in queries)
    if lacking == len(queries):
        raise UsageError(
            f"no query of {dataset.card.id} has {_WHAT[view]}, so there is no view={view}; give them in the file of "
            "queries, and import it again."
        )
    rows = replace(
        dataset.rows_again(),
        queries=[query if seen is None else seen for query, seen in zip(dataset.queries, queries, strict=True)],
    )
    return Dataset.build(f"{dataset.card.id}(view={view})", _add_note(dataset.card, view, lacking, len(queries)), rows)


def _view_query(query: Query, view: View) -> Query | None:
    if view == "conversation":
        return replace(query, text="\n".join([*query.context, query.text])) if query.context else None
    if not query.searches:
        return None
    calls = query.searches if view == "searches" and len(query.searches) > 1 else ()
    return replace(query, text=query.searches[0], calls=calls)


def _add_note(card: Card, view: View, lacking: int, count: int) -> Card:
    if not lacking:
        return card
    note = f"{lacking} of {count} queries have no {_WHAT[view]}: view={view} uses their request."
    return card.model_copy(update={"known_issues": [*card.known_issues, note]})


def merge_rankings(rankings: Iterable[Iterable[int]], depth: int) -> list[int]:
    """Merge the tools of several calls by the best rank in any of them; equal ranks in the order of the calls.

    Args:
        rankings: the ranked tools of each call.
        depth: maximum tools of the result.
    """
    best: dict[int, int] = {}
    for ranking in rankings:
        for rank, tool in enumerate(ranking):
            best[tool] = min(rank, best.get(tool, rank))
    # Python's sort is stable, and the dictionary keeps the order of the calls.
    return sorted(best, key=best.__getitem__)[:depth]
