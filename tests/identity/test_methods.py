"""The version of a method's code: what changes it, and that it covers all that a method runs."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path

import pytest
from kit.interpreter import Interpreter
from kit.once import Once
from kit.results import of_this_run

from bench.interface import Method
from bench.interface.method import OracleMethod
from bench.registry.methods import method_class, method_names
from bench.results.code_versions import CALLED, of_methods

ROOT = Path(__file__).resolve().parent.parent.parent

# What runs is hashed ------------------------------------------------------------------------------------------------

#: For each spec, in a process of its own: the functions of bench that fitting, indexing and ranking run, by module and
#: qualified name, and the classes of the methods that it is built of. The embedded encoder is loaded once for all; what
#: that runs counts for each that encodes.
RAN = """
import json, os, sys, traceback
from bench.data.card import Card
from bench.data.dataset import Dataset
from bench.data.tables import Edge, Parameter, Query, Tables, Tool
from bench.models.encoders import EMBEDDED, Encoder
from bench.interface import History, Library, Queries
from bench.interface.parts import methods_of, preflight, reveal
from bench.registry import build_method
from bench.base.config import config_context
import sentence_transformers, torch  # takes long, and is none of bench
torch.set_num_threads(1)  # others would be lost in the processes that fork
tools = [
    Tool(f"t{i}", word, f"Does {word}.", "c", "p", (Parameter("id", "string", "An id."),), '{"id": 1}')
    for i, word in enumerate("mail road train".split())
]
splits = ("train", "dev", "test")
asked = [(f"the {tool.name} and more", {tool.tool_id: 1}, split) for split in splits for tool in tools]
queries = [Query(f"q{i}", *query) for i, query in enumerate(asked)]
card = Card(id="d", title="", summary="", licence="", redistribution=True, template="description")
dataset = Dataset.build("d", card, Tables(tools, queries, [Edge("t1", "t0", "result")]))
library = Library.of(dataset, "description")
rows = dataset.rows("test")
history = History.of(dataset, library, rows)

def noted(run):
    # The functions of bench that it runs.
    seen = set()
    def note(frame, event, argument):
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("bench."):
            seen.add((module, frame.f_code.co_qualname))
    sys.setprofile(note)
    run()
    sys.setprofile(None)
    return seen

def ran(spec):
    method = build_method(spec)
    preflight(method, library, history)
    reveal(method, dataset.gold.take(rows))
    asked = Queries.of(dataset, rows)
    def run():
        method.fit(history)
        method.index(library)
        method.rank(asked, 3)
        if hasattr(method, "recommend"):
            method.recommend(asked)
    seen = noted(run)
    seen |= encodes if encodes & seen & {("bench.models.encoders", "Encoder.encode")} else set()
    return {"ran": sorted(seen), "kinds": sorted({type(part).__module__ for part in methods_of(method)})}

def apart(spec):
    reader, writer = os.pipe()
    if not os.fork():
        try:
            found = ran(spec)
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

with config_context(cache=False):
    encodes = noted(lambda: Encoder(EMBEDDED).encode(["a text"]))
    found = {name: apart(spec) for name, spec in json.loads(sys.argv[1]).items()}
