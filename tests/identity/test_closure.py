"""What the hash of code is taken over: held against what Python imports, and against Python's own tokeniser."""

from __future__ import annotations

import ast
import io
import json
import time
import tokenize
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kit.interpreter import Interpreter
from kit.once import Once
from kit.results import of_this_run

from bench.identity import sources
from bench.registry.methods import method_class, method_names

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = [
    path for room in ("bench", "methods", "datasets", "leaderboard") for path in sorted((ROOT / room).rglob("*.py"))
]

#: For each method, in a process that has imported nothing of bench: what Python imports with its module. Then, in one
#: that has imported what the harness needs to run methods, what else is imported by running it on a small library, as
#: far as that goes without a model. Forks for each, so that none imports for another.
IMPORTED = """
import importlib, json, os, sys, traceback

def own():
    return {key for key in sys.modules if key.startswith("bench.")}

def apart(function, *arguments):
    reader, writer = os.pipe()
    if not os.fork():
        try:
            found = function(*arguments)
        except BaseException:
            found = traceback.format_exc()
        with open(writer, "w") as pipe:
            json.dump(found, pipe)
        os._exit(0)
    os.close(writer)
    with open(reader) as pipe:
        answer = json.load(pipe)
    os.wait()
    assert not isinstance(answer, str), answer
    return answer

def imported(module):
    importlib.import_module(module)
    return sorted(own())

def ran(module, spec):
    importlib.import_module(module)
    known = own()
    method = build_method(spec)
    preflight(method, library, history)
    reveal(method, dataset.gold.take(rows))
    method.fit(history)
    method.index(library)
    asked = Queries.of(dataset, rows)
    method.rank(asked, 3)
    if hasattr(method, "recommend"):
        method.recommend(asked)
    checked_facts(method)
    return sorted(own() - known), sorted({type(part).__module__ for part in methods_of(method)})

methods = json.loads(sys.argv[1])
found = {name: {"imported": apart(imported, module), "ran": [], "methods": [module]} for name, module, _ in methods}
assert not own()

from bench.data.card import Card
from bench.data.dataset import Dataset
from bench.data.tables import Edge, Query, Tables, Tool
from bench.protocol import History, Library, Queries
from bench.protocol.parts import methods_of, preflight, reveal
from bench.registry import build_method
from bench.evaluation.guard import checked_facts
import sentence_transformers, torch  # takes long, and is none of bench
tools = [Tool(f"t{i}", word, f"Does {word}.", "c", "p") for i, word in enumerate("mail road train".split())]
asked = [(f"the {tool.name}", {tool.tool_id: 1}, split) for split in ("train", "dev", "test") for tool in tools]
queries = [Query(f"q{i}", *query) for i, query in enumerate(asked)]
card = Card(id="d", title="", summary="", licence="", redistribution=True, template="description")
dataset = Dataset.build("d", card, Tables(tools, queries, [Edge("t1", "t0", "result")]))
library = Library.of(dataset, "description")
rows = dataset.rows("test")
history = History.of(dataset, library, rows)
for name, module, spec in methods:
    if spec:
        found[name]["ran"], found[name]["methods"] = apart(ran, module, spec)
print(json.dumps(found))
"""
#: Methods that rank without a model that must be trained first, and without something to ask.
_NEEDY = {"rerank", "toolrerank", "toolrerank-oracle", "http", "command", "mcp", "rankgpt"}
RUNNABLE = {name: name for name in method_names() if name not in _NEEDY}
RUNNABLE |= {
    "tgr": "tgr(base=bm25)",
    "rrf": "rrf(methods=[bm25, tfidf])",
    "hybrid": "hybrid(methods=[bm25, tfidf])",
    "nearest-bundle": "nearest-bundle(base=bm25)",
}
RUNNABLE |= {"query-generation": "query-generation(base=bm25)"}


