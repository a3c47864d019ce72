"""The conformance kit: every built-in method passes, and each way of breaking the protocol fails the check for it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from pydantic import Field

from bench.base.config import repeat_seed
from bench.base.errors import DataError
from bench.base.parameters import ParameterSet
from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.data.tables import Tables
from bench.interface import Context, History, Library, Method, Queries, Ranking, ToolSets
from bench.registry import build_method, load_dataset, method_class, method_names
from bench.search.topk import top_k
from bench.validation.method import Check, check_method

CHECKS = (
    "documented parts facts valid deterministic repeats order batches depth queries odd_queries tiny_library "
    "odd_library no_leak inputs sets reads"
).split()


@cache
def part_of_starter() -> Dataset:
    """A few queries of each split with the tools they need: little to encode, and real text."""
    whole = load_dataset("starter")
    queries = [
        query
        for split, number in (("test", 6), ("train", 5), ("dev", 2))
        for query in [q for q in whole.queries if q.split == split and len(q.gold) <= 2][:number]
    ]
    wanted = {tool for query in queries for tool in query.gold}
    tools = [tool for tool in whole.tools if tool.tool_id in wanted]
    edges = [edge for edge in whole.edges if {edge.dependent, edge.prerequisite} <= wanted]
    return Dataset.build("starter", whole.card, Tables(tools, queries, edges))


def checked(build: Callable[[], Method]) -> dict[str, Check]:
    """The kit's checks by the first words of their names."""
    by_key = {check.name.partition(":")[0].replace(" ", "_"): check for check in check_method(build, part_of_starter())}
    assert list(by_key) == CHECKS
    return by_key


def problems(kind: type[Method]) -> dict[str, str]:
    """What the kit finds wrong with a class, by check."""

    def build() -> Method:
        method = kind(kind.Parameters(), Context(build_method))
        method.name = kind.__name__
        return method

    return {name: check.problem for name, check in checked(build).items() if check.problem}


def with_models(name: str, models: dict[str, str]) -> str:
    """The spec of a method, with untrained models for those that are of no use without trained ones."""
    if name not in {"rerank", "toolrerank", "toolrerank-oracle"}:
        return name
    given = {"base": f"dense(encoder={models['encoder']})", "reranker": models["reranker"]}
    if name == "toolrerank":
        given["classifier"] = models["classifier"]
    return f"{name}({', '.join(f'{key}={value}' for key, value in given.items())})"


#: `choose`, `http`, `command`, `mcp` and `rankgpt` need something to ask, and are checked with theirs in tests/methods.
@pytest.mark.parametrize("name", sorted(set(method_names()) - {"choose", "http", "command", "mcp", "rankgpt"}))
def test_every_built_in_method_passes(name: str, tiny_models: dict[str, str]) -> None:
    result = checked(lambda: build_method(with_models(name, tiny_models)))
    assert {check: outcome.problem for check, outcome in result.items() if outcome.problem} == {}
    recommends = hasattr(method_class(name), "recommend")
    skipped = {check for check, outcome in result.items() if outcome.skipped}
    # Six queries are too few to tell whether a method looks at them.
    assert skipped == {"queries"} | (set() if recommends else {"sets"})


class Constant(Method):
    """Gives all queries the same tools, in an order of their own or not."""

    turns: ClassVar[bool] = False

    def index(self, library: Library) -> None:
        self.size = min(5, len(library))

    def rank(self, queries: Queries, depth: int) -> Ranking:
        turns = [len(text) % self.size if self.turns else 0 for text in queries.texts]
        return Ranking.of_lists([[(turn + i) % self.size for i in range(min(depth, self.size))] for turn in turns])


class Turning(Constant):
    """In other orders."""

    turns = True


class Echo(Constant):
    """Gives every query what the first one that it was asked should get."""

    first: int | None = None

    def rank(self, queries: Queries, depth: int) -> Ranking:
        if self.first is None:
            self.first = len(queries.texts[0]) % self.size
        return Ranking.of_lists([[self.first]] * len(queries))


