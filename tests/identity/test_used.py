"""The code of users is watched: each edit that changes a ranking gives another id, and none that is neutral does."""

from __future__ import annotations

import json
import tomllib
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from kit.interpreter import Interpreter
from kit.once import Once
from kit.results import of_this_run

ROOT = Path(__file__).resolve().parents[2]
MINE = """
from bench import Method
from bench.interface import Ranking
{top}

class Mine(Method):
    def index(self, library):
        self.n = len(library)
        {index}

    def rank(self, queries, depth):
        return Ranking.of_lists([[int({number}) % self.n]] * len(queries))
"""
EDITS: dict[str, dict[str, Any]] = tomllib.loads((Path(__file__).parent / "edits.toml").read_text("utf-8"))


def case(given: dict[str, Any]) -> tuple[dict[str, str], dict[str, Any]]:
    """The files of a case, and what is written after it ran."""
    if given.keys() == {"edit"}:
        given = {**EDITS["code"], **given}
    module = MINE.format_map({"top": "", "number": "NUMBER", "index": "pass", **given})
    return {"mine.py": module, **given.get("files", {})}, given["edit"]


CASES = {name: case(given) for kind in ("seen", "neutral", "price") for name, given in EDITS[kind].items()}
#: Runs each case twice, in processes of their own: as it was and, after the edit, what the stored record says of it.
PROGRAM = """
import json, os, sqlite3, sys, traceback
from pathlib import Path
import jinja2, numpy, pandas  # take long
from bench.data.card import Card
from bench.data.dataset import Dataset
from bench.data.tables import Query, Tables, Tool
from bench.evaluation.ask import ask, prepare
from bench.identity.used import Used, watch_use
from bench.interface import Library
from bench.registry import build_method
from bench.results.code_versions import method_code, method_use

sys.dont_write_bytecode = True
tools = [Tool(f"t{i}", f"n{i}", f"Does {i}.", "c", "p") for i in range(50)]
card = Card(id="d", title="", summary="", licence="", redistribution=True, template="description")
dataset = Dataset.build("d", card, Tables(tools, [Query("q", "a", {"t0": 1}, "test")], []))

def asked(used):
    # As a runner does.
    method = build_method("mine:Mine")
    told = None if used is None else method_code(method, Used.model_validate(used))
    with watch_use():
        prepare(method, Library.of(dataset, "description"))
        answers = ask(method, dataset, dataset.rows("test"), 5)
        return [told, method_code(method), method_use(method).model_dump(), answers.ranking.tools.tolist()]

def apart(folder, used):
    reader, writer = os.pipe()
    if not os.fork():
        try:
            os.chdir(folder)
            sys.path.insert(0, "")
            found = asked(used)
        except BaseException:
            found = traceback.format_exc()
        with open(writer, "w") as pipe:
            json.dump(found, pipe)
        os._exit(0)
    os.close(writer)
    with open(reader) as pipe:
        answer = json.load(pipe)
    os.wait()
    return answer

def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_symlink() or not isinstance(text, str):
            path.unlink()
        if not isinstance(text, str):
            pass
        elif text.startswith("-> "):
            path.symlink_to(text[3:])
        elif text.startswith("SQLITE "):
            with sqlite3.connect(path) as d:
                d.execute("pragma user_version = " + text[7:])
        else:
            path.write_bytes(text.encode())

# What all cases need is found before they fork.
method_code(build_method("bm25"))
found = {}
for number, (name, (files, edit)) in enumerate(json.loads(Path(sys.argv[1]).read_text()).items()):
    folder = Path(sys.argv[2]) / str(number) / "project"
    write(folder, files)
    first = apart(folder, None)
    write(folder, edit)
    second = first if isinstance(first, str) else apart(folder, first[2])
    if isinstance(second, str):
        found[name] = {"error": second}
    else:
        found[name] = {
            "kept": second[0] == first[1], "same": second[3] == first[3], "id": second[1] != first[1], "used": first[2],
        }
print(json.dumps(found))
"""


@pytest.fixture(scope="session")
def outcomes(once: Once, shared_cache: Path) -> dict[str, Any]:
    """What is found of each case, once in a run of the tests."""

    def make(folder: Path) -> None:
        (folder / "cases.json").write_text(json.dumps(CASES))
        with of_this_run(shared_cache), closing(Interpreter()) as interpreter:
            done = interpreter(PROGRAM, folder / "cases.json", folder / "cases", folder=ROOT)
        (folder / "found.json").write_text(done.stdout)

    found: dict[str, Any] = json.loads((once("used", make) / "found.json").read_text())
    return found


@pytest.mark.parametrize("name", EDITS["seen"])
def test_an_edit_that_changes_a_ranking_is_seen(outcomes: dict[str, Any], name: str) -> None:
    found = outcomes[name]
    assert "error" not in found, found["error"]
    assert not found["same"], "the edit changes no ranking: the case shows nothing"
    assert not found["kept"]
    assert found["id"]


@pytest.mark.parametrize("name", EDITS["neutral"])
def test_a_neutral_edit_voids_nothing(outcomes: dict[str, Any], name: str) -> None:
    found = outcomes[name]
    assert "error" not in found, found["error"]
    assert found["same"]
    assert found["kept"], found["used"]


@pytest.mark.parametrize("name", EDITS["price"])
def test_an_edit_of_a_module_runs_its_method_again(outcomes: dict[str, Any], name: str) -> None:
    found = outcomes[name]
    assert found["same"]
    assert not found["kept"]
