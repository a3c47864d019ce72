"""Forged results whose hashes are all made again: each is refused, by a sentence that names what cannot be."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.results import seal as seal_manifest
from kit.submit_changes import at, column, exchanged, named_as, put, reasons

from bench.base.errors import ResultError
from bench.base.spec import Spec, parse
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.interface import Method, Ranking
from bench.leaderboard.submit.archive import pack
from bench.leaderboard.submit.beside import BoardResults
from bench.leaderboard.submit.check import CheckedSubmission
from bench.leaderboard.submit.check_path import check_archive, check_place
from bench.registry import build_method, load_dataset
from bench.results.store import MANIFEST, METRICS, RUN, StoredResult

Checked = Callable[..., CheckedSubmission]
Change = Callable[[Any], Any]


def both(*changes: Change) -> Change:
    def change(raw: Any) -> None:
        for each in changes:
            each(raw)

    return change


def setting(name: str, value: Any, *place: str) -> Change:
    """A setting that is another wherever the manifest has it but in its command; `place` is where a condition is."""
    return both(put("settings", name, value=value), put(*(place or ("dataset", name)), value=value))


def asked(options: str) -> Change:
    """The command with further options."""

    def change(raw: Any) -> None:
        raw["environment"]["command"] += f" {options}"

    return change


def without_settings(raw: Any) -> None:
    del raw["settings"]


REPEATED = both(setting("repeats", 3, "repeats"), asked("--repeats 3"))
FORGERIES: dict[str, tuple[Change, str]] = {
    # Names that cannot have run.
    "a parameter that the method lacks": (named_as("bm25(nonsense=1)"), "cannot have run"),
    "a parameter out of its range": (named_as("bm25(k1=-5.0)"), "cannot have run"),
    "a default that is written out": (named_as("bm25(k1=1.2)"), "which this bench calls 'bm25'"),
    "a part that is no method": (named_as("rrf(methods=[bm25, nothing])"), "cannot have run"),
    "other parameters in full": (put("method", "full_spec", value="bm25(b=0.1, k1=1.2)"), "parameters"),
    "another method's name": (named_as("tfidf"), "tfidf has"),
    "another method's name, with its parameters": (named_as("names", learns=False), "names has"),
    # Hashes.
    "a made-up code hash": (put("method", "code", value="0" * 64), "the code hash '000000000000'"),
    "a made-up method hash": (put("method", "hash", value="1" * 64), "the method hash '111111111111'"),
    "models that the method does not have": (put("method", "revisions", value={"minilm": "2" * 64}), "the models"),
    # What the method is.
    "a hidden oracle": (named_as("oracle"), "the method oracle is an oracle, but the manifest hides it"),
    "a method that is no oracle": (put("method", "oracle", value=True), "is not an oracle"),
    "a language model that is not asked": (put("method", "needs_llm", value=True), "is not one that calls a language"),
    "past queries that it does not learn from": (
        put("method", "learns", value=True),
        "is not one that learns from past queries",
    ),
    "repeats without chance": (REPEATED, "repeats"),
    "files of a user's": (put("method", "used", value={"files": {}, "packages": {}}), "files 'of a user', and bm25"),
    # Settings, command and conditions.
    "a command of another method": (
        put("environment", "command", value="bench run --method tgr --dataset starter"),
        "tgr",
    ),
    "a command of another dataset": (
        put("environment", "command", value="bench run --method bm25 --dataset x"),
        "`bench",
    ),
    "a command with another limit": (asked("--limit 5"), "--limit 5"),
    "a command with another split": (asked("--split dev"), "--split dev"),
    "a command that scores a file": (
        put("environment", "command", value="bench score x --dataset starter"),
        "bench score",
    ),
    "an older manifest with the command of another method": (
        both(without_settings, put("environment", "command", value="bench run --method tgr --dataset starter")),
        "--method tgr",
    ),
    "an older manifest with another limit": (both(without_settings, asked("--limit 5")), "--limit 5"),
    "settings of another depth": (
        put("settings", "depth", value=5),
        "its settings say depth 5, and its conditions 100",
    ),
    "settings of another split": (put("settings", "split", value="dev"), "its settings say split dev"),
    "settings of another method": (put("settings", "method", value="tgr"), "its settings say method tgr"),
    "settings with a metric that there is not": (
        both(put("settings", "metrics", value=["nonsense@5"]), asked("--metric nonsense@5")),
        "nonsense",
    ),
    "settings of a run file": (put("settings", "file", value="x.trec"), "its settings say file x.trec"),
    "settings with a cut": (put("settings", "cut", value="size"), "its settings say cut size"),
    "a cut that the settings lack": (
        put("method", "cut", value="cut=size(3)"),
        "its settings say cut none, and its conditions size",
    ),
    "a cut without sets": (
        both(put("method", "cut", value="cut=size(3)"), put("settings", "cut", value="size"), asked("--cut size")),
        "no recommended sets",
    ),
    "a text that the dataset lacks": (
        both(setting("template", "source"), asked("--template source")),
        "upstream's corpus",
    ),
    # The seal.
    "no digest": (lambda raw: raw.pop("digest") and None, "has no digest of its fields"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_manifest_is_refused_by_name(made: Any, checked: Checked, name: str) -> None:
    change, reason = FORGERIES[name]
    members = made.members(manifest=change)
    if name == "no digest":
        raw = json.loads(members[MANIFEST])
        members[MANIFEST] = json.dumps({key: value for key, value in raw.items() if key != "digest"}).encode()
    assert reason in reasons(checked(members))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"metrics": put("metrics", "recall@5", "mean", value=0.99)}, "recall@5 mean 0.99 (scored again 0."),
        ({"metrics": put("metrics", "recall@5", "n", value=3)}, "recall@5 n 3 (scored again"),
        ({"per_query": column("ndcg@5", at(0, 0.123))}, "another ndcg@5 than scored again"),
        ({"run": exchanged(0, 1)}, "scored again"),
        ({"manifest": put("result_id", value="0" * 12), "metrics": put("result_id", value="0" * 12)}, "the id '0000"),
    ],
)
def test_forged_numbers_and_ids_are_refused(made: Any, checked: Checked, changes: Any, reason: str) -> None:
    assert reason in reasons(checked(made.members(**changes)))


def test_a_method_that_learns_cannot_have_run_where_there_is_no_past(
    of_result: Any, checked: Checked, tmp_path: Path
) -> None:
    runner = Runner(tmp_path / "runs", load_dataset, build_method)
    (result,) = runner.run([Plan(Spec.of("apibank"), Spec.of("bm25"), limit=10)])
    forged = of_result(result)
    assert checked(forged.members()).outcome == "accepted"
    for name in ("colt", "ptr", "nearest-query"):
        told = reasons(checked(forged.members(manifest=named_as(name, code="0" * 64, hash="1" * 64, learns=True))))
        assert f"method {name} needs past queries, and apibank has none" in told


# Beside a board -----------------------------------------------------------------------------------------------------


class _Patched:
    """bm25 that is replaced in memory: its code, and so its id, stays that of the files."""

    def __call__(self, spec: Spec) -> Method:
        method = build_method(spec)
        rank = method.rank

        def better(queries: Any, depth: int) -> Ranking:
            ranking = rank(queries, depth)
            tools = ranking.tools.copy()
            whole = (tools[:, :2] >= 0).all(axis=1)
            tools[whole, :2] = tools[whole, 1::-1]
            return Ranking(tools, None, ranking.failed)

        method.rank = better  # type: ignore[method-assign]
        return method


@pytest.fixture
def submitted(tmp_path: Path, load: Any) -> Callable[..., CheckedSubmission]:
    """An honest submission, to be forged."""

    def submitted(result: StoredResult, *board: StoredResult) -> CheckedSubmission:
        path = tmp_path / "handed-in.zip"
        path.write_bytes(pack(result))
        return check_archive(path, load, board=BoardResults(board))

    return submitted


def ran(folder: Path, method: str, build: Any = build_method, **settings: Any) -> StoredResult:
    (result,) = Runner(folder, load_dataset, build).run([Plan(Spec.of("starter"), parse(method), **settings)])
    assert isinstance(result, StoredResult), result
    return result


def test_a_method_that_was_patched_in_memory_does_not_take_the_place_of_an_honest_row(
    made: Any, tmp_path: Path, submitted: Any
) -> None:
    patched = ran(tmp_path / "patched", "bm25", _Patched())
    assert patched.manifest.result_id == made.result.manifest.result_id
    told = reasons(submitted(patched, made.result))
    assert f"the board has {patched.manifest.result_id} with other answers: " in told
    assert submitted(made.result, made.result).outcome == "accepted"
    # The same numbers again, made at another time.
    again = ran(tmp_path / "again", "bm25")
    assert submitted(again, made.result).outcome == "accepted"


def test_a_copy_of_a_row_of_the_board_is_named_with_the_oldest_as_its_source(
    made: Any, tmp_path: Path, of_result: Any, submitted: Any, checked: Any
) -> None:
    board = [made.result, ran(tmp_path / "b", "tfidf")]
    copied = ran(tmp_path / "c", "bm25(k1=1.2000001)")
    assert copied.run["tool_id"].to_pylist() == made.result.run["tool_id"].to_pylist()
    verdict = submitted(copied, *board)
    assert verdict.outcome == "accepted"
    assert f"its ranking is that of bm25 @ starter ({made.result.manifest.result_id}, made " in verdict.note
    assert "the oldest of the board that has it" in verdict.note
    other = submitted(ran(tmp_path / "d", "random"), *board)
    assert (other.outcome, "its ranking is that of" in other.note) == ("accepted", False)


def test_of_two_copies_in_a_folder_the_older_is_the_source(made: Any, tmp_path: Path, load: Any) -> None:
    root = tmp_path / "handed-in"
    root.mkdir()
    (root / "a.zip").write_bytes(pack(made.result))
    copied = ran(tmp_path / "c", "bm25(k1=1.2000001)")
    raw = json.loads((copied.folder / MANIFEST).read_text())
    raw["files"][RUN] = made.result.manifest.files[RUN]
    (copied.folder / RUN).write_bytes((made.result.folder / RUN).read_bytes())
    raw["environment"]["created"] = "2001-01-01T00:00:00+00:00"
    seal_manifest(raw)
    (copied.folder / MANIFEST).write_text(json.dumps(raw))
    (root / "b.zip").write_bytes(pack(StoredResult.read(copied.folder)))
    notes = [verdict.note for verdict in check_place(root, load)]
    assert notes[1] == (
        f"its ranking is byte for byte that of {root / 'a.zip'}, which is newer, so this one is the original"
    )


def test_a_damaged_row_of_the_board_is_named(bench: Any, made: Any, tmp_path: Path) -> None:
    (tmp_path / "in.zip").write_bytes(pack(made.result))
    board = tmp_path / "board"
    row = ran(board, "bm25")
    (row.folder / METRICS).write_text("{}")
    assert f"{row.folder / METRICS}" in bench("submit", "check", tmp_path / "in.zip", "--board", board, code=6).err
    said = bench("submit", "check", tmp_path / "in.zip")
    assert "not checked (needs --board)" in said.err
    assert "not checked (needs --rerun)" in said.err
    with pytest.raises(ResultError):
        StoredResult.read(row.folder)
