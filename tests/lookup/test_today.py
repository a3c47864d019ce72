"""A name means the result of today's code; older ones are named on purpose, and renamed where their code is equal."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub.errors import LocalEntryNotFoundError
from kit.interpreter import Interpreter

from bench.base.errors import UsageError
from bench.base.paths import sha256_of
from bench.lookup import current as bench_today
from bench.lookup.current import adopt_name, is_of_today, today
from bench.lookup.finding import find_result, latest
from bench.results.code_versions import SameMethods, same_methods, template_hash
from bench.results.commands import command
from bench.results.manifest import Manifest, Mark
from bench.results.store import MANIFEST, METRICS, PER_QUERY, RUN, StoredResult, find_results, rename_result, to_json

Run = Callable[..., StoredResult]
Bench = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[2]


def of_older_code(result: StoredResult, created: str = "2020-01-01T00:00:00+00:00", **method: str) -> StoredResult:
    """The same answer as it would be stored of other code of the method; in its place if nothing else is said."""
    values = result.manifest.method.model_copy(update={"code": "0" * 64, "hash": "1" * 64} | method)
    environment = result.manifest.environment.model_copy(update={"created": created})
    manifest: Manifest = result.manifest.model_copy(
        update={"result_id": "0" * 12, "method": values, "environment": environment}
    )
    folder = result.folder.with_name("bm25-" + "0" * 12)
    metrics = result.metrics.model_copy(update={"result_id": "0" * 12})
    shutil.copytree(result.folder, folder, dirs_exist_ok=True)
    (folder / METRICS).write_text(to_json(metrics))
    files = manifest.files | {METRICS: sha256_of(folder / METRICS)}
    (folder / MANIFEST).write_text(to_json(manifest.model_copy(update={"files": files}).sealed()))
    return StoredResult.read(folder)


@pytest.mark.parametrize(
    ("spec", "plan"),
    [
        ("bm25", {}),
        ("bm25(k1=2)", {"split": "dev", "limit": 3, "depth": 5, "template": "description"}),
        ("bm25", {"cut": "size"}),
        ("bm25", {"cut": "threshold", "cut_at": 0.5}),
        ("rrf(methods=[bm25, tfidf])", {}),
        ("random", {"repeats": 2}),
        ("nearest-query", {}),
    ],
)
def test_what_was_run_now_is_of_today(run: Run, spec: str, plan: dict[str, Any]) -> None:
    result = run(spec, **plan)
    outcome = today(result.manifest)
    assert outcome is not None
    assert outcome.identifier == result.manifest.result_id
    assert outcome.method_hash == result.manifest.method.hash
    assert adopt_name(result.manifest) is None or adopt_name(result.manifest) == result.manifest
    # What its command asks for is what was asked.
    for option, value in plan.items():
        assert f"--{option.replace('_', '-')} {value}" in command(result.manifest)


@pytest.mark.parametrize(
    "changed",
    [
        {"method": {"code": "0" * 64, "hash": "1" * 64}, "result_id": "0" * 12},
        {"dataset": {"content_hash": "0" * 64}},
        {"dataset": {"split": "dev"}},
        {"dataset": {"limit": 3}},
        {"dataset": {"template": "description"}},
        {"method": {"spec": "bm25(k1=2.0)"}},
        {"depth": 7},
        {"repeats": 3},
    ],
)
def test_what_says_another_thing_of_itself_is_not(run: Run, changed: dict[str, Any]) -> None:
    raw = run("bm25").manifest.model_dump(mode="json")
    for name, value in changed.items():
        raw[name] = raw[name] | value if isinstance(value, dict) else value
    assert is_of_today(Manifest.model_validate(raw)) is False


@pytest.mark.parametrize(
    "said", ["bench score run.trec", "bench run --method bm25 --jobs 2", "bench run 'x", "rm -rf /"]
)
def test_a_command_that_is_no_run_tells_nothing(run: Run, said: str) -> None:
    manifest = run("bm25").manifest
    environment = manifest.environment.model_copy(update={"command": said})
    changed: Manifest = manifest.model_copy(update={"environment": environment})
    assert is_of_today(changed) is None
    assert command(changed) == "bench run --method bm25 --dataset tiny"


def test_a_name_that_a_stranger_chose_is_not_imported(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "planted.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    manifest = run("bm25").manifest
    for spec in ("planted:Method", "tgr(base=planted:Method)", "rrf(methods=[bm25, planted:Method])"):
        method = manifest.method.model_copy(update={"spec": spec})
        assert is_of_today(manifest.model_copy(update={"method": method})) is None
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("revisions", [{}, {"touch ran": "1.0"}])
def test_no_program_is_started_for_its_version(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, revisions: dict[str, str]
) -> None:
    monkeypatch.chdir(tmp_path)
    manifest = run("bm25").manifest
    marks = [] if revisions else [Mark(kind="method", text="remote")]
    method = manifest.method.model_copy(
        update={"spec": 'mcp(server="touch ran", tool=t)', "revisions": revisions, "marks": marks}
    )
    for named in (True, False):
        result = today(manifest.model_copy(update={"method": method}), named=named)
        assert result is not None
        assert result.models == revisions
    assert not (tmp_path / "ran").exists()


def not_here(name: str, *, local_files_only: bool = False, **_: object) -> str:
    """The hub's cache, which is empty."""
    assert local_files_only, f"{name} is downloaded"
    raise LocalEntryNotFoundError(name)


