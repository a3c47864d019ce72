"""The origin of queries: people, traces of calls, or a language model. Results on the latter two are marked."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from bench.base.text import one_line
from bench.data.tables import Query

#: Origin of queries taken from traffic.
TRACES = "traces"
_MODEL = "model "
_LONGEST = 80  # maximum characters of a model's name in a sentence
_MOST_NAMED = 3


def written_by(model: str) -> str:
    """The origin of queries written by a language model."""
    return _MODEL + model


def is_synthetic(origin: str) -> bool:
    """Whether it is the origin of queries written by a language model."""
    return origin.startswith(_MODEL)


def count_origins(queries: Iterable[Query]) -> dict[str, int]:
    """Origin -> number of queries, most first; queries from people are left out."""
    counts = Counter(query.origin for query in queries if query.origin)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def writers(origins: Mapping[str, int]) -> str:
    """The language models that wrote queries, in words; empty if there are none."""
    models = [(one_line(name.removeprefix(_MODEL), _LONGEST), n) for name, n in origins.items() if is_synthetic(name)]
    if len(models) < 2:
        return "".join(name for name, _ in models)
    shown = [f"{name} ({count})" for name, count in models[:_MOST_NAMED]]
    more = f" and {len(models) - len(shown)} more" if len(models) > len(shown) else ""
    return f"language models: {', '.join(shown)}{more}"


def from_traces(origins: Mapping[str, int], total: int) -> str:
    """A sentence about queries taken from traces; empty if there are none."""
    count = origins.get(TRACES, 0)
    return f"{count} of {total} queries are taken from logs: called is not the same as right" if count else ""


def synthetic(origins: Mapping[str, int], total: int) -> str:
    """A sentence about queries that language models wrote; empty if there are none."""
    count = sum(n for name, n in origins.items() if is_synthetic(name))
    return f"{count} of {total} queries are written by {writers(origins)}" if count else ""