@pytest.fixture(scope="session")
def imports(once: Once, shared_cache: Path) -> dict[str, dict[str, list[str]]]:
    """What each method imports, found once in a run of the tests."""

    def make(folder: Path) -> None:
        methods = [(name, method_class(name).__module__, RUNNABLE.get(name, "")) for name in method_names()]
        with of_this_run(shared_cache), closing(Interpreter()) as interpreter:
            (folder / "found.json").write_text(interpreter(IMPORTED, json.dumps(methods), folder=ROOT).stdout)

    found: dict[str, dict[str, list[str]]] = json.loads((once("imports", make) / "found.json").read_text())
    return found


@pytest.mark.parametrize("name", method_names())
def test_whatever_a_method_imports_is_hashed(imports: dict[str, dict[str, list[str]]], name: str) -> None:
    module, found = method_class(name).__module__, imports[name]
    assert module in found["imported"]
    # A package without an `__init__.py` has no code.
    assert {key for key in found["imported"] if sources.source_file(key)} <= sources.closure(module).keys()
    assert {key for key in found["ran"] if sources.source_file(key)} <= sources.closure(*found["methods"]).keys()


@pytest.mark.parametrize("module", [method_class(name).__module__ for name in ("toolrerank", "tgr")])
def test_a_statement_in_any_module_of_the_closure_is_another_hash(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    read = sources._read
    before = sources.code_hash(module)
    reached = sources.closure(module)
    assert "bench.data.parents" in reached
    for name in reached:
        changed = sources.source_file(name)
        assert changed is not None

        def edited(path: Path, changed: Path = changed) -> bytes:
            return read(path) + (b"\nedited = 1\n" if path == changed else b"")

        sources._scanned.cache_clear()
        monkeypatch.setattr(sources, "_read", edited)
        assert sources.code_hash(module) != before, name
    monkeypatch.undo()
    sources._scanned.cache_clear()
    assert sources.code_hash(module) == before


# What a source says -------------------------------------------------------------------------------------------------


def tokenised(source: bytes) -> list[tuple[int, list[str]]]:
    """Logical lines as Python's tokeniser sees them, (column, tokens), without what has no meaning."""
    lines: list[tuple[int, list[str]]] = []
    begun: list[tokenize.TokenInfo] = []
    for token in tokenize.tokenize(io.BytesIO(source).readline):
        if token.type in {tokenize.NEWLINE, tokenize.ENDMARKER}:
            bare = all(item.type == tokenize.STRING and item.string[0] in "\"'rR" for item in begun)
            if not bare:
                lines.append((begun[0].start[1], [item.string for item in begun]))
            begun = []
        elif token.type not in {tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}:
            begun.append(token)
    return lines


def test_comments_docstrings_and_blank_lines_go_and_nothing_else_does() -> None:
    for path in FILES:
        source = path.read_bytes()
        lines, strings = sources._statements(source)
        texts = iter(strings)
        pieces = "\n".join(indent + line for indent, line in lines).split('""')
        code = pieces[0] + "".join(next(texts) + piece for piece in pieces[1:])
        assert next(texts, None) is None, path
        assert tokenised(code.encode()) == tokenised(source), path


def for_types_alone(tree: ast.Module) -> Iterator[ast.AST]:
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            for inner in node.body:
                yield from ast.walk(inner)


def test_imports_are_those_that_python_sees() -> None:
    for path in FILES:
        tree = ast.parse(path.read_bytes())
        skipped = set(map(id, for_types_alone(tree)))
        expected: set[tuple[str, str | None]] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.Import) and id(node) not in skipped:
                expected |= {(alias.name, None) for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and id(node) not in skipped:
                expected |= {("." * node.level + (node.module or ""), alias.name) for alias in node.names}
        assert set(sources._imports(sources._statements(path.read_bytes())[0])) == expected, path


ODD = '''\
"""import a"""
import b, c.d as e  # import f
text = "import g"; import h
if True: import i
try: from j import k
except ImportError: pass
from l import (  # why
    m,
    n as o,  # import p
)
from q \\
    import r
from . import s
from ..t import u
if TYPE_CHECKING:
    import v
    from w import (
x, y)
else:
    import z
if typing.TYPE_CHECKING: import aa
def late():
    "import ab"
    from ac import *
    return r"\\" import ad"
'''


def test_imports_of_every_form_are_found() -> None:
    found = set(sources._imports(sources._statements(ODD.encode())[0]))
    expected = {("b", None), ("c.d", None), ("h", None), ("i", None), ("j", "k"), ("l", "m"), ("l", "n"), ("q", "r")}
    assert found == expected | {(".", "s"), ("..t", "u"), ("z", None), ("ac", "*")}


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("x = 1\n", "x = 1  # one\n", True),
        ("x = 1\n", "\n\nx = 1\n\n", True),
        ("def f():\n    return 1\n", 'def f():\n    """One."""\n\n    return 1\n', True),
        ("f(1,\n  2)\n", "f(1,  # first\n\n      2)\n", True),
        ("x = 1\n", "x = 2\n", False),
        ("x\n", "y\n", False),
        ("x = '# a'\n", "x = '# b'\n", False),
        ('x = (\n    """a"""\n)\n', 'x = (\n    """b"""\n)\n', False),
        ('x = \\\n"a"\n', 'x = \\\n"b"\n', False),
        ('f"{x()}"\n', 'f"{y()}"\n', False),
        ('"a".join(x)\n', '"b".join(x)\n', False),
        ("if x:\n    y()\nz()\n", "if x:\n    y()\n    z()\n", False),
    ],
)
def test_what_changes_the_hash_of_a_module_of_bench(tmp_path: Path, old: str, new: str, same: bool) -> None:
    path = tmp_path / "module.py"
    found = []
    for text in (old, new):
        path.write_text(text)
        sources._scanned.cache_clear()
        found.append(sources._scanned(path, (0, 0)).code)
    assert (found[0] == found[1]) is same


