"""Plug-ins: a real package, installed by pip into a folder, whose entry points the harness finds."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest
from kit.interpreter import Interpreter

PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "bench-plugin-for-tests"
version = "1.0"

[project.entry-points."bench.methods"]
loudest = "loud.methods:Loudest"

[project.entry-points."bench.datasets"]
shouts = "loud.shouts"

[project.entry-points."bench.metrics"]
at = "loud.metrics:AT"

[tool.setuptools]
packages = ["loud", "loud.shouts"]

[tool.setuptools.package-data]
"loud.shouts" = ["*.toml", "*.txt"]
"""
METHODS = """
import numpy as np
from pydantic import Field
from bench.base.parameters import ParameterSet
from bench.interface import Method
from bench.search.topk import top_k

class Loudest(Method):
    '''Ranks tools by how loud their description is.'''

    class Parameters(ParameterSet):
        sign: str = Field("!", description="what is loud")

    def index(self, library):
        self.loudness = np.array([text.count(self.parameters.sign) for text in library.texts], dtype=np.float64)

    def rank(self, queries, depth):
        return top_k(np.tile(self.loudness, (len(queries), 1)), depth)
"""
METRICS = """
import numpy as np
from bench.metrics.measure import RankingMeasure

AT = RankingMeasure(
    name="at",
    definition="1 if the tool at rank k is gold",
    edge_cases="none",
    source="made for tests",
    function=lambda gold, k: (gold.ranks == k[:, None]).sum(axis=1, dtype=np.float64),
)
"""
CARD = """
title = "Shouts"
summary = "Made for tests."
licence = "CC0-1.0"
redistribution = true
template = "description"

[variants.shouts]
aliases = ["Loud-Words"]
counts = { tools = 3, parents = 3, test = 2, gold_min = 1, gold_max = 2 }

[variants.shouts-miscounted]
counts = { tools = 4, parents = 3, test = 2, gold_min = 1, gold_max = 2 }
"""
LOADER = """
from bench.data.tables import Query, Tables, Tool
from bench.base.parameters import ParameterSet
from pydantic import Field

class Options(ParameterSet):
    upper: bool = Field(False, description="all in capitals")

def load(files, options, card):
    lines = (files.folder / "tools.txt").read_text().splitlines()
    tools = [Tool(str(i), str(i), line.upper() if options.upper else line) for i, line in enumerate(lines)]
    return Tables(tools, [Query("a", "shout", {"1": 1}), Query("b", "shout on", {"1": 1, "2": 1})])
"""
PLUGIN = {
    "loud/__init__.py": "",
    "loud/methods.py": METHODS,
    "loud/metrics.py": METRICS,
    "loud/shouts/__init__.py": "",
    "loud/shouts/card.toml": CARD,
    "loud/shouts/loader.py": LOADER,
    "loud/shouts/tools.txt": "quiet\nloud!!\nloudish!\n",
}


Run = Callable[..., str]


