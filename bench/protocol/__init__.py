"""The protocol: what a method is, what it may see, and what it must return."""

from bench.protocol.explanation import Case, Contribution, Explanation, Reason
from bench.protocol.method import (
    Context,
    EmbeddingMethod,
    Method,
    OracleMethod,
    Part,
    RecommendingMethod,
    ScoringMethod,
)
from bench.protocol.ranking import Ranking, ToolSets
from bench.protocol.views import History, Library, Queries

PROTOCOL_VERSION = "2.0"

__all__ = [
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
]