print(json.dumps(found))
"""
#: Methods that rank without a model that must be trained first, and without something to ask.
_NEEDY = {"rerank", "toolrerank", "toolrerank-oracle", "http", "command", "mcp", "rankgpt", "choose"}
RUNNABLE = {name: name for name in method_names() if name not in _NEEDY}
RUNNABLE |= {
    "tgr": "tgr(base=bm25)",
    "rrf": "rrf(methods=[bm25, tfidf])",
    "hybrid": "hybrid(methods=[bm25, tfidf])",
    "nearest-bundle": "nearest-bundle(base=bm25)",
    "query-generation": "query-generation(base=bm25)",
}
#: What runs between a method and what it is built of, and is the harness's: numbers do not pass through it.
HARNESS = {
    *("bench.base.errors", "bench.base.progress", "bench.base.secrets", "bench.base.locks", "bench.models.llm.budget"),
    *("bench.registry.methods", "bench.interface.explanation", "bench.interface.construction", "bench.identity.used"),
    *("bench.base.keys", "bench.search.lexical:Work.__init__", "bench.search.lexical:Work.compile"),
    # Which `Context.build` enters.
    *("bench.base.config:join_session", "bench.base.config:_active"),
}


@pytest.fixture(scope="session")
def ran(once: Once, shared_cache: Path) -> dict[str, dict[str, list[list[str]]]]:
    """What each method runs, found once in a run of the tests."""

    def make(folder: Path) -> None:
        with of_this_run(shared_cache), closing(Interpreter()) as interpreter:
            (folder / "found.json").write_text(interpreter(RAN, json.dumps(RUNNABLE), folder=ROOT).stdout)

    report: dict[str, dict[str, list[list[str]]]] = json.loads((once("ran", make) / "found.json").read_text())
    return report


@pytest.mark.parametrize("name", RUNNABLE)
def test_whatever_a_method_runs_is_hashed(ran: dict[str, dict[str, list[list[str]]]], name: str) -> None:
    kinds = [method_class(other) for other in method_names() if method_class(other).__module__ in ran[name]["kinds"]]
    reached = of_methods([kind for kind in kinds if kind.__module__ in ran[name]["kinds"]])
    covered = {(item.module, item.name) for item in reached.definitions}
    missing = []
    for module, qualified in ran[name]["ran"]:
        owner, *inner = qualified.split(".")
        definition = f"{owner}.{inner[0]}" if inner and not inner[0].startswith("<") else owner
        # What the top of a module and a dataclass make is in no function of ours.
        harness = not HARNESS.isdisjoint({module, f"{module}:{definition}"})
        if not harness and not owner.startswith(("<", "__create_fn__")) and (module, definition) not in covered:
            missing.append((module, qualified))
    assert not missing


def test_of_every_member_of_a_method_it_is_decided_whether_it_makes_numbers() -> None:
    members = {name for kind in (Method, OracleMethod) for name in vars(kind) if not name.startswith("_")}
    made_of = {"include", "parts", "spec", "full_spec", "revisions", "name"}
    said = {"needs_history", "needs_llm", "has_chance", "is_floor", "preflight", "marks", "facts", "explain"}
    assert members == (CALLED - {"recommend"}) | made_of | said


# What changes it ------------------------------------------------------------------------------------------------------

SPECS = (
    *("bm25", "tfidf", "dense", "tgr(base=bm25)", "tgr(base=tgr(base=bm25))", "random", "colt", "ptr"),
    *("rrf(methods=[bm25, tfidf])", "rrf(methods=[tfidf, random])"),
)
PROGRAM = """
import json, sys
from pathlib import Path
import bench
assert Path(bench.__file__).is_relative_to(Path.cwd()), bench.__file__
from bench.results.ids import method_hash
from bench.results import code_versions as versions
from bench.identity import reach
from bench.registry import build_method
specs, edits = json.loads(sys.argv[1])
found = []
for edit in [None, *edits]:
    if edit is not None:
        path, old, new = edit
        before = Path(path).read_text("utf-8") if Path(path).exists() else ""
        assert old in before, edit
        Path(path).write_text(before.replace(old, new, 1) if old else before + new, "utf-8")
        # What a new process would say: this one would refuse (test_edited.py).
        versions._LOADED.clear()
        reach._KNOWN.clear()
    found.append({spec: method_hash(build_method(spec)) for spec in specs})
    if edit is not None:
        Path(path).write_text(before, "utf-8")
