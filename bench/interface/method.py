"""The method interface, and the capabilities through which methods wrap other methods.

A method is one class in one file:

    class Shout(Method):
        '''Ranks tools by how loud their description is.'''

        class Parameters(ParameterSet):
            weight: float = 1.0

        def index(self, library):
            self.loudness = np.array([text.count("!") for text in library.texts], dtype=np.float32)

        def rank(self, queries, depth):
            return top_k(np.tile(self.loudness * self.parameters.weight, (len(queries), 1)), depth)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Literal, Protocol, TypeVar, runtime_checkable

from bench.base.parameters import ParameterSet, full_spec, short_spec
from bench.base.progress import QUIET, Progress
from bench.base.spec import Spec
from bench.data.gold import Gold
from bench.interface.construction import Usable
from bench.interface.explanation import Case, Explanation
from bench.interface.ranking import Ranking, ToolSets
from bench.interface.views import History, Library, Queries

Similarity = Literal["cosine", "dot", "l1", "l2"]


class Part(Protocol):
    """A part of a method: another method, or a model (an encoder, a cross-encoder, a language model, a graph).

    A model may also define what a method tells the harness: `needs_history`, `needs_llm`, `has_chance`, `marks()`,
    `facts()`, and `preflight()` without arguments.
    """

    @property
    def name(self) -> str:
        """Its name, which distinguishes the facts of two parts."""
        ...

    def revisions(self) -> dict[str, str]:
        """Names and content hashes of every model or file that it depends on."""
        ...


P = TypeVar("P", bound=Part)


class Context:
    """What the harness provides to a method.

    Args:
        build: builds a method from its spec.
        progress: receives the progress of long work.

    Attributes:
        progress: as passed.
        parts: the parts of the method with this context, in order of declaration.
    """

    def __init__(self, build: Callable[[Spec], Method], progress: Progress = QUIET) -> None:
        self._build = build
        self._closed = False
        self.progress = progress
        self.parts: list[Part] = []

    def build(self, spec: Spec) -> Method:
        """Build another method, for methods based on others (`base=dense`).

        A method built while this one is being made becomes a part of it. One built later is for work of its own, such
        as learning a threshold on held-out queries, and must not be kept.
        """
        method = self._build(spec)
        if not self._closed:
            self.include(method)
        return method

    def include(self, part: Part) -> None:
        """Declare a part; repeated declarations count once.

        Raises:
            RuntimeError: the method is already made, and its identity fixed.
        """
        if any(part is known for known in self.parts):
            return
        if self._closed:
            raise RuntimeError("a method includes its parts in __init__; this one is already made")
        self.parts.append(part)

    def close(self) -> None:
        """Mark the method as made: its parts no longer change."""
        self._closed = True


class Method(Usable):
    """A tool retriever. The runner calls `fit` (if there is history), `index`, then `rank` in batches.

    To try one, pass its parameters as keywords: `BM25(k1=1.5).fit("starter").search("book a flight", k=5)`. Besides
    past queries, `fit` takes a dataset or its name; it then learns from the dataset's past queries, indexes its tools
    and returns the method. The method prints as its spec, and `bench.run` accepts it.

    A method keeps nothing between datasets: the runner makes a new instance for each. `rank` must give the same answer
    for a query whatever else is in the batch, and the first k of a deeper ranking must be the ranking of depth k;
    `bench check method NAME` tests both.
    """

    Parameters: ClassVar[type[ParameterSet]] = ParameterSet
    #: Maximum queries per call of `rank`; also the work that a crash can cost.
    batch_size: ClassVar[int] = 64
    #: True if the method is useless without past queries; the runner then refuses datasets without any. The needs of
    #: parts are added automatically.
    needs_history: bool = False
    #: True if the method itself calls a language model or another paid service; parts are added automatically.
    needs_llm: bool = False
    #: True if the method itself draws at random, with or without a seed; parts are added automatically. A language
    #: model is always nondeterministic, even at temperature 0. `--repeats` runs such methods several times: see
    #: `bench.base.config.repeat_seed`.
    has_chance: bool = False
    #: True for a method that ignores the query: a lower bound for all others. It is shown with the others' tests, but
    #: does not compete with them (`bench.stats.ranking`).
    is_floor: ClassVar[bool] = False

    name: str = ""

    def include(self, part: P) -> P:
        """Declare a part in `__init__`: `self._scorer = self.include(CrossEncoder(...))`.

        Methods from `context.build` are declared automatically. The harness asks every part for its model revisions,
        needs, marks and facts, checks it before a run, and adds it to the method's identity.
        """
        self.context.include(part)
        return part

    @property
    def parts(self) -> tuple[Part, ...]:
        """The direct parts of the method."""
        return tuple(self.context.parts)

    @property
    def spec(self) -> Spec:
        """The spec with the parameters that differ from their defaults."""
        return short_spec(self.name, self.parameters)

    @property
    def full_spec(self) -> Spec:
        """The spec with every parameter spelled out."""
        return full_spec(self.name, self.parameters)

    def revisions(self) -> dict[str, str]:
        """Names and content hashes of every model or file the ranking depends on, except those of its parts."""
        return {}

    def preflight(self, library: Library, history: History) -> None:
        """Raise a `BenchError` if the run cannot work; called before anything expensive. Parts are checked first."""
        return

    def fit(self, history: Any) -> Any:
        """Learn from past queries, a `History`. Called once, before `index`.

        With a dataset or its name instead: learn from its past queries, index its tools, and return the method.
        """
        return

    @abstractmethod
    def index(self, library: Library) -> None:
        """Prepare to search the library."""

    @abstractmethod
    def rank(self, queries: Queries, depth: int) -> Ranking:
        """Return at most `depth` tools per query, best first."""

    def marks(self) -> dict[str, str]:
        """Marks on the method's row in every table: short mark -> one sentence.

        For example, that rules replace a language model. Marks of its parts are added.
        """
        return {}

    def facts(self) -> dict[str, str | int | float | bool]:
        """What readers of the result should know: edges of the graph, texts from the cache, and so on.

        Facts of parts are added, with the part's name in front if a key is taken (`dense.texts_encoded`).
        """
        return {}

    def explain(self, case: Case) -> Explanation | None:
        """Why the tools of a case have their ranks; None without an explanation. Called when the method can rank.

        `bench explain` shows it only if its scores, or its order, agree with `rank`.
        """
        return None


class OracleMethod(Method):
    """A method that sees the gold, as an upper bound. It is marked on every row and never ranked among methods."""

    @abstractmethod
    def reveal(self, gold: Gold) -> None:
        """Receive the gold of the queries to be asked; row i is that of `Queries.rows` i."""


@runtime_checkable
class RecommendingMethod(Protocol):
    """A method that also decides how many tools to recommend: it returns tool sets besides rankings."""

    def recommend(self, queries: Queries) -> ToolSets:
        """Return the tool set R(q) of each query; an empty set abstains."""
        ...
