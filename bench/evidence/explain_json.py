"""An explained query as plain values, for machines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bench.evidence.explain import Explained, Standing
from bench.evidence.explain_vocabulary import Told


def explained_json(explained: Explained) -> dict[str, Any]:
    """An explained query for machines. `above` of a gold tool are the ids that stand above it, best first."""
    manifest = explained.result.manifest
    gold = []
    for item in explained.gold:
        rank = item.place.rank
        gold.append(
            {
                **_standing_json(item),
                "relevance": explained.query.gold[item.tool_id],
                "rank_of_library": None if explained.told is None else explained.told.places[item.tool].rank,
                "above": list(explained.ranking if rank is None else explained.ranking[: rank - 1]),
            }
        )
    return {
        "result_id": manifest.result_id,
        "label": explained.result.label,
        "query_id": explained.query.query_id,
        "text": explained.query.text,
        "slices": dict(explained.slices),
        "metrics": dict(explained.values),
        "failed": explained.failed,
        "recommended": None if explained.recommended is None else list(explained.recommended),
        "gold": gold,
        "shown": [_standing_json(item) for item in explained.shown],
        "missing": explained.missing or None,
        "why": None if explained.told is None else _told_json(explained.told, explained.shown),
    }


def _standing_json(item: Standing) -> dict[str, Any]:
    return {"tool_id": item.tool_id, "gold": item.gold, "rank": item.place.rank, "score": item.place.score} | {
        "tied": item.tied
    }


def _told_json(told: Told, shown: Iterable[Standing]) -> dict[str, Any]:
    explanation = told.explanation
    tools = []
    for item in shown:
        place, reason = told.places[item.tool], explanation.reasons.get(item.tool)
        row: dict[str, Any] = {"tool_id": item.tool_id, "rank": place.rank, "score": place.score}
        if reason is not None:
            row["parts"] = [{"name": part.name, "value": part.value} for part in reason.parts]
            row["columns"] = dict(zip(explanation.columns, reason.cells, strict=True))
            row |= {"note": reason.note, "because": reason.because}
        tools.append(row)
    bases = [_told_json(base, shown) for base in explanation.bases]
    return {
        "method": told.label,
        "title": explanation.title,
        "notes": list(explanation.notes),
        "tools": tools,
        "bases": bases,
    }