def test_models_are_those_of_today_where_the_user_has_named_the_method(
    run: Run, tmp_path: Path, tiny_models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(tiny_models["encoder"], tmp_path / "encoder")
    manifest = run(f"dense(encoder={tmp_path / 'encoder'})").manifest
    assert is_of_today(manifest, named=True) is True
    (tmp_path / "encoder" / "notes.txt").write_text("trained again")
    assert is_of_today(manifest, named=True) is False
    # A stranger's result may name any folder: it is not read, and nothing is downloaded.
    monkeypatch.setattr("bench.base.paths.sha256_of", lambda path: pytest.fail(f"{path} is read"))
    assert is_of_today(manifest) is True
    monkeypatch.delenv("BENCH_OFFLINE")
    monkeypatch.setattr("huggingface_hub.snapshot_download", not_here)
    method = manifest.method.model_copy(update={"spec": "dense(encoder=some/model)"})
    for named in (True, False):
        assert is_of_today(manifest.model_copy(update={"method": method}), named=named) is False


def test_a_spec_without_an_end_tells_nothing(run: Run) -> None:
    manifest = run("bm25").manifest
    method = manifest.method.model_copy(update={"spec": f"rrf(methods=[{', '.join(['bm25'] * 100_000)}])"})
    assert is_of_today(manifest.model_copy(update={"method": method})) is None


def test_of_older_code_alone_a_name_finds_nothing_and_says_what_to_do(run: Run) -> None:
    result = run("bm25", limit=5)
    results = result.folder.parents[1]
    old = of_older_code(result)
    shutil.rmtree(result.folder)
    with pytest.raises(UsageError) as caught:
        find_result(results, "bm25@tiny")
    assert str(caught.value) == (
        "bm25@tiny has only results of older code (000000000000, made 2020-01-01); "
        "`bench run --method bm25 --dataset tiny --limit 5` makes a new one; "
        "bm25@tiny#000000000000 names the older one."
    )
    for name in ("bm25@tiny#000000000000", "bm25@tiny#0000", "000000000000", str(old.folder)):
        assert find_result(results, name).folder == old.folder
    assert find_result(results, "bm25@tiny", older=True).folder == old.folder
    for name in ("bm25@tiny#1111", "tfidf@tiny#0000"):
        with pytest.raises(UsageError, match="there is no result"):
            find_result(results, name)


def test_a_newer_result_of_other_code_does_not_stand_in_the_way(run: Run) -> None:
    # As after a `git revert`.
    result = run("bm25")
    newer = of_older_code(result, created="2999-01-01T00:00:00+00:00")
    assert find_result(result.folder.parents[1], "bm25@tiny").folder == result.folder
    assert latest([newer, result]) == latest([result, newer]) == [result]


def test_a_result_of_a_method_that_is_not_here_is_named_by_its_id(run: Run) -> None:
    result = of_older_code(run("bm25"), spec="gone:Method", full_spec="gone:Method")
    with pytest.raises(
        UsageError, match=r"whether gone:Method@tiny is of today's code cannot be known, because .*#0000"
    ):
        find_result(result.folder.parents[1], "gone:Method@tiny")
    assert find_result(result.folder.parents[1], "gone:Method@tiny#0000").folder == result.folder


METHOD = """
import numpy as np
from bench.interface import Method
from bench.search.topk import top_k

class Mine(Method):
    def index(self, library):
        self.size = len(library)

    def rank(self, queries, depth):
        return top_k(np.tile(np.arange(self.size, dtype=float) * SIGN, (len(queries), 1)), depth)
"""


def test_code_that_was_taken_back_finds_its_own_result(interpreter: Interpreter, tmp_path: Path) -> None:
    commands = "import sys; from bench.__main__ import run; sys.exit(run(sys.argv[1:]))"

    def bench(*words: str, code: int = 0) -> str:
        done = interpreter(commands, *words, folder=tmp_path, code=code)
        return done.stdout + done.stderr

    path, shown = tmp_path / "mine.py", ["show", "mine:Mine@starter", "--json"]
    for sign in ("1", "-1"):
        path.write_text(METHOD.replace("SIGN", sign))
        bench("run", "-m", "mine:Mine", "-d", "starter", "-q")
    second = json.loads(bench(*shown))["manifest"]["result_id"]
    path.write_text(METHOD.replace("SIGN", "1"))
    first = json.loads(bench(*shown))["manifest"]["result_id"]
    assert first != second
    path.write_text(METHOD.replace("SIGN", "2"))
    told = bench(*shown, code=2)
    # Both may have been made in one second.
    assert re.search(
        f"mine:Mine@starter has only results of older code \\(({first}|{second}), made .*, and 1 more", told
    )
    assert json.loads(bench("show", f"mine:Mine@starter#{first}", "--json"))["manifest"]["result_id"] == first


# Renaming ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Known:
    """What is known of older code, as a test has it."""

    monkeypatch: pytest.MonkeyPatch

    def __call__(self, result: StoredResult, **changed: Any) -> None:
        template = result.manifest.dataset.template
        said = {"texts": {template: template_hash(template)}, "methods": {"0" * 64: result.manifest.method.code}}
        known = SameMethods(made_by="a test", rankings=1, **(said | changed))
        self.monkeypatch.setattr(bench_today, "same_methods", lambda: known)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> Known:
    """Results that are known by their ids."""
    return Known(monkeypatch)


def test_a_result_of_equal_code_takes_today_s_name_and_keeps_its_tables(run: Run, known: Known) -> None:
    result = run("bm25")
    old = of_older_code(result)
    known(result)
    tables = {name: (old.folder / name).read_bytes() for name in (RUN, PER_QUERY)}
    shutil.rmtree(result.folder)
    with pytest.raises(UsageError, match="`bench rescore 000000000000` renames it"):
        find_result(result.folder.parents[1], "bm25@tiny")
    name = adopt_name(old.manifest)
    assert name is not None
    assert name.method == result.manifest.method.model_copy(update={"ranked_by": "0" * 64})
    moved = rename_result(old, name)
    assert moved.folder == result.folder
    assert not old.folder.exists()
    assert {name: (moved.folder / name).read_bytes() for name in tables} == tables
    moved.verify()
    moved.check_digests()
    assert find_result(result.folder.parents[1], "bm25@tiny").manifest == moved.manifest
    assert moved.manifest.environment == old.manifest.environment
    assert moved.metrics == result.metrics


@pytest.mark.parametrize("changed", [{"methods": {}}, {"texts": {}}, {"texts": {"name_description": "0" * 64}}])
def test_what_was_not_shown_is_not_renamed(run: Run, known: Known, changed: dict[str, Any]) -> None:
    result = run("bm25")
    known(result, **changed)
    assert adopt_name(of_older_code(result).manifest) is None


def test_other_parameters_and_cuts_are_not_renamed(run: Run, known: Known) -> None:
    result = run("bm25")
    known(result)
    old = of_older_code(result).manifest
    for method in (
        {"full_spec": "bm25(b=0.1, k1=1.2)"},
        {"full_spec": "bm25(gone=1)"},
        {"full_spec": "("},
    ):
        assert adopt_name(old.model_copy(update={"method": old.method.model_copy(update=method)})) is None
    cut = of_older_code(run("bm25", cut="size")).manifest
    assert adopt_name(cut) is None
    # A parameter that came since is at its default.
    fewer = old.method.model_copy(update={"full_spec": "bm25(k1=1.2)"})
    assert adopt_name(old.model_copy(update={"method": fewer})) == adopt_name(old)


def test_what_has_the_name_already_stays(run: Run, known: Known) -> None:
    result = run("bm25")
    known(result)
    before = {path.name: path.read_bytes() for path in result.folder.iterdir()}
    old = of_older_code(result)
    name = adopt_name(old.manifest)
    assert name is not None
    # The same tables: the older one is what was left when somebody ended a renaming half-way.
    assert rename_result(old, name).folder == result.folder
    assert not old.folder.exists()
    assert {path.name: path.read_bytes() for path in result.folder.iterdir()} == before
    other = of_older_code(run("tfidf"))
    assert rename_result(other, name) == other
    assert other.folder.exists()


def test_a_result_stays_in_its_folder(run: Run, known: Known, tmp_path: Path) -> None:
    result = run("bm25")
    known(result)
    old = of_older_code(result)
    elsewhere = tmp_path / "deep" / "mine"
    shutil.copytree(old.folder, elsewhere)
    name = adopt_name(old.manifest)
    assert name is not None
    assert rename_result(StoredResult.read(elsewhere), name).folder == elsewhere.with_name(result.folder.name)


def test_one_command_renames_all_that_is_known(bench: Bench, ready: Path, known: Known) -> None:
    by_spec = {item.manifest.method.spec: item for item in find_results(ready) if isinstance(item, StoredResult)}
    result = by_spec["bm25"]
    known(result)
    old = of_older_code(result)
    shutil.rmtree(result.folder)
    said = bench("rescore", "--json").json
    assert {row.get("id") for row in said} == {None, result.manifest.result_id}
    assert not old.folder.exists()
    assert "kept from" in bench("run", "-m", "bm25", "-d", "starter").err
    assert bench("rescore", "--json").json == [
        {key: row[key] for key in ("result", "outcome")} for row in bench("rescore", "--json").json
    ]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("show", "NAME"), 2),
        (("compare", "NAME", "random@starter"), 2),
        (("compare", "random@starter", "NAME"), 2),
        (("explain", "NAME", "mail-1"), 2),
        (("tools", "NAME"), 2),
        (("gate", "NAME", "--baseline", "BASELINE", "--policy", "POLICY"), 3),
        (("bless", "NAME", "--by", "a person", "--out", "b.json"), 2),
        (("submit", "pack", "NAME", "--out", "a.zip"), 2),
    ],
    ids=lambda item: item[0] if isinstance(item, tuple) else "",
)
def test_no_command_takes_a_result_of_older_code_in_silence(
    bench: Bench, ready: Path, starter_baseline: Path, words: tuple[str, ...], code: int
) -> None:
    (result,) = [
        item for item in find_results(ready) if isinstance(item, StoredResult) and item.label == "bm25 @ starter"
    ]
    of_older_code(result)
    shutil.rmtree(result.folder)
    given = {"NAME": "bm25@starter", "BASELINE": str(starter_baseline), "POLICY": str(ROOT / "baselines" / "gate.toml")}
    said = bench(*(given.get(word, word) for word in words), code=code)
    told = " ".join(f"{said.out}{said.err}".split())
    assert "bm25@starter has only results of older code (000000000000, made 2020-01-01)" in told
    assert "`bench run --method bm25 --dataset starter`" in told


