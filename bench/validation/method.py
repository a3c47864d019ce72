"""Conformance tests: does a method follow the protocol?

Authors of methods run them with `bench check method NAME`, or call `check_method` in their own tests. Each check runs
the method on small libraries and compares answers that must agree; quality is not judged.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.base.config import config_context
from bench.base.errors import BenchError, MethodError, raised_at
from bench.data.card import Card
from bench.data.dataset import Dataset
from bench.data.tables import Edge, Parameter, Query, Tables, Tool
from bench.evaluation.agreement import FEWEST, describe_alike, place_of_difference
from bench.evaluation.ask import fit_and_index
from bench.evaluation.method_errors import check_facts, check_parts, check_revisions
from bench.identity.used import watch_use
from bench.interface import History, Library, Method, Queries, Ranking, RecommendingMethod, ToolSets
from bench.interface.parts import has_chance, methods_of, preflight
from bench.interface.ranking import Violation, validate, validate_sets

_MOST_QUERIES = 24
_MOST_NAMED = 3


@dataclass(frozen=True)
class Check:
    """The outcome of one check; `problem` is empty if it passed."""

    name: str
    problem: str = ""
    skipped: str = ""


class _Failed(Exception):
    """A check found a problem."""


class _Skipped(Exception):
    """A check does not apply."""


def check_method(build: Callable[[], Method], dataset: Dataset) -> Iterator[Check]:
    """Run every check on fresh instances of a method.

    The dataset is a real one, for checks that need natural text; the small libraries are built in.
    """
    kit = _Kit(build, dataset)
    for name, check in kit.checks():
        try:
            check()
        except _Failed as failure:
            yield Check(name, str(failure))
        except _Skipped as reason:
            yield Check(name, skipped=str(reason))
        except Violation as violation:
            yield Check(name, f"it {violation}")
        except MethodError as error:
            # An exception of the method is reported as the failure of the check that called it.
            raised = error.__cause__
            yield Check(name, str(error) if raised is None else kit.describe(raised))
        except BenchError as error:
            yield Check(name, str(error))
        except (Exception, SystemExit) as error:
            yield Check(name, kit.describe(error))
        else:
            yield Check(name)


class _Kit:
    def __init__(self, build: Callable[[], Method], dataset: Dataset) -> None:
        self.build = build
        self.dataset = dataset
        rows = dataset.rows("test")
        self.rows = rows[np.linspace(0, len(rows) - 1, min(_MOST_QUERIES, len(rows))).round().astype(np.int64)]
        self.library = Library.of(dataset, dataset.card.template)
        self.queries = Queries.of(dataset, self.rows)

    def checks(self) -> list[tuple[str, Callable[[], None]]]:
        """Name and function of each check, in order; failures of early checks explain those of later ones."""
        return [
            ("documented: the class has a docstring and every parameter a description", self.documented),
            ("parts: it declares every method and model that it is built of", self.declared),
            ("facts: facts() and revisions() can be stored in a manifest", self.describes_itself),
            ("valid: rankings keep rule 4 at depth 1, 5 and beyond the library", self.valid),
            ("deterministic: two instances give the same rankings", self.deterministic),
            ("repeats: without `has_chance`, another repeat of a run gives the same rankings", self.repeats),
            ("order: a query's ranking does not depend on the order of the queries", self.order),
            ("batches: nor on what else is in the batch", self.batches),
            ("depth: a deeper ranking begins with the shallower one", self.depth),
            ("queries: different queries do not all get the same answer", self.answers_differ),
            ("odd queries: empty, blank, very long and non-Latin texts are answered", self.odd_queries),
            ("tiny library: one tool", self.tiny_library),
            ("odd library: empty and repeated texts, no parameters", self.odd_library),
            ("no leak: an instance that processed another dataset first gives the same rankings", self.no_leak),
            ("inputs: it does not change the arrays it receives", self.inputs),
            ("sets: recommended sets are valid and do not depend on the batch", self.sets),
            ("reads: its results name everything that it reads", self.reads),
        ]

    def describe(self, error: BaseException) -> str:
        """The exception of the method, with the file and line of its author's code."""
        try:
            modules = {type(part).__module__ for part in methods_of(self.build())}
        except (Exception, SystemExit):
            modules = set()  # it cannot be built, which the checks report
        return f"it raised {type(error).__name__}: {error}{raised_at(error, modules)}"

    # -- helpers ---------------------------------------------------------------------------------------------------

    def prepare(self, dataset: Dataset | None = None, method: Method | None = None) -> Method:
        """A fitted and indexed instance."""
        method = method or self.build()
        dataset = dataset or self.dataset
        library = Library.of(dataset, dataset.card.template)
        return self.fit(method, dataset, library, History.of(dataset, library, dataset.rows("test")))

    def fit(self, method: Method, dataset: Dataset, library: Library, history: History) -> Method:
        """An instance, fitted on a history and indexed on a library."""
        try:
            preflight(method, library, history)
        except BenchError as refusal:
            if dataset is self.dataset:
                raise
            raise _Skipped(f"it refuses the small library: {refusal}") from None
        rows = self.rows if dataset is self.dataset else dataset.rows("test")
        fit_and_index(method, library, history, dataset.gold.take(rows))
        return method

    @cached_property
    def ready(self) -> Method:
        """One prepared instance that the read-only checks share."""
        return self.prepare()

    @cached_property
    def plain(self) -> Ranking:
        """The first 20 tools that this instance ranks for each query."""
        return self.rank(self.ready, self.queries, 20)

    def rank(self, method: Method, queries: Queries, depth: int, library: int | None = None) -> Ranking:
        """A validated ranking."""
        size = len(self.library) if library is None else library
        return validate(method.rank(queries, depth), len(queries), size, depth)

    def agree(self, one: Ranking, two: Ranking, what: str) -> None:
        """Raise unless two rankings of the queries are the same, except for tools with nearly equal scores."""
        for row, text in enumerate(self.queries.texts):
            if (at := place_of_difference(one, two, row)) is not None:
                raise _Failed(f"{what}: the rankings of {text[:60]!r} part at rank {at + 1}")

    # -- checks ----------------------------------------------------------------------------------------------------

    def documented(self) -> None:
        method = self.build()
        if not inspect.getdoc(type(method)) or type(method).__doc__ is None:
            raise _Failed("the class has no docstring")
        silent = [name for name, field in type(method.parameters).model_fields.items() if not field.description]
        if silent:
            raise _Failed(f"the parameter {silent[0]!r} has no description")

    def declared(self) -> None:
        for method in (self.build(), self.ready):
            check_parts(method)

    def describes_itself(self) -> None:
        check_facts(self.ready)
        check_revisions(self.ready)

    def valid(self) -> None:
        for depth in (1, 5, len(self.library) + 7):
            self.rank(self.ready, self.queries, depth)

    def deterministic(self) -> None:
        self.agree(self.plain, self.rank(self.prepare(), self.queries, 20), "a second instance differs")

    def repeats(self) -> None:
        if has_chance(self.ready):
            return
        with config_context(repeat=2):
            again = self.rank(self.prepare(), self.queries, 20)
        self.agree(self.plain, again, "a second repeat differs, and it does not set `has_chance`")

    def order(self) -> None:
        backwards = np.arange(len(self.queries))[::-1]
        turned = self.rank(self.ready, self.queries.take(backwards), 20).take(backwards)
        self.agree(self.plain, turned, "backwards they differ")

    def batches(self) -> None:
        singles = [self.rank(self.ready, self.queries.take(np.array([i])), 20) for i in range(len(self.queries))]
        self.agree(self.plain, Ranking.join(singles), "one by one they differ")

    def depth(self) -> None:
        shallow, deep = self.rank(self.ready, self.queries, 5), self.plain
        head = Ranking(deep.tools[:, :5], None if deep.scores is None else deep.scores[:, :5])
        self.agree(shallow, head, "depth 5 differs from the first 5 of depth 20")

    def answers_differ(self) -> None:
        if self.ready.is_floor:
            raise _Skipped("it declares that it looks at no query (`is_floor`)")
        if len({*self.queries.texts}) < FEWEST:
            raise _Skipped(f"the dataset has fewer than {FEWEST} different test queries")
        if not (self.plain.tools >= 0).any():
            raise _Failed(f"it answers none of {len(self.queries)} queries")
        if alike := describe_alike(self.plain, self.queries.texts, len(self.library)):
            raise _Failed(f"{alike}; a method that is meant to look at no query sets `is_floor`")

    def odd_queries(self) -> None:
        texts = ("", "   \n\t", "?" * 40, "word " * 3000, "帮我订一张去上海的机票", "🙂", "\u202eabc\u0000")
        # The positions are those of other queries: only an oracle uses them, and it knows no other positions.
        self.rank(self.ready, Queries(texts, np.arange(len(texts)) % len(self.rows)), 10)

    def tiny_library(self) -> None:
        small = _small_dataset([Tool("only", "only", "Sends a letter.", "post", "Post")])
        method = self.prepare(small)
        self.rank(method, Queries.of(small, small.rows("test")), 10, 1)

    def odd_library(self) -> None:
        method = self.prepare(_ODD)
        self.rank(method, Queries.of(_ODD, _ODD.rows("test")), 10, len(_ODD.tools))

    def no_leak(self) -> None:
        before, method = self.plain, self.prepare(_ODD)
        method.rank(Queries.of(_ODD, _ODD.rows("test")), 5)
        after = self.rank(self.ready, self.queries, 20)
        self.agree(before, after, "once another instance saw another dataset they differ")
        used = self.rank(self.prepare(method=method), self.queries, 20)
        self.agree(before, used, "after another dataset they differ")

    def inputs(self) -> None:
        library = Library.of(self.dataset, self.dataset.card.template)
        history = History.of(self.dataset, library, self.dataset.rows("test"))
        queries = Queries.of(self.dataset, self.rows)
        gold = history.gold
        watched: list[NDArray[Any]] = [gold.starts, gold.tools, gold.grades, history.split, library.edges, queries.rows]
        before = [array.copy() for array in watched]
        method = self.fit(self.build(), self.dataset, library, history)
        method.rank(queries, 10)
        if any((old != new).any() for old, new in zip(before, watched, strict=True)):
            raise _Failed("it changed an array that it was given")

    def sets(self) -> None:
        method = self.ready
        if not isinstance(method, RecommendingMethod):
            raise _Skipped("it recommends no sets")
        together = validate_sets(method.recommend(self.queries), len(self.queries), len(self.library))
        for i in range(len(self.queries)):
            alone: ToolSets = method.recommend(self.queries.take(np.array([i])))
            if set(alone.row(0).tolist()) != set(together.row(i).tolist()):
                raise _Failed(f"the set of {self.queries.texts[i][:60]!r} depends on the batch")

    def reads(self) -> None:
        with watch_use() as seen:
            method = self.prepare()
            method.rank(self.queries, 10)
        if seen.outside:
            names = ", ".join(sorted(seen.outside)[:_MOST_NAMED])
            raise _Failed(
                f"its answers may depend on {names}, by which no result is named: make it a parameter, or return what "
                "it says from revisions()"
            )


