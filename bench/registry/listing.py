"""Descriptions of available methods and datasets, one row each, for `bench list` and the Python API."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from bench.base.spec import Spec, format_value
from bench.data.entries import DatasetEntry, dataset_entries
from bench.interface.method import Method, OracleMethod
from bench.registry.methods import method_class, method_names
from bench.search.scoring import EmbeddingMethod, ScoringMethod


def method_rows(names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """One row per method: the named ones, or all.

    Raises:
        UsageError: there is no method with one of the names.
        MethodError: the module of a method cannot be imported.
    """
    return [_method(name, method_class(name)) for name in names or method_names()]


def _method(name: str, kind: type[Method]) -> dict[str, Any]:
    return {
        "name": name,
        "summary": (inspect.getdoc(inspect.getmodule(kind)) or inspect.getdoc(kind) or "").split("\n")[0],
        "kind": _kind(kind),
        "needs_history": kind.needs_history,
        "needs_llm": kind.needs_llm,
        "oracle": issubclass(kind, OracleMethod),
        "parameters": {
            key: {"default": _plain(field.get_default()), "description": field.description or ""}
            for key, field in kind.Parameters.model_fields.items()
        },
    }


def _kind(kind: type[Method]) -> str:
    if issubclass(kind, OracleMethod):
        return "oracle"
    if kind.is_floor:
        return "floor"
    if hasattr(kind, "recommend"):
        return "recommends sets"
    if issubclass(kind, EmbeddingMethod):
        return "embeds"
    return "scores" if issubclass(kind, ScoringMethod) else "ranks"


def _plain(value: object) -> Any:
    if isinstance(value, Spec):
        return str(value)
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def defaults(kind: type[Method]) -> list[str]:
    """The parameters of a method with their defaults, as written after `--set`."""
    return [f"{key}={_format_default(field.get_default())}" for key, field in kind.Parameters.model_fields.items()]


def _format_default(value: Any) -> str:
    """Methods inside a list need no parentheses."""
    if isinstance(value, tuple) and all(isinstance(item, Spec) for item in value):
        return f"[{', '.join(map(str, value))}]"
    return str(value) if isinstance(value, Spec) else format_value(value)


def dataset_rows() -> list[dict[str, Any]]:
    """One row per dataset that can be loaded, by id."""
    return [_dataset(entry) for entry in dataset_entries().values()]


def _dataset(entry: DatasetEntry) -> dict[str, Any]:
    card = entry.card
    return {
        "id": card.id,
        "aliases": card.aliases,
        "title": card.title,
        "counts": card.counts.model_dump() if card.counts else None,
        "licence": card.licence,
        "redistribution": card.redistribution,
        "template": card.template,
        "obtain": card.obtain if entry.module else "",
    }