@pytest.fixture(scope="module")
def run(interpreter: Interpreter, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """What a program prints in a fresh interpreter that finds the folders' packages."""
    work = tmp_path_factory.mktemp("work")
    return lambda program, *folders: interpreter(program, folder=work, path=folders).stdout.strip()


def written(folder: Path, files: dict[str, str]) -> Path:
    """The folder, with these files."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def package(folder: Path, points: dict[str, dict[str, str]], files: dict[str, str]) -> Path:
    """An installed package as pip leaves it: its modules next to its `dist-info` with the entry points."""
    lines = []
    for group, named in points.items():
        lines += [f"[{group}]", *(f"{name} = {point}" for name, point in named.items())]
    about = {
        "METADATA": "Metadata-Version: 2.1\nName: plugin-for-tests\nVersion: 1.0\n",
        "entry_points.txt": "\n".join(lines) + "\n",
    }
    return written(folder, files | {f"plugin_for_tests-1.0.dist-info/{name}": text for name, text in about.items()})


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the plug-in, as pip installs it."""
    points = tomllib.loads(PROJECT)["project"]["entry-points"]
    return package(tmp_path_factory.mktemp("installed"), points, PLUGIN)


@pytest.fixture(scope="module")
def installed_by_pip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that pip installed the plug-in into."""
    source = written(tmp_path_factory.mktemp("plugin"), PLUGIN | {"pyproject.toml": PROJECT})
    target = tmp_path_factory.mktemp("installed-by-pip")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run([*pip, "--no-compile", "--target", str(target), str(source)], check=True)
    return target


def test_without_the_package_nothing_of_it_is_there(run: Run) -> None:
    program = """
from bench.metrics import measures
from bench.registry import dataset_entries, method_names
print("loudest" in method_names(), "shouts" in dataset_entries(), "at" in measures())
"""
    assert run(program) == "False False False"


@pytest.mark.parametrize(
    "how", ["installed", pytest.param("installed_by_pip", marks=pytest.mark.slow("packages built and installed"))]
)
def test_installed_methods_datasets_and_metrics_are_listed_and_used(
    run: Run, how: str, request: pytest.FixtureRequest
) -> None:
    program = """
import numpy as np
from bench.metrics import evaluate, measures, parse_metrics
from bench.interface import Library, Queries
from bench.registry import build_method, dataset_entries, dataset_entry, load_dataset, method_names

assert "loudest" in method_names() and "bm25" in method_names()
assert "shouts" in dataset_entries() and "starter" in dataset_entries()
assert list(dataset_entries()) == sorted(dataset_entries())
assert "at" in measures() and "recall" in measures()
assert dataset_entry("loud-words").card.title == "Shouts"

dataset = load_dataset("shouts")
assert [tool.description for tool in dataset.tools] == ["quiet", "loud!!", "loudish!"]
assert load_dataset("Loud-Words(upper=true)").tools[1].description == "LOUD!!"
assert load_dataset("shouts(upper=true)").spec == "shouts(upper=true)"
assert load_dataset("shouts").content_hash == dataset.content_hash

method = build_method("loudest")
method.index(Library.of(dataset, dataset.card.template))
ranking = method.rank(Queries.of(dataset, dataset.rows("test")), 3)
assert ranking.tools.tolist() == [[1, 2, 0], [1, 2, 0]]
assert str(build_method("rrf(methods=[loudest(sign=o), bm25])").spec) == "rrf(methods=[loudest(sign=o), bm25()])"

# Gold of a is tool 1 at rank 1; gold of b are tools 1 and 2, at ranks 1 and 2.
scores = evaluate(ranking.tools, dataset.gold, parse_metrics(["at@1", "at@2", "recall@1"]))
print(scores.values.tolist())
"""
    assert run(program, request.getfixturevalue(how)) == "[[1.0, 0.0, 1.0], [1.0, 1.0, 0.5]]"


def test_an_installed_dataset_whose_counts_are_not_its_cards_is_refused(run: Run, installed: Path) -> None:
    program = """
from bench.base.errors import DataError
from bench.registry import load_dataset
for _ in range(2):
    try:
        load_dataset("shouts-miscounted")
    except DataError as error:
        print(error)
"""
    sentence = "shouts-miscounted does not match its card: tools 3 instead of 4."
    assert run(program, installed) == f"{sentence}\n{sentence}"


def test_a_change_of_the_plug_ins_loader_or_data_is_no_stale_cache(run: Run, installed: Path, tmp_path: Path) -> None:
    program = """
from bench.registry import load_dataset
print([tool.description for tool in load_dataset("shouts").tools])
"""
    copy = tmp_path / "copy"
    shutil.copytree(installed, copy)
    assert run(program, copy) == "['quiet', 'loud!!', 'loudish!']"
    (copy / "loud" / "shouts" / "tools.txt").write_text("silent\nloud!!\nloudish!\n")
    assert run(program, copy) == "['silent', 'loud!!', 'loudish!']"
    loader = copy / "loud" / "shouts" / "loader.py"
    loader.write_text(loader.read_text().replace("line.upper() if options.upper else line", "line[::-1]"))
    assert run(program, copy) == "['tnelis', '!!duol', '!hsiduol']"


# Plug-ins that are broken: a sentence that names them, never a traceback ----------------------------------------------


def broken(folder: Path, group: str, points: dict[str, str], files: dict[str, str]) -> Path:
    """An installed package `broken` with entry points of one group."""
    return package(folder, {group: points}, {f"broken/{name}": text for name, text in files.items()})


BROKEN_METHODS = {
    "no-module": ("broken.nowhere:X", "", "the plug-in method 'no-module' cannot be loaded: "),
    "no-class": ("broken.a:X", "", "the plug-in method 'no-class' cannot be loaded: "),
    "failing": ("broken.b:X", "1 / 0", "the plug-in method 'failing' cannot be loaded: division by zero."),
    "other": ("broken.c:X", "class X: pass", "other is not a method: it must be a subclass of bench.interface.Method."),
    "abstract": ("broken.d:X", "from bench.interface import Method as X", "the method abstract lacks index(), rank()."),
}


def test_broken_methods_are_listed_and_told_when_they_are_asked_for(run: Run, tmp_path: Path) -> None:
    points = {name: point for name, (point, _, _) in BROKEN_METHODS.items()}
    files = {f"{point[7:-2]}.py": text for point, text, _ in BROKEN_METHODS.values() if point != "broken.nowhere:X"}
    program = f"""
from bench.base.errors import MethodError
from bench.registry import build_method, method_names
build_method("bm25")
for name in {list(points)}:
    assert name in method_names()
    try:
        build_method(name)
    except MethodError as error:
        print(error)
"""
    said = run(program, broken(tmp_path, "bench.methods", points, files)).splitlines()
    for line, (_, _, sentence) in zip(said, BROKEN_METHODS.values(), strict=True):
        assert line.startswith(sentence)


def test_a_plug_in_cannot_take_the_name_of_a_built_in_method(run: Run, tmp_path: Path) -> None:
    folder = broken(tmp_path, "bench.methods", {"bm25": "broken.method:X"}, {"method.py": "raise ValueError"})
    program = 'from bench.registry import build_method; print(type(build_method("bm25")).__module__)'
    assert run(program, folder) == "bench.methods.bm25"


@pytest.mark.parametrize(
    ("point", "text"),
    [
        ("broken.metric:X", "X = 3"),
        ("broken.metric:X", "from bench.metrics.measures import MEASURES\nX = MEASURES[0]"),
        ("broken.metric:X", ""),
        ("broken.metric:X", "1 / 0"),
        ("broken.nowhere:X", ""),
    ],
    ids=["not a measure", "a name that is taken", "nothing there", "module fails", "no module"],
)
def test_a_broken_metric_is_told_by_its_name(run: Run, tmp_path: Path, point: str, text: str) -> None:
    program = """
from bench.base.errors import BenchError
from bench.metrics import parse_metric
try:
    parse_metric("recall@5")
except BenchError as error:
    print(error)
"""
    said = run(program, broken(tmp_path, "bench.metrics", {"broken": point}, {"metric.py": text}))
    assert said.startswith(f"the plug-in metric 'broken' ({point}) ")


@pytest.mark.parametrize(
    ("point", "files"),
    [
        ("nowhere.at.all", {}),
        ("nowhere", {}),
        ("broken.data", {"data/__init__.py": ""}),
        ("broken.data", {"data/__init__.py": "", "data/card.toml": "id = "}),
    ],
    ids=["no parent package", "no package", "no card", "card is no TOML"],
)
def test_a_broken_dataset_package_is_told_and_no_traceback(
    run: Run, tmp_path: Path, point: str, files: dict[str, str]
) -> None:
    program = """
from bench.base.errors import BenchError
from bench.registry import dataset_entries
try:
    print("starter" in dataset_entries())
except BenchError as error:
    print(error)
"""
    said = run(program, broken(tmp_path, "bench.datasets", {"broken": point}, {"here.py": "", **files}))
    assert said == "True" or point in said or "card.toml" in said


BROKEN_LOADERS = {
    "no-load": "",
    "returns-a-list": "def load(files, options, card): return []",
    "attribute-error": "def load(files, options, card): return None.tools",
    "unknown-file": "def load(files, options, card): return files.path('nowhere')",
    "missing-file": "def load(files, options, card): return (files.folder / 'nowhere').read_text()",
    "wrong-signature": "def load(): pass",
    "failing-module": "1 / 0",
    "lacking-module": "import not_installed",
    "odd-options": "Options = 3\ndef load(files, options, card): pass",
}


@pytest.fixture(scope="module")
def said_of_loaders(run: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[bool, str]]:
    """For each broken loader: whether the error is one that is told as a sentence, and its text."""
    points, files = {}, {}
    for number, (name, loader) in enumerate(BROKEN_LOADERS.items()):
        points[name] = f"broken.data{number}"
        files[f"data{number}/__init__.py"] = ""
        files[f"data{number}/card.toml"] = f'id = "{name}"\n' + CARD.partition("[variants")[0]
        files[f"data{number}/loader.py"] = loader
    program = f"""
import json
from bench.base.errors import BenchError
from bench.registry import dataset_entries, load_dataset
said = {{}}
for name in {list(BROKEN_LOADERS)}:
    assert name in dataset_entries()
    try:
        load_dataset(name)
    except Exception as error:
        said[name] = isinstance(error, BenchError), f"{{type(error).__name__}}: {{error}}"
print(json.dumps(said))
"""
    said: dict[str, tuple[bool, str]] = json.loads(
        run(program, broken(tmp_path_factory.mktemp("loaders"), "bench.datasets", points, files))
    )
    return said


@pytest.mark.parametrize("name", BROKEN_LOADERS)
def test_a_broken_loader_is_told_with_the_datasets_name(
    said_of_loaders: dict[str, tuple[bool, str]], name: str
) -> None:
    told, text = said_of_loaders[name]
    assert told, text
    assert name in text
