"""An explained query as plain values, for machines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bench.comparison.explain import Explained, ShownTool
from bench.interface.explanation import ExplainedAnswer


def explained_json(explained: Explained) -> dict[str, Any]:
    """An explained query for machines. `above` of a gold tool are the ids ranked above it, best first."""
    manifest = explained.result.manifest
    gold = []
    for item in explained.gold:
        rank = item.position.rank
        gold.append(
            {
                **_shown_json(item),
                "relevance": explained.query.meeting[item.tool_id],
                "rank_of_library": None if explained.answer is None else explained.answer.positions[item.tool].rank,
                "above": list(explained.ranking if rank is None else explained.ranking[: rank - 1]),
            }
        )
    return {
        "result_id": manifest.result_id,
        "label": explained.result.label,
        **({"repeat": explained.repeat} if manifest.repeats > 1 else {}),
        "query_id": explained.query.query_id,
        "text": explained.query.text,
        "slices": dict(explained.slices),
        "metrics": dict(explained.values),
        "failed": explained.failed,
        "recommended": None if explained.recommended is None else list(explained.recommended),
        "gold": gold,
        "shown": [_shown_json(item) for item in explained.shown],
        "missing": explained.missing or None,
        "why": None if explained.answer is None else _answer_json(explained.answer, explained.shown),
    }


def _shown_json(item: ShownTool) -> dict[str, Any]:
    return {"tool_id": item.tool_id, "gold": item.gold, "rank": item.position.rank, "score": item.position.score} | {
        "tied": item.tied
    }


def _answer_json(answer: ExplainedAnswer, shown: Iterable[ShownTool]) -> dict[str, Any]:
    explanation = answer.explanation
    tools = []
    for item in shown:
        place, reason = answer.positions[item.tool], explanation.reasons.get(item.tool)
        row: dict[str, Any] = {"tool_id": item.tool_id, "rank": place.rank, "score": place.score}
        if reason is not None:
            row["parts"] = [{"name": part.name, "value": part.value} for part in reason.parts]
            row["columns"] = dict(zip(explanation.columns, reason.cells, strict=True))
            row |= {"note": reason.note, "because": reason.because}
        tools.append(row)
    bases = [_answer_json(base, shown) for base in explanation.bases]
    return {
        "method": answer.label,
        "title": explanation.title,
        "notes": list(explanation.notes),
        "tools": tools,
        "bases": bases,
    }