# The public face ----------------------------------------------------------------------------------------------------


def reached(interpreter: Interpreter, folder: Path, text: str) -> set[str]:
    """Modules of bench beyond those that any method reaches, of a method with this text; found in a fresh process."""
    (folder / "method.py").write_text(text)
    (folder / "face.py").write_text(
        '_EXPORTS: dict[str, str] = {"shout": "bench.errors", "locked": "bench.search.words"}\n'
    )
    program = (
        "import sys, bench; from pathlib import Path; from bench.identity import sources; "
        "exports = sources._exports; face = Path('face.py'); "
        "sources._exports = lambda path, stamp: exports(face, sources._stamp(face)); "
        "print(*sources.closure('method'))"
    )
    return set(interpreter(program, folder=folder).stdout.split()) & {"bench.errors", "bench.search.words"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("from bench import shout\n", {"bench.errors"}),
        (
            "def late():\n    from bench import (\n        shout as loud,\n        locked,\n    )\n",
            {"bench.errors", "bench.search.words"},
        ),
        ("import bench\n\nbench.locked\n", {"bench.search.words"}),
        ("import bench as b\n\nb.shout()\n", {"bench.errors"}),
        ("from bench import *\n", {"bench.errors", "bench.search.words"}),
        ("from bench import unknown\n", set()),
        ("import bench\n", set()),
    ],
)
def test_a_public_name_brings_in_the_module_behind_it_and_no_other(
    interpreter: Interpreter, tmp_path: Path, text: str, expected: set[str]
) -> None:
    assert reached(interpreter, tmp_path, text) == expected


def test_a_method_is_hashed_fast() -> None:
    sources.code_hash("bench.methods.tgr.method")
    best = 1.0
    for _ in range(5):
        sources._scanned.cache_clear()
        started = time.perf_counter()
        sources.code_hash("bench.methods.tgr.method")
        best = min(best, time.perf_counter() - started)
    # 20 ms where nothing else runs.
    assert best < 0.25