def test_older_results_are_listed_when_they_are_asked_for(bench: Bench, ready: Path) -> None:
    (result,) = [
        item for item in find_results(ready) if isinstance(item, StoredResult) and item.manifest.method.spec == "bm25"
    ]
    of_older_code(result, created="2999-01-01T00:00:00+00:00")
    said = bench("list", "results").out
    assert result.manifest.result_id in said
    assert "000000000000" not in said
    assert "`bench list results --stale`" in said
    stale = bench("list", "results", "--stale")
    assert "000000000000" in stale.out
    assert result.manifest.result_id not in stale.out
    assert "bench run --method bm25 --dataset starter" in stale.out
    assert [row["id"] for row in bench("list", "results", "--stale", "--json").json["results"]] == ["0" * 12]
    shutil.rmtree(result.folder.with_name("bm25-" + "0" * 12))
    assert "no results of older code" in bench("list", "results", "--stale").out
    of_older_code(result, created="2999-01-01T00:00:00+00:00")
    rows = bench("list", "results", "--json").json["results"]
    assert {row["id"]: row["stale"] for row in rows if row["method"] == "bm25"} == {
        "000000000000": True,
        result.manifest.result_id: False,
    }


# The board -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def collected() -> list[StoredResult]:
    """The stored results of this repository."""
    return [item for item in find_results(ROOT / "board" / "results") if isinstance(item, StoredResult)]


def test_the_command_of_every_row_of_the_board_gives_its_id(
    collected: list[StoredResult], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Models of the same names that were trained here would be others.
    monkeypatch.chdir(tmp_path)
    assert len(collected) > 500
    built: bench_today.Built = {}
    other = [item.label for item in collected if is_of_today(item.manifest, built=built) is not True]
    assert not other, "run `python benchmarks/samemethods.py`; what it leaves is made anew by `make board`"


def test_what_is_known_of_older_code_leads_to_today_s(collected: list[StoredResult]) -> None:
    assert set(same_methods().methods.values()) <= {item.manifest.method.code for item in collected}
