"""Rooms import only rooms below them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def imported(path: Path) -> Iterator[str]:
    """Names of modules that a file imports, wherever in the file."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)


@pytest.mark.parametrize(
    ("room", "users"),
    [
        ("bench.leaderboard", ()),
        ("bench.cli", ("bench/cli", "bench/__main__.py", "bench/gate/pytest_plugin.py")),
        ("bench.evidence", ("bench/cli", "bench/evidence", "bench/schemas", "bench/gate", "bench/reproduce")),
    ],
)
def test_what_lies_above_is_not_imported(room: str, users: tuple[str, ...]) -> None:
    """The leaderboard itself may use all of bench; the command line finds it by name."""
    found = [
        str(path.relative_to(ROOT))
        for folder in ("bench", "methods", "datasets")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if not str(path.relative_to(ROOT)).startswith(users)
        if any(name == room or name.startswith(f"{room}.") for name in imported(path))
    ]
    assert not found
