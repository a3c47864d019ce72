"""The hash of a measure changes with the code that makes its values, and with nothing else."""

from __future__ import annotations

import dataclasses
import importlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from kit.interpreter import Interpreter

from bench.identity.reach import Definition, reach
from bench.metrics import SetMeasure, measures
from bench.metrics.measure import AbstentionMeasure
from bench.results.code_versions import measure_hash

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import importlib, json, sys
from pathlib import Path
from bench.identity import reach
from bench.results.code_versions import interval_hash, measure_hash, token_hash

def hashes():
    reach._KNOWN.clear()
    for hashed in (measure_hash, interval_hash, token_hash):
        hashed.cache_clear()
    fresh = importlib.reload(importlib.import_module("bench.metrics.measures")).MEASURES
    found = {measure.name: measure_hash(measure) for measure in fresh}
    return found | {"-intervals": interval_hash(), "-tokens": token_hash()}

found = [hashes()]
for edits in json.loads(sys.argv[1]):
    was = {path: Path(path).read_text("utf-8") for path, _, _ in edits}
    for path, old, new in edits:
        text = Path(path).read_text("utf-8")
        assert old in text, (path, old)
        Path(path).write_text(text.replace(old, new), "utf-8")
    found.append(hashes())
    for path, text in was.items():
        Path(path).write_text(text, "utf-8")
print(json.dumps(found))
"""
EVERY = set(measures())
Edit = tuple[str, str, str]
Hashes = Callable[..., list[dict[str, str]]]
Changed = Callable[..., list[set[str]]]


@pytest.fixture
def hashes(interpreter: Interpreter, copied: Path) -> Hashes:
    """Hashes by name in a fresh process: as things are, then with each of the edits (file, old, new)."""

    def hashes(*edits: list[Edit]) -> list[dict[str, str]]:
        done = interpreter(PROGRAM, json.dumps(edits), folder=copied, PYTHONDONTWRITEBYTECODE="1")
        report: list[dict[str, str]] = json.loads(done.stdout)
        return report

    return hashes


@pytest.fixture
def changed(hashes: Hashes) -> Changed:
    """For each of the edits, the names of the hashes that it changes; those of new measures are left out."""

    def changed(*edits: list[Edit]) -> list[set[str]]:
        before, *after = hashes(*edits)
        return [{name for name in before if item[name] != before[name]} for item in after]

    return changed


MEASURES = "bench/metrics/measures.py"
ADDED = """
def first(gold: GoldRanks, k: Counts) -> Values:
    return np.where(gold.ranks[:, 0] == 1, 1.0, 0.0)

