"""The method interface: what a method is, what it may see, and what it must return. Runs and methods use it."""

from bench.interface.explanation import Case, Contribution, Explanation, Reason
from bench.interface.method import (
    Context,
    Method,
    OracleMethod,
    Part,
    RecommendingMethod,
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
    "ToolSets",
    "version_for",
]
