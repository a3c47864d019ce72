"""The protocol: what a method is, what it may see, and what it must return."""

from bench.interface.explanation import Case, Contribution, Explanation, Reason
from bench.interface.method import (
    Context,
    EmbeddingMethod,
    Method,
    OracleMethod,
    Part,
    RecommendingMethod,
    ScoringMethod,
)
from bench.interface.ranking import Ranking, ToolSets
from bench.interface.versions import CURRENT_VERSIONS, PROTOCOL_VERSION, version_for
from bench.interface.views import History, Library, Queries

__all__ = [
    "CURRENT_VERSIONS",
    "PROTOCOL_VERSION",
    "Case",
    "Context",
    "Contribution",
    "EmbeddingMethod",
    "Explanation",
    "History",
    "Library",
    "Method",
    "OracleMethod",
    "Part",
    "Queries",
    "Ranking",
    "Reason",
    "RecommendingMethod",
    "ScoringMethod",
    "ToolSets",
    "version_for",
]
