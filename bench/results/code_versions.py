"""The versions of code: of a method, of each measure, of intervals, of tie bands, of token counts, of a template.

A result belongs to the code of its method, and a number compares with an older one only if the same code made both.
This module defines what each hash covers: where `bench.identity.reach` starts and what it leaves out; and which older
code of methods is known to give the rankings of newer code. Runs, re-scoring and `lookup` use it.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from bench.base.errors import UsageError
from bench.base.records import Record
from bench.data.tables import TOOL_TEXTS, Tool, render_tool
from bench.identity.reach import Definition, Reached, definition_of, reach, reach_modules
from bench.identity.used import Used, count_used, definitions_used, use_of, used_now, user_file
from bench.interface.parts import methods_of
from bench.metrics import parse_metrics
from bench.results.manifest import ScoringCode

if TYPE_CHECKING:
    from bench.data.template import Template
    from bench.interface.method import Method
    from bench.metrics.measure import Measure


def _in(module: str, *names: str) -> tuple[Definition, ...]:
    """Definitions by name: a hash reads their modules without importing them."""
    return tuple(Definition(f"bench.{module}", name) for name in names)


#: Code of methods known to give the same rankings, written by `benchmarks/samemethods.py`.
SAME_METHODS = Path(__file__).with_name("same_methods.json")
#: Arguments of methods and measures: no name in their code leads to these.
_RANKED = _in("interface.ranking", "Ranking", "ToolSets")
_GOLD = (*_in("data.gold", "Gold"), *_in("data.goldgroups", "GoldGroups"))
_RANKS = _in("metrics.goldranks", "GoldRanks")
_GIVEN = (
    *_in("interface.views", "Library", "History", "Queries"),
    *(*_RANKED, *_GOLD, *_in("data.tables", "Tool")),
)
_MEASURED = (*_GOLD, *_RANKS, *_in("metrics.measure", "SetSizes", "Confidence", "Metric"), *_RANKED)
#: Code that computes the values of every measure.
_SHARED = (*_in("metrics.evaluate", "evaluate", "mean"), *_in("stats.repeats", "repeat_means"))
#: Further code for some kinds of measures, by the function that makes their values.
_MAKERS = {
    "destructive": (*_in("metrics.destructive", "with_destructive"), *_in("data.hints", "destructive_tools")),
    "chance": (*_in("metrics.chance", "with_chance"), *_in("metrics.measure", "Draws")),
}
#: The members of a method that the harness uses for rankings and tool sets. The others (`explain`, `facts`, `marks`,
#: ...) only report what the method did.
CALLED = frozenset({"Parameters", "batch_size", "fit", "index", "rank", "recommend", "reveal"})
#: Code without influence on numbers: errors, progress, secrets, explanations, locks, limits of spending; how a user
#: creates and tries a method; which other templates exist; when a ranking is computed by compiled code.
_NO_PART = (
    *("bench.base.errors", "bench.base.progress", "bench.base.bars", "bench.base.secrets", "bench.base.locks"),
    *("bench.base.keys", "bench.interface.explanation", "bench.interface.construction", "bench.models.llm.budget"),
    *("bench.data.tables:TOOL_TEXTS", "bench.search.lexical:Work"),
)
#: Checks of a method before it runs do not change sets.
_CHECKS = ("bench.evaluation.method_errors",)
#: Scoring of answers; values of some kinds; intervals, and values expected by chance.
_SCORING = "bench.evaluation.scoring"
_KINDS = ("bench.metrics.destructive", "bench.metrics.chance", "bench.metrics.ties")
_SPREAD = ("bench.results.intervals", "means_and_intervals"), ("bench.results.repeats", "variations")
#: Records that store numbers, and the hashes beside them.
_STORED = ("bench.results.manifest", "bench.results.code_versions", "bench.identity")
#: Modules that declare tools, and metrics.
_DECLARATIONS = ("bench.data.tables", "bench.metrics.measure")
#: Fields of a measure that decide its values; its name and descriptions do not.
_DECLARED = ("cutoffs", "queries", "higher_is_better", "monotone")
#: The classes that declare measures: a measure counts by its own fields.
_KINDS_OF_MEASURES = tuple(
    f"bench.metrics.measure:{kind}Measure"
    for kind in ("", "Ranking", "Set", "Abstention", "Forbidden", "Destructive", "Confidence", "Chance")
)


def method_code(method: Method, used: Used | None = None) -> str:
    """sha256 over the code of a method and of its parts.

    For a method of bench, this is the code that it reaches. For a user's method, it is the code used in this process so
    far.

    Args:
        method: the method.
        used: what the code of a user's method had used when it made a result. If its modules import nothing else now,
            the hash covers the same files and packages in their current state.

    Raises:
        UsageError: a file was edited after this process imported or read it, so the running code differs from the file;
            or the source of a method cannot be read.
    """
    kinds = sorted({type(part) for part in methods_of(method)}, key=lambda kind: (kind.__module__, kind.__qualname__))
    now = method_use(method)
    if now is None:
        code = _methods_hash(kinds)
        for kind in kinds:
            kind_code = _methods_hash([kind])
            if _LOADED.setdefault(kind, kind_code) != kind_code:
                raise UsageError(
                    f"{kind.__module__}, or a module that it imports, was edited after this process had imported it, "
                    "so that the old code would run under the name of the new; start the process (or the notebook) "
                    "again."
                )
        return same_methods().names.get(code, code)
    modules = _modules_outside(method)
    if used is not None and (still := used_now(used, modules[0])).includes(now):
        now = still
    roots, words = definitions_used(now, modules)
    if any(hasattr(type(part), "loaded") for part in methods_of(method)):
        roots.append(Definition("bench.registry.functions", "function_method"))
    ours = [kind for kind in kinds if kind.__module__.startswith("bench.")]
    return hashlib.sha256(f"{_methods_hash(ours, roots, words)} {now.digest()}".encode()).hexdigest()


def method_use(method: Method) -> Used | None:
    """What the code of a user's method or of its parts has used so far; None if all of them belong to bench.

    Raises:
        UsageError: as in `method_code`.
    """
    modules = _modules_outside(method)
    if not modules:
        return None
    theirs = [part.parameters for part in methods_of(method) if not type(part).__module__.startswith("bench.")]
    given = [value for parameters in theirs for value in vars(parameters).values()]
    values = [item for value in given for item in (value if isinstance(value, tuple | list) else (value,))]
    return use_of(modules, [str(item) for item in values if isinstance(item, str | Path) and os.path.isfile(item)])


def resume_use(method: Method, used: Used) -> bool:
    """Mark what a user's method used in an earlier process as used; False if any of it has changed."""
    modules = _modules_outside(method)
    same = bool(modules) and used_now(used, modules[0]) == used
    if same:
        count_used(used, modules[0])
    return same


