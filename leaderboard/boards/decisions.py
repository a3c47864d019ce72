"""Decisions of a board's maintainers: which submissions they accepted, and which results they withdrew, when and why.

Each decision is a file of its own in `_decisions/` of the folder of results, named after the result and its content.
So the decisions of two maintainers merge in git, and a decision is never rewritten. `bench submit` writes them, and
the site reads them. A withdrawn id is never used again: withdrawal outweighs acceptance, whatever their order.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, StringConstraints, model_validator

from bench.base.errors import ResultError
from bench.base.paths import write_text
from bench.base.reading import Reader
from bench.base.records import StrictRecord
from bench.base.text import one_line
from bench.data.card import Sha256
from bench.results.manifest import Manifest

#: The folder of decisions in a folder of results.
FOLDER = "_decisions"
#: Maximum number of characters of a reason or name, and of bytes of a decision.
_LONGEST, _LARGEST = 2_000, 1 << 20

#: The form of a result's id.
RESULT_ID = re.compile(r"[0-9a-f]{6,64}")
ResultId = Annotated[str, StringConstraints(pattern=f"^{RESULT_ID.pattern}$")]


def _as_shown(text: str) -> str:
    if text != one_line(text, _LONGEST):
        raise ValueError(f"is not one line of at most {_LONGEST} characters without control characters")
    return text


def _as_time(text: str) -> str:
    if datetime.fromisoformat(text).utcoffset() != timedelta(0):
        raise ValueError("is not a time in UTC")
    return text


Line = Annotated[str, AfterValidator(_as_shown)]

#: How far a row's ranking is known to be its method's.
Evidence = Literal["run here", "run again", "checked", "scored"]
#: What each means, for readers of the site.
MEANINGS: Mapping[Evidence, str] = {
    "run here": "the board's maintainers ran the method",
    "run again": "submitted; the maintainers ran the method again and got the same ranking",
    "checked": "submitted; every number follows from its ranking, and nobody ran the method again",
    "scored": "scored from a run file; every number follows from it, and no method is known that made it",
}
#: A row with this evidence may be recommended.
VERIFIED: frozenset[Evidence] = frozenset({"run here", "run again"})


class CheckReport(StrictRecord):
    """The report of `bench submit check` on a submission.

    Attributes:
        bench: version of bench that checked it.
        note: what the check noted.
        rerun: its verdict on the re-run; None if the method was not run again.
        queries: number of queries of the re-run.
        remark: what the re-run noted.
    """

    bench: Line
    note: Line = ""
    rerun: Literal["made again"] | None = None
    queries: int = 0
    remark: Line = ""


class Decision(StrictRecord):
    """A decision about one result.

    Attributes:
        label, dataset: its name in tables, and the spec of its dataset.
        manifest: the digest of its manifest, which covers all its files; None if it could not be read.
        made, by: when and by whom.
        why: why it was withdrawn.
        newer: id of the result that supersedes it.
        archive: sha256 of the accepted archive.
        report: what the check said about it.
    """

    schema_name: Literal["decision"] = "decision"
    schema_version: Literal[1] = 1
    what: Literal["accepted", "retracted", "superseded"]
    result_id: ResultId
    label: Line
    dataset: Line
    manifest: Sha256 | None = None
    made: Annotated[str, AfterValidator(_as_time)]
    by: Line
    why: Line = ""
    newer: ResultId | None = None
    archive: Sha256 | None = None
    report: CheckReport | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> Decision:
        whole = None not in (self.manifest, self.archive, self.report) and not self.why
        if not (whole if self.what == "accepted" else self.why):
            raise ValueError("an acceptance has a manifest, an archive and a report, and a withdrawal has a reason")
        if (self.what == "superseded") != (self.newer is not None):
            raise ValueError("a superseded result, and no other, names a newer one")
        return self

    @property
    def date(self) -> str:
        """The day it was made."""
        return self.made[:10]

    @property
    def sentence(self) -> str:
        """What was decided, when and why."""
        if self.what == "accepted":
            return f"accepted on {self.date} by {self.by}"
        newer = f" by {self.newer}" if self.newer else ""
        return f"{self.what}{newer} on {self.date} ({self.by}): {self.why}"


@dataclass(frozen=True)
class Decisions:
    """All decisions of a board, oldest first.

    Attributes:
        unreadable: files that are no decisions, with reasons.
    """

    every: Sequence[Decision] = ()
    unreadable: Sequence[tuple[str, str]] = field(default=())

    @cached_property
    def accepted(self) -> dict[str, Decision]:
        """Id -> its acceptance: one with a re-run if there is one, else the oldest."""
        found: dict[str, Decision] = {}
        for item in self.every:
            if item.what == "accepted":
                first = found.setdefault(item.result_id, item)
                if not _was_rerun(first) and _was_rerun(item):
                    found[item.result_id] = item
        return found

    @cached_property
    def withdrawn(self) -> dict[str, Decision]:
        """Id -> its oldest withdrawal; a retraction outweighs a supersession."""
        found: dict[str, Decision] = {}
        for item in self.every:
            if item.what != "accepted":
                first = found.setdefault(item.result_id, item)
                if first.what == "superseded" and item.what == "retracted":
                    found[item.result_id] = item
        return found

    def evidence(self, manifest: Manifest) -> Evidence:
        """What is known about the origin of a result's ranking."""
        if manifest.method.run_file is not None:
            return "scored"
        accepted = self.accepted.get(manifest.result_id)
        if accepted is None:
            return "run here"
        return "run again" if _was_rerun(accepted) else "checked"

    def withdrawal(self, result_id: str) -> str:
        """Why an id is no longer used, as a sentence; empty if it was not withdrawn."""
        decision = self.withdrawn.get(result_id)
        return "" if decision is None else f"it was {decision.sentence.rstrip('.')}. Its id is never used again."

    def fault(self, manifest: Manifest) -> str:
        """Why a stored result may not be shown, as a sentence; empty if it may."""
        accepted = self.accepted.get(manifest.result_id)
        if accepted is not None and accepted.manifest != manifest.digest:
            altered = f"it is not the result that was {accepted.sentence}: its manifest has another digest."
        else:
            altered = ""
        return self.withdrawal(manifest.result_id) or altered


def _was_rerun(decision: Decision) -> bool:
    return decision.report is not None and decision.report.rerun is not None


def read_decisions(results: Path) -> Decisions:
    """The decisions in a folder of results; files that cannot be read are listed with reasons."""
    every, unreadable = [], []
    for path in sorted((results / FOLDER).glob("*.json")):
        try:
            reader = Reader(str(path), ResultError)
            decision = reader.validate(Decision, reader.parse(reader.read_bytes(path, _LARGEST)))
            if path.name != _name(decision):
                raise ResultError(f"{path} was changed or renamed: its content has the name {_name(decision)}.")
        except ResultError as error:
            unreadable.append((f"{FOLDER}/{one_line(path.name, 80)}", one_line(str(error))))
        else:
            every.append(decision)
    every.sort(key=lambda item: (item.made, item.result_id, item.what))
    return Decisions(tuple(every), tuple(unreadable))


def write_decision(results: Path, decision: Decision) -> Path:
    """Write a decision, whole or not at all, and return its file.

    Raises:
        StorageError: the folder cannot be written.
    """
    path = results / FOLDER / _name(decision)
    write_text(path, _text(decision))
    return path


def _text(decision: Decision) -> str:
    return json.dumps(decision.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"


def _name(decision: Decision) -> str:
    digest = hashlib.sha256(_text(decision).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{decision.result_id}-{decision.what}-{digest[:8]}.json"