class Mute(Constant):
    """Answers nothing."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return Ranking.empty(len(queries))


class Declared(Constant):
    """Says that it looks at no query."""

    is_floor = True


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (Constant, "have the same 5 tools in the same order; a method that is meant to look at no query sets"),
        (Turning, "have the same 5 tools, in other orders;"),
        (Echo, "are the same tool;"),
        (Mute, "it answers none of 24 queries"),
        (Declared, ""),
    ],
)
def test_a_method_that_ignores_the_query_is_found(kind: type[Method], problem: str) -> None:
    checks = check_method(lambda: kind(kind.Parameters(), Context(build_method)), load_dataset("starter"))
    (check,) = [check for check in checks if check.name.startswith("queries:")]
    assert problem in check.problem
    assert bool(check.problem) == bool(problem)
    assert check.skipped == ("" if problem else "it declares that it looks at no query (`is_floor`)")


# Methods that break the protocol ------------------------------------------------------------------------------------


class Good(Method):
    """Ranks tools by the letters that they share with the query."""

    class Parameters(ParameterSet):
        weight: float = Field(1.0, description="what a letter is worth")

    def index(self, library: Library) -> None:
        self.letters = [set(text.lower()) for text in library.texts]

    def shared(self, queries: Queries) -> NDArray[np.float64]:
        return np.array(
            [[len(set(text.lower()) & letters) for letters in self.letters] for text in queries.texts], dtype=np.float64
        )

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return top_k(self.shared(queries), depth)


class NoDocstring(Good):
    pass


NoDocstring.__doc__ = None


class SilentParameter(Good):
    """Has a parameter that nobody explains."""

    class Parameters(ParameterSet):
        weight: float = 1.0


class TooDeep(Good):
    """Returns one tool more than asked for."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return super().rank(queries, depth + 1)


class Twice(Good):
    """Returns the first tool twice."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return Ranking.of_lists([[0, 0][:depth]] * len(queries))


class Stranger(Good):
    """Returns a tool that there is not."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return Ranking.of_lists([[len(self.letters)]] * len(queries))


class NotANumber(Good):
    """Divides zero by zero for one query."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        ranking = super().rank(queries, depth)
        assert ranking.scores is not None
        ranking.scores[-1, 0] = np.nan
        return ranking


class Moody(Good):
    """Gives another random order at every call."""

    draws: ClassVar[Iterator[int]] = count()

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return top_k(np.random.default_rng(next(self.draws)).random((len(queries), len(self.letters))), depth)


class Unseeded(Good):
    """Draws once for each instance."""

    draws: ClassVar[Iterator[int]] = count()

    def index(self, library: Library) -> None:
        super().index(library)
        self.noise = np.random.default_rng(next(self.draws)).random(len(library)) * 9

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return top_k(self.shared(queries) + self.noise, depth)


class Repeats(Good):
    """Draws again in each repeat, and does not say so."""

    def index(self, library: Library) -> None:
        super().index(library)
        self.noise = np.random.default_rng(repeat_seed(0)).random(len(library)) * 9

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return top_k(self.shared(queries) + self.noise, depth)


class SaysSo(Repeats):
    """Draws again in each repeat, and says so."""

    has_chance = True


class ByPlace(Good):
    """Lets the place of a query in the batch decide, but for single queries."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        scores = self.shared(queries)
        scores[1::2] *= -1
        return top_k(scores, depth)


class ByCompany(Good):
    """Turns round when the query is alone."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return top_k(self.shared(queries) * (1 if len(queries) > 1 else -1), depth)


class ByDepth(Good):
    """Turns round when few tools are asked for."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return top_k(self.shared(queries) * (1 if depth > 10 else -1), depth)


class NeedsWords(Good):
    """Looks at the first word of a query."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        assert all(text.split()[0] for text in queries.texts)
        return super().rank(queries, depth)


class NeedsTwoTools(Good):
    """Looks at the second tool."""

    def index(self, library: Library) -> None:
        super().index(library)
        self.second = library.tools[1]


class NeedsText(Good):
    """Divides by the length of a tool's description."""

    def index(self, library: Library) -> None:
        super().index(library)
        self.lengths = [1 / len(tool.description) for tool in library.tools]


class Remembers(Good):
    """Keeps in its class how large the libraries were that there ever were."""

    sizes: ClassVar[set[int]] = set()

    def index(self, library: Library) -> None:
        super().index(library)
        self.sizes.add(len(library))
        self.sign = 1 if len(self.sizes) == 1 else -1

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return top_k(self.shared(queries) * self.sign, depth)


class LastWins(Good):
    """Keeps what it has indexed in its class: the next instance takes it away."""

    letters: ClassVar[list[set[str]]] = []  # type: ignore[misc]  # the fault that is looked for

    def index(self, library: Library) -> None:
        type(self).letters = [set(text.lower()) for text in library.texts]


