"""Settings of a block of code, and the models and counters that are shared inside it.

    with config_context(offline=True, cache=False):
        results = list(runner.run(plans))

The block has a session. Like `numpy.errstate`, it is bound to the context (`contextvars`), so that threads with
different sessions do not affect each other. It is not an argument, because methods, including plug-ins, create their
own encoders and language models. A method that forgot to pass the session on would use the network under `--offline`,
and its requests would not be counted.
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
    """Counts requests to language models and their tokens; a repeated request counts each time.

    Attributes:
        calls: requests sent to an endpoint.
        from_journal: requests answered from the journal.
        failures: requests without a reply.
        input_tokens, output_tokens: tokens of all replies, including replies from the journal.
        cost: cost of these tokens at current prices, which is the cost of the work without a journal; None after a
            request without a known price.
    """

    calls: int = 0
    from_journal: int = 0
    failures: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0

    @property
    def requests(self) -> int:
        """All requests."""
        return self.calls + self.from_journal

    def count(self, *, sent: bool, failed: bool, input_tokens: int, output_tokens: int, cost: float | None) -> None:
        """Add a request; `cost` is None if no price is known."""
        self.calls += sent
        self.from_journal += not sent
        self.failures += failed
        self.input_tokens += input_tokens
        self.output_tokens += output_tokens
        self.cost = None if self.cost is None or cost is None else self.cost + cost


@dataclass(eq=False)
class Timing:
    """Observations during a measurement of latencies.

    Attributes:
        cached: whether any output of a model came from the cache.
    """

    cached: bool = False


@dataclass(eq=False)
class Session:
    """Settings, and the models and counters shared under them.

    Attributes:
        offline: whether the network is forbidden.
        cache: whether to read embeddings and scores from the cache and store them in it.
        mirror: the folder from which to read upstream files; None to download them.
        progress: progress reporter of functions of the Python API; commands pass theirs as an argument.
        loaded: the models in memory, by identity.
        meters: counters of requests to language models.
        timing: set while latencies are measured.
        repeat: number of the current repeat of a run, from 1; also 1 outside of repeats.
        budget: spending limit for language models, in the currency of the prices; None for `BENCH_LLM_LIMIT`.
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
    """The active session; if there is none, a new one with the user's defaults, which is not made active."""
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
    """Apply settings to everything that runs in a block, including plug-in methods and their models.

    A missing setting comes from the enclosing block, or from the environment.

    Args:
        parent: the session that provides missing settings, instead of the enclosing block.
        offline: never use the network; a missing file or model is an error. Same as `BENCH_OFFLINE=1`.
        cache: False to compute embeddings and scores of models again. Same as `BENCH_NO_CACHE=1`.
        mirror: a folder with copies of upstream files, used instead of the network. Same as `BENCH_MIRROR`.
        progress: True for the bars and notes of the command line, on standard error; or a progress reporter.
        repeat: number of the current repeat of a run; the harness sets it.
        budget: spending limit for language models, in the currency of `BENCH_LLM_PRICE`. Same as `BENCH_LLM_LIMIT`.
        results: the folder in which to store and look up results. Same as `BENCH_RESULTS`.

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
    # Not a field of the session, because methods read that, and the results folder must not affect rankings.
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
    from bench.base import bars  # import rich only if there is a bar to draw

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
    """Return a function for models that finds the active session, or in threads without one the present session.

    A thread starts without a session, and a method may call its models from its own threads.
    """
    made_in = current_session()
    return lambda: _ACTIVE.get() or made_in


def repeat_seed(seed: int) -> tuple[int, ...]:
    """A seed that differs between the repeats of a run, so that each repeat has different random numbers.

    Call it while the method is built, fitted or indexed, because threads start without a session.

    Returns:
        The seed alone in the first repeat, and the seed with the number of the repeat in the others; an argument for
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
    """Measure latencies without the cache: loaded models compute again; others use the cache, which is recorded.

    Models behind an endpoint are never called, because a measurement must not cost money.
    """
    with join_session() as here:
        before, here.timing = here.timing, Timing()
        try:
            yield here.timing
        finally:
            here.timing = before
