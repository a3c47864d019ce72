"""What a method needs, as its results say, and where an older one does not, its class."""

from __future__ import annotations

from collections.abc import Iterator

from bench.errors import BenchError
from bench.leaderboard.boards.board import Row
from bench.leaderboard.boards.facts import facts_of
from bench.results.manifest import Manifest
from bench.specs.spec import Spec, Value, parse


def needs_llm(row: Row) -> bool:
    """Whether the method called a language model."""
    return row.result.manifest.method.needs_llm


def learns(row: Row) -> bool:
    """Whether the method learnt from past queries, or has a model that was trained on a dataset's."""
    manifest = row.result.manifest
    if any(mark.kind in {"tools seen", "trained on test"} for mark in manifest.marks):
        return True
    own = manifest.method.learns
    return _class_learns(manifest) if own is None else own


def _class_learns(manifest: Manifest) -> bool:
    """For a result of an older version: its dataset has past queries, and its method, or a part of it, learns."""
    if manifest.dataset.history == 0 or manifest.method.run_file is not None:
        return False
    try:
        spec = parse(manifest.method.full_spec)
    except BenchError:
        return False
    return any((facts := facts_of(part.name)) is not None and facts.learns for part in _parts(spec))


def _parts(value: Value | Spec) -> Iterator[Spec]:
    """A spec, and those of the methods that it is built on."""
    if isinstance(value, tuple):
        for item in value:
            yield from _parts(item)
    elif isinstance(value, Spec):
        yield value
        for _, item in value.arguments:
            yield from _parts(item)
