"""The public names: what `import bench` costs, that each name is there, typed and documented."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from kit.interpreter import Interpreter

import bench
from bench.identity.reach import bench_definitions
from bench.metrics import measures
from bench.registry import dataset_entries, method_names

ROOT = Path(bench.__file__).resolve().parent.parent
INIT = ast.parse(Path(bench.__file__).read_text("utf-8"))


def python(program: str, cwd: Path) -> str:
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", program], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_bench_imports_nothing_else_of_bench_and_no_other_package(tmp_path: Path) -> None:
    """So it costs what the interpreter's own modules cost: `site` and our pth files have loaded some before."""
    program = """
import sys
before = set(sys.modules)
import bench
new = set(sys.modules) - before
print(sorted(name for name in new if name.partition(".")[0] not in sys.stdlib_module_names))
"""
    assert python(program, tmp_path) == "['bench']"


def test_asking_for_what_there_is_does_not_import_anything_either(tmp_path: Path) -> None:
    program = "import sys, bench; dir(bench), bench.__all__; print('numpy' in sys.modules, 'run' in dir(bench))"
    assert python(program, tmp_path) == "False True"


def test_no_room_has_the_name_of_a_public_name() -> None:
    """The import system sets a submodule as an attribute of its package, in the place of the public name."""
    rooms = {path.stem for place in bench.__path__ for path in Path(place).iterdir() if path.suffix in {"", ".py"}}
    assert rooms & set(bench._exports()) == set(bench._LISTS), "only those of packages that can be called"


@pytest.mark.parametrize(
    "before",
    [
        "import bench.methods.bm25, bench.datasets.starter.loader, bench.metrics.ties",
        "from bench import metrics, datasets, methods",
        "import bench; bench.run('bm25', limit=5)",
        "import bench; bench.registry, bench.results",
        "import bench, importlib; importlib.import_module('bench.metrics'); importlib.import_module('bench.methods')",
        "import bench",
    ],
)
def test_packages_are_called_whatever_was_imported_before(
    interpreter: Interpreter, tmp_path: Path, before: str
) -> None:
    program = f"""
{before.replace("bench.registry, bench.results", "dir(bench)")}
import bench
for package in (bench.methods, bench.datasets, bench.metrics):
    print(package().index[0], sep="")
import bench.methods.tfidf, bench.metrics.catalogue
print(bench.methods.tfidf.TfIdf.__name__, bench.metrics.parse_metric("ndcg").cutoff)
"""
    assert interpreter(program, folder=tmp_path, path=(ROOT,)).stdout.split() == [
        *("bm25", "apibank", "recall"),
        "TfIdf",
        "100",
    ]


def test_lists_have_what_there_is() -> None:
    methods: Any = bench.methods()
    assert list(methods.index) == method_names()
    assert methods.loc["nearest-query", "needs"] == "past queries"
    assert methods.loc["oracle", "kind"] == "oracle"
    assert methods.loc["dense", "kind"] == "embeds"
    assert methods.loc["random", "kind"] == "floor"
    datasets: Any = bench.datasets()
    assert list(datasets.index) == list(dataset_entries())
    starter = bench.load_dataset("starter")
    assert datasets.loc["starter", "tools"] == len(starter.tools)
    assert datasets.loc["starter", "test"] == len(starter.rows("test"))
    assert datasets.loc["starter", "licence"] == starter.card.licence
    metrics: Any = bench.metrics()
    assert list(metrics.index) == list(measures())
    assert metrics.loc["tracc", "written"] == "tracc, tracc@k"
    assert not metrics.loc["aurc", "higher_is_better"]


NAMES = sorted({*bench._exports()} - {*bench._LISTS})


def test_type_checkers_see_every_public_name_as_exported() -> None:
    """`mypy --strict` takes `import name as name` for an export, and passes over `__all__` that is computed."""
    (block,) = (node for node in INIT.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    assert {"__version__", *(name.asname for node in imports for name in node.names)} == set(bench.__all__)
    assert set(bench._LISTS) == {"datasets", "methods", "metrics"}


def test_the_code_hash_follows_public_names_to_where_they_are_defined(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("import bench\nfrom bench import top_k as first\nfirst, bench.Gold, bench.nothing\n")
    found = {(item.module, item.name) for item in bench_definitions(path)[0]}
    assert found == {("bench.search.topk", "top_k"), ("bench.data.gold", "Gold")}


@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_what_its_module_defines_and_is_documented(name: str) -> None:
    value = getattr(bench, name)
    module = importlib.import_module(bench._exports()[name])
    assert value is getattr(module, name)
    assert name in vars(bench), "asked once, kept"
    if name == "MethodSpec":  # an alias of a type has no docstring of its own
        return
    assert value.__module__ == bench._exports()[name], "the table names where it is defined"
    assert len(inspect.getdoc(value) or "") > 20
    if inspect.isfunction(value):
        assert "Examples:" in (inspect.getdoc(value) or "") or name == "top_k"


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'bench' has no attribute 'runn'"):
        bench.runn  # noqa: B018


def documented() -> list[ModuleType]:
    """The modules that define the public names, and those of the classes that these derive from."""
    public = [getattr(bench, name) for name in NAMES]
    bases = {base.__module__ for value in public if inspect.isclass(value) for base in value.__mro__}
    ours = {name for name in bases if name.startswith("bench.")}
    return [importlib.import_module(name) for name in sorted({*bench._exports().values(), *ours})]


@pytest.mark.parametrize("module", documented(), ids=lambda module: module.__name__)
def test_examples_in_docstrings_are_right(module: ModuleType) -> None:
    result = doctest.testmod(module, extraglobs={"bench": bench})
    assert result.failed == 0
    if module.__name__.startswith("bench.api."):
        assert result.attempted > 0
