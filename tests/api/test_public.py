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

import pytest

import bench

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
    assert not rooms & set(bench._EXPORTS)


def test_all_table_and_typed_imports_have_the_same_names() -> None:
    assert {*bench._EXPORTS, "__version__"} == set(bench.__all__)
    block = next(node for node in INIT.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    typed = {name.name: node.module for node in block.body if isinstance(node, ast.ImportFrom) for name in node.names}
    assert typed == bench._EXPORTS


def test_the_table_can_be_read_without_running_the_package() -> None:
    (table,) = (
        node.value
        for node in INIT.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "_EXPORTS"
    )
    assert table is not None
    assert ast.literal_eval(table) == bench._EXPORTS


@pytest.mark.parametrize("name", bench._EXPORTS)
def test_each_name_is_what_its_module_defines_and_is_documented(name: str) -> None:
    value = getattr(bench, name)
    module = importlib.import_module(bench._EXPORTS[name])
    assert value is getattr(module, name)
    assert name in vars(bench), "asked once, kept"
    if name == "MethodSpec":  # an alias of a type has no docstring of its own
        return
    assert value.__module__ == bench._EXPORTS[name], "the table names where it is defined"
    assert len(inspect.getdoc(value) or "") > 20
    if inspect.isfunction(value):
        assert "Examples:" in (inspect.getdoc(value) or "") or name == "top_k"


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'bench' has no attribute 'runn'"):
        bench.runn  # noqa: B018


def documented() -> list[ModuleType]:
    """The modules that define the public names."""
    return [importlib.import_module(name) for name in sorted(set(bench._EXPORTS.values()))]


@pytest.mark.parametrize("module", documented(), ids=lambda module: module.__name__)
def test_examples_in_docstrings_are_right(module: ModuleType) -> None:
    found = doctest.testmod(module, extraglobs={"bench": bench})
    assert found.failed == 0
    if module.__name__.startswith("bench.api.") and module.__name__ != "bench.api.gating":
        assert found.attempted > 0