def _modules_outside(method: Method) -> list[str]:
    """The modules of the classes and functions of a method and its parts, except bench's own."""
    modules = list[str]()
    for kind in map(type, methods_of(method)):
        function = getattr(kind, "loaded", None)
        modules += [kind.__module__, *([] if function is None else [str(getattr(function, "__module__", None))])]
        modules += [above.__module__ for above in kind.__mro__ if user_file(above.__module__)]
    return [name for name in dict.fromkeys(modules) if name.partition(".")[0] != "bench"]


class SameMethods(Record):
    """Which older code of methods gives the rankings of which newer code.

    Attributes:
        made_by: the command that verified it.
        rankings: number of rankings compared.
        texts: template -> the hash of its code at the time.
        methods: hash of older code -> of newer code.
        names: hash of newer code -> of older code that gives the same rankings, and whose results keep their names
            (`method_code`).
        nearly: older code whose embedding scores differ in their last bits, as between runs that batch texts
            differently; all values of queries are the same.
        only: older code that gives the rankings of newer code on some data -> content hashes of the datasets for which
            this was verified. On other data, the change of code was meant to change rankings.
    """

    made_by: str
    rankings: int
    texts: dict[str, str]
    methods: dict[str, str]
    names: dict[str, str] = {}
    nearly: list[str] = []
    only: dict[str, list[str]] = {}


@functools.cache
def same_methods() -> SameMethods:
    """The records about older code."""
    return SameMethods.model_validate_json(SAME_METHODS.read_bytes())


def method_packages(method: Method) -> frozenset[str]:
    """The import names of third-party packages that the code of a method and its parts uses."""
    used = method_use(method)
    kinds = {type(part) for part in methods_of(method)}
    ours = of_methods(kind for kind in kinds if kind.__module__.startswith("bench.")).packages
    return ours if used is None else ours | used.packages.keys()


#: Class or function of a method -> the hash of its code when first requested.
_LOADED: WeakKeyDictionary[object, str] = WeakKeyDictionary()


def _methods_hash(kinds: list[type[Method]], roots: Iterable[Definition] = (), words: Iterable[str] = ()) -> str:
    try:
        return of_methods(kinds, roots, words).hash()
    except (LookupError, OSError, RecursionError, SyntaxError) as error:
        raise UsageError(
            f"the code of the method cannot be read, so that no result could be identified by it ({error}); save it "
            "in a .py file."
        ) from None


def of_methods(kinds: Iterable[type[Method]], roots: Iterable[Definition] = (), words: Iterable[str] = ()) -> Reached:
    """What the code of bench's methods reaches, and what a user's code uses of bench (`roots` with these words).

    Raises:
        LookupError: the source of a method cannot be found.
    """
    # A method that uses another tool text than the run's names its template.
    templates = {name: definition_of(text) for name, text in TOOL_TEXTS.items()}
    starts = [*_GIVEN, *map(definition_of, kinds), *roots, *(templates[word] for word in words if word in templates)]
    return reach(starts, CALLED.union(words), _NO_PART, named=templates)


@functools.cache
def template_hash(template: Template) -> str:
    """sha256 over the code that makes the text of a tool by a template."""
    return reach([definition_of(TOOL_TEXTS.get(template, render_tool)), definition_of(Tool)], without=_NO_PART).hash()