class Grows(Good):
    """Adds to what it knows of the last library."""

    def __init__(self, parameters: ParameterSet, context: Context) -> None:
        super().__init__(parameters, context)
        self.seen = 0

    def index(self, library: Library) -> None:
        super().index(library)
        self.seen += len(library)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        # Right as long as it has seen one library only.
        return top_k(self.shared(queries) * (1 if self.seen == len(self.letters) else -1), depth)


class CountsRows(Good):
    """Counts up the row numbers it is given."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        queries.rows[:] += 1
        return super().rank(queries, depth)


class ClearsRows(Good):
    """Sets the row numbers it is given to zero."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        queries.rows[:] = 0
        return super().rank(queries, depth)


class TurnsGold(Good):
    """Turns the gold of its history round."""

    def fit(self, history: History) -> None:
        history.gold.tools[:] = history.gold.tools[::-1].copy()


class ClearsEdges(Good):
    """Sets the edges it is given to zero."""

    def index(self, library: Library) -> None:
        super().index(library)
        library.edges[:] = 0


class Recommends(Good):
    """Recommends the first tool of its ranking."""

    def recommend(self, queries: Queries) -> ToolSets:
        return ToolSets.of(list(self.rank(queries, 1).tools))


class RecommendsByCompany(Recommends):
    """Recommends less when the query is alone."""

    def recommend(self, queries: Queries) -> ToolSets:
        return ToolSets.of([[0, 1] if len(queries) > 1 else [0] for _ in queries.texts])


class RecommendsTwice(Recommends):
    """Recommends a tool twice."""

    def recommend(self, queries: Queries) -> ToolSets:
        return ToolSets.of([[0, 0]] * len(queries))


def test_a_method_that_keeps_the_protocol_passes() -> None:
    assert problems(Good) == {}
    assert problems(Recommends) == {}
    assert problems(SaysSo) == {}


def test_the_part_of_starter_has_what_the_checks_need() -> None:
    made = part_of_starter()
    assert len(made.edges) >= 2
    assert len(made.tools) > 12
    assert [len(made.rows(split)) for split in ("test", "train", "dev")] == [6, 5, 2]


@pytest.mark.parametrize(
    ("kind", "check", "sentence"),
    [
        (NoDocstring, "documented", "the class has no docstring"),
        (SilentParameter, "documented", "the parameter 'weight' has no description"),
        (TooDeep, "valid", "it returned more than "),
        (Twice, "valid", "it returned a tool twice"),
        (Stranger, "valid", "it returned the unknown tool code"),
        (NotANumber, "valid", "it returned the score nan"),
        (Moody, "deterministic", "a second instance differs: the rankings of "),
        (Unseeded, "deterministic", "a second instance differs: the rankings of "),
        (Repeats, "repeats", "a second repeat differs, and it does not set `has_chance`: the rankings of "),
        (ByPlace, "order", "backwards they differ: the rankings of "),
        (ByPlace, "batches", "one by one they differ: the rankings of "),
        (ByCompany, "batches", "one by one they differ: the rankings of "),
        (ByDepth, "depth", "depth 5 differs from the first 5 of depth 20: the rankings of "),
        (NeedsWords, "odd_queries", "it raised IndexError: list index out of range"),
        (NeedsTwoTools, "tiny_library", "it raised IndexError: tuple index out of range"),
        (NeedsText, "odd_library", "it raised ZeroDivisionError: division by zero"),
        (Remembers, "no_leak", "after another dataset they differ: the rankings of "),
        (LastWins, "no_leak", ""),
        (Grows, "no_leak", "after another dataset they differ: the rankings of "),
        (CountsRows, "inputs", "it changed an array that it was given"),
        # Undone by nothing, and the same when done twice.
        (ClearsRows, "inputs", "it changed an array that it was given"),
        (TurnsGold, "inputs", "it changed an array that it was given"),
        (ClearsEdges, "inputs", "it changed an array that it was given"),
        (RecommendsByCompany, "sets", "the set of "),
        (RecommendsTwice, "sets", "it recommended a tool twice"),
    ],
)
def test_each_way_of_breaking_the_protocol_fails_its_check(kind: type[Method], check: str, sentence: str) -> None:
    result = problems(kind)
    assert check in result
    assert result[check].startswith(sentence)


