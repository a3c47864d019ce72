"""A method as a whole: what it and all of its parts tell the harness, merged. Runs and results call it.

A method that wraps another does not repeat the other's models, needs and marks: they are collected from its declared
parts, so no wrapper can lose them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MethodType
from typing import Any, TypeVar

from bench.base.parameters import method_parameters
from bench.data.gold import Gold
from bench.interface.method import Context, Method, OracleMethod, Part
from bench.interface.views import History, Library

Fact = str | int | float | bool
T = TypeVar("T", bound=Fact)

#: Rooms of bench whose objects contain no parts: a method's inputs and its progress.
_GIVEN = ("bench.data", "bench.interface", "bench.base")
_HOLDERS = (list, tuple, set, frozenset, dict, MethodType, partial)


def tree(method: Method) -> list[Part]:
    """A method and all of its parts, recursively; the method first, each part once and before its own parts."""
    return list(_walk(method, set(), downwards=True))


def _walk(part: Part, seen: set[int], *, downwards: bool) -> Iterator[Part]:
    seen.add(id(part))
    if downwards:
        yield part
    for inner in part.parts if isinstance(part, Method) else ():
        if id(inner) not in seen:
            yield from _walk(inner, seen, downwards=downwards)
    if not downwards:
        yield part


def methods_of(method: Method) -> list[Method]:
    """The methods of the tree, the method itself first."""
    return [part for part in tree(method) if isinstance(part, Method)]


def name_of(part: Part) -> str:
    """The name of a part in facts and errors."""
    return part.name or type(part).__name__


def merge_reports(method: Method, ask: Callable[[Part], Mapping[str, T]], *, shared: bool = False) -> dict[str, T]:
    """Merge what the parts of the tree report under names.

    A name that several parts use belongs to the method itself if it is among them; the others get their own name in
    front (`dense.texts_encoded`), with a number if that is taken too (`dense-2.texts_encoded`).

    Args:
        method: the method.
        ask: returns what one part reports.
        shared: whether equal values under one name mean the same thing, as for models.
    """
    told = [(part, ask(part)) for part in tree(method)]
    values: dict[str, list[T]] = {}
    for _, said in told:
        for name, value in said.items():
            values.setdefault(name, []).append(value)
    table: dict[str, T] = {}
    taken: Counter[str] = Counter()
    for part, said in told:
        prefix = ""
        for name, value in said.items():
            alone = len(set(values[name]) if shared else values[name]) == 1
            if part is not method and not alone:
                if not prefix:
                    taken[name_of(part)] += 1
                    number = taken[name_of(part)]
                    prefix = f"{name_of(part)}." if number == 1 else f"{name_of(part)}-{number}."
                table[prefix + name] = value
            else:
                table[name] = value
    return table


def revisions_of(part: Part) -> Mapping[str, str]:
    """The model revisions of a single part."""
    return part.revisions()


def revisions(method: Method) -> dict[str, str]:
    """Model revisions of the whole tree; a model of several parts is named once."""
    return merge_reports(method, revisions_of, shared=True)


def models(method: Method) -> set[str]:
    """Names of all models and files that the tree depends on, as its parts name them."""
    return {name for part in tree(method) for name in part.revisions()}


def facts_of(part: Part) -> Mapping[str, Fact]:
    """The facts of a single part."""
    facts: Mapping[str, Fact] = _say(part, "facts")
    return facts


def marks_of(part: Part) -> Mapping[str, str]:
    """The marks of a single part."""
    marks: Mapping[str, str] = _say(part, "marks")
    return marks


def _say(part: Part, what: str) -> Any:
    say = getattr(part, what, None)
    return {} if say is None else say()


def needs_history(method: Method) -> bool:
    """Whether a part of the tree is useless without past queries."""
    return any(getattr(part, "needs_history", False) for part in tree(method))


def needs_llm(method: Method) -> bool:
    """Whether a part of the tree calls a language model or another paid service."""
    return any(getattr(part, "needs_llm", False) for part in tree(method))


def has_chance(method: Method) -> bool:
    """Whether the answers are nondeterministic: a part of the tree draws at random, or calls a language model."""
    return needs_llm(method) or any(getattr(part, "has_chance", False) for part in tree(method))


def is_oracle(method: Method) -> bool:
    """Whether a part of the tree sees the gold."""
    return any(isinstance(part, OracleMethod) for part in tree(method))


def reveal(method: Method, gold: Gold) -> None:
    """Pass the gold to every oracle of the tree; row i is that of `Queries.rows` i."""
    for part in tree(method):
        if isinstance(part, OracleMethod):
            part.reveal(gold)


def preflight(method: Method, library: Library, history: History) -> None:
    """Let every part of the tree report now what would stop a run later; parts before what is built of them.

    Raises:
        BenchError: the first missing requirement.
    """
    for part in _walk(method, set(), downwards=False):
        if isinstance(part, Method):
            part.preflight(library, history)
        else:
            _say(part, "preflight")


def hidden(method: Method) -> list[str]:
    """Undeclared parts in attributes of the methods of the tree, as `attribute, a Class`.

    Attributes are searched, also through lists, tuples, sets, dicts, bound methods and objects of the method's own
    package. A model is known by its method `revisions`.
    """
    undeclared: list[str] = []
    known = {id(part) for part in tree(method)}
    for inside in methods_of(method):
        package = type(inside).__module__.partition(".")[0]
        for attribute, value in vars(inside).items():
            undeclared.extend(f"{attribute}, a {type(part).__name__}" for part in _reachable(value, package, known))
    return undeclared


def _reachable(value: object, package: str, known: set[int]) -> Iterator[object]:
    pending: list[object] = [value]
    while pending:
        item = pending.pop()
        if id(item) in known:
            continue
        inner = _inside(item, package)
        if inner is not None:
            known.add(id(item))
            # By kinds: indexes hold a text or a number for each tool.
            kinds = {kind for kind in set(map(type, inner)) if _may_hold(kind, package)}
            pending.extend(part for part in inner if type(part) in kinds)
        elif isinstance(item, Method) or callable(getattr(type(item), "revisions", None)):
            known.add(id(item))
            yield item


def _inside(item: object, package: str) -> Iterable[object] | None:
    """What to inspect in place of a value; None to inspect the value itself."""
    if isinstance(item, list | tuple | set | frozenset):
        return item
    if isinstance(item, dict):
        return item.values()
    if isinstance(item, MethodType):
        return [item.__self__]
    if isinstance(item, partial):
        return [item.func, *item.args, *item.keywords.values()]
    kind = type(item)
    if isinstance(item, Method | Context | type) or callable(getattr(kind, "revisions", None)):
        return None
    return getattr(item, "__dict__", {}).values() if _may_hold(kind, package) else None


def _may_hold(kind: type, package: str) -> bool:
    """Whether an object of this class may be a part, or hold one. A part has `revisions`."""
    own = kind.__module__.partition(".")[0] == package and not kind.__module__.startswith(_GIVEN)
    return own or issubclass(kind, _HOLDERS) or callable(getattr(kind, "revisions", None))


def learns(method: Method | type[Method]) -> bool:
    """Whether a method, or the methods of a class, learn from past queries themselves.

    A method based on others also receives past queries for their sake, so having `fit` is no evidence. It sets `learns
    = True` on the class if it learns something itself, and may reset it on the instance if its parameters say so.
    """
    kind = method if isinstance(method, type) else type(method)
    learns_itself = kind.fit is not Method.fit and not method_parameters(kind.Parameters)
    return method.needs_history or learns_itself or bool(getattr(method, "learns", False))
