"""`bench submit check --rerun`: honest methods are made again, doctored rankings differ, and the rest says why not."""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.submit_changes import named_as, put

from bench.base.errors import UsageError
from bench.base.spec import Spec, parse
from bench.data.dataset import Dataset
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.interface import Context, Library, Method, Queries, Ranking, ToolSets
from bench.interface.ranking import Violation
from bench.leaderboard.submit.archive import pack
from bench.leaderboard.submit.check import CheckedSubmission
from bench.leaderboard.submit.check_path import check_archive, check_folder
from bench.leaderboard.submit.code import is_code, source_files
from bench.leaderboard.submit.handover import (
    RefusedReply,
    SandboxReply,
    error_bytes,
    longest_reply,
    read_reply,
    reply_bytes,
)
from bench.leaderboard.submit.rerun import TOLERANCE, Rerun, different_rankings
from bench.leaderboard.submit.sandbox import Limits
from bench.leaderboard.zips import write_archive
from bench.registry import build_method
from bench.results.store import StoredResult

MINE = """
import numpy as np
from bench import Method, ParameterSet, top_k
from helping import words

class Shared(Method):
    "Counts the words that a query shares with a tool's text."

    class Parameters(ParameterSet):
        weight: float = 1.0

    def fit(self, history):
        self.past = np.zeros(len(history.library))
        np.add.at(self.past, history.gold.tools, 1e-3)

    def index(self, library):
        self.tools = [words(text) for text in library.texts]

    def rank(self, queries, depth):
        scores = [[len(words(text) & tool) for tool in self.tools] for text in queries.texts]
        return top_k(np.array(scores) * self.parameters.weight + self.past, depth)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a method in two modules, from which it can be imported."""
    import sys

    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "sharing.py").write_text(MINE)
    (folder / "helping.py").write_text("def words(text):\n    return set(text.lower().split())\n")
    monkeypatch.syspath_prepend(folder)
    for name in ("sharing", "helping"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder


@pytest.fixture
def result(tmp_path: Path, starter: Dataset) -> Callable[..., StoredResult]:
    """Run a method on a few queries of starter."""

    def result(method: str, build: Callable[[Spec], Method] = build_method, **plan: Any) -> StoredResult:
        runner = Runner(tmp_path / "results", lambda spec: starter, build)
        (outcome,) = runner.run([Plan(Spec.of("starter"), parse(method), **{"limit": 20, **plan})])
        assert isinstance(outcome, StoredResult), outcome
        return outcome

    return result


@pytest.fixture
def again(
    sandbox: None, tmp_path: Path, load: Any, monkeypatch: pytest.MonkeyPatch
) -> Callable[[bytes], CheckedSubmission]:
    """Check the bytes of an archive, with a re-run, which leaves no folder behind."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))

    def again(data: bytes) -> CheckedSubmission:
        path = tmp_path / "handed-in.zip"
        path.write_bytes(data)
        verdict = check_archive(path, load, Limits(seconds=120))
        assert not list(place.iterdir())
        return verdict

    return again


Again = Callable[[bytes], CheckedSubmission]


# bm25 as it is: `test_a_folder_is_run_again_too`.
@pytest.mark.parametrize("plan", [{"method": "bm25(k1=2.0)", "cut": "size", "depth": 7}, {"method": "popularity"}])
def test_a_method_of_bench_is_made_again(result: Any, again: Again, plan: dict[str, Any]) -> None:
    verdict = again(pack(result(**plan)))
    assert verdict.outcome == "accepted", verdict
    assert verdict.rerun == Rerun("made again", queries=20)


def test_a_plug_in_is_made_again_from_its_code(result: Any, again: Again, mine: Path) -> None:
    made = result("sharing:Shared(weight=2.0)")
    code = source_files(mine, parse(made.manifest.method.full_spec))
    assert sorted(code) == ["code/helping.py", "code/sharing.py"]
    data = pack(made, code)
    assert pack(made, dict(reversed(code.items()))) == data
    verdict = again(data)
    assert verdict.outcome == "accepted", verdict
    assert verdict.rerun == Rerun("made again", queries=20)
    unlike = code | {"code/helping.py": b"def words(text):\n    return set(text.split())\n"}
    verdict = again(pack(made, unlike))
    assert verdict.outcome == "refused"
    assert verdict.rerun is not None
    assert verdict.rerun.verdict == "differs"
    assert "the method hash differs" in verdict.rerun.note
    lacking = {"code/sharing.py": code["code/sharing.py"]}
    verdict = again(pack(made, lacking))
    assert verdict.outcome == "unavailable"
    assert "No module named" in verdict.reasons[0]


def test_a_doctored_ranking_differs_in_as_many_queries_as_were_doctored(
    result: Any, again: Again, of_result: Any, made: Any
) -> None:
    class Doctored(Method):
        """The rankings of bm25, three of them turned around."""

        def __init__(self, parameters: Any, context: Context) -> None:
            super().__init__(parameters, context)
            self.bm25 = context.build(Spec.of("bm25"))

        def index(self, library: Library) -> None:
            self.bm25.index(library)

        def rank(self, queries: Queries, depth: int) -> Ranking:
            ranking = self.bm25.rank(queries, depth)
            assert ranking.scores is not None
            tools = ranking.tools.copy()
            for place in np.flatnonzero(np.isin(queries.rows, [0, 5, 19])):
                tools[place, :2] = tools[place, 1::-1]
            return replace(ranking, tools=tools)

    def build(spec: Spec) -> Method:
        method = Doctored(Doctored.Parameters(), Context(build_method))
        method.name = "doctored"
        return method

    honest = result("bm25").manifest
    method = honest.method
    relabelled = named_as(method.spec, method.full_spec, hash=method.hash, code=method.code)

    def change(raw: Any) -> None:
        relabelled(raw)
        raw["result_id"] = honest.result_id
        # What a class of a test has used is no part of bm25.
        raw.get("method", {}).pop("used", None)

    members = of_result(result("doctored", build)).members(manifest=change, metrics=change)
    verdict = again(write_archive(members))
    assert verdict.outcome == "refused"
    assert verdict.rerun is not None
    assert (verdict.rerun.verdict, verdict.rerun.queries, verdict.rerun.differing) == ("differs", 20, 3)
    (reason,) = verdict.reasons
    assert reason.startswith("the method answers 3 of 20 queries differently (rankings in 3; first '")


def test_doctored_sets_differ(result: Any, again: Again, of_result: Any) -> None:
    stored, honest = of_result(result("bm25", cut="size", cut_at=3.0)), result("bm25", cut="size", cut_at=2.0)

    def change(raw: Any) -> None:
        raw["result_id"] = honest.manifest.result_id
        if "method" in raw:
            raw["method"]["cut"] = honest.manifest.method.cut
            raw["settings"]["cut_at"] = 2.0
            raw["environment"]["command"] = honest.manifest.environment.command

    verdict = again(write_archive(stored.members(manifest=change, metrics=change)))
    assert verdict.rerun is not None, verdict.reasons
    assert (verdict.rerun.verdict, verdict.rerun.differing) == ("differs", 20)
    assert "recommended sets in 20" in verdict.reasons[0]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"spec": "mine", "needs_llm": True},
            "the method calls a language model, but the sandbox has no network",
        ),
        (
            {"spec": "nowhere:Class", "full_spec": "nowhere:Class"},
            "the code of 'nowhere:Class' is not in the submission",
        ),
        ({"spec": "bm26", "full_spec": "bm26"}, "there is no method 'bm26' here; install the package that has it"),
    ],
)
def test_what_cannot_run_says_why(made: Any, again: Again, changes: dict[str, Any], reason: str) -> None:
    verdict = again(write_archive(made.members(manifest=named_as(**changes))))
    assert verdict.outcome == "unavailable", verdict
    assert verdict.rerun is not None
    assert verdict.rerun.verdict == "could not run"
    (told,) = verdict.reasons
    assert told.startswith("the method could not be run again: ")
    assert reason in told
    assert told.endswith(".")


def test_an_oracle_cannot_run(result: Any, again: Again) -> None:
    verdict = again(pack(result("oracle")))
    assert "an oracle reads the gold, which is not in the sandbox" in verdict.reasons[0]


def test_what_is_refused_anyway_is_not_run(made: Any, again: Again) -> None:
    verdict = again(write_archive(made.members(metrics=put("n", value=1))))
    assert verdict.outcome == "refused"
    assert verdict.rerun is None


def test_a_folder_is_run_again_too(result: Any, sandbox: None, load: Any) -> None:
    made = result("bm25")
    verdict = check_folder(made.folder, load, limits=Limits(seconds=120))
    assert verdict.rerun == Rerun("made again", queries=20)


def test_nothing_is_run_if_it_was_not_asked_for(
    bench: Callable[..., Any], mine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bench("run", "-m", "sharing:Shared", "-d", "starter", "--limit", 20, "-q")
    said = bench("submit", "pack", "sharing:Shared@starter", "--code", mine, "--json").json
    assert said["code"] == ["code/helping.py", "code/sharing.py"]
    monkeypatch.setenv("PATH", str(tmp_path / "nothing-here"))
    (outcome,) = bench("submit", "check", said["archive"], "--json").json
    assert outcome["outcome"] == "accepted"
    assert outcome["rerun"] is None
    told = bench("submit", "check", said["archive"], "--rerun", code=4)
    assert told.out == ""
    assert "needs bubblewrap" in told.err
    bench("submit", "check", said["archive"], "--timeout", 5, code=2)


def test_the_command_says_the_verdict(bench: Callable[..., Any], sandbox: None, mine: Path) -> None:
    bench("run", "-m", "sharing:Shared", "-d", "starter", "--limit", 20, "-q")
    archive = bench("submit", "pack", "sharing:Shared@starter", "--code", mine, "--json").json["archive"]
    said = bench("submit", "check", archive, "--rerun")
    assert "  made again: identical rankings for 20 queries\n" in said.out
    bench("submit", "pack", "sharing:Shared@starter", "--out", "bare.zip")
    said = bench("submit", "check", "bare.zip", "--rerun", "--json", code=4)
    (outcome,) = said.json
    assert outcome["outcome"] == "unavailable"
    assert outcome["rerun"]["verdict"] == "could not run"
    assert "a method could not be run again" in said.err


# Code --------------------------------------------------------------------------------------------------------------


def test_a_package_keeps_its_name_and_a_folder_of_modules_gives_its_contents(tmp_path: Path) -> None:
    package = tmp_path / "own" / "ranker"
    (package / "deep").mkdir(parents=True)
    (package / "__pycache__").mkdir()
    (package / ".git").mkdir()
    for name in ("__init__.py", "main.py", "deep/__init__.py", "data.json", "not-a-name.py", ".git/x.py"):
        (package / name).write_text("")
    (package / "__pycache__" / "main.py").write_text("")
    expected = ["code/ranker/__init__.py", "code/ranker/deep/__init__.py", "code/ranker/main.py"]
    assert sorted(source_files(package, parse("ranker.main:R"))) == expected
    assert sorted(source_files(tmp_path / "own", parse("ranker.main:R(base=bm25())"))) == expected
    assert sorted(source_files(tmp_path / "own", parse("rrf(methods=[ranker.main:R(), bm25()])"))) == expected
    assert sorted(source_files(package / "main.py", parse("main:R"))) == ["code/main.py"]


def test_code_that_does_not_fit_is_not_packed(tmp_path: Path) -> None:
    module = tmp_path / "m.py"
    module.write_text("")
    for place, spec, reason in [
        (module, "bm25", "registered method, which needs no --code"),
        (module, "other:C", "does not contain the module of other:C"),
        (tmp_path, "m.inner:C", "does not contain the module of m.inner:C"),
    ]:
        with pytest.raises(UsageError, match=reason):
            source_files(place, parse(spec))
    (tmp_path / "link.py").symlink_to(module)
    with pytest.raises(UsageError, match=r"link\.py is a link"):
        source_files(tmp_path, parse("m:C"))
    with pytest.raises(UsageError, match="is a link"):
        source_files(tmp_path / "link.py", parse("link:C"))
    (tmp_path / "link.py").unlink()
    (tmp_path / "big.py").write_bytes(b"#" * ((1 << 20) + 1))
    with pytest.raises(UsageError, match="too large"):
        source_files(tmp_path, parse("m:C"))
    (tmp_path / "big.py").unlink()
    for number in range(200):
        (tmp_path / f"m{number}.py").write_text("")
    with pytest.raises(UsageError, match="more than 200 modules"):
        source_files(tmp_path, parse("m:C"))


@pytest.mark.parametrize(
    "name",
    [
        *("code/../x.py", "code/a/../../x.py", "/code/x.py", "code//x.py", "code/x.txt", "code/x.pyc", "code/.x.py"),
        *("code/x.py/", "code\\x.py", "code/a.b/x.py", "code/x.py\n", "CODE/x.py", "code/é.py", "other/x.py", "x.py"),
        *("code/x y.py", "code/" + "a/" * 100 + "x.py", "code/x.PY", "code/x.so", "code/pyvenv.cfg", "code/x.pth"),
    ],
)
def test_other_names_are_no_code(made: Any, tmp_path: Path, load: Any, name: str) -> None:
    assert not is_code(name)
    verdict = checked(tmp_path, load, {**made.members(), name: b"x = 1\n"})
    assert verdict.outcome == "refused"
    assert "the member" in verdict.reasons[0]


def checked(tmp_path: Path, load: Any, members: dict[str, bytes], mode: int = 0o100644) -> CheckedSubmission:
    """Check an archive of these members in the order of bench; `mode` is that of files of code."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(members):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.create_system = 3
            entry.external_attr = (mode if name.startswith("code/") else 0o100644) << 16
            archive.writestr(entry, members[name])
    path = tmp_path / "handed-in.zip"
    path.write_bytes(buffer.getvalue())
    return check_archive(path, load)


def test_code_is_held_against_its_digests(made: Any, tmp_path: Path, load: Any) -> None:
    import hashlib

    source = b"x = 1\n"
    listed = {"code/m.py": hashlib.sha256(source).hexdigest()}

    def with_code(raw: Any) -> None:
        raw.update(schema_version=2, code=listed)

    good = made.members(submission=with_code) | {"code/m.py": source}
    assert checked(tmp_path, load, good).outcome == "accepted"
    for members, reason in [
        (good | {"code/m.py": b"x = 2\n"}, "does not have the names and sha256"),
        (good | {"code/n.py": source}, "does not have the names and sha256"),
        ({name: data for name, data in good.items() if name != "code/m.py"}, "does not have the names and sha256"),
        (made.members() | {"code/m.py": source}, "does not have the names and sha256"),
        (made.members(submission=lambda raw: raw.update(code=listed)), "version 2 is only for submissions with code"),
        (
            made.members(submission=lambda raw: raw.update(schema_version=2)),
            "version 2 is only for submissions with code",
        ),
        (good | {f"code/m{number}.py": b"" for number in range(200)}, "201 files of code"),
        (good | {"code/m.py": b"#" * ((1 << 20) + 1)}, "1048576 are allowed"),
        (good | {f"code/m{number}.py": b"#" * (1 << 20) for number in range(4)}, "4194304 bytes are allowed"),
    ]:
        verdict = checked(tmp_path, load, members)
        assert verdict.outcome == "refused"
        assert any(reason in told for told in verdict.reasons), verdict.reasons
    for mode, reason in [(0o120777, "is a link"), (0o040755, "is a device, a pipe or a folder"), (0o100755, "byte")]:
        verdict = checked(tmp_path, load, good, mode)
        assert verdict.outcome == "refused"
        assert any(reason in told for told in verdict.reasons), verdict.reasons


def test_an_archive_without_code_has_the_bytes_that_it_had_before(made: Any) -> None:
    with zipfile.ZipFile(io.BytesIO(pack(made.result))) as archive:
        about = json.loads(archive.read("submission.json"))
    assert about["schema_version"] == 1
    assert "code" not in about


# Replies -----------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=400))
def test_no_bytes_are_more_than_a_refused_reply(data: bytes) -> None:
    with pytest.raises((RefusedReply, Violation)):
        read_reply(data, 3, 5, 2)


@given(
    st.lists(st.permutations(range(5)), min_size=3, max_size=3),
    st.integers(0, 4),
    st.booleans(),
    st.booleans(),
    st.lists(st.booleans(), min_size=3, max_size=3),
)
def test_a_reply_comes_back_as_it_was_sent(
    rows: list[list[int]], width: int, scored: bool, with_sets: bool, failed: list[bool]
) -> None:
    kept = [[] if broken else row[:width] for row, broken in zip(rows, failed, strict=True)]
    ranking = Ranking.of_lists(kept, failed)
    scores = np.where(ranking.tools < 0, -np.inf, -np.arange(ranking.tools.shape[1]) / 3) if scored else None
    sent = SandboxReply(replace(ranking, scores=scores), ToolSets.of(kept) if with_sets else None, "a" * 64)
    data = reply_bytes(sent)
    assert len(data) < longest_reply(3, 5, 4, 15)
    back = read_reply(data, 3, 5, 4)
    assert np.array_equal(back.ranking.tools, ranking.tools)
    assert (back.ranking.scores is None) == (not scored)
    if scores is not None:
        assert back.ranking.scores is not None
        assert np.array_equal(back.ranking.scores, scores)
    assert back.ranking.failed is not None
    assert back.ranking.failed.tolist() == failed
    assert back.method_hash == sent.method_hash
    assert (back.sets is None) == (not with_sets)
    if back.sets is not None:
        assert [back.sets.row(i).tolist() for i in range(3)] == kept
    with pytest.raises(RefusedReply, match="bytes where"):
        read_reply(data + b"\0", 3, 5, 4)


def test_an_error_comes_back_shortened() -> None:
    with pytest.raises(RefusedReply, match=r"^e{2000}$"):
        read_reply(error_bytes("e" * 10_000), 3, 5, 2)
    with pytest.raises(RefusedReply, match=r"^\?$"):
        read_reply(error_bytes("\ud800"), 3, 5, 2)


def test_scores_agree_within_a_tolerance_and_order_must_be_the_same() -> None:
    tools = np.array([[2, 1, 0], [2, 1, 0], [2, 1, -1]])
    scores = np.array([[3e3, 2.0, 1.0], [0.3, 0.2, 0.1], [0.3, 0.2, -np.inf]])
    one = Ranking(tools, scores)
    assert not different_rankings(one, Ranking(tools, scores * (1 + TOLERANCE / 2))).any()
    assert not different_rankings(
        one,
        Ranking(
            np.pad(tools, ((0, 0), (0, 2)), constant_values=-1),
            np.pad(scores, ((0, 0), (0, 2)), constant_values=-np.inf),
        ),
    ).any()
    moved = scores.copy()
    moved[0, 0] += 1
    assert different_rankings(one, Ranking(tools, moved)).tolist() == [True, False, False]
    assert different_rankings(one, Ranking(tools[:, [1, 0, 2]], scores)).tolist() == [True, True, True]
    assert different_rankings(one, Ranking(tools[:, :2], scores[:, :2])).tolist() == [True, True, False]
    assert different_rankings(one, Ranking(tools)).all()
    empty = np.full((3, 1), -1)
    assert not different_rankings(Ranking(empty), Ranking(empty, np.full((3, 1), -np.inf))).any()


def test_near_ties_that_changed_places_are_told_apart(made: Any) -> None:
    from bench.evaluation.ask import Answers
    from bench.leaderboard.submit.rerun import _compare
    from bench.metrics.ties import UnseenTies

    tools = np.array([[2, 1, 0], [2, 1, 0], [2, 1, 0], [2, 1, 0]])
    scores = np.tile([0.3, 0.2, 0.2 - 1e-9], (4, 1))
    again = tools.copy()
    again[0] = [2, 0, 1]
    again[1] = [2, 1, 3]
    again[2] = [1, 2, 0]
    stored = Answers(Ranking(tools, scores), UnseenTies.none(4), None)
    outcome = _compare(
        made.result.manifest, stored, SandboxReply(Ranking(again, scores), None, ""), ["a", "b", "c", "d"]
    )
    assert outcome.differing == 3
    assert outcome.reason == (
        "the method answers 3 of 4 queries differently (rankings in 3; first 'a'); "
        "in 2 of them only tools with almost equal scores swapped positions."
    )
    plain = _compare(made.result.manifest, stored, SandboxReply(Ranking(again), None, ""), ["a", "b", "c", "d"])
    assert plain.differing == 4
    assert plain.reason.endswith("(rankings in 4; first 'a').")
