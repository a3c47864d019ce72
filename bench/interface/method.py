"""The method interface, and the capabilities that let methods wrap other methods.

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
    """What a method is built of: another method, or a model (an encoder, a cross-encoder, a language model, a graph).

    A model may also have what a method has to tell the harness: `needs_history`, `needs_llm`, `has_chance`, `marks()`,
    `facts()`, and `preflight()`, which is called without arguments.
    """

    @property
    def name(self) -> str:
        """What people call it; it tells the facts of two parts apart."""
        ...

    def revisions(self) -> dict[str, str]:
        """Names and content hashes of every model or file it depends on."""
        ...


P = TypeVar("P", bound=Part)


class Context:
    """What the harness lends a method.

    Args:
        build: makes a method from its spec.
        progress: where long work reports to.

    Attributes:
        progress: as given.
        parts: what the method that has this context is built of, in the order in which it was declared.
    """

    def __init__(self, build: Callable[[Spec], Method], progress: Progress = QUIET) -> None:
        self._build = build
        self._closed = False
        self.progress = progress
        self.parts: list[Part] = []

    def build(self, spec: Spec) -> Method:
        """Another method, for methods built on others (`base=dense`).

        What is built while the method is being made is a part of it. What it builds later is for work of its own, such
        as learning a threshold on held-out queries, and must not be kept.
        """
        method = self._build(spec)
        if not self._closed:
            self.include(method)
        return method

    def include(self, part: Part) -> None:
        """Declare a part; a part is declared once, however often it is named.

        Raises:
            RuntimeError: the method is made already, and its identity with it.
        """
        if any(part is known for known in self.parts):
            return
        if self._closed:
            raise RuntimeError("a method includes its parts in __init__; this one is made already")
        self.parts.append(part)

    def close(self) -> None:
        """The method is made: what it is built of does not change any more."""
        self._closed = True


class Method(Usable):
    """A tool retriever. The runner calls `fit` (if there is history), `index`, then `rank` in batches.

    To try one, give its parameters as keywords: `BM25(k1=1.5).fit("starter").search("book a flight", k=5)`. `fit` takes
    a dataset, or the name of one, besides the past queries that the runner gives; it then learns from the dataset's
    past queries, indexes its tools and returns the method. The method prints as its spec, and `bench.run` takes it.

    A method keeps nothing between datasets: the runner makes a new instance for each. `rank` must give
    the same answer for a query whatever else is in the batch, and the first k of a deeper ranking must be
    the ranking of depth k; `bench check method NAME` tests it.
    """

    Parameters: ClassVar[type[ParameterSet]] = ParameterSet
    #: Queries a call of `rank` gets at most; also how much work a crash can cost.
    batch_size: ClassVar[int] = 64
    #: True when the method is of no use without past queries; the runner then refuses datasets that have none. What a
    #: part needs, the method needs: it does not say so again.
    needs_history: bool = False
    #: True when the method itself calls a language model or another paid service; as above.
    needs_llm: bool = False
    #: True when the method itself draws at random, by a seed or not; as above. A language model has chance in any case,
    #: also at temperature 0. `--repeats` runs a method with chance several times: see `bench.base.config.repeat_seed`.
    has_chance: bool = False
    #: True for a method that looks at no query: what all others must beat. It is shown with the others' tests, and does
    #: not compete with them (`bench.stats.ranking`).
    is_floor: ClassVar[bool] = False

    name: str = ""

    def include(self, part: P) -> P:
        """Declare what the method is built of, in `__init__`: `self._scorer = self.include(CrossEncoder(...))`.

        Methods that `context.build` gives are declared by that. The harness asks every part for its model revisions,
        needs, marks and facts, checks it before a run, and makes it part of the method's identity.
        """
        self.context.include(part)
        return part

    @property
    def parts(self) -> tuple[Part, ...]:
        """What the method is built of, without the parts of those parts."""
        return tuple(self.context.parts)

    @property
    def spec(self) -> Spec:
        """The spec with the parameters that differ from their defaults."""
        return short_spec(self.name, self.parameters)

    @property
    def full_spec(self) -> Spec:
        """The spec with every parameter spelt out."""
        return full_spec(self.name, self.parameters)

    def revisions(self) -> dict[str, str]:
        """Names and content hashes of every model or file the ranking depends on, but those of its parts."""
        return {}

    def preflight(self, library: Library, history: History) -> None:
        """Raise a `BenchError` now if the run cannot work; called before anything expensive. Its parts come first."""
        return

    def fit(self, history: Any) -> Any:
        """Learn from past queries, a `History`. Called once, before `index`.

        Given a dataset or the name of one instead: learn from its past queries, index its tools, return the method.
        """
        return

    @abstractmethod
    def index(self, library: Library) -> None:
        """Prepare to search the library."""

    @abstractmethod
    def rank(self, queries: Queries, depth: int) -> Ranking:
        """At most `depth` tools for each query, best first."""

    def marks(self) -> dict[str, str]:
        """What must be on the method's row in every table: a short mark -> one sentence.

        For example, that rules replace a language model. Marks of its parts are added.
        """
        return {}

    def facts(self) -> dict[str, str | int | float | bool]:
        """What a reader of the result should know: edges of the graph, texts taken from the cache, ...

        Its parts are asked too; theirs get the part's name in front where a key is taken (`dense.texts_encoded`).
        """
        return {}

    def explain(self, case: Case) -> Explanation | None:
        """Why the tools of a case have their ranks; None where the method does not say. Called when it can rank.

        `bench explain` shows it only where its scores, or its order, are those of `rank`.
        """
        return None


class OracleMethod(Method):
    """A method that is shown the gold, as an upper bound. Marked on every row, and never ranked among methods."""

    @abstractmethod
    def reveal(self, gold: Gold) -> None:
        """Receive the gold of the queries that will be asked; row i is that of `Queries.rows` i."""


@runtime_checkable
class RecommendingMethod(Protocol):
    """A method that also decides how many tools to recommend: it returns tool sets as well as rankings."""

    def recommend(self, queries: Queries) -> ToolSets:
        """The tool set R(q) of each query; an empty one abstains."""
        ...
