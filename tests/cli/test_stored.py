"""`bench run --name` and `bench results`: names of results, and their removal."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.interpreter import Interpreter
from kit.processes import Command, forked
from kit.results import seal

from bench.base.errors import ResultError, UsageError
from bench.lookup.aliases import read_alias, set_alias
from bench.lookup.finding import find_result
from bench.lookup.removal import find_removable, remove_result
from bench.results.manifest import MethodIdentity
from bench.results.store import MANIFEST, RUN, StoredResult, is_complete

Bench = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[2]
#: A spec that nobody wants to read.
CLUMSY = "bm25-fields(b_name=0.5, k1=1.1)"


def stored(results: Path, name: str) -> StoredResult:
    return find_result(results, name)


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


# Names --------------------------------------------------------------------------------------------------------------


def test_a_name_stands_in_every_table_and_the_spec_in_the_manifest(bench: Bench, ready: Path) -> None:
    said = bench("run", "-m", CLUMSY, "-d", "starter", "--name", "ours")
    assert said.out.startswith("ours @ starter\n")
    assert CLUMSY in said.out.splitlines()[1]
    result = stored(ready, "ours")
    assert (result.manifest.method.spec, result.manifest.method.alias) == (CLUMSY, "ours")
    Path("gate.toml").write_text('[[rule]]\nmetric = "recall@5"\nmargin = 0.02\n')
    bench("bless", "ours@starter", "--out", "b.json")
    for command in (
        ["list", "results"],
        ["show", "ours", "--by", "gold"],
        ["compare", "ours", "bm25@starter"],
        ["compare", "bm25@starter", "ours@starter", "--json"],
        ["gate", "ours", "--baseline", "b.json", "--policy", "gate.toml", "--json"],
        ["tools", "ours@starter"],
    ):
        out = bench(*command).out
        assert "ours" in out, command
        assert CLUMSY not in out, command
    (row,) = [row for row in bench("list", "results", "--json").json["results"] if row["alias"]]
    assert (row["alias"], row["method"]) == ("ours", CLUMSY)
    # The spec finds it as before, in any order of its parameters.
    for name in (
        f"{CLUMSY}@starter",
        "bm25-fields(k1=1.1, b_name=0.50)@starter",
        f"ours@starter#{result.manifest.result_id}",
    ):
        assert stored(ready, name).folder == result.folder


def test_a_name_changes_neither_id_nor_digest_nor_numbers(bench: Bench, ready: Path) -> None:
    before = stored(ready, "bm25@starter")
    files = bytes_of(before.folder)
    bench("results", "mv", "bm25@starter", "ours")
    after = stored(ready, "ours")
    changed = [name for name, data in bytes_of(after.folder).items() if data != files[name]]
    assert changed == [MANIFEST]
    assert after.manifest.digest == before.manifest.digest
    assert after.manifest.result_id == before.manifest.result_id
    # Any other field is protected as it was.
    fields = json.loads((after.folder / MANIFEST).read_text())
    fields["method"]["needs_llm"] = True
    (after.folder / MANIFEST).write_text(json.dumps(fields))
    with pytest.raises(ResultError, match="its fields do not give its digest"):
        StoredResult.read(after.folder)
    (after.folder / MANIFEST).write_bytes(files[MANIFEST])
    # Taken away again, nothing is left of it.
    bench("results", "mv", "bm25@starter", "ours")
    bench("results", "mv", "ours", "bm25")
    assert bytes_of(after.folder) == files


def test_a_result_keeps_its_name_when_it_is_made_or_scored_again(bench: Bench, ready: Path) -> None:
    run = ["run", "-q", "-m", "bm25", "-d", "starter"]
    bench(*run, "--name", "ours")
    bench(*run, "--metric", "ndcg@7")
    assert "ndcg@7" in stored(ready, "ours").metrics.metrics
    bench(*run, "--overwrite", "always")
    assert stored(ready, "ours").manifest.method.alias == "ours"
    bench("rescore", "ours")
    # A new name replaces the old one.
    bench(*run, "--name", "mine")
    assert stored(ready, "mine").manifest.method.spec == "bm25"
    with pytest.raises(UsageError, match="no result 'ours'"):
        stored(ready, "ours")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("a@b", "reads like METHOD@DATASET"),
        ("bm25@starter", "reads like METHOD@DATASET"),
        ("beef", "reads like the id of a result"),
        ("0123456789ab", "reads like the id of a result"),
        ("", "has 0 characters"),
        ("x" * 41, "has 41 characters"),
        ("bm25", "is the name of a method"),
        ("BM25", "is the name of a method"),
        *(
            (name, "a name has letters")
            for name in ("two words", "a/b", "../up", "a\nb", "a\x1b[31m", "a\u202eb", "a|b")
        ),
        *(
            (name, "a name has letters")
            for name in ("-q", ".x", "a#1", "x(y)", "ﬁne", "a`b", "<b>", "a\u200bb", "\ud800")
        ),
    ],
)
def test_what_cannot_be_a_name_is_refused_in_a_sentence(name: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as refused:
        read_alias(name)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("name", ["ours", "x", "v1.2+fix_3-b", "наш", "我们的", "หนึ่ง", "beefy", "abc"])
def test_names_of_all_scripts_name_and_find(bench: Bench, ready: Path, name: str) -> None:
    bench("results", "mv", "bm25@starter", name)
    assert stored(ready, name).manifest.method.spec == "bm25"
    shown = name if name.isascii() else bench("show", f"{name}@starter").out.partition(" @")[0]
    assert bench("show", f"{name}@starter").out.startswith(f"{shown} @ starter\n")
    assert shown.strip("“”") == name


def test_a_name_that_is_taken_is_refused_before_anything_runs(bench: Bench, ready: Path) -> None:
    bench("results", "mv", "bm25@starter", "ours")
    for name in ("ours", "Ours"):
        said = bench("run", "-m", CLUMSY, "-d", "starter", "--name", name, code=2)
        assert f"{name!r} is taken" in said.err
        assert "bench results mv" in said.err
    assert not list(ready.glob("starter/bm25-fields-*"))
    # Other settings of the same method are another system; what is stored stays under its spec.
    said = bench("run", "-q", "-m", "bm25", "-d", "starter", "--depth", "7", "--name", "ours", code=2)
    assert "'ours' is taken" in said.err
    assert len(list(ready.glob("starter/bm25-*"))) == 3
    # The name of a scored run file is taken as well.
    run = bench("show", "random@starter", "--format", "jsonl").out
    Path("theirs.jsonl").write_text(run)
    bench("score", "theirs.jsonl", "-d", "starter")
    assert "'theirs' is taken" in bench("results", "mv", "random@starter", "theirs", code=2).err
    assert "cannot name 2" in bench("run", "-m", "bm25", "-m", "random", "--name", "two", code=2).err
    Path("x.toml").write_text('methods = ["bm25"]\ndatasets = ["starter"]\n')
    assert "defines the run" in bench("run", "x.toml", "--name", "ours", code=2).err


def test_one_name_stands_for_a_method_on_several_datasets(bench: Bench, ready: Path) -> None:
    tools = [{"name": name, "description": f"{name} a letter"} for name in ("send", "find", "drop", "copy", "read")]
    Path("tools.json").write_text(json.dumps({"tools": tools}))
    Path("q.csv").write_text("query,tools\nfind the letter,find\nsend the letter,send\n")
    bench("data", "import", "desk", "tools.json", "--queries", "q.csv")
    bench("run", "-q", "-m", "bm25", "-d", "starter", "-d", "desk", "--name", "ours")
    assert "names results on several datasets: ours@desk, ours@starter" in bench("show", "ours", code=2).err
    assert bench("show", "ours@desk").out.startswith("ours @ desk\n")
    # Catalogues change, and the name goes with the newest.
    Path("q.csv").write_text("query,tools\nfind the letter,find\nsend the letter,send\ndrop it,drop\n")
    bench("data", "import", "desk", "tools.json", "--queries", "q.csv", "--replace")
    assert "as it was before it was replaced" in bench("show", "ours@desk", code=2).err
    bench("run", "-q", "-m", "bm25", "-d", "desk", "--name", "ours")
    assert stored(ready, "ours@desk").metrics.n == 3
    with pytest.raises(UsageError, match="is taken"):
        set_alias(stored(ready, "random@starter"), "ours")


def test_a_name_imports_no_module_that_a_manifest_names(
    bench: Bench, ready: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("planted.py").write_text(
        'open("it-ran", "a").write("x")\n\n\ndef find(query, tools):\n    return [tool.tool_id for tool in tools][:5]\n'
    )
    monkeypatch.syspath_prepend(str(Path.cwd()))
    bench("results", "mv", "bm25@starter", "ours")
    folder = stored(ready, "ours").folder
    fields = json.loads((folder / MANIFEST).read_text())
    fields["method"]["spec"] = fields["settings"]["method"] = "planted:find"
    fields["environment"]["command"] = fields["environment"]["command"].replace("bm25", "planted:find")
    seal(fields)
    (folder / MANIFEST).write_text(json.dumps(fields))
    said = bench("show", "ours@starter", code=2).err
    assert "because an alias does not import a method's code" in said
    assert "planted:find@starter" in said
    assert bench("show", "ours").out.startswith("ours @ starter\n")
    assert not Path("it-ran").exists()


def test_the_board_shows_names_and_quotes_those_of_others() -> None:
    names = pytest.importorskip("bench.leaderboard.boards.names")
    about: dict[str, Any] = {"spec": "bm25", "full_spec": "bm25()", "hash": "", "revisions": {}, "code": ""}
    method = MethodIdentity(**about, oracle=False, needs_llm=False, alias="ours")
    assert str(names.title_of(method)) == "ours"
    for alias in ("ToolGraphRetriever", "tgr"):
        shown = str(names.title_of(method.model_copy(update={"alias": alias})))
        assert shown == f"“{alias}”" or names._fold_name(alias) not in names._taken_names()


def test_two_processes_do_not_give_one_name_to_two_systems(ready: Path) -> None:
    ids = [stored(ready, name).manifest.result_id for name in ("bm25@starter", "random@starter", "oracle@starter")]
    ended = forked(
        [Command(["results", "mv", result_id, "ours"]) for result_id in ids], "bench.cli.stored", together=True
    )
    assert sorted(item.code for item in ended) == [0, 2, 2], ended
    assert stored(ready, "ours").manifest.method.alias == "ours"


def test_a_spec_with_parameters_names_its_result(bench: Bench, ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("searching.py").write_text(
        "import bench\n\n\nclass First(bench.Method):\n    class Parameters(bench.ParameterSet):\n"
        "        skip: int = 0\n        name: str = 'x'\n\n"
        "    def index(self, library):\n        self.count = len(library)\n\n"
        "    def rank(self, queries, k):\n        import numpy as np\n\n"
        "        order = (np.arange(k) + self.parameters.skip) % self.count\n"
        "        return bench.Ranking(np.tile(order, (len(queries), 1)))\n"
    )
    monkeypatch.syspath_prepend(str(Path.cwd()))
    for ran, typed in (
        ("bm25(k1=0.5)", "bm25( k1 = 0.50 )"),
        ("nearest-bundle(base=bm25(k1=0.5))", "nearest-bundle(base=bm25(k1=.5))"),
        (CLUMSY, "bm25-fields(k1=1.1, b_name=0.50)"),
        ('searching:First(name="a@b, (c)", skip=3)', 'searching:First(skip=3, name="a@b, (c)")'),
    ):
        bench("run", "-q", "-m", ran, "-d", "starter")
        for name in (ran, typed):
            for at in ("@", " @ "):
                assert bench("show", f"{name}{at}starter").out.startswith(f"{ran} @ starter\n"), name


# Removal ------------------------------------------------------------------------------------------------------------


def test_nothing_is_removed_before_it_is_said_what_depends_on_it(bench: Bench, ready: Path) -> None:
    bench("results", "mv", "bm25@starter", "ours")
    folder = stored(ready, "ours").folder
    result_id = stored(ready, "ours").manifest.result_id
    Path("baselines").mkdir()
    bench("bless", "ours", "--out", "baselines")
    bench("bless", "random@starter", "--out", "baselines")
    bench("submit", "pack", "ours", "--out", "mine.zip")
    Path("report.json").write_text(json.dumps({"schema_name": "reproduction", "cells": [{"result": result_id}]}))
    # Hidden folders, what cannot be read and the results themselves are passed over.
    Path(".hidden").mkdir()
    Path(".hidden/x.json").write_text(result_id)
    Path("broken.zip").write_bytes(b"PK\x03\x04" + b"x" * 99)
    os.mkfifo("pipe.json")
    shutil.copytree(folder, "copy/starter/x")
    said = bench("results", "rm", "ours", code=2)
    assert said.out.splitlines() == [
        f"{result_id} ours @ starter in {folder}",
        "  its name ours goes with it",
        "  submission mine.zip names it, and stays",
        "  reproduction report.json names it, and stays",
        "  baseline baselines/starter-ours.json names it, and stays",
    ]
    assert said.err == "bench: nothing was removed: --yes removes what is listed above.\n"
    assert is_complete(folder)
    said = bench("results", "rm", "ours", result_id, "--yes")
    assert said.out.count("\nremoved") == 1
    assert not folder.exists()
    assert "no result" in bench("show", result_id, code=2).err
    # Others are there, and the same command makes it again.
    assert stored(ready, "random@starter").metrics.n
    bench("run", "-q", "-m", "bm25", "-d", "starter")
    assert stored(ready, "bm25@starter").manifest.result_id == result_id


def test_a_name_that_fits_nothing_removes_nothing_of_the_others(bench: Bench, ready: Path) -> None:
    before = sorted(ready.glob("*/*"))
    assert "no result 'nowhere'" in bench("results", "rm", "bm25@starter", "nowhere", "--yes", code=2).err
    assert sorted(ready.glob("*/*")) == before


@pytest.mark.parametrize("damage", ["manifest", "metrics", "table"])
def test_what_is_damaged_can_be_removed_by_its_id_or_folder(bench: Bench, ready: Path, damage: str) -> None:
    result = stored(ready, "bm25@starter")
    name = {"manifest": MANIFEST, "metrics": "metrics.json", "table": "run.parquet"}[damage]
    (result.folder / name).write_text("{}")
    assert not bench("results", "rm", str(result.folder), code=2).out.startswith("removed")
    bench("results", "rm", result.manifest.result_id, "--yes")
    assert not result.folder.exists()


def test_a_link_to_a_result_elsewhere_is_removed_and_not_the_result(bench: Bench, ready: Path, tmp_path: Path) -> None:
    result = stored(ready, "bm25@starter")
    shutil.move(result.folder, tmp_path / "kept")
    result.folder.symlink_to(tmp_path / "kept")
    bench("results", "rm", result.manifest.result_id, "--yes")
    assert not os.path.lexists(result.folder)
    assert is_complete(tmp_path / "kept")


def test_what_was_set_aside_by_a_killed_write_does_not_come_back(bench: Bench, ready: Path) -> None:
    result = stored(ready, "bm25@starter")
    aside = result.folder.with_name(f".old-{result.folder.name}")
    shutil.copytree(result.folder, aside)
    bench("results", "rm", result.manifest.result_id, "--yes")
    assert "no result" in bench("show", result.manifest.result_id, code=2).err
    assert not aside.exists()


def test_of_processes_that_remove_one_result_one_does_so(ready: Path) -> None:
    result_id = stored(ready, "bm25@starter").manifest.result_id
    others = [item for item in ready.glob("starter/*") if not item.name.endswith(result_id)]
    commands = [Command(["results", "rm", result_id, "--yes"])] * 3
    ended = forked(commands, "bench.cli.stored", "bench.lookup.removal", together=True)
    # One that comes later finds it gone, or finds no such result.
    assert sum(f"removed {result_id}" in item.out for item in ended) == 1, ended
    assert {item.code for item in ended} <= {0, 2}
    assert not any("Traceback" in item.err for item in ended)
    assert all(is_complete(folder) for folder in others if not folder.name.startswith("."))


def test_a_removal_waits_for_the_run_that_makes_the_result(ready: Path) -> None:
    from bench.results.store import result_lock

    item = find_removable(ready, "bm25@starter")
    done: list[bool] = []
    with result_lock(ready, item.folder):
        thread = threading.Thread(target=lambda: done.append(remove_result(item)))
        thread.start()
        time.sleep(0.5)
        assert is_complete(item.folder)
    thread.join(60)
    assert done == [True]


#: A command that is killed, as by kill -9, at the Nth time that it is about to change a file or folder of the results:
#: on a copy of them for each N, until it comes to its end. The last line has its exit codes.
_KILLED = """
import os, shutil, signal, sys
from bench.__main__ import main
import bench.cli.stored, bench.lookup.removal, bench.lookup.aliases