MEASURES += (RankingMeasure("first", function=first, definition="one", edge_cases="none", source="a test"),)
"""


def test_another_measure_changes_no_hash_of_an_existing_one(changed: Changed) -> None:
    # Reproduced: one hash of the whole folder made all results and baselines incomparable.
    end = (ROOT / MEASURES).read_text("utf-8")[-100:]
    assert changed([(MEASURES, end, end + ADDED)]) == [set()]


def test_comments_docstrings_and_formatting_change_nothing(changed: Changed) -> None:
    edits = [
        (MEASURES, '"""|G ∩ top k| / n."""', '"""Recall."""\n    # a comment'),
        (MEASURES, "return _hits(gold, k) / gold.n\n", "return (\n        _hits(gold, k,)\n        / gold.n\n    )\n"),
        ("bench/metrics/goldranks.py", '"""From ranks and grades in any order; sorts both by rank."""', ""),
        ("bench/metrics/evaluate.py", "    values = np.full(", "    # another comment\n    values = np.full("),
        (
            "bench/stats/bootstrap.py",
            "queries, columns = values.shape\n",
            "(queries, columns) = values.shape  # both\n",
        ),
        (MEASURES, '"trec_eval `P`"', '"another source"'),
        (MEASURES, '"the share of the first k tools that are gold"', '"other words"'),
        (MEASURES, r"\cap \{h_1, \dots, h_k\}|}{k}", r"\cap H|}{k}"),
    ]
    assert changed(edits) == [set()]


def test_a_hash_changes_with_the_code_that_makes_its_values(changed: Changed) -> None:
    cases = {
        (MEASURES, "return _hits(gold, k) / gold.n\n", "return gold.n / _hits(gold, k)\n"): {"recall"},
        # What several use: only they change.
        (MEASURES, "_sum(gold.ranks <= k[:, None])", "_sum(gold.ranks < k[:, None])"): {"recall", "precision", "pass"},
        (MEASURES, "1.0 / math.log2(rank + 1)", "1.0 / math.log2(rank + 2)"): {"ndcg", "ndcg_ptr"},
        (MEASURES, "import math\n", "import cmath as math\n"): {"ndcg", "ndcg_ptr", "bits_over_random"},
        # What a measure declares.
        (MEASURES, "        higher_is_better=False,\n", ""): {
            *("size_diff", "false_returns", "aurc", "forbidden", "excess_destructive")
        },
        (MEASURES, '        queries="no gold",\n', ""): {"abstained", "false_returns"},
        (MEASURES, "        monotone=False,\n", ""): {"ndcg_ptr"},
        (MEASURES, "function=separation", "function=risk_coverage"): {"auroc"},
        (MEASURES, "function=set_precision", "function=set_recall"): {"set_precision"},
        # The path of all.
        ("bench/metrics/goldranks.py", "position + 1, MISSING", "position, MISSING"): EVERY,
        ("bench/metrics/evaluate.py", "np.where(failed, 0, sizes.size)", "sizes.size"): EVERY,
        ("bench/metrics/evaluate.py", "math.fsum(values) / len(values)", "math.fsum(values)"): EVERY,
        # Methods of a class that an argument has, though nobody names them.
        ("bench/data/gold.py", "grades[filled] = self.grades", "grades[filled] = 1"): EVERY,
        ("bench/metrics/measure.py", "np.full(len(n), self.cutoff or", "np.full(len(n), 1 or"): EVERY,
        # On which queries a measure is taken, and what comes before and after it.
        ("bench/metrics/measure.py", "return ~judged if self.queries", "return judged if self.queries"): {
            name for name, measure in measures().items() if type(measure) in (SetMeasure, AbstentionMeasure)
        },
        ("bench/stats/repeats.py", "values[:, differ].sum(axis=0) / len", "values[:, differ].max(axis=0) / len"): {
            *EVERY,
            "-intervals",
        },
        ("bench/evaluation/scoring.py", "if ranking.failed is None else ranking.failed", "if True else 0"): EVERY,
        ("bench/results/repeats.py", "decompose(", "not decompose("): {"-intervals"},
        ("bench/evaluation/scoring.py", "np.where(ranking.tools[:, 0] >= 0", "np.where(ranking.tools[:, 0] > 0"): {
            *("auroc", "aurc"),
        },
        # Tie bands, intervals and tokens have hashes of their own.
        ("bench/metrics/ties.py", "LEAST_DRAWS = 1000", "LEAST_DRAWS = 999"): set(),
        ("bench/stats/bootstrap.py", "RESAMPLES = 10_000", "RESAMPLES = 1_000"): {"-intervals"},
        ("bench/models/tokens.py", "add_special_tokens=False", "add_special_tokens=True"): {"-tokens"},
        # What shows and stores results changes no number.
        ("bench/metrics/catalogue.py", '"recall@50", ', ""): set(),
        ("bench/results/intervals.py", "BOOTSTRAP_SEED = 0", "BOOTSTRAP_SEED = 1"): {"-intervals"},
    }
    # A measure that none of these speaks of may share the code of one.
    spoken = {name for names in cases.values() if not names >= EVERY for name in names}
    for edit, names in zip(cases, changed(*([edit] for edit in cases)), strict=True):
        assert (names if cases[edit] >= EVERY else names & spoken) == cases[edit], edit


def test_a_module_that_is_moved_keeps_its_hashes(hashes: Hashes, copied: Path) -> None:
    before = hashes()
    (copied / "bench/metrics/goldranks.py").rename(copied / "bench/metrics/ranks.py")
    for path in copied.rglob("*.py"):
        text = path.read_text("utf-8")
        # Roots of hashes are named without the package.
        if "metrics.goldranks" in text:
            path.write_text(text.replace("metrics.goldranks", "metrics.ranks"), "utf-8")
    assert hashes() == before


# Plug-ins -----------------------------------------------------------------------------------------------------------

PLUGIN = """
import functools
import numpy as np
from bench.metrics import RankingMeasure
from {package}.helper import share

