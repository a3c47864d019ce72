"""bench: an evaluation harness for tool retrieval.

One protocol for every dataset, method and metric: real data in, rankings out,
every number stored with what is needed to check it.

The names in `__all__` are the public API. Each is imported when it is first used, so `import bench` alone loads
neither NumPy nor pydantic:

    import bench

    result = bench.run("bm25", "starter")
    result.metrics          # a DataFrame: mean, 95% interval and tie band of each metric
    bench.compare(result, bench.run("dense", "starter"))
"""

import sys as _sys
from importlib import import_module as _import_module
from pathlib import Path as _Path
from types import ModuleType as _ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.api.catalogue import build_method, import_tools, load_dataset
    from bench.api.choosing import Choices, choose
    from bench.api.comparing import compare, explain, plot
    from bench.api.gating import GateResult, bless, gate
    from bench.api.listing import datasets, methods, metrics
    from bench.api.results import Result, Results, load_result
    from bench.api.running import run
    from bench.api.scoring import score
    from bench.api.trying import audit, tune
    from bench.base.config import config_context
    from bench.base.errors import BenchError
    from bench.base.parameters import MethodSpec, ParameterSet
    from bench.comparison.explain import Explained
    from bench.comparison.figures import Figure
    from bench.comparison.report import Comparison
    from bench.comparison.tool_report import ToolsReport
    from bench.data.dataset import Dataset
    from bench.data.gold import Gold
    from bench.evaluation.tune import Tuning
    from bench.gating.bless import Blessed
    from bench.importing.traces.traces import Traffic, read_traffic
    from bench.interface.method import Context, Method, OracleMethod, RecommendingMethod
    from bench.interface.ranking import Ranking, ToolSets
    from bench.interface.views import History, Library, Queries
    from bench.metrics.goldranks import GoldRanks
    from bench.metrics.measure import Measure, SetSizes
    from bench.results.settings import RunSettings
    from bench.search.scoring import EmbeddingMethod, ScoringMethod
    from bench.search.topk import top_k
    from bench.validation.audit import Audit

__version__ = "0.3.0"

# Public name -> the module that defines it. A literal: the code hash of a plug-in reads it to follow `from bench import
# Method` to the code behind the name. The imports above say the same to type checkers; a test compares the two.
_EXPORTS: dict[str, str] = {
    # Find and load
    "load_dataset": "bench.api.catalogue",
    "import_tools": "bench.api.catalogue",
    "read_traffic": "bench.importing.traces.traces",
    "Traffic": "bench.importing.traces.traces",
    "build_method": "bench.api.catalogue",
    "audit": "bench.api.trying",
    "Audit": "bench.validation.audit",
    "tune": "bench.api.trying",
    "Tuning": "bench.evaluation.tune",
    # Measure
    "run": "bench.api.running",
    "RunSettings": "bench.results.settings",
    "score": "bench.api.scoring",
    "load_result": "bench.api.results",
    "Result": "bench.api.results",
    "Results": "bench.api.results",
    # Judge
    "choose": "bench.api.choosing",
    "Choices": "bench.api.choosing",
    "compare": "bench.api.comparing",
    "Comparison": "bench.comparison.report",
    "explain": "bench.api.comparing",
    "Explained": "bench.comparison.explain",
    "plot": "bench.api.comparing",
    "Figure": "bench.comparison.figures",
    "ToolsReport": "bench.comparison.tool_report",
    "bless": "bench.api.gating",
    "Blessed": "bench.gating.bless",
    "gate": "bench.api.gating",
    "GateResult": "bench.api.gating",
    # Write a method
    "Method": "bench.interface.method",
    "OracleMethod": "bench.interface.method",
    "RecommendingMethod": "bench.interface.method",
    "ScoringMethod": "bench.search.scoring",
    "EmbeddingMethod": "bench.search.scoring",
    "Context": "bench.interface.method",
    "ParameterSet": "bench.base.parameters",
    "MethodSpec": "bench.base.parameters",
    "Library": "bench.interface.views",
    "Queries": "bench.interface.views",
    "History": "bench.interface.views",
    "Gold": "bench.data.gold",
    "Ranking": "bench.interface.ranking",
    "ToolSets": "bench.interface.ranking",
    "top_k": "bench.search.topk",
    # Write a metric
    "Measure": "bench.metrics.measure",
    "GoldRanks": "bench.metrics.goldranks",
    "SetSizes": "bench.metrics.measure",
    # Common to all
    "Dataset": "bench.data.dataset",
    "BenchError": "bench.base.errors",
    "config_context": "bench.base.config",
}

# Public functions whose names are packages, too: `bench.methods()` lists what `bench.methods.bm25` is one of.
_LISTS = ("datasets", "methods", "metrics")

__all__ = [
    "Audit",
    "BenchError",
    "Blessed",
    "Choices",
    "Comparison",
    "Context",
    "Dataset",
    "EmbeddingMethod",
    "Explained",
    "Figure",
    "GateResult",
    "Gold",
    "GoldRanks",
    "History",
    "Library",
    "Measure",
    "Method",
    "MethodSpec",
    "OracleMethod",
    "ParameterSet",
    "Queries",
    "Ranking",
    "RecommendingMethod",
    "Result",
    "Results",
    "RunSettings",
    "ScoringMethod",
    "SetSizes",
    "ToolSets",
    "ToolsReport",
    "Traffic",
    "Tuning",
    "__version__",
    "audit",
    "bless",
    "build_method",
    "choose",
    "compare",
    "config_context",
    "datasets",
    "explain",
    "gate",
    "import_tools",
    "load_dataset",
    "load_result",
    "methods",
    "metrics",
    "plot",
    "read_traffic",
    "run",
    "score",
    "top_k",
    "tune",
]


def __getattr__(name: str) -> object:
    """A public name, imported on first use (PEP 562)."""
    if name in _LISTS:
        return _import_module(f"{__name__}.{name}")
    if name not in _EXPORTS:
        raise AttributeError(f"module 'bench' has no attribute {name!r}")
    value: object = getattr(_import_module(_EXPORTS[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, for completion; those not imported yet are among them."""
    return sorted({*globals(), *__all__})


class _List(_ModuleType):
    """A package that can be called: it gives a DataFrame of what it holds (`bench/api/listing.py`)."""

    def __call__(self) -> object:
        return getattr(_import_module("bench.api.listing"), self.__name__.rpartition(".")[2])()


class _Face(_ModuleType):
    """The package `bench`: the import system sets each of its packages as an attribute, whoever imports it first."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in _LISTS and type(value) is _ModuleType:
            # Two of them have no file of their own in which it could be done (`pyproject.toml` says why).
            value.__class__ = _List
        super().__setattr__(name, value)


def _give_face(module: _ModuleType) -> _ModuleType:
    module.__class__ = _Face
    return module


# As "Customizing module attribute access" of Python's data model has it.
_face = _give_face(_sys.modules[__name__])

# Installed, `bench.methods`, `bench.datasets` and `bench.leaderboard` are inside this package
# (the wheel maps the four top-level folders there). In a source checkout they are next to it, so
# the checkout's root is added to the search path. A `pyproject.toml` next to us marks a checkout.
_root = _Path(__file__).resolve().parent.parent
if (_root / "pyproject.toml").is_file() and (_root / "datasets").is_dir():
    __path__.append(str(_root))
del _root
