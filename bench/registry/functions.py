"""Use a search function as a method: `package.module:function`. `bench.registry.methods` calls this."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from bench.base.config import current_session
from bench.base.errors import MethodError, UnresolvedError
from bench.base.text import one_line
from bench.interface.method import Method
from bench.interface.ranking import Ranking
from bench.interface.views import Library, Queries
from bench.remote.answers import AnswerReader, Unusable
from bench.remote.asking import AnswerStatistics, marks_of_remote

#: A function from the text of a query, and optionally the number of tools, to tools, best first.
Search = Callable[..., Any]


def function_method(function: Search, name: str, module: str) -> type[Method]:
    """The class of a method that calls a search function.

    The function takes the text of a query and, if it has a second argument, the number of tools. It returns tools in a
    form that the method `http` accepts, or pairs of a tool and its score. It must know the library itself.

    Args:
        function: the search function.
        name: its name as a method.
        module: its module; this module and all its imports are the code of the method.

    Raises:
        MethodError: it accepts neither a text, nor a text and a number.
    """
    takes_limit = _takes_limit(function, name)

    class FunctionMethod(Method):
        #: What tells the code of one state of its file from that of the next: the class is another each time.
        loaded = staticmethod(function)
        #: It may ask a service, or draw at random: `--repeats` shows by how much its answers vary.
        has_chance = True
        __doc__ = inspect.getdoc(function) or f"The search function {name}."

        def index(self, library: Library) -> None:
            self._reader = AnswerReader(library.tools)
            self._account = AnswerStatistics()

        def rank(self, queries: Queries, depth: int) -> Ranking:
            answers = []
            account = self._account
            for text in queries.texts:
                value = function(text, depth) if takes_limit else function(text)
                try:
                    answer = self._reader.read_parsed(_plain(value), depth)
                except Unusable as error:
                    account.take(error, self._reader.names)
                    said = f"{name} answered the query {one_line(text, 80)!r} with {error}"
                    if not error.note.unknown:
                        raise MethodError(f"{said}.") from None
                    near = account.names.unknown(self._reader.names)
                    if account.names.resolves_nothing:
                        raise UnresolvedError(f"{said}, before any name meant a tool: {near}.") from None
                    raise MethodError(f"{said}: {near}.") from None
                if current_session().timing is None:  # else it was counted
                    account.take(answer, self._reader.names)
                answers.append(answer)
            return Ranking.of_answers([(answer.tools, answer.scores) for answer in answers])

        def marks(self) -> dict[str, str]:
            return marks_of_remote(f"the function {name}", version="that of its code")

        def facts(self) -> dict[str, str | int | float | bool]:
            return self._account.facts()

    FunctionMethod.__module__, FunctionMethod.__qualname__ = module, getattr(function, "__qualname__", name)
    return FunctionMethod


def _takes_limit(function: Search, name: str) -> bool:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False  # built in, without a signature
    for arguments in (("text", 1), ("text",)):
        try:
            signature.bind(*arguments)
        except TypeError:
            continue
        return len(arguments) == 2
    raise MethodError(f"{name} must take the text of a query, or the text and the number of tools.")


def _plain(value: Any) -> Any:
    """What a function returned, as JSON would have it: iterables are lists, pairs are objects with a score."""
    if isinstance(value, str | bytes | dict) or not hasattr(value, "__iter__"):
        return value
    return [_entry(item) for item in value]


def _entry(item: Any) -> Any:
    if isinstance(item, tuple) and len(item) == 2:
        tool, score = item
        return {"id": tool, "score": getattr(score, "item", lambda: score)()}
    return item