print(json.dumps(found))
"""
HASH_ALL = """
from bench.registry import build_method
from bench.results.ids import method_hash
print(json.dumps({spec: method_hash(build_method(spec)) for spec in json.loads(sys.argv[1])}, indent=1))
"""
Edit = tuple[str, str, str]


@pytest.fixture
def changed(interpreter: Interpreter, copied: Path) -> Callable[[Iterable[Edit]], list[set[str]]]:
    """For each edit (file, text, text in its place; no text to add one at the end): the specs whose hash changes."""

    def changed(edits: Iterable[Edit]) -> list[set[str]]:
        words = json.dumps([SPECS, list(edits)])
        first, *others = json.loads(interpreter(PROGRAM, words, folder=copied, PYTHONDONTWRITEBYTECODE="1").stdout)
        assert len(set(first.values())) == len(SPECS)
        return [{spec for spec in SPECS if item[spec] != first[spec]} for item in others]

    return changed


def of(*names: str) -> set[str]:
    """The specs that are built of some methods."""
    return {spec for spec in SPECS if any(name in spec for name in names)}


def test_a_hash_changes_with_the_code_that_ranks_and_with_no_other(
    changed: Callable[[Iterable[Edit]], list[set[str]]],
) -> None:
    embedding = of("dense", "tgr", "colt", "ptr")
    cases: dict[Edit, set[str]] = {
        ("methods/bm25.py", "k1 * (1 - b + b", "k1 * (1 + b + b"): of("bm25"),
        ("methods/bm25.py", "Field(1.2,", "Field(1.3,"): of("bm25"),
        ("bench/search/lexical.py", "class LexicalIndex:", "class LexicalIndex:\n    size = 1\n"): of("bm25", "tfidf"),
        ("bench/search/topk.py", "def top_k(", "EDITED = 1\n\n\ndef top_k("): set(),
        ("methods/tgr/rules.py", "def handle_of(", "handle_of = 1\n\n\ndef handle_of("): of("tgr"),
        ("bench/models/encoders.py", "class Encoder(", "Encoder = 1\n\n\nclass Encoder("): embedding,
        # What a method is given.
        ("bench/data/gold.py", "class Gold:", "class Gold:\n    size = 1\n"): set(SPECS),
        # What does not rank.
        ("bench/search/lexical.py", "_LOADING, _CALL = 20_000_000", "_LOADING, _CALL = 10"): set(),
        ("methods/bm25.py", "return explain_words(", "return 1 or explain_words("): set(),
        ("bench/search/explanation.py", "", "\nedited = 1\n"): set(),
        ("bench/base/errors.py", "", "\n\ndef unused():\n    pass\n"): set(),
        ("bench/base/text.py", "", "\n\ndef unused():\n    pass\n"): set(),
        ("bench/base/progress.py", "", "\nedited = 1\n"): set(),
        ("bench/metrics/measures.py", "return _hits(gold, k) / gold.n\n", "return gold.n / _hits(gold, k)\n"): set(),
        ("bench/metrics/measures.py", "1.0 / math.log2(rank + 1)", "1.0 / math.log2(rank + 2)"): of("colt"),
        ("bench/evaluation/scoring.py", "", "\nedited = 1\n"): set(),
        ("bench/data/tables.py", '    "full": as_definition,\n', '    "full": as_definition, "x": described,\n'): set(),
        ("methods/newest.py", "", "from bench.methods.bm25 import BM25\n\n\nclass Newest(BM25):\n    pass\n"): set(),
    }
    for edit, result in zip(cases, changed(cases), strict=True):
        assert result == cases[edit], edit


UNUSED = "MORE = 1\n\ndef unused(value):\n    return value + MORE\n"


class Neutral(ast.NodeTransformer):
    """Says the same in other words: docstrings, annotations, errors, descriptions, and the order of functions."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        if not node.decorator_list:
            for argument in node.args.args:
                argument.annotation = ast.Name("object") if argument.annotation else None
        return self.holder(node)

    def holder(self, node: ast.Module | ast.ClassDef | ast.FunctionDef) -> ast.AST:
        if ast.get_docstring(node):
            node.body[0] = ast.Expr(ast.Constant("Edited."))
        free = [
            not isinstance(node, ast.FunctionDef) and isinstance(child, ast.FunctionDef) and not child.decorator_list
            for child in node.body
        ]
        for place in range(0, len(free) - 1, 2):
            one, two = node.body[place : place + 2]
            if free[place] and free[place + 1] and getattr(one, "name", "") != getattr(two, "name", ""):
                node.body[place : place + 2] = [two, one]
        return self.generic_visit(node)

    visit_Module = visit_ClassDef = holder  # noqa: N815

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if isinstance(node.exc, ast.Call):
            node.exc.args = [
                ast.Constant("edited") if isinstance(part, ast.JoinedStr) else part for part in node.exc.args
            ]
        return node

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        if node.arg == "description" and isinstance(node.value, ast.Constant):
            node.value = ast.Constant("edited")
        return self.generic_visit(node)


def test_edits_that_change_nothing_change_no_hash_in_any_file(interpreter: Interpreter, copied: Path) -> None:
    code = f"import json, sys\n{HASH_ALL}"
    before = interpreter(code, json.dumps(SPECS), folder=copied, PYTHONDONTWRITEBYTECODE="1").stdout
    for path in [*copied.glob("bench/**/*.py"), *copied.glob("methods/**/*.py")]:
        text = ast.unparse(Neutral().visit(ast.parse(path.read_bytes())))
        # Where a name is computed, all of the module counts.
        whole = any(f"{word}(" in text for word in ("getattr", "setattr", "vars", "globals"))
        path.write_text(text + ("" if whole else f"\n{UNUSED}"), "utf-8")
    for name in ("bench/cli/newverb.py", "methods/newest.py", "datasets/newest/loader.py"):
        (copied / name).parent.mkdir(exist_ok=True)
        (copied / name).write_text(
            '"""New."""\n\nfrom bench.methods.random import Random\n\n\nclass New(Random):\n    pass\n'
        )
    assert interpreter(code, json.dumps(SPECS), folder=copied, PYTHONDONTWRITEBYTECODE="1").stdout == before


# A method of one's own --------------------------------------------------------------------------------------------