def within(gold, k, factor):
    return share(gold, k) * factor

def made(factor):
    def inner(gold, k):
        return share(gold, k) * factor
    return inner

WORDS = {{"definition": "one", "edge_cases": "none", "source": "a test"}}
NAMED = RankingMeasure("named", function=share, **WORDS)
LAMBDA = RankingMeasure("lambda", function=lambda gold, k: share(gold, k), **WORDS)
PARTIAL = RankingMeasure("partial", function=functools.partial(within, factor=FACTOR), **WORDS)
CLOSED = RankingMeasure("closed", function=made(FACTOR), **WORDS)
"""
HELPER = "import numpy as np\n\ndef share(gold, k):\n    return np.ones(len(k))\n\ndef unused():\n    return 1\n"


@pytest.fixture
def plugin(interpreter: Interpreter, tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Hashes of the measures of a plug-in's package, which is rebuilt for each call."""

    def plugin(helper: str = HELPER, factor: str = "2.0") -> dict[str, str]:
        package = "bench_plugin"
        (tmp_path / package).mkdir(exist_ok=True)
        (tmp_path / package / "__init__.py").write_text("")
        (tmp_path / package / "helper.py").write_text(helper)
        text = PLUGIN.format(package=package).replace("FACTOR", factor)
        (tmp_path / package / "metrics.py").write_text(text)
        code = (
            f"import json, {package}.metrics as m\nfrom bench.results.code_versions import measure_hash\n"
            "found = {k: v for k, v in vars(m).items() if type(v).__name__ == 'RankingMeasure'}\n"
            "print(json.dumps({k: measure_hash(v) for k, v in found.items()}))"
        )
        done = interpreter(code, folder=tmp_path, path=(ROOT,), PYTHONDONTWRITEBYTECODE="1")
        report: dict[str, str] = json.loads(done.stdout)
        return report

    return plugin


def test_a_plug_in_s_measure_is_hashed_with_what_it_uses(plugin: Callable[..., dict[str, str]]) -> None:
    first = plugin()
    assert len(set(first.values())) == 4
    assert plugin() == plugin(HELPER + "# a comment\n") == first
    helper = plugin(HELPER.replace("np.ones", "np.zeros"))
    assert all(helper[name] != first[name] for name in first)
    module = plugin(factor="3.0")
    assert {name for name in first if module[name] != first[name]} == {*first} - {"NAMED"}


