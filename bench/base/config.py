"""Settings that hold for a block, and what the models that run there share and count.

    with config_context(offline=True, cache=False):
        results = list(runner.run(plans))

The block has a session. It is bound to the context (`contextvars`), as `numpy.errstate` is: threads with sessions of
their own do not see each other's. It is no argument because methods, plug-ins among them, make their own encoders and
language models. One that forgot to pass a session on would use the network under `--offline`, and its requests would
not be counted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.base.paths import RESULTS, env_flag, expand_path
from bench.base.progress import QUIET, Progress


@dataclass(eq=False)
class Meter:
    """Requests to language models and their tokens, each request counted as often as a model was made to answer it.

    Attributes:
        calls: requests put to an endpoint.
        from_journal: requests answered from the journal.
        failures: requests without a reply.
        input_tokens, output_tokens: of all answers, those from the journal too.
        cost: of these tokens at today's prices: what the work costs where nothing is recorded; None once a request
            was counted for which no price was known.
    """

    calls: int = 0
    from_journal: int = 0
    failures: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0

    @property
    def requests(self) -> int:
        """All of them."""
        return self.calls + self.from_journal

    def count(self, *, sent: bool, failed: bool, input_tokens: int, output_tokens: int, cost: float | None) -> None:
        """Add a request; `cost` is None where no price is known."""
        self.calls += sent
        self.from_journal += not sent
        self.failures += failed
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens
        self.cost = None if self.cost is None or cost is None else self.cost + cost


@dataclass(eq=False)
class Timing:
    """What was seen while latencies were measured.

    Attributes:
        cached: whether any number of a model came from the cache.
    """

    cached: bool = False


@dataclass(eq=False)
class Session:
    """Settings, and what is shared and counted under them.

    Attributes:
        offline: never to use the network.
        cache: whether embeddings and scores are read from the cache and kept in it.
        mirror: where upstream's files are read from; None for a download.
        progress: where functions of the Python API report to; commands pass theirs on themselves.
        loaded: the models in memory, by what they are.
        meters: they count the requests to language models.
        timing: set while latencies are measured.
        repeat: which of the repeats of a run is under way, from 1; 1 for whatever is done once.
        budget: the most to spend on language models, in the currency of the prices; None for `BENCH_LLM_LIMIT`.
    """

    offline: bool
    cache: bool
    mirror: Path | None
    progress: Progress = QUIET
    loaded: dict[Hashable, Any] = field(default_factory=dict)
    meters: list[Meter] = field(default_factory=list)
    timing: Timing | None = None
    repeat: int = 1
    budget: float | None = None

    @staticmethod
    def from_environment() -> Session:
        """The user's defaults: `BENCH_OFFLINE`, `BENCH_NO_CACHE` and `BENCH_MIRROR`."""
        mirror = os.environ.get("BENCH_MIRROR")
        return Session(env_flag("BENCH_OFFLINE"), not env_flag("BENCH_NO_CACHE"), Path(mirror) if mirror else None)


_ACTIVE: ContextVar[Session | None] = ContextVar("bench_session", default=None)


def current_session() -> Session:
    """The active session; without one, a new one of the user's defaults, which is not made active."""
    return _ACTIVE.get() or Session.from_environment()


@contextmanager
def config_context(
    parent: Session | None = None,
    *,
    offline: bool | None = None,
    cache: bool | None = None,
    mirror: str | Path | None = None,
    progress: bool | Progress | None = None,
    repeat: int | None = None,
    budget: float | None = None,
    results: str | Path | None = None,
) -> Iterator[Session]:
    """Settings for a block: whatever runs inside obeys them, methods of plug-ins and their models included.

    A setting that is not given is that of the block around, or of the environment.

    Args:
        parent: whose settings hold where none are given, in place of those of the block around.
        offline: never use the network; a missing file or model is an error. `BENCH_OFFLINE=1` is the same.
        cache: False to compute embeddings and scores of models again; `BENCH_NO_CACHE=1` is the same.
        mirror: a folder with copies of upstream's files, read in place of the network; `BENCH_MIRROR` is the same.
        progress: True for the bars and notes of the command line, on standard error; or where work reports to.
        repeat: which of the repeats of a run is under way; the harness sets it.
        budget: the most to spend on language models, in the currency of `BENCH_LLM_PRICE`; `BENCH_LLM_LIMIT` is the
            same.
        results: the folder in which results are stored and looked up; `BENCH_RESULTS` is the same.

    Examples:
        >>> with bench.config_context(offline=True):
        ...     len(bench.load_dataset("starter").tools) > 100
        True
    """
    above = parent or current_session()
    opened = Session(
        offline=above.offline if offline is None else offline,
        cache=above.cache if cache is None else cache,
        mirror=expand_path(mirror) if mirror else above.mirror,
        progress=above.progress if progress is None else _reporter(progress),
        loaded=above.loaded,
        repeat=above.repeat if repeat is None else repeat,
        budget=above.budget if budget is None else budget,
    )
    # Not a field of the session, which methods read: where results lie changes no ranking.
    token = RESULTS.set(expand_path(results)) if results is not None else None
    try:
        with _active(opened):
            yield opened
    finally:
        if token is not None:
            RESULTS.reset(token)


def _reporter(progress: bool | Progress) -> Progress:
    if not isinstance(progress, bool):
        return progress
    from bench.base import bars  # rich is not imported before there is a bar to draw

    return bars.progress(quiet=not progress)


@contextmanager
def join_session() -> Iterator[Session]:
    """The active session; without one, a new one for the block."""
    with _active(current_session()) as here:
        yield here


@contextmanager
def _active(given: Session) -> Iterator[Session]:
    token = _ACTIVE.set(given)
    try:
        yield given
    finally:
        _ACTIVE.reset(token)


def bound_session() -> Callable[[], Session]:
    """For a model: where it is used, the active session; in threads without one, the session that it was made in.

    A thread begins without a session, and a method may ask its models from threads of its own.
    """
    made_in = current_session()
    return lambda: _ACTIVE.get() or made_in


def repeat_seed(seed: int) -> tuple[int, ...]:
    """What a method draws from in place of a seed, so that each repeat of a run has random numbers of its own.

    Call it while the method is being made, fitted or indexed: threads begin without a session.

    Returns:
        The seed alone in the first repeat, and with the number of the repeat in the others; fit for
        `numpy.random.default_rng`.
    """
    repeat = current_session().repeat
    return (seed,) if repeat == 1 else (seed, repeat)


@contextmanager
def meter_requests() -> Iterator[Meter]:
    """Count the requests to language models in the current session until the end of the block."""
    meter = Meter()
    with join_session() as here:
        here.meters.append(meter)
        try:
            yield meter
        finally:
            here.meters.remove(meter)


@contextmanager
def time_without_cache() -> Iterator[Timing]:
    """Measure latencies without the cache: loaded models compute again; others use the cache, and that is recorded.

    A model behind an endpoint is never asked: to measure is not to spend.
    """
    with join_session() as here:
        before, here.timing = here.timing, Timing()
        try:
            yield here.timing
        finally:
            here.timing = before