source, place, *arguments = sys.argv[1:]

def changes(event, given):
    if event == "open":
        return isinstance(given[1], str) and any(sign in given[1] for sign in "wxa+")
    return event in {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"}

def look(event, given):
    # What rmtree removes is named from within its folder.
    global left
    if changes(event, given) and (event.startswith("os.r") or os.path.abspath(given[0]).startswith(results)):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

codes = []
for left in range(30):
    results = f"{place}/{left}"
    shutil.copytree(source, results, ignore=shutil.ignore_patterns(".locks"))
    child = os.fork()
    if not child:
        sys.argv = ["bench", *arguments, "--results", results]
        sys.addaudithook(look)
        main()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    codes.append(code)
    if not code:
        break
print(*codes)
"""


@pytest.mark.parametrize("command", [["results", "rm", "--yes"], ["results", "mv"]], ids=["rm", "mv"])
def test_a_killed_command_has_happened_or_has_not(
    starter_results: Path, tmp_path: Path, interpreter: Interpreter, command: list[str]
) -> None:
    result = find_result(starter_results, "bm25@starter")
    typed = [*command[:2], result.manifest.result_id, *(["ours"] if command[1] == "mv" else []), *command[2:]]
    done = interpreter(_KILLED, starter_results, tmp_path, *typed, folder=ROOT)
    *killed, last = map(int, done.stdout.splitlines()[-1].split())
    assert set(killed) == {-signal.SIGKILL}, done.stderr
    assert (last, len(killed) > 2) == (0, True), done.stderr
    copies = [tmp_path / str(number) for number in range(len(killed) + 1)]
    for results in copies:
        if command[1] == "mv":
            assert stored(results, result.manifest.result_id).manifest.method.alias in {None, "ours"}
        elif is_complete(results / result.folder.relative_to(starter_results)):
            assert stored(results, result.manifest.result_id)
    # The same command does the rest, or finds that nothing is left to do.
    for again in forked([Command([*typed, "--results", str(results)]) for results in copies], "bench.cli.stored"):
        assert again.code == 0 or (command[1] == "rm" and "no result" in again.err), again


@pytest.mark.skipif(os.geteuid() == 0 and not shutil.which("unshare"), reason="needs a full disk")
def test_a_full_disk_leaves_the_name_that_was_there(bench: Bench, ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import errno

    bench("results", "mv", "bm25@starter", "ours")
    manifest = stored(ready, "ours").folder / MANIFEST
    before = manifest.read_bytes()

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    said = bench("results", "mv", "ours", "mine", code=7)
    assert "the disk is full. Existing files are unchanged." in said.err
    assert manifest.read_bytes() == before
    assert [path.name for path in manifest.parent.iterdir() if path.suffix == ".tmp"] == []
    # Removing needs no space.
    bench("results", "rm", "ours", "--yes")


def test_what_is_too_much_to_look_through_is_said(bench: Bench, ready: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result_id = stored(ready, "bm25@starter").manifest.result_id
    for number in range(5):
        Path(f"{number}\x1b[31m.json").write_text(json.dumps([result_id]))
    said = bench("results", "rm", result_id, code=2).out
    assert said.count("names it, and stays") == 5
    assert "\x1b" not in said
    monkeypatch.setattr("bench.lookup.removal._MOST_FILES", 3)
    said = bench("results", "rm", result_id, code=2).out
    assert said.count("names it, and stays") == 3
    assert "too many files" in said


def test_a_result_that_takes_another_name_keeps_its_alias(ready: Path) -> None:
    from bench.results.store import rename_result

    old = set_alias(stored(ready, "bm25@starter"), "ours")
    other = old.manifest.model_copy(update={"result_id": "0123456789ab"}).sealed()
    new = rename_result(old, other.model_copy(update={"method": old.manifest.method}))
    assert (new.manifest.result_id, new.manifest.method.alias) == ("0123456789ab", "ours")
    # A copy of it under the old name, which then takes the name of what is there already.
    set_alias(new, None)
    copy = ready / "starter" / "bm25-ffffffffffff"
    shutil.copytree(new.folder, copy)
    named = set_alias(StoredResult.read(copy), "mine")
    assert rename_result(named, other).manifest.method.alias == "mine"
    assert stored(ready, "mine").folder == new.folder
    assert not copy.exists()


def test_a_name_that_another_process_took_meanwhile_leaves_the_result(
    bench: Bench, ready: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.cli.run.check_free", lambda *arguments: None)
    bench("results", "mv", "random@starter", "ours")
    said = bench("run", "-m", CLUMSY, "-d", "starter", "--name", "ours", code=2)
    assert "'ours' is taken" in said.err
    assert said.out.startswith(f"{CLUMSY} @ starter\n")
    assert stored(ready, f"{CLUMSY}@starter").metrics.n


def test_a_submission_is_read_within_bounds(bench: Bench, ready: Path) -> None:
    result_id = stored(ready, "bm25@starter").manifest.result_id
    with zipfile.ZipFile("bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("submission.json", " " * (65 << 20) + result_id)
    assert "bomb.zip" not in bench("results", "rm", result_id, code=2).out


def test_a_ranking_that_is_removed_on_purpose_is_no_damage_and_its_result_can_be_made_again(
    bench: Bench, ready: Path
) -> None:
    result = stored(ready, "bm25@starter")
    ranking = (result.folder / RUN).read_bytes()
    said = bench("results", "rm", "--ranking", "bm25@starter", code=2)
    assert said.out == f"{result.folder / RUN}\n"
    assert "nothing was removed" in said.err
    bench("results", "rm", "--ranking", "bm25@starter", "--yes")
    assert not (result.folder / RUN).exists()
    assert bench("show", "bm25@starter", "--json").json["metrics"] == result.metrics.model_dump(mode="json")
    assert "was left out on purpose" in bench("submit", "pack", "bm25@starter", code=6).err
    # The settings of a result make it again, with its ranking.
    (again,) = bench("run", "bm25@starter", "--json").json
    assert (result.folder / RUN).read_bytes() == ranking
    assert again["manifest"]["settings"] == {"method": "bm25", "dataset": "starter"}
    assert "omitted" not in again["manifest"]
    (result.folder / RUN).unlink()
    said = bench("show", "bm25@starter", code=6)
    assert f"{result.folder / RUN} is gone" in said.err
    assert "make the result again: bench run --method bm25 --dataset starter" in said.err


def test_a_result_is_run_again_with_its_settings_and_metrics(bench: Bench) -> None:
    settings = ("--limit", 9, "--depth", 20, "--cut", "size", "--cut-at", 3)
    (first,) = bench("run", "-m", "bm25(k1=2)", "-d", "starter", *settings, "--json").json
    identifier = first["manifest"]["result_id"]
    bench("run", "-m", "bm25(k1=2)", "-d", "starter", *settings, "--metric", "ndcg@7")
    (again,) = bench("run", identifier, "--overwrite", "always", "--json").json
    assert again["manifest"]["result_id"] == identifier
    assert again["metrics"]["metrics"].keys() == {*first["metrics"]["metrics"], "ndcg@7"}
    assert again["manifest"]["environment"]["command"].endswith("--cut size --cut-at 3.0 --metric ndcg@7")
    assert "remove the options that repeat it" in bench("run", identifier, "--limit", 3, code=2).err
    assert "there is no result" in bench("run", "tfidf@starter", code=2).err
    Path("r.trec").write_text(bench("show", identifier, "--format", "trec").out)
    scored = bench("score", "-d", "starter", "r.trec", "--json").json["manifest"]["result_id"]
    told = bench("run", scored, code=2).err
    assert "score the file again: bench score r.trec --dataset starter --name r" in told