@functools.cache
def cut_hash() -> str:
    """sha256 over the code that turns rankings into tool sets."""
    return reach_modules("bench.evaluation.cut", without=(*_NO_PART, *_CHECKS)).hash()


@functools.cache
def measure_hash(measure: Measure) -> str:
    """sha256 over the code that makes the values of one measure.

    Other measures, comments and docstrings do not change it.

    Raises:
        UsageError: the source of a plug-in's function cannot be read.
    """
    # The hash covers the fields of a measure and the queries it is taken on, not the class of its kind.
    taken = type(measure).taken
    roots = [Definition(taken.__module__, taken.__qualname__), Definition(_SCORING, "_part"), *_SHARED, *_MEASURED]
    # Other kinds of values that the code makes do not belong to the measure.
    aside = {"with_destructive", "with_chance", "tie_band", "_tokens", "_ToolTokens", "_confidence"}
    if measure.kind == "confidence":
        aside.remove("_confidence")
    if measure.kind in _MAKERS:
        aside.remove(f"with_{measure.kind}")
        roots += _MAKERS[measure.kind]
    values: list[object] = [measure.kind, *(getattr(measure, name, None) for name in _DECLARED)]
    try:
        _take(measure.function, roots, values)
        outside = list(dict.fromkeys(root.module for root in roots if not root.module.startswith("bench.")))
        called = set[str]()
        if outside:
            used = use_of(outside)
            more, called = definitions_used(used, outside)
            roots = [*(root for root in roots if root.module not in outside), *more]
            values.append(used.digest())
        without = [f"{module}:{name}" for module in (_SCORING, *_KINDS) for name in aside]
        return reach(roots, called, (*_NO_PART, *_KINDS_OF_MEASURES, *without), values).hash()
    except (LookupError, OSError, RecursionError, SyntaxError) as error:
        raise UsageError(
            f"the code of the metric {measure.name!r} cannot be read ({error}): define its function in a module that "
            "has a source file."
        ) from None


@functools.cache
def interval_hash() -> str:
    """sha256 over the code of confidence intervals."""
    roots = [Definition(*name) for name in _SPREAD]
    return reach(roots, without=(*_NO_PART, *_STORED, "bench.metrics")).hash()


@functools.cache
def ties_hash() -> str:
    """sha256 over the code of tie bands.

    The declaration of a measure has its own hash.
    """
    roots = [*_in("metrics.ties", "tie_band"), Definition(_SCORING, "with_bands")]
    return reach(roots, without=(*_NO_PART, *_STORED, *_KINDS_OF_MEASURES)).hash()


@functools.cache
def token_hash() -> str:
    """sha256 over the code that counts tokens."""
    roots = [*_in("models.tokens", "count_tokens"), Definition(_SCORING, "_tokens")]
    return reach(roots, without=_NO_PART).hash()


@functools.cache
def lenient_hash() -> str:
    """sha256 over the code that finds alternatives and their ranks.

    Measures have their own hashes, and the declaration of tools does not change the rules.
    """
    roots = [*_in("data.alternatives", "with_alternatives"), *_in("metrics.evaluate", "evaluate_groups", "mean")]
    roots += [*_GOLD, *_RANKS, *_in("evaluation.lenient", "lenient_gold", "lenient_mean")]
    return reach(roots, without=(*_NO_PART, *_STORED, *_DECLARATIONS)).hash()


def scoring_code(metrics: Iterable[str]) -> ScoringCode:
    """The hashes of the code of this process for these metrics (canonical names), intervals and token counts."""
    measures = {metric.measure.name: measure_hash(metric.measure) for metric in parse_metrics(metrics)}
    return ScoringCode(measures=dict(sorted(measures.items())), intervals=interval_hash(), tokens=token_hash())


def _take(function: Callable[..., Any], roots: list[Definition], values: list[object]) -> None:
    """Add a function with the values bound to it by a partial or a closure.

    Other values of a user's function are in its module, which the hash covers as a whole.
    """
    if isinstance(function, functools.partial):
        for value in (*function.args, *(part for item in sorted(function.keywords.items()) for part in item)):
            _take_value(value, roots, values)
        _take(function.func, roots, values)
    elif isinstance(function, FunctionType):
        # `functools.wraps` copies the names of the wrapped function, which is in the closure.
        made = function.__code__.co_qualname
        roots.append(Definition(function.__globals__["__name__"], made.partition(".")[0]))
        values.append(made)
        for cell in function.__closure__ or ():
            with suppress(ValueError):  # it is empty
                _take_value(cell.cell_contents, roots, values)
    else:
        roots.append(definition_of(getattr(function, "__wrapped__", function)))
        values.append(getattr(function, "__qualname__", ""))


def _take_value(value: object, roots: list[Definition], values: list[object]) -> None:
    if isinstance(value, FunctionType | functools.partial):
        _take(value, roots, values)
    elif isinstance(value, str | bytes | int | float | complex | tuple | list | set | frozenset | dict | None):
        values.append(sorted(value, key=repr) if isinstance(value, set | frozenset) else value)
    else:
        values.append(type(value).__qualname__)