METHOD = """
from bench.interface import Method, Ranking
from helper import answer

class Mine(Method):
    def index(self, library):
        pass

    def rank(self, queries, depth):
        return Ranking.of_lists([answer] * len(queries))
"""
HASH = """
import sys
from bench.registry import build_method
from bench.results.ids import method_hash
print(method_hash(build_method(sys.argv[1])))
"""


def write(folder: Path, texts: Mapping[str, str]) -> None:
    """Files by their path in a folder."""
    for name, text in texts.items():
        (folder / name).write_text(text)


@pytest.fixture
def hashed(interpreter: Interpreter, tmp_path: Path) -> Callable[[str], str]:
    """The hash of a method in the test's folder, found by a fresh process."""
    # Without compiled files: Python takes one for that of a source of the same second and size.
    return lambda spec: interpreter(HASH, spec, folder=tmp_path, path=(ROOT,), PYTHONDONTWRITEBYTECODE="1").stdout


def test_a_helper_s_change_is_another_id(hashed: Callable[[str], str], tmp_path: Path) -> None:
    # Else the result of the old helper would pass for one of the new.
    write(tmp_path, {"method.py": METHOD, "helper.py": "answer = [0]\n"})
    before = hashed("method:Mine")
    assert hashed("method:Mine") == before
    write(tmp_path, {"helper.py": "answer = [0]  # the first\n"})
    assert hashed("method:Mine") == before
    write(tmp_path, {"helper.py": "answer = [1]\n"})
    assert hashed("method:Mine") != before


@pytest.mark.parametrize(
    "made",
    [
        "def search(text):\n    return NUMBER\n",
        "def make(number):\n    def search(text):\n        return number\n    return search\nsearch = make(NUMBER)\n",
        "from functools import partial\ndef find(number, text):\n    return number\nsearch = partial(find, NUMBER)\n",
        "class Search:\n    def __init__(self, number): self.number = number\n"
        "    def __call__(self, text): return self.number\nsearch = Search(NUMBER)\n",
        "class Search:\n    number = NUMBER\n    def find(self, text): return self.number\nsearch = Search().find\n",
    ],
    ids=["function", "closure", "partial call", "object", "bound method"],
)
def test_a_search_function_is_hashed_with_what_it_was_made_with(
    hashed: Callable[[str], str], tmp_path: Path, made: str
) -> None:
    collected = []
    for number in ("['a']", "['b']", "['a']"):
        write(tmp_path, {"mine.py": made.replace("NUMBER", number)})
        collected.append(hashed("mine:search"))
    assert collected[0] == collected[2] != collected[1]


def test_a_template_that_a_method_names_is_a_part_of_it(interpreter: Interpreter, copied: Path) -> None:
    method = METHOD.replace("from helper import answer", "").replace(
        "pass", "self.texts = [tool.text('toolbench') for tool in library.tools]"
    )
    write(
        copied,
        {
            "mine.py": method.replace("[answer]", "[self.texts and 0]"),
            "other.py": method.replace("'toolbench'", "'no'"),
        },
    )
    before = [interpreter(HASH, f"{name}:Mine", folder=copied).stdout for name in ("mine", "other")]
    path = copied / "bench" / "data" / "tables.py"
    path.write_text(path.read_text().replace("required_params: ", "required: ", 1))
    after = [interpreter(HASH, f"{name}:Mine", folder=copied).stdout for name in ("mine", "other")]
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, True]


# Without a file -----------------------------------------------------------------------------------------------------

TYPED = """
from bench.base.errors import BenchError
from bench.interface import Context, Method, Ranking
from bench.registry import build_method
from bench.results.ids import method_hash

class Mine(Method):
    def index(self, library):
        pass

    def rank(self, queries, depth):
        return Ranking.of_lists([[0]] * len(queries))

try:
    method_hash(Mine(Mine.Parameters(), Context(build_method)))
except BenchError as error:
    print(error.exit_code, error)
"""


def python(folder: Path, argument: str, text: str = "") -> str:
    """What a Python process in a folder prints."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, argument], cwd=folder, env=environment, input=text, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_code_that_was_typed_in_is_refused_with_what_to_do(tmp_path: Path) -> None:
    said = python(tmp_path, "-", TYPED)
    assert said.startswith("2 the code of the method cannot be read")
    assert "__main__ has no source file" in said
    assert said.endswith("save it in a .py file.")


def test_a_script_that_is_run_has_a_file(tmp_path: Path) -> None:
    write(tmp_path, {"script.py": TYPED + "else:\n    print('hashed')\n"})
    assert python(tmp_path, "script.py") == "hashed"