@pytest.mark.parametrize(
    "text",
    [
        # What a module does to its own tables before anybody calls it.
        "G = {}\nG[1] = NUMBER\ndef f(gold, k):\n    return G[1]\n",
        "G = {}\nG.update({1: NUMBER})\ndef f(gold, k):\n    return G[1]\n",
        "G = []\nfor i in range(NUMBER):\n    G.append(i)\ndef f(gold, k):\n    return G[1]\n",
        "class K: pass\nK.x = NUMBER\ndef f(gold, k):\n    return K.x\n",
        # What a function was made with.
        "import numpy as np\ndef made(w):\n    return lambda gold, k: w\nf = made(np.array([NUMBER]))\n",
        "def made(w):\n    return lambda gold, k: w\nf = made({NUMBER})\n",
        "class W:\n    def __init__(self, v): self.v = v\n"
        "def made(w):\n    return lambda gold, k: w.v\nf = made(W(NUMBER))\n",
        "class W:\n    def get(self): return NUMBER\ndef made(w):\n    return lambda gold, k: w.get()\nf = made(W())\n",
        "def made(w):\n    return lambda gold, k, w=w: w\nf = made(NUMBER)\n",
        "def made(w):\n    return lambda gold, k, *, w=w: w\nf = made(NUMBER)\n",
        "class C:\n    __slots__ = ('k',)\n    def __init__(self, k): self.k = k\n"
        "    def __call__(self, gold, k): return self.k\n"
        "f = C(NUMBER)\n",
        # What is wrapped has the name of the function inside.
        "import functools\ndef scaled(w, g):\n"
        "    @functools.wraps(g)\n    def inner(gold, k): return w * g(gold, k)\n"
        "    return inner\ndef g(gold, k): return 1\nf = scaled(NUMBER, g)\n",
        "import functools\ndef scaled(g):\n"
        "    @functools.wraps(g)\n    def inner(gold, k): return NUMBER * g(gold, k)\n"
        "    return inner\ndef g(gold, k): return 1\nf = scaled(g)\n",
    ],
)
def test_a_measure_is_hashed_with_what_its_function_was_made_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    collected = []
    for number in (2, 3):
        name = f"bench_state_{tmp_path.name.replace('-', '_')}_{number}"
        (tmp_path / f"{name}.py").write_text(text.replace("NUMBER", str(number)))
        measure = dataclasses.replace(measures()["recall"], function=importlib.import_module(name).f)
        collected.append(measure_hash(measure))
    assert len(set(collected)) == 2


# Definitions --------------------------------------------------------------------------------------------------------


@pytest.fixture
def hashed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """The hash of `root` in a package of modules, given by their texts."""
    monkeypatch.syspath_prepend(tmp_path)
    made: list[str] = []

    def hashed(root: str, **modules: str) -> str:
        package = f"bench_definitions_{tmp_path.name.replace('-', '_')}_{len(made)}"
        made.append(package)
        (tmp_path / package).mkdir()
        for name, text in {"__init__": "", **modules, "root": root}.items():
            (tmp_path / package / f"{name}.py").write_text(text.replace("PACKAGE", package))
        return reach([Definition(f"{package}.root", "root")]).hash()

    return hashed


@pytest.mark.parametrize(
    ("root", "use"),
    [
        ("from PACKAGE.other import used\ndef root():\n    return used()\n", "def used():\n    return {}\n"),
        ("from PACKAGE.other import used as other\ndef root():\n    return other()\n", "def used():\n    return {}\n"),
        ("from PACKAGE import other\ndef root():\n    return other.used()\n", "def used():\n    return {}\n"),
        ("import PACKAGE.other as o\ndef root():\n    return o.used()\n", "def used():\n    return {}\n"),
        ("import PACKAGE as p\ndef root():\n    return p.other.used()\n", "def used():\n    return {}\n"),
        ("from . import other\ndef root():\n    return other.used()\n", "def used():\n    return {}\n"),
        ("def root():\n    from .other import used\n    return used()\n", "def used():\n    return {}\n"),
        ("from .other import used\ndef root(x=used):\n    return x\n", "used = {}\n"),
        ("from .other import used\n@used\ndef root():\n    pass\n", "def used(f):\n    return {}\n"),
        (
            "from .other import Kind\ndef root(x):\n    return x.a(Kind())\n",
            "class Kind:\n    def a(self): return {}\n",
        ),
        ("from .other import Base\nclass root(Base):\n    pass\n", "class Base:\n    a = {}\n"),
        ("from .other import used\ndef root():\n    return [used for x in ()]\n", "used = {}\n"),
        # Bound in a comprehension, and used outside it: the name outside is the module's.
        ("from .other import used\ndef root():\n    return [used for used in ()], used\n", "used = {}\n"),
        ("from .other import *\nfrom .other import used\ndef root():\n    return used\n", "used = {}\n"),
        ("if True:\n    from .other import used\ndef root():\n    return used\n", "used = {}\n"),
        ("from .other import used\ndef root():\n    global used\n    used = used + 1\n", "used = {}\n"),
    ],
)
def test_what_a_definition_uses_is_found(hashed: Callable[..., str], root: str, use: str) -> None:
    one, other, same = (hashed(root, other=use.format(number)) for number in (1, 2, 1))
    assert one != other
    assert one == same


