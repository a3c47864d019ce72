"""Using a method by hand: make it with parameters, fit it to a dataset, search with a text. `Method` derives from it.

    BM25(k1=1.5).fit("starter").search("find a contact in the address book", k=5)

The harness does not use this: it makes a method from parameters and a context, and calls `fit`, `index` and `rank`.
Nothing here changes a ranking, so nothing here is part of a method's identity (`bench.results.code_versions`).
"""

from __future__ import annotations

import functools
import inspect
from abc import ABCMeta
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import UsageError
from bench.base.spec import Spec, format_value
from bench.base.text import one_line
from bench.interface.ranking import Ranking, ToolSets
from bench.interface.scope import keep_sets_in_scope, rank_in_scope
from bench.interface.views import Library, Queries

#: Maximum characters of one method in a line.
_MOST_SHOWN = 200


class ByKeywords(ABCMeta):
    """The metaclass of methods: calling a class with keywords checks the parameters and returns a method.

    `BM25(k1=1.5)` equals `bench.build_method(BM25, k1=1.5)`. A call that matches the method's `__init__` is unchanged:
    the harness's, with parameters and a context, and those of authors who wrote another one.
    """

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **more: Any) -> None:
        super().__init__(name, bases, namespace, **more)
        # On the class, whatever an author writes: `fit(data)` also works for methods that learn, and every method
        # returns only tools that a query may see.
        for name_of, wrap in (("fit", _accept_dataset), ("rank", _within_scope), ("recommend", _within_scope_sets)):
            written = namespace.get(name_of)
            if inspect.isfunction(written):
                type.__setattr__(cls, name_of, wrap(written))

    def __call__(cls, *arguments: Any, **parameters: Any) -> Any:
        if arguments or _fits(cls, parameters):
            return super().__call__(*arguments, **parameters)
        # By name: the registry is above this room.
        from bench.base.plugins import function

        return function("build-method", "a method cannot be made by keywords")(cls, **parameters)


def _fits(kind: Any, given: Mapping[str, Any]) -> bool:
    """Whether the constructor of a class takes these keywords, so that they are not parameters."""
    try:
        inspect.signature(kind.__init__).bind(None, **given)
    except TypeError:
        return False
    return True


def _accept_dataset(fit: Callable[..., Any]) -> Callable[..., Any]:
    """An author's `fit`, which also takes a dataset in place of past queries."""

    @functools.wraps(fit)
    def fit_to(self: Usable, history: Any, *arguments: Any, **named: Any) -> Any:
        from bench.base.plugins import function
        from bench.data.dataset import Dataset

        if isinstance(history, str | Dataset):
            return function("fit-method", "a method cannot be fitted to a dataset")(self, history)
        return fit(self, history, *arguments, **named)

    return fit_to


def _within_scope(rank: Callable[..., Ranking]) -> Callable[..., Ranking]:
    """An author's `rank`, limited to tools that each query may see."""

    @functools.wraps(rank)
    def rank_within(self: Usable, queries: Queries, depth: int) -> Ranking:
        if queries.scope is None:
            return rank(self, queries, depth)

        def ask(positions: NDArray[np.int64] | None, deep: int) -> Ranking:
            return rank(self, queries if positions is None else queries.take(positions), deep)

        return rank_in_scope(ask, queries.scope, depth)

    return rank_within


def _within_scope_sets(recommend: Callable[..., ToolSets]) -> Callable[..., ToolSets]:
    """An author's `recommend`, limited to tools that each query may see."""

    @functools.wraps(recommend)
    def recommend_within(self: Usable, queries: Queries) -> ToolSets:
        sets = recommend(self, queries)
        return sets if queries.scope is None else keep_sets_in_scope(sets, queries.scope)

    return recommend_within


class Usable(metaclass=ByKeywords):
    """The methods of `Method` for use by hand."""

    name: str = ""
    #: The library indexed by `fit(data)`.
    _searched: Library | None = None

    if TYPE_CHECKING:
        parameters: Any
        context: Any

        # `ByKeywords.__call__` takes the keywords, which mypy does not see.
        def __init__(self, parameters: Any = ..., context: Any = ..., **named: Any) -> None: ...
        @property
        def spec(self) -> Spec: ...
        def fit(self, history: Any) -> Any: ...
        def index(self, library: Library) -> None: ...
        def rank(self, queries: Queries, depth: int) -> Ranking: ...

    else:

        def __init__(self, parameters: Any, context: Any) -> None:
            self.parameters = parameters
            self.context = context

    def search(self, text: str, k: int = 10) -> list[tuple[str, float | None]]:
        """The best tools for a text, after `fit(data)`.

        Args:
            text: a request.
            k: maximum number of tools.

        Returns:
            Pairs of a tool's id and its score, best first; the score is None if the method returns none.

        Raises:
            UsageError: nothing was indexed, text is not a string, or k is not a whole number of 1 or more.

        Examples:
            >>> from bench.methods.bm25 import BM25
            >>> found = BM25(k1=1.5).fit("starter").search("find a contact in the address book", k=3)
            >>> found[0][0]
            'rolobox.find_contact'
        """
        if self._searched is None:
            raise UsageError(f"{self} has no tools to search yet; call fit(data) with a dataset first.")
        depth = k if isinstance(k, int) else getattr(k, "item", lambda: 0)()
        if not isinstance(text, str) or not isinstance(depth, int) or depth < 1:
            raise UsageError(f"search takes a text and a whole number k of 1 or more, not {text!r:.80} and {k!r:.40}.")
        ranking = self.rank(Queries((text,), np.zeros(1, dtype=np.int64)), depth)
        ranked_tools: list[tuple[str, float | None]] = []
        for place, code in enumerate(ranking.tools[0].tolist()):
            if code >= 0:
                score = None if ranking.scores is None else float(ranking.scores[0, place])
                ranked_tools.append((self._searched.tools[code].tool_id, score))
        return ranked_tools

    def __str__(self) -> str:
        """The spec, from which `bench.build_method` makes the method again."""
        return str(self.spec) if self.name else type(self).__name__

    def __repr__(self) -> str:
        return one_line(str(self), _MOST_SHOWN)

    def _repr_html_(self) -> str:
        from bench.show.tables import Table, html

        table = Table(["parameter", "value", "default", "meaning"], title=repr(self))
        for name, field in getattr(type(self.parameters), "model_fields", {}).items():
            value, usual = getattr(self.parameters, name), field.get_default()
            table.add(name, _format_parameter(value), _format_parameter(usual), field.description or "")
        table.notes = [(inspect.getdoc(type(self)) or "").split("\n")[0]]
        return html(table)


def _format_parameter(value: Any) -> str:
    if isinstance(value, list | tuple):
        return one_line(f"[{', '.join(map(_format_parameter, value))}]", _MOST_SHOWN)
    return one_line(str(value) if isinstance(value, Spec) else format_value(value), _MOST_SHOWN)
