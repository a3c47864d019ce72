"""The version of a method's code: what changes it and what does not, tried on a copy of the package."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pytest
from kit.interpreter import Interpreter

ROOT = Path(__file__).resolve().parent.parent.parent
Hashes = Callable[..., list[dict[str, str]]]
MODULES = {
    "bm25": "bench.methods.bm25",
    "tfidf": "bench.methods.tfidf",
    "dense": "bench.methods.dense",
    "tgr": "bench.methods.tgr.method",
    "toolrerank": "bench.methods.toolrerank.method",
    "random": "bench.methods.random",
}
SPECS = (
    "bm25",
    "tgr(base=bm25)",
    "tgr(base=tgr(base=bm25))",
    "rrf(methods=[bm25, tfidf])",
    "rrf(methods=[tfidf, random])",
)
PROGRAM = """
import json, sys
from pathlib import Path
import bench
assert Path(bench.__file__).is_relative_to(Path.cwd()), bench.__file__
from bench.identity.sources import code_hash
kind, names, edits = json.loads(sys.argv[1])
if kind == "method":
    from bench.registry import build_method
    from bench.evaluation import plan
found = []
for edit in [None, *edits]:
    if edit is not None:
        with open(edit, "a") as file:
            file.write("\\nedited = 1\\n")
        # What a new process would say: this one would refuse (test_edited.py).
        if kind == "method":
            plan._LOADED.clear()
    kinds = {
        "code": lambda name: code_hash(name),
        "method": lambda name: plan.method_hash(build_method(name)),
    }
    found.append({name: kinds[kind](name) for name in names})
print(json.dumps(found))
"""


@pytest.fixture
def hashes(interpreter: Interpreter, copied: Path) -> Hashes:
    """Hashes by name in a fresh process: as things are, then after each edit of a file."""

    def hashes(kind: str, names: Sequence[str], edits: Iterable[str] = ()) -> list[dict[str, str]]:
        words = json.dumps([kind, list(names), list(edits)])
        done = interpreter(PROGRAM, words, folder=copied, PYTHONDONTWRITEBYTECODE="1")
        found: list[dict[str, str]] = json.loads(done.stdout)
        return found

    return hashes


def test_a_hash_changes_with_the_method_and_with_the_search_code_it_imports(hashes: Hashes) -> None:
    edits = {
        "methods/bm25.py": {"bm25"},
        "bench/search/lexical.py": {"bm25", "tfidf"},
        "bench/search/dense.py": {"dense", "tgr", "toolrerank"},
        # `tgr` embeds pairs of tools with it; the retriever of `toolrerank` is a part, with a hash of its own.
        "bench/models/encoders.py": {"dense", "tgr"},
        # Both read a sequence classifier: a discriminator, a cross-encoder.
        "bench/models/classifiers.py": {"tgr", "toolrerank"},
        "bench/data/parents.py": {"tgr", "toolrerank"},
        "methods/tgr/rules.py": {"tgr"},
        # Through another module too: `convolution` and `tgr` import it.
        "bench/graph/edges.py": {"tgr"},
        "bench/search/topk.py": {"bm25", "tfidf", "dense", "tgr", "toolrerank"},
        # By way of a package that Python imports first.
        "bench/protocol/__init__.py": set(MODULES),
        # The rest of the harness takes no part in how a method ranks.
        "bench/cli/run.py": set(),
        "bench/evaluation/scoring.py": set(),
        "bench/metrics/measures.py": set(),
        "bench/data/sources.py": set(),
    }
    found = hashes("code", list(MODULES.values()), edits)
    assert len(set(found[0].values())) == len(MODULES)
    for before, after, (path, expected) in zip(found, found[1:], edits.items(), strict=False):
        changed = {name for name, module in MODULES.items() if before[module] != after[module]}
        assert changed == expected, path


def test_line_ends_do_not_count(hashes: Hashes, copied: Path) -> None:
    path = copied / "methods" / "bm25.py"
    before = hashes("code", ["bench.methods.bm25"])
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert hashes("code", ["bench.methods.bm25"]) == before


def test_the_hash_of_a_method_built_on_others_changes_with_theirs(hashes: Hashes) -> None:
    # Else an old result of tgr(base=bm25) would pass for a new one after bm25 was edited.
    before, after = hashes("method", SPECS, ["methods/bm25.py"])
    assert [name for name in SPECS if before[name] == after[name]] == ["rrf(methods=[tfidf, random])"]


def test_the_hash_of_the_code_that_learns_cuts_changes_with_it(hashes: Hashes) -> None:
    # It is part of the id of a plan with a cut.
    found = hashes("code", ["bench.evaluation.cut"], ["bench/evaluation/cut.py", "bench/cli/run.py"])
    before, after, same = (item["bench.evaluation.cut"] for item in found)
    assert before != after == same
