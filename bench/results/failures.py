"""Why queries of a result failed: the reasons, most frequent first. Reports and the site show them."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from bench.base.errors import ResultError
from bench.base.text import one_line
from bench.results.manifest import FailureReason
from bench.results.store import StoredResult

#: Maximum number of reasons that a result lists, and of characters of each.
_MOST, _LONGEST = 50, 600
#: Messages of a retriever are in quotes or brackets; numbers there differ between failures of one kind.
_SAID = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\([^()]*\)|question \S+ instead of \d+""")
_NUMBER = re.compile(r"\b(?=[a-f-]*\d)[0-9a-f-]{6,}\b|\d+", re.IGNORECASE)
NOT_RECORDED = "no reason was recorded"


def group_reasons(failed: Iterable[tuple[str, str]]) -> list[FailureReason]:
    """Reasons with their numbers of queries, most frequent first; reasons that differ only in numbers are merged.

    Args:
        failed: ids of queries, and the reasons.
    """
    kinds: dict[str, str] = {}
    queries: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for query, text in failed:
        kind = _SAID.sub(lambda match: _NUMBER.sub("#", match[0]), text)
        queries[kinds.setdefault(kind, text[:_LONGEST])][query] = None
    often = sorted(queries.items(), key=lambda item: -len(item[1]))
    rest = {query: None for _, ids in often[_MOST:] for query in ids}
    groups = [*often[:_MOST], *([("other reasons", rest)] if rest else [])]
    return [FailureReason(text=text, count=len(ids), query_id=next(iter(ids))) for text, ids in groups]


def reasons(result: StoredResult) -> list[FailureReason]:
    """Why queries of a result failed or got an empty answer, the most frequent reason first.

    The reason says if the queries have no gold, and if only a part of the method failed and the rest compensated.
    """
    manifest, failed = result.manifest, result.metrics.n_failed
    # Results of earlier versions: methods that ask a retriever kept five reasons as a fact, and choices have notes.
    told = "; ".join(str(text) for name, text in manifest.facts.items() if name.rpartition(".")[2] == "failures")
    if manifest.failures or not (told or failed):
        return manifest.failures
    if told:
        pairs = re.findall(r"(\d+) x (.*?)(?:; (?=\d+ x )|$)", told)
        return [FailureReason(text=text, count=max(1, int(count))) for count, text in pairs]
    noted: list[FailureReason] = []
    try:
        if result.notes is not None:
            notes = zip(*(result.notes[name].to_pylist() for name in ("query_id", "note")), strict=True)
            noted = group_reasons((query, reason) for query, note in notes if (reason := reason_of_note(note)))
    except ResultError:
        pass  # reported where the notes themselves are read
    return noted or [FailureReason(text=f"an empty answer, or {NOT_RECORDED}", count=failed)]


def result_to_dict(result: StoredResult) -> dict[str, Any]:
    """For JSON output: folder, manifest and metrics of a result, and why queries failed, in older versions too."""
    return {
        "folder": str(result.folder),
        "manifest": result.manifest.model_dump(mode="json"),
        "metrics": result.metrics.model_dump(mode="json"),
        "failures": [reason.model_dump() for reason in reasons(result)],
    }


def reason_of_note(note: str | None) -> str:
    """Why a query failed, from the note of a choice, or from the list of notes of a query with several calls."""
    try:
        value = json.loads(note or "null")
    except (ValueError, RecursionError):
        return ""
    calls = value if isinstance(value, list) else [value]
    return next((str(call["failed"]) for call in calls if isinstance(call, dict) and call.get("failed")), "")


def sentences(result: StoredResult, most: int = 5) -> list[str]:
    """The reasons as lines of text; the last says how many more there are."""
    all_reasons = reasons(result)
    lines = [
        f"{reason.count} x {one_line(reason.text, _LONGEST)}"
        + (f", such as {one_line(reason.query_id, 80)}" if reason.query_id else "")
        for reason in all_reasons[:most]
    ]
    left = len(all_reasons) - most
    return lines + ([f"{left} more {'reasons' if left > 1 else 'reason'}"] if left > 0 else [])
