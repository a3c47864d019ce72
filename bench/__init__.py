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

# Ctrl-C is a sentence from `__main__.py` on, so little is imported here.
import os as _os
import sys as _sys
from importlib import import_module as _import_module
from pathlib import Path as _Path
from types import ModuleType as _ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    # The one statement of the public API: for type checkers, for `_exports`, and for the code hash of a plug-in,
    # which follows `from bench import Method` to the code behind the name (`bench/identity/reach.py`).
    # Sorting would give each name a line of its own.
    # isort: off
    from bench.api.catalogue import (
        build_method as build_method,
        import_tools as import_tools,
        load_dataset as load_dataset,
    )
    from bench.api.comparing import compare as compare, plot as plot
    from bench.api.gating import GateResult as GateResult, bless as bless, gate as gate
    from bench.api.listing import datasets as datasets, methods as methods, metrics as metrics
    from bench.api.results import Result as Result, Results as Results, load_result as load_result
    from bench.api.running import run as run
    from bench.api.scoring import score as score
    from bench.base.config import config_context as config_context
    from bench.base.errors import BenchError as BenchError
    from bench.base.parameters import MethodSpec as MethodSpec, ParameterSet as ParameterSet
    from bench.choices.api import choose as choose
    from bench.choices.report import Choices as Choices
    from bench.comparison.comparison import Comparison as Comparison
    from bench.comparison.figures import Figure as Figure
    from bench.data.dataset import Dataset as Dataset
    from bench.data.gold import Gold as Gold
    from bench.diagnosis.api import explain as explain
    from bench.diagnosis.explain import Explained as Explained
    from bench.diagnosis.tool_report import ToolsReport as ToolsReport
    from bench.gating.bless import Blessed as Blessed
    from bench.interface.method import (
        Context as Context,
        Method as Method,
        OracleMethod as OracleMethod,
        RecommendingMethod as RecommendingMethod,
    )
    from bench.interface.ranking import Ranking as Ranking, ToolSets as ToolSets
    from bench.interface.views import History as History, Library as Library, Queries as Queries
    from bench.metrics.goldranks import GoldRanks as GoldRanks
    from bench.metrics.measure import (
        Measure as Measure,
        RankingMeasure as RankingMeasure,
        SetMeasure as SetMeasure,
        SetSizes as SetSizes,
    )
    from bench.results.settings import RunSettings as RunSettings
    from bench.robustness.api import stress as stress
    from bench.robustness.report import Stress as Stress
    from bench.search.scoring import EmbeddingMethod as EmbeddingMethod, ScoringMethod as ScoringMethod
    from bench.search.topk import top_k as top_k
    from bench.traces.traces import Traffic as Traffic, read_traffic as read_traffic
    from bench.tuning.api import tune as tune
    from bench.tuning.tune import Tuning as Tuning
    from bench.validation.api import audit as audit
    from bench.validation.audit import Audit as Audit

__version__ = "0.3.0"
__all__: list[str]
# Public functions whose names are packages, too: `bench.methods()` lists what `bench.methods.bm25` is one of.
_LISTS = ("datasets", "methods", "metrics")
_EXPORTS: dict[str, str] = {}


def _exports() -> dict[str, str]:
    """Public name -> the module that defines it, as the block for type checkers above imports it."""
    if not _EXPORTS:
        import ast

        with open(__file__, encoding="utf-8") as file:
            block = next(node for node in ast.parse(file.read()).body if isinstance(node, ast.If))
        imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
        # A building that is not installed (`bench/base/plugins.py`) has no names here.
        rooms = {entry.name for folder in __path__ for entry in _os.scandir(folder)}
        _EXPORTS.update(
            {
                name.name: node.module
                for node in imports
                if node.module and node.module.split(".")[1] in rooms
                for name in node.names
            }
        )
    return _EXPORTS


def __getattr__(name: str) -> object:
    """A public name, imported on first use (PEP 562)."""
    if name in _LISTS:
        return _import_module(f"{__name__}.{name}")
    if name == "__all__":
        return sorted(["__version__", *_exports()])
    if name.startswith("_") or name not in _exports():
        raise AttributeError(f"module 'bench' has no attribute {name!r}")
    value: object = getattr(_import_module(_exports()[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, for completion; those not imported yet are among them."""
    return sorted({*globals(), *_exports()})


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
