"""Verify a submission by re-scoring its ranking on this machine's data. `bench submit check` calls it.

Verified: the files are complete; data, queries, tools and protocol are those of this bench; every mean, interval, tie
band, count and per-query value follows from the ranking. Only a re-run (`rerun.py`) shows that the named method makes
the ranking. Not verifiable: how long it took, and its scores beyond the depth.
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from pydantic import BaseModel, ValidationError

from bench.base import strict_json
from bench.base.errors import DataError, ResultError, UnavailableError, UsageError
from bench.base.records import faults as record_faults
from bench.base.spec import Spec, parse
from bench.data.dataset import Dataset
from bench.data.template import TEMPLATES
from bench.evaluation.plan import Plan
from bench.evaluation.runner import dataset_identity
from bench.interface import CURRENT_VERSIONS, PROTOCOL_VERSION, History, version_for
from bench.leaderboard.submit.archive import quote
from bench.leaderboard.submit.beside import BoardResults, board_faults, board_notes, replaced
from bench.leaderboard.submit.code import is_code
from bench.leaderboard.submit.numbers import in_memory, mean_faults, number_faults, wanted_metrics
from bench.leaderboard.submit.origin import origin_faults
from bench.leaderboard.submit.rerun import CheckedAnswers, Rerun, rerun
from bench.leaderboard.submit.sandbox import Limits
from bench.leaderboard.submit.submission import SUBMISSION, Submission, parts_of
from bench.leaderboard.submit.tables import (
    MOST_CELLS,
    EvaluatedQueries,
    per_query_faults,
    plain_table,
    read_table,
    repeats_faults,
    run_faults,
)
from bench.lookup.consistency import contradictions
from bench.metrics import parse_metrics
from bench.results.commands import settings_of
from bench.results.intervals import BOOTSTRAP_SEED
from bench.results.manifest import Manifest, Metrics, name_fault, seal_fault
from bench.results.store import (
    MANIFEST,
    METRICS,
    PER_QUERY,
    PER_QUERY_SCHEMA,
    REPEATED_RUN_SCHEMA,
    REPEATS,
    REPEATS_SCHEMA,
    RUN,
    RUN_SCHEMA,
    fits_repeats,
)

Outcome = Literal["accepted", "refused", "unreadable", "unavailable"]
Load = Callable[[str], Dataset]

_LONGEST_SPEC = 2000
#: 1 if the first tools of every query are its gold.
_PERFECT = "recall@gold"
_LONGEST_INTEGER = 18
_VERSION = 1
#: Version of `submission.json`; with code it is 2.
_VERSIONS = {SUBMISSION: (1, 2)}
_SHA256 = re.compile(r"[0-9a-f]{64}")
_RESULT_ID = re.compile(r"[0-9a-f]{12}")
M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class CheckedSubmission:
    """The outcome of one submission.

    Attributes:
        place: the archive or the folder.
        outcome: `accepted`; `refused` (it is wrong); `unreadable`; `unavailable` (its data is not here).
        reasons: one sentence each; empty if it was accepted.
        result_id, label: from the manifest (untrusted), if it could be read.
        note: what readers should know although it was accepted.
        ranking: sha256 of its `run.parquet` and the cut, if it was accepted: a cut does not change the ranking.
        manifest: set if it was accepted.
        rerun: the outcome of running its method again, if requested and everything else was accepted. If it
            differs, the submission is refused; if it could not run, it is `unavailable`.
    """

    place: Path
    outcome: Outcome
    reasons: tuple[str, ...] = ()
    result_id: str | None = None
    label: str | None = None
    note: str = ""
    ranking: str | None = None
    manifest: Manifest | None = None
    rerun: Rerun | None = None

    @property
    def created(self) -> str:
        """When it was made, according to its manifest; empty if it was not accepted."""
        return "" if self.manifest is None else self.manifest.environment.created


def check_members(
    place: Path,
    members: Mapping[str, bytes],
    load: Load,
    limits: Limits | None = None,
    board: BoardResults | None = None,
) -> CheckedSubmission:
    """Check a submission from the bytes of its files; none of their claims is trusted.

    Args:
        place: the archive or the folder, for the verdict.
        members: name -> bytes: the files of a result and, from an archive, `submission.json` and the files of code.
            Without `run.parquet` nothing is scored again, and a note says so: then means and intervals must follow from
            the per-query values.
        load: returns the dataset of a spec, from the registry.
        limits: run the method again in the sandbox, under these; with None, no submitted code runs. Results that
            the board has file by file are not run either, unless they were accepted without a re-run.
        board: the board that it is submitted to.

    Raises:
        UnavailableError: a re-run was requested, and there is no sandbox here.
        ResultError: a result of the board is damaged.
    """
    faults: list[str] = []
    manifest = _parse_member(members, MANIFEST, Manifest, faults)
    if manifest is not None and (broken := seal_fault(strict_json.loads(members[MANIFEST]))):
        faults.append(f"{MANIFEST} {broken}.")
    metrics = _parse_member(members, METRICS, Metrics, faults)
    packed = _parse_member(members, SUBMISSION, Submission, faults) if SUBMISSION in members else None
    if manifest is None or metrics is None:
        return CheckedSubmission(place, "refused", tuple(faults))
    cut = f" + {manifest.method.cut}" if manifest.method.cut else ""
    about = (manifest.result_id, f"{manifest.method.spec}{cut} @ {manifest.dataset.spec}")
    faults += _hash_faults(manifest, metrics, packed, members)
    faults += _method_faults(manifest)
    sound: CheckedAnswers | None = None
    try:
        wrong, sound = _content_faults(manifest, metrics, members, load)
        faults += wrong
    except UnavailableError as error:
        outcome: Outcome = "refused" if faults else "unavailable"
        spec = quote(manifest.dataset.spec)
        faults.append(
            f"the dataset {spec} is not available, so nothing was scored: {error} Get it with `bench data fetch`."
        )
        return CheckedSubmission(place, outcome, tuple(faults), *about)
    if faults:
        return CheckedSubmission(place, "refused", tuple(faults), *about)
    assert sound is not None
    notes = list(sound.notes)
    if RUN not in members:
        notes.append(f"it has no {RUN}, so its per-query values were not recomputed")
    perfect = metrics.metrics.get(_PERFECT)
    if perfect and perfect.mean == 1 and not manifest.method.oracle:
        notes.append("it answers every query with exactly its gold, but is not marked as an oracle")
    verdict = CheckedSubmission(place, "accepted", (), *about, "; ".join(notes), manifest.files[RUN] + cut, manifest)
    board = board or BoardResults()
    unproven = limits is not None and board.decisions.evidence(manifest) == "checked"
    there = any(item.manifest == manifest for item in board.results)
    if there and not unproven and not board.decisions.withdrawal(manifest.result_id):
        return verdict
    if faults := board_faults(sound.result, board):
        return CheckedSubmission(place, "refused", tuple(faults), *about)
    if limits is not None:
        again = rerun(manifest, members, sound, limits)
        verdict = dataclasses.replace(verdict, rerun=again)
        if again.verdict != "made again":
            outcome = "refused" if again.verdict == "differs" else "unavailable"
            reason = again.reason if outcome == "refused" else f"the method could not be run again: {again.reason}"
            return dataclasses.replace(verdict, outcome=outcome, reasons=(reason,))
    others = replaced(manifest, board)
    if others and limits is not None:
        notes.append(
            f"it would replace {', '.join(others)} on the board, and a re-run of its method gave the same answers"
        )
    elif others:
        reason = (
            f"the board already has {verdict.label}, as {', '.join(others)}, which this would replace; check it with "
            "--rerun, or submit the system under another name."
        )
        return CheckedSubmission(place, "refused", (reason,), *about)
    if not there:
        notes += board_notes(sound.result, board)
    return dataclasses.replace(verdict, note="; ".join(notes))


def _parse_member(members: Mapping[str, bytes], name: str, model: type[M], faults: list[str]) -> M | None:
    """Parse a JSON member; errors are added to `faults`."""
    try:
        raw = strict_json.loads(members[name].decode("utf-8"), parse_int=_integer)
        json.dumps(raw, ensure_ascii=False).encode()  # half of a surrogate pair is not text
    except (ValueError, RecursionError) as error:
        faults.append(f"{name} is not a JSON file ({quote(str(error), 120)}).")
        return None
    versions = _VERSIONS.get(name, (_VERSION,))
    if isinstance(raw, dict) and raw.get("schema_version", _VERSION) not in versions:
        shown = quote(str(raw["schema_version"]))
        faults.append(f"{name} has the schema version {shown}; this bench reads {' and '.join(map(str, versions))}.")
        return None
    try:
        # Strictly, because other readers of the file do not take "5" for 5.
        return model.model_validate(raw, strict=True)
    except ValidationError as error:
        for fault in record_faults(error)[:10]:
            where = quote(fault.where or "the file")
            faults.append(f"{name} does not follow its schema ({where}: {fault.message}).")
        return None


def _integer(digits: str) -> int:
    if len(digits) > _LONGEST_INTEGER:
        raise ValueError(f"an integer of {len(digits)} digits")
    return int(digits)


def _hash_faults(
    manifest: Manifest, metrics: Metrics, packed: Submission | None, members: Mapping[str, bytes]
) -> list[str]:
    parts = parts_of(manifest)
    digests = {name: hashlib.sha256(members[name]).hexdigest() for name in parts if name in members}
    expected = {name: digests.get(name, manifest.files.get(name)) for name in parts if name != MANIFEST}
    faults = [f"it lacks {name}, which a result has." for name in parts if name not in members and name != RUN]
    if manifest.repeats == 1 and REPEATS in members:
        faults.append(f"it has {REPEATS}, but its manifest has no repeats.")
    if not fits_repeats(manifest.repeats, metrics):
        faults.append(f"{METRICS} does not describe the {manifest.repeats} repeats of the manifest.")
    faults += [
        f"{name} was changed: its sha256 is not the one in {MANIFEST}."
        for name, digest in expected.items()
        if manifest.files.get(name) != digest
    ]
    if RUN not in digests and not _SHA256.fullmatch(manifest.files.get(RUN, "")):
        faults.append(f"{MANIFEST} has no sha256 of {RUN}, so the file cannot be verified.")
    if extra := sorted(manifest.files.keys() - expected.keys()):
        faults.append(f"{MANIFEST} names the file {quote(extra[0])}, which is not part of a result.")
    if metrics.result_id != manifest.result_id:
        faults.append(f"{METRICS} belongs to another result ({quote(metrics.result_id)}).")
    if not _RESULT_ID.fullmatch(manifest.result_id):
        faults.append(f"the result id {quote(manifest.result_id)} is not twelve hexadecimal digits.")
    if packed is None:
        return faults
    faults += [
        f"{name} was changed after packing: its sha256 is not the one in {SUBMISSION}."
        for name in digests
        if packed.files.get(name) != digests[name]
    ]
    code = {name: hashlib.sha256(data).hexdigest() for name, data in members.items() if is_code(name)}
    if packed.code != code:
        faults.append(f"{SUBMISSION} does not have the names and sha256 of the {len(code)} files of code.")
    if packed.files.keys() != digests.keys():
        faults.append(f"{SUBMISSION} does not name the {len(parts)} files of a result.")
    same = {
        "result_id": manifest.result_id,
        "protocol": manifest.protocol,
        "dataset": manifest.dataset.spec,
        "content_hash": manifest.dataset.content_hash,
        "method": manifest.method.spec,
    }
    faults += [
        f"{SUBMISSION} and {MANIFEST} disagree on the {name.replace('_', ' ')}."
        for name, value in same.items()
        if getattr(packed, name) != value
    ]
    return faults


def _method_faults(manifest: Manifest) -> list[str]:
    """Check what the manifest says about the method, as far as possible without running any of its code."""
    method = manifest.method
    faults = [f"the manifest contradicts itself: {quote(text, 500)[1:-1]}." for text in contradictions(manifest)]
    # These texts are shown on every page and in every terminal.
    shown = [method.spec, method.full_spec, method.run_file or "", method.cut or ""]
    shown += [text for mark in manifest.marks for text in (mark.text, mark.why)]
    faults += [
        f"the manifest says {quote(text)} about the method, which cannot be shown: {fault}."
        for text in shown
        if (fault := name_fault(text))
    ]
    if not _SHA256.fullmatch(method.hash):
        faults.append("the method hash in the manifest is not a sha256.")
    try:
        made = datetime.datetime.fromisoformat(manifest.environment.created)
        if made.tzinfo is None:
            raise ValueError
    except ValueError:
        faults.append(f"the date {quote(manifest.environment.created)} in the manifest is not a date with a time zone.")
    if manifest.seeds != {"bootstrap": BOOTSTRAP_SEED}:
        faults.append(f"the seeds in the manifest are not those of this bench (bootstrap {BOOTSTRAP_SEED}).")
    if method.run_file is not None:
        unknown = method.oracle or method.needs_llm or method.cut or manifest.repeats > 1
        if unknown or not method.run_file.endswith(f" sha256:{method.hash}"):
            faults.append(
                "the manifest claims facts about a scored run file that cannot be known, or its hash differs."
            )
        return faults
    try:
        specs = [_spec(text) for text in (method.spec, method.full_spec)]
    except UsageError:
        return [*faults, f"the method {quote(method.spec)} in the manifest is not a spec in canonical form."]
    if specs[0].name != specs[1].name:
        faults.append("the manifest has two names for the method.")
    return faults


def _spec(text: str) -> Spec:
    if len(text) > _LONGEST_SPEC:
        raise UsageError("a spec is too long.")
    spec = parse(text)
    if str(spec) != text:
        raise UsageError("a spec is not canonical.")
    return spec


def _content_faults(
    manifest: Manifest, metrics: Metrics, members: Mapping[str, bytes], load: Load
) -> tuple[list[str], CheckedAnswers | None]:
    """Check protocol, data, rows and numbers; stop at the first step with faults.

    Returns:
        The faults and, if there are none, the answers and their data.
    """
    if not fits_repeats(manifest.repeats, metrics) or (manifest.repeats > 1 and REPEATS not in members):
        return [], None
    if manifest.protocol not in CURRENT_VERSIONS:
        return [f"it follows the protocol {quote(manifest.protocol)}, but this bench {PROTOCOL_VERSION}."], None
    data = manifest.dataset
    try:
        _spec(data.spec)
        dataset = load(data.spec)
    except (UsageError, DataError) as error:
        return [f"this bench cannot load the dataset {quote(data.spec)}: {quote(str(error), 300)[1:-1]}"], None
    if dataset.content_hash != data.content_hash:
        return [
            f"it was made on other data: {dataset.spec} has the content hash {dataset.content_hash[:12]} here and "
            f"{quote(data.content_hash[:12])} in the submission; `bench data fetch {dataset.card.id}` gets the data "
            "of this bench, and the method must be run on it."
        ], None
    if manifest.protocol != version_for(dataset.gold):
        return [
            f"it follows the protocol {manifest.protocol}, and results on {dataset.spec} follow "
            f"{version_for(dataset.gold)}."
        ], None
    if data.template not in TEMPLATES:
        return [f"its tool text is a custom template; a submission uses one of {', '.join(TEMPLATES)}."], None
    faults = []
    try:
        asked = settings_of(manifest)
        parse_metrics(asked.metrics)
        settings = asked.non_defaults() | {
            "split": data.split,
            "limit": data.limit,
            "template": data.template,
            "depth": manifest.depth,
            "repeats": manifest.repeats,
        }
        plan = Plan(Spec.of(data.spec), Spec.of("m"), **settings)
        rows = plan.rows(dataset)
        plan = plan.normal(dataset)
    except UsageError as error:
        return [quote(str(error), 300)[1:-1]], None
    if data.template == "source" and not any(tool.source for tool in dataset.tools):
        return [f"its tool text is that of upstream's corpus, and {dataset.spec} has none."], None
    past = History.rows(dataset, dataset.rows(plan.evaluated_split(dataset)))
    expected = dataset_identity(plan, dataset, rows, 0 if manifest.method.run_file is not None else len(past))
    for name, value in expected:
        if name == "repeated_gold" and data.repeated_gold is None:
            # Older versions did not record it, and boards show it as unknown.
            continue
        if getattr(data, name) != value:
            faults.append(
                f"the manifest has {name.replace('_', ' ')} {quote(str(getattr(data, name)))}, and it is "
                f"{quote(str(value))}."
            )
    if faults:
        return faults, None
    library = len(dataset.tools)
    deepest = library if manifest.method.run_file is not None else min(manifest.depth, library)
    count = manifest.repeats
    run_schema = RUN_SCHEMA if count == 1 else REPEATED_RUN_SCHEMA
    run = repeats = None
    try:
        wanted = wanted_metrics(metrics)
        per_query = read_table(members[PER_QUERY], PER_QUERY, PER_QUERY_SCHEMA, len(rows))
        if RUN in members:
            run = read_table(members[RUN], RUN, run_schema, min(count * len(rows) * deepest, MOST_CELLS))
        if count > 1:
            cells = count * len(rows) * (len(REPEATS_SCHEMA) + len(wanted))
            if cells > MOST_CELLS:
                limit = f"more than the limit of the check ({MOST_CELLS})"
                return [f"{REPEATS} needs {cells} cells, {limit}."], None
            repeats = read_table(members[REPEATS], REPEATS, REPEATS_SCHEMA, count * len(rows))
    except ResultError as error:
        return [str(error)], None
    evaluated = EvaluatedQueries(dataset, rows, deepest)
    faults = per_query_faults(per_query, evaluated)
    if repeats is not None:
        faults = faults or repeats_faults(repeats, run, manifest, metrics, evaluated)
    elif run is not None:
        faults = faults or run_faults(run, per_query, manifest, metrics, evaluated)
    if faults:
        return faults, None
    per_query = plain_table(per_query, PER_QUERY_SCHEMA)
    repeats = None if repeats is None else plain_table(repeats, REPEATS_SCHEMA)
    faults, notes = origin_faults(manifest, plan, dataset, not per_query["recommended"].null_count)
    if run is None:
        faults += mean_faults(manifest, metrics, per_query, repeats, evaluated, wanted)
    else:
        run = plain_table(run, run_schema)
        faults += number_faults(manifest, metrics, run, per_query, repeats, evaluated, wanted)
    return faults, None if faults else CheckedAnswers(
        dataset, plan, in_memory(manifest, metrics, per_query, repeats, run), notes
    )