def _small_dataset(tools: list[Tool]) -> Dataset:
    """A small dataset of past queries and a test query, all with the first tool as gold."""
    card = Card(id="conformance", title="", summary="", licence="", redistribution=True, template="name_description")
    gold = {tools[0].tool_id: 1}
    queries = [
        Query("1", "Post a letter to my aunt", gold, "train"),
        Query("2", "What is on tonight?", {tools[-1].tool_id: 1}, "train"),
        Query("3", "write to the landlord", gold, "dev"),
        Query("4", "I need to mail something", gold, "test"),
        Query("5", "", gold, "test"),
    ]
    edges = [Edge(tools[-1].tool_id, tools[0].tool_id, "result")] if len(tools) > 1 else []
    return Dataset.build("conformance", card, Tables(tools, queries, edges))


_ODD = _small_dataset(
    [
        Tool("a", "send", "Sends a letter.", "post", "Post", (Parameter("address", "string"),), '{"id": "str"}'),
        Tool("b", "send", "Sends a letter.", "post", "Post", (Parameter("address", "string"),), '{"id": "str"}'),
        Tool("c", "", "", "", ""),
        Tool("d", "", "", "", ""),
        Tool("e", "Größe 大小 🙂", "...", "", "x"),
        Tool("f", "track", "Follows a letter. " * 400, "post", "Post", (Parameter("id", "string"),)),
    ]
)