@pytest.mark.parametrize(
    "root",
    [
        "from .other import used\ndef root(used):\n    return used\n",
        "from .other import used\ndef root():\n    used = 5\n    return used\n",
        "from .other import used\ndef root():\n    return [used for used in ()]\n",
        "from .other import used\ndef root():\n    return lambda used: used\n",
        "from .other import used\ndef aside():\n    return used\ndef root():\n    return 1\n",
        "from . import other\ndef root():\n    return other.more\n",
    ],
)
def test_a_name_that_means_something_else_is_not_followed(hashed: Callable[..., str], root: str) -> None:
    one, other = (hashed(root, other=f"used = {number}\nmore = 1\n") for number in (1, 2))
    assert one == other


@pytest.mark.parametrize(
    ("root", "one", "other"),
    [
        ("from math import {} as used\ndef root(x):\n    return used(x)\n", "floor", "ceil"),
        ("from {} import sqrt\ndef root(x):\n    return sqrt(x)\n", "math", "cmath"),
        ("import {} as used\ndef root(x):\n    return used.sqrt(x)\n", "math", "cmath"),
    ],
)
def test_a_name_of_another_package_counts_by_what_it_refers_to(
    hashed: Callable[..., str], root: str, one: str, other: str
) -> None:
    assert hashed(root.format(one)) != hashed(root.format(other))
    assert hashed(root.format(one)) == hashed(root.format(one))


def test_a_root_that_is_not_there_is_an_error(hashed: Callable[..., str]) -> None:
    with pytest.raises(LookupError, match="no top-level definition 'root'"):
        hashed("pass\n")


def test_the_text_of_a_tree_is_the_same_in_every_version_of_python(hashed: Callable[..., str]) -> None:
    text = (
        "def root(a, *, b: int = 1, **c) -> str:\n    '''Doc.'''\n    match a:\n        case [1, *rest]:\n"
        "            return f'{a!r:>{b}} x' 'y'\n    return [x for x in c if x is not None][::2]\n"
    )
    assert hashed(text) == "0d85dc9407ce54e2ac29b5f779165687c2d8120839f12aefa10c0f9cd18c3295"


def test_every_measure_has_a_hash_of_its_own() -> None:
    measure_hashs = {measure_hash(measure) for measure in measures().values()}
    assert len(measure_hashs) == len(measures())


# All that scoring runs ------------------------------------------------------------------------------------------------

