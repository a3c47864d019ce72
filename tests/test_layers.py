"""Rooms import only rooms of lower layers, by the table that docs/architecture.md shows."""

from __future__ import annotations

import ast
import re
import runpy
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import bench

ROOT = Path(__file__).resolve().parent.parent
#: Folders next to `bench/` that are imported as parts of it.
BESIDE = ("methods", "datasets", "leaderboard")
#: Who may import what is else found by name through the registry.
BY_NAME: dict[str, set[str]] = {"methods": {"lab"}, "datasets": set()}
#: The buildings beside the harness; `tests/` has a folder of the same name for each.
BUILDINGS = {path.parent.name for top in (ROOT, ROOT / "bench") for path in top.glob("*/plugin.toml")} - {"bench"}


def layers(text: str) -> dict[str, int]:
    """Room -> layer, from the table of the section "Rooms and layers"."""
    section = re.search(r"^## Rooms and layers$(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    assert section is not None, "docs/architecture.md has no section 'Rooms and layers'"
    rows = re.findall(r"^\| (\d+) \| (.*?) \|", section[1], re.MULTILINE)
    collected = [(room, int(layer)) for layer, rooms in rows for room in re.findall(r"`(\w+)`", rooms)]
    assert len(collected) == len(dict(collected)), "a room has two rows"
    return dict(collected)


@cache
def modules() -> dict[str, Path]:
    """Every module by its name; not `bench` and `bench.__main__`, the public face and the entry point."""
    by_key = {}
    for top in ("bench", *BESIDE):
        for path in (ROOT / top).rglob("*.py"):
            parts = path.relative_to(ROOT).with_suffix("").parts
            name = ".".join(parts if top == "bench" else ("bench", *parts)).removesuffix(".__init__")
            by_key[name] = path
    del by_key["bench"], by_key["bench.__main__"]
    return by_key


parse = cache(ast.parse)


def room(module: str) -> str:
    return module.split(".")[1]


def imported(source: str) -> Iterator[str]:
    """Names of modules that a source imports, wherever in it: `a.b` for `import a.b` and for `from a import b`."""
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                assert node.level == 1, "relative imports stay in their folder"
                continue
            yield from (f"{node.module}.{name.name}" for name in node.names)


def public_names(source: str) -> Iterator[str]:
    """The public names of bench that a source uses as `bench.NAME`, as `bench.NAME`."""
    for node in ast.walk(parse(source)):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "bench":
            yield f"bench.{node.attr}"


def imports(sources: Mapping[str, str], exports: Mapping[str, str]) -> dict[str, set[str]]:
    """Module -> the modules that it imports, wherever in it.

    A name that is used or imported from the public face of bench stands for the module that defines it.

    Args:
        sources: of all modules, by name.
        exports: public name of `bench` -> the module that defines it.
    """
    graph = {}
    for name, source in sources.items():
        found = set()
        for other in {*imported(source), *public_names(source)}:
            if other not in sources:
                before, _, last = other.rpartition(".")
                other = exports.get(last, "") if before == "bench" else before
            found.add(other)
        graph[name] = found & sources.keys() - {name}
    return graph


def circles(graph: Mapping[str, set[str]]) -> set[frozenset[str]]:
    """The sets of modules each of which imports all others of its set, directly or through others."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        reached[start], waiting = set(), [start]
        while waiting:
            new = graph[waiting.pop()] - reached[start]
            reached[start] |= new
            waiting += new
    return {
        frozenset(other for other in reached[name] if name in reached[other]) for name in graph if name in reached[name]
    }


def arrows(sources: Mapping[str, str], rooms: Mapping[str, int]) -> set[tuple[str, str]]:
    """(module, room) for each room that a module imports and does not lie in; `bench` alone is the version."""
    return {
        (name, room(other))
        for name, source in sources.items()
        for other in imported(source)
        if other.startswith("bench.") and room(other) in rooms and room(other) != room(name)
    }


def upwards(result: set[tuple[str, str]], rooms: Mapping[str, int]) -> set[tuple[str, str]]:
    return {(module, other) for module, other in result if rooms[other] >= rooms[room(module)]}


@cache
def table() -> dict[str, int]:
    return layers((ROOT / "docs" / "architecture.md").read_text("utf-8"))


@cache
def own_arrows() -> set[tuple[str, str]]:
    return arrows({name: path.read_text("utf-8") for name, path in modules().items()}, table())


def test_the_table_has_every_room_and_no_other() -> None:
    assert set(table()) == {room(name) for name in modules()}


def test_every_import_goes_downwards() -> None:
    assert not upwards(own_arrows(), table())


def test_modules_import_each_other_in_no_circle() -> None:
    # `__getattr__` of `bench` asks this for its public names.
    exports = bench._exports()
    assert not circles(imports({name: path.read_text("utf-8") for name, path in modules().items()}, exports))


def test_a_circle_is_found() -> None:
    sources = {
        "bench.a": "def late():\n    from bench.b import name",
        "bench.b": "from bench import c",
        "bench.c": "import bench\nbench.compare()",
        "bench.d": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import bench.d.e",
        "bench.d.e": "from bench.d import x\nfrom bench.a import y",
        "bench.f": "from bench.a import x",
    }
    found = circles(imports(sources, {"compare": "bench.a"}))
    assert found == {frozenset({"bench.a", "bench.b", "bench.c"}), frozenset({"bench.d", "bench.d.e"})}


@pytest.mark.parametrize("found", BY_NAME)
def test_methods_and_datasets_are_imported_by_few(found: str) -> None:
    assert {room(module) for module, other in own_arrows() if other == found} <= BY_NAME[found]


def test_the_plan_is_drawn_from_the_imports_of_today() -> None:
    # If this fails after a room was added or moved: python docs/pictures/plan.py
    drawing = runpy.run_path(str(ROOT / "docs" / "pictures" / "plan.py"))
    arrows_of_rooms = {(room(module), other) for module, other in own_arrows()}
    assert drawing["plan"](table(), arrows_of_rooms) == (ROOT / "docs/pictures/plan.svg").read_text("utf-8")


def test_the_harness_imports_no_building() -> None:
    assert {
        "choices",
        "cluster",
        "diagnosis",
        "example",
        "lab",
        "leaderboard",
        "traces",
        "tuning",
        "validation",
    } <= BUILDINGS
    assert {room(module) for module, other in own_arrows() if other in BUILDINGS} <= BUILDINGS


def test_a_building_meets_another_in_its_page_of_the_site_alone() -> None:
    between = {(module, other) for module, other in own_arrows() if room(module) in BUILDINGS and other in BUILDINGS}
    assert {(module.split(".")[-1], other) for module, other in between} <= {("page", "leaderboard")}


def test_tests_of_the_harness_need_no_building() -> None:
    """What helps tests of the board, and what attacks all of them, is kept beside them."""
    tests = ROOT / "tests"
    elsewhere = {*BUILDINGS, "kit", "abuse"}
    for path in tests.rglob("*.py"):
        if path.relative_to(tests).parts[0] not in elsewhere:
            names = {name for name in imported(path.read_text("utf-8")) if name.startswith("bench.")}
            assert not {name for name in names if room(name) in BUILDINGS}, path


def test_a_broken_rule_is_found() -> None:
    rooms = {"cli": 2, "run": 1, "results": 1, "errors": 0}
    sources = {
        "bench.run.a": "from bench.errors import BenchError\nimport bench\nfrom bench import __version__",
        "bench.results.b": "def late():\n    from bench.run.a import late",
        "bench.errors": "import numpy\nimport bench.cli.show",
        "bench.cli.show": "from bench import run, results\nfrom bench.cli.other import b",
    }
    result = arrows(sources, rooms)
    assert result == {
        *{("bench.run.a", "errors"), ("bench.results.b", "run"), ("bench.errors", "cli")},
        *{("bench.cli.show", "run"), ("bench.cli.show", "results")},
    }
    assert upwards(result, rooms) == {("bench.results.b", "run"), ("bench.errors", "cli")}


def test_the_table_is_read_whatever_stands_around_it() -> None:
    before, after = "# A\n| 9 | `x` | no |\n", "## B\n| 2 | `e` | |\n"
    text = f"{before}## Rooms and layers\nwords\n| 1 | `a`, `b` | of `c` |\n| 0 | `d` | - |\n{after}"
    assert layers(text) == {"a": 1, "b": 1, "d": 0}