@pytest.mark.parametrize(
    ("kind", "checks"),
    [
        (NoDocstring, {"documented"}),
        (Unseeded, {"deterministic", "repeats", "no_leak"}),
        (Repeats, {"repeats"}),
        (ByCompany, {"batches"}),
        (ByDepth, {"depth"}),
        (NeedsTwoTools, {"tiny_library"}),
        (Grows, {"no_leak"}),
        (ClearsEdges, {"inputs"}),
        (RecommendsByCompany, {"sets"}),
    ],
)
def test_a_single_fault_fails_no_other_check(kind: type[Method], checks: set[str]) -> None:
    assert set(problems(kind)) == checks


def test_a_hidden_part_is_found_and_a_declared_one_is_not() -> None:
    class Hides(Good):
        """Builds another method when it learns, and tells nobody."""

        def index(self, library: Library) -> None:
            super().index(library)
            self.others = [build_method("bm25")]

    class Declares(Good):
        """Is built of another method."""

        def __init__(self, parameters: Any, context: Context) -> None:
            super().__init__(parameters, context)
            self.others = [context.build(Spec("bm25"))]

    assert problems(Hides).keys() == {"parts"}
    assert "hides a part of itself (self.others, a BM25)" in problems(Hides)["parts"]
    assert problems(Declares) == {}


def test_scores_that_nearly_tie_may_change_places() -> None:
    class Rounding(Good):
        """Differs in the last bits with the company a query keeps."""

        def rank(self, queries: Queries, depth: int) -> Ranking:
            noise = np.arange(len(self.letters)) * 1e-6 * (1 if len(queries) > 1 else -1)
            return top_k(self.shared(queries) + noise, depth)

    assert problems(Rounding) == {}


def test_a_method_that_refuses_the_small_libraries_is_not_checked_on_them() -> None:
    class Choosy(Good):
        """Wants ten tools or more."""

        def preflight(self, library: Library, history: History) -> None:
            if len(library) < 10:
                raise DataError("ten tools are needed.")

    def build() -> Method:
        return Choosy(Choosy.Parameters(), Context(build_method))

    result = checked(build)
    assert {
        name: check.skipped for name, check in result.items() if check.skipped and name not in {"sets", "queries"}
    } == dict.fromkeys(
        ["tiny_library", "odd_library", "no_leak"], "it refuses the small library: ten tools are needed."
    )
    assert not any(check.problem for check in result.values())


def test_a_method_that_refuses_the_dataset_fails_with_its_own_words() -> None:
    class Never(Good):
        """Wants another dataset."""

        def preflight(self, library: Library, history: History) -> None:
            raise DataError("this is not the one.")

    assert problems(Never)["valid"] == "this is not the one."


# What it reads ------------------------------------------------------------------------------------------------------


def test_what_it_has_written_itself_is_its_own(tmp_path: Path) -> None:
    class Noting(Good):
        """Writes what it was given, and reads it again."""

        def index(self, library: Library) -> None:
            super().index(library)
            (tmp_path / "notes").write_text("\n".join(library.texts), "utf-8")

        def rank(self, queries: Queries, depth: int) -> Ranking:
            assert (tmp_path / "notes").read_text("utf-8")
            return super().rank(queries, depth)

    assert problems(Noting) == {}


@pytest.mark.parametrize("ask", [os.environ.get, os.getenv, lambda name: name in os.environ and os.environ[name]])
def test_a_variable_of_the_environment_is_told(ask: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOP_K", "5")

    class Asking(Good):
        """Looks into the environment."""

        def rank(self, queries: Queries, depth: int) -> Ranking:
            assert ask("TOP_K") == "5"
            return super().rank(queries, depth)

    told = (
        "its answers may depend on the variable TOP_K, by which no result is named: make it a parameter, or return "
        "what it says from revisions()"
    )
    assert problems(Asking) == {"reads": told}


NAMED = """
from pathlib import Path
import numpy as np
from bench.interface import Method
from bench.search.topk import top_k

class Named(Method):
    '''Reads a file beside it.'''
    def index(self, library):
        self.words = Path(__file__).with_name("words.txt").read_text()
        self.sizes = np.array([len(text + self.words) for text in library.texts], dtype=float)

    def rank(self, queries, depth):
        return top_k(np.tile(self.sizes, (len(queries), 1)), depth)
"""


def test_a_file_that_the_code_names_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "words.txt").write_text("some")
    (tmp_path / "named_reader.py").write_text(NAMED)
    monkeypatch.syspath_prepend(tmp_path)
    result = checked(lambda: build_method("named_reader:Named"))
    assert {check: outcome.problem for check, outcome in result.items() if outcome.problem} == {}