#: The functions of bench that scoring runs, by module and qualified name; and those that the hashes beside its numbers
#: cover.
SCORED = """
import json, sys
import numpy as np
from bench.base.config import config_context
from bench.data.card import Card
from bench.data.dataset import Dataset
from bench.data.tables import Query, Tables, Tool
from bench.evaluation.ask import Answers
from bench.evaluation import scoring
from bench.interface import Ranking, ToolSets
from bench.metrics import measures, parse_metrics
from bench.metrics.ties import UnseenTies
from bench.data.gold import Gold
from bench.results import code_versions
from bench.models.tokens import count_tokens

harmful = '{"destructiveHint": true}'
tools = [
    Tool(f"t{i}", f"n{i}", f"Does {i // 2}.", "c", "p", annotations=harmful if i % 3 else '{"destructiveHint": false}')
    for i in range(30)
]
queries = [Query(f"q{i}", f"a {i}", {f"t{i}": 1 + i % 2} if i else {}, "test", forbidden=("t9",)) for i in range(8)]
queries[2] = Query("q2", "a 2", {"t2": 1}, "test", any_of={"t2": ("t5",)})
card = Card(id="d", title="", summary="", licence="", redistribution=True, template="description")
dataset = Dataset.build("d", card, Tables(tools, queries, []))
rows = dataset.rows("test")
given = np.random.default_rng(0)

def answers():
    order = np.stack([given.permutation(30)[:20] for _ in rows]).astype(np.int32)
    order[3] = -1
    scores = np.sort(given.integers(0, 4, order.shape), axis=1)[:, ::-1].astype(np.float64)
    failed = np.zeros(len(rows), dtype=bool)
    failed[4] = True
    sets = ToolSets.of([row[:3][row[:3] >= 0] for row in order])
    beyond = UnseenTies(np.ones(len(rows), dtype=np.int64), Gold.of([{} for _ in rows]))
    return Answers(Ranking(order, scores, failed), beyond, sets)

seen = set()
def note(frame, event, argument):
    module = frame.f_globals.get("__name__", "")
    if event == "call" and module.startswith("bench."):
        seen.add((module, frame.f_code.co_qualname))

with config_context(cache=False):
    count_tokens(["warm"])
    repeats = [answers(), answers()]
    wanted = parse_metrics([f"{name}@5" if "k" in m.cutoffs else name for name, m in measures().items()])
    sys.setprofile(note)
    scoring.score("0" * 12, dataset, rows, repeats, "description", wanted)
    sys.setprofile(None)

reached, reach = [], code_versions.reach
code_versions.reach = lambda *given, **named: reached.append(reach(*given, **named)) or reached[-1]
for name in ("interval_hash", "ties_hash", "token_hash", "lenient_hash"):
    getattr(code_versions, name).__wrapped__()
for measure in measures().values():
    code_versions.measure_hash.__wrapped__(measure)
code_versions.template_hash.__wrapped__("description")
code_versions.template_hash.__wrapped__("full")
covered = {(item.module, item.name) for found in reached for item in found.definitions}
print(json.dumps([sorted(seen), sorted(covered)]))
"""
#: What runs beside the numbers: it chooses what is scored, hashes the code, keeps counts, and makes tables and records.
BESIDE = {
    *(f"bench.evaluation.scoring:{name}" for name in "score _per_query_table _run_table _notes_table _stack".split()),
    *(f"bench.evaluation.scoring:{name}" for name in "_query_ids _tool_ids _ToolTokens.of".split()),
    *("bench.models.tokens:tokeniser", "bench.models.tokens:can_count_tokens"),
    *("bench.data.dataset:Dataset.units", "bench.results.units:unit_names", "bench.data.tables:Tool.text"),
    *("bench.results.code_versions", "bench.identity.reach", "bench.identity.sources", "bench.results.manifest"),
    *("bench.base.paths", "bench.base.config", "bench.base.arrow", "bench.base.records", "bench.base.parameters"),
    *("bench.base.spec", "bench.base.errors", "bench.evaluation.method_errors", "bench.evaluation.tool_cache"),
    # The range of a metric is declared with it, as its name is: interval_hash covers what is done with one.
    *("bench.metrics.measure:Metric.span", "bench.metrics.measures:_least_mean_rank"),
    *("bench.metrics.catalogue", "bench.base.locks", "bench.base.plugins", "bench.data.units"),
}


def test_whatever_scoring_runs_is_hashed(interpreter: Interpreter, tmp_path: Path) -> None:
    done = interpreter(SCORED, folder=ROOT, BENCH_CACHE=str(tmp_path))
    ran, covered = json.loads(done.stdout)
    known = {(module, name) for module, name in covered}
    missing = []
    for module, qualified in ran:
        owner, *inner = qualified.split(".")
        name = f"{owner}.{inner[0]}" if inner and not inner[0].startswith("<") else owner
        beside = not BESIDE.isdisjoint({module, f"{module}:{name}"})
        if not beside and not owner.startswith(("<", "__create_fn__")) and (module, name) not in known:
            missing.append(f"{module}:{name}")
    assert not missing, "\n".join(sorted(set(missing)))
