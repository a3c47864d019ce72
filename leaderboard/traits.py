"""What a method needs, derived from its results and its class."""

from __future__ import annotations

from bench.leaderboard.facts import facts_of
from bench.leaderboard.model import Row


def needs_llm(row: Row) -> bool:
    """Whether the method called a language model."""
    return row.result.manifest.method.needs_llm


def learns(row: Row) -> bool:
    """Whether the method learns from past queries, or has a model that was trained on a dataset's."""
    facts = facts_of(row.family)
    own = row.result.manifest
    trained = {"tools seen", "trained on test"} & set(own.method.marks)
    past = any(name.endswith("past_bundles") or name == "past_queries" for name in own.facts)
    # A method built on another one learns what that one does: only those that need past queries surely do.
    needs = facts is not None and facts.learns and own.dataset.history > 0 and not _passes_on(row)
    return bool(trained) or past or needs


def _passes_on(row: Row) -> bool:
    """Whether its `fit` is there for the sake of a method that it is built on."""
    facts = facts_of(row.family)
    return facts is not None and any(parameter.name in {"base", "methods", "parts"} for parameter in facts.parameters)
