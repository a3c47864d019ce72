"""Run the method of a submission again in the sandbox and compare its answers with the submitted ones. `check` calls
it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.base.spec import parse
from bench.data.dataset import Dataset
from bench.evaluation.ask import Answers, asking_order
from bench.evaluation.plan import Plan
from bench.evaluation.rescore import stored_answers
from bench.evaluation.runner import views
from bench.interface import Queries, Ranking, ToolSets
from bench.interface.ranking import PAD, Violation
from bench.leaderboard.submit.archive import quote
from bench.leaderboard.submit.code import is_code, names, plugins, values
from bench.leaderboard.submit.handover import (
    MethodInput,
    RefusedReply,
    SandboxReply,
    SandboxRequest,
    longest_reply,
    read_reply,
    write_input,
)
from bench.leaderboard.submit.sandbox import Limits, SandboxStopped, run_confined
from bench.leaderboard.submit.tables import MOST_CELLS
from bench.registry import method_names
from bench.results.manifest import Manifest
from bench.results.store import RUN, StoredResult

Verdict = Literal["made again", "differs", "could not run"]

#: Relative tolerance of scores (absolute below 1): last bits of embeddings differ between machines. The order of the
#: tools must still be the same.
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Rerun:
    """The outcome of a re-run.

    Attributes:
        verdict: `made again` (for every query the same tools in the same order, the same scores up to `TOLERANCE`,
            and the same sets), `differs` or `could not run`.
        reason: why it could not run, or how it differs, as a sentence.
        note: what else readers should know.
        queries, differing: number of queries, and number of queries with different answers.
    """

    verdict: Verdict
    reason: str = ""
    note: str = ""
    queries: int = 0
    differing: int = 0


@dataclass(frozen=True)
class CheckedAnswers:
    """A checked submission, with its data and plan, and what was not checked."""

    dataset: Dataset
    plan: Plan
    result: StoredResult
    notes: list[str]


def rerun(manifest: Manifest, members: Mapping[str, bytes], sound: CheckedAnswers, limits: Limits) -> Rerun:
    """Run the method of a submission that was checked and accepted.

    Args:
        manifest: as submitted.
        members: name -> bytes of all files of the submission.
        sound: its checked tables.
        limits: what the method may use.

    Raises:
        UnavailableError: there is no sandbox here; nothing was run.
    """
    if RUN not in members:
        return Rerun("could not run", f"the submission has no {RUN} to compare with.")
    if lacking := _lacking(manifest, members):
        return Rerun("could not run", lacking)
    dataset, plan = sound.dataset, sound.plan
    rows = plan.rows(dataset)
    if any(dataset.queries[row].calls for row in rows.tolist()):
        return Rerun("could not run", "its queries need several calls, but the sandbox asks each query once.")
    order = asking_order(dataset, rows)
    library, history = views(plan, dataset)
    queries = Queries.of(dataset, rows[order])
    settings = plan.resolve(dataset).non_defaults()
    request = SandboxRequest(method=manifest.method.full_spec, label=manifest.method.spec, **settings)
    # The first repeat equals a run without repeats.
    _, stored = stored_answers(sound.result.of_repeat(1), dataset)
    most = longest_reply(len(rows), len(library), plan.depth, min(len(rows) * len(library), MOST_CELLS))
    with tempfile.TemporaryDirectory(prefix="bench-rerun-") as place:
        folder = Path(place)
        write_input(folder, MethodInput(request, library, history, queries))
        for name in filter(is_code, members):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(members[name])
        try:
            data = run_confined(folder, most, limits)
            reply = read_reply(data, len(rows), len(library), plan.depth)
        except SandboxStopped as stopped:
            return Rerun("could not run", f"{stopped}.", queries=len(rows))
        except RefusedReply as refused:
            said = quote(str(refused), 400)[1:-1].rstrip(".")
            return Rerun("could not run", f"{said}{_places(manifest)}.", queries=len(rows))
        except Violation as violation:
            return Rerun("could not run", f"the method {violation}.", queries=len(rows))
    return _compare(manifest, stored.take(order), reply, [dataset.queries[row].query_id for row in rows[order]])


def _lacking(manifest: Manifest, members: Mapping[str, bytes]) -> str:
    """Why the method cannot run in the sandbox, as far as known without running it; empty if it can."""
    method = manifest.method
    if method.run_file is not None:
        return "it is a scored run file: it has no method to run."
    if method.oracle:
        return "an oracle reads the gold, which is not in the sandbox."
    if method.needs_llm:
        return "the method calls a language model, but the sandbox has no network."
    spec = parse(method.full_spec)
    if plugins(spec) and not any(map(is_code, members)):
        return (
            f"the code of {quote(plugins(spec)[0])} is not in the submission; pack it with "
            "`bench submit pack RESULT --code FILE_OR_FOLDER`."
        )
    for name in names(spec):
        if ":" not in name and name not in method_names():
            return f"there is no method {quote(name)} here; install the package that has it."
    return ""


def _places(manifest: Manifest) -> str:
    """The parameters that name a file, a folder or a Hub model, in words; empty if there are none."""
    places = [value for value in values(parse(manifest.method.full_spec)) if isinstance(value, str) and "/" in value]
    return f"; the sandbox has neither {quote(places[0])} nor a network to fetch it from" if places else ""


def _compare(manifest: Manifest, stored: Answers, reply: SandboxReply, query_ids: list[str]) -> Rerun:
    """Compare two answers to the same queries in the same order."""
    ranked = different_rankings(stored.ranking, reply.ranking)
    recommended = _different_sets(stored.sets, reply.sets, len(query_ids))
    wrong = ranked | recommended
    note = ""
    if reply.method_hash != manifest.method.hash:
        note = "the method hash differs from the submitted one: other code, parameters or model files"
    if not wrong.any():
        return Rerun("made again", note=note, queries=len(query_ids))
    words = [f"rankings in {ranked.sum()}" if ranked.any() else ""]
    words.append(f"recommended sets in {recommended.sum()}" if recommended.any() else "")
    first = quote(query_ids[int(np.flatnonzero(wrong)[0])])
    near = sum(_near_ties(stored.ranking, reply.ranking, int(row)) for row in np.flatnonzero(ranked & ~recommended))
    reason = (
        f"the method answers {wrong.sum()} of {len(query_ids)} queries differently "
        f"({', '.join(word for word in words if word)}; first {first})"
        + (f"; in {near} of them only tools with almost equal scores swapped positions." if near else ".")
    )
    return Rerun("differs", reason, note, len(query_ids), int(wrong.sum()))


def different_rankings(one: Ranking, other: Ranking) -> NDArray[np.bool_]:
    """(queries,) whether two rankings differ in tools, order, or scores beyond `TOLERANCE`."""
    width = max(one.tools.shape[1], other.tools.shape[1])

    def padded(values: NDArray[np.generic], filler: float) -> NDArray[np.generic]:
        return np.pad(values, ((0, 0), (0, width - values.shape[1])), constant_values=filler)

    tools = padded(one.tools, PAD)
    wrong: NDArray[np.bool_] = (tools != padded(other.tools, PAD)).any(axis=1)
    if (one.scores is None) != (other.scores is None):
        # A ranking without tools carries no information on scores.
        wrong |= (tools != PAD).any(axis=1)
    if one.scores is not None and other.scores is not None:
        left = np.where(tools == PAD, 0.0, padded(one.scores, 0.0).astype(np.float64))
        right = np.where(tools == PAD, 0.0, padded(other.scores, 0.0).astype(np.float64))
        allowed = TOLERANCE * np.maximum(1.0, np.maximum(abs(left), abs(right)))
        wrong |= (abs(left - right) > allowed).any(axis=1)
    return wrong


def _near_ties(one: Ranking, other: Ranking, row: int) -> bool:
    """Whether two rankings of a query differ only in the order of tools whose scores agree up to `TOLERANCE`.

    A tool that only one ranking has must score like the last tool of the other, which cut it off.
    """
    if one.scores is None or other.scores is None:
        return False
    left, right = (
        {int(tool): float(score) for tool, score in zip(ranking.tools[row], scores[row], strict=True) if tool != PAD}
        for ranking, scores in ((one, one.scores), (other, other.scores))
    )
    if len(left) != len(right) or not left:
        return False
    for mine, others in ((left, right), (right, left)):
        last = min(others.values())
        for tool, score in mine.items():
            if abs(score - others.get(tool, last)) > TOLERANCE * max(1.0, abs(score)):
                return False
    return True


def _different_sets(one: ToolSets | None, other: ToolSets | None, queries: int) -> NDArray[np.bool_]:
    if one is None or other is None:
        return np.full(queries, one is not other)
    return np.array([set(one.row(i).tolist()) != set(other.row(i).tolist()) for i in range(queries)], dtype=np.bool_)
