"""The spending limit: reserves the maximum cost of a call before it is sent.

What is paid is what the journal records; what is held is what the calls under way may cost at most. A call goes out
only if both together and its own bound stay within the limit, so the limit is not passed however the calls come back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.base.errors import UnavailableError

_LOOK_AGAIN = 0.2  # seconds after which a waiting call looks whether it should stop


class WorkStopped(Exception):
    """The work was given up while a call waited."""


class SpendingBudget:
    """Money held by the calls under way.

    Args:
        paid: gives what has been paid so far.
    """

    def __init__(self, paid: Callable[[], float]) -> None:
        self._paid = paid
        self._changed = threading.Condition()
        self._held = 0.0
        self._running = 0  # calls that hold money and do not wait for more

    @contextmanager
    def holding(self, bound: float, limit: float | None, stop: threading.Event) -> Iterator[Held]:
        """Hold the most that a call can cost while it is under way.

        Waits while other calls hold what is missing: most of them will cost less than they hold.

        Raises:
            UnavailableError: there is no room for it, and no call under way that could make some.
            Stopped: `stop` was set while it waited.
        """
        held = Held(self, bound, limit, stop)
        self._take(held)
        try:
            yield held
        finally:
            with self._changed:
                self._held -= held.fresh + (held.lost if held.recorded else 0.0)
                self._running -= held.running
                self._changed.notify_all()

    def _take(self, held: Held) -> None:
        with self._changed:
            while held.limit is not None and (spent := self._paid() + self._held) + held.bound > held.limit:
                if self._running == 0:
                    raise UnavailableError(
                        f"the next call may cost up to {held.bound:.4g}, and {spent:.4g} of "
                        f"the limit of {held.limit:g} is spent; raise it where it was set (BENCH_LLM_LIMIT or "
                        "--budget), and the same command continues."
                    )
                self._changed.wait(_LOOK_AGAIN)
                if held.stop.is_set():
                    raise WorkStopped
            self._held += held.bound
            self._running += 1
            held.fresh, held.running = held.bound, True

    def _lose(self, held: Held) -> None:
        with self._changed:
            held.lost += held.fresh
            held.fresh = 0.0

    def _take_again(self, held: Held) -> None:
        with self._changed:
            # While it waits it cannot make room: two that waited for each other would wait for ever.
            self._running -= 1
            held.running = False
            self._changed.notify_all()
        self._take(held)


class Held:
    """What one call holds.

    Attributes:
        fresh: for the try under way or the next.
        lost: what tries that brought no answer may have cost all the same.
        recorded: to be set once the journal has the cost, lost tries included; else what is lost stays held.
        settled: what the journal already has of it, from when the work was given up before the call ended.
    """

    def __init__(self, budget: SpendingBudget, bound: float, limit: float | None, stop: threading.Event) -> None:
        self.bound = bound
        self.limit = limit
        self.stop = stop
        self.fresh = 0.0
        self.lost = 0.0
        self.running = False
        self.recorded = False
        self.settled = 0.0
        self._budget = budget

    def lose(self) -> None:
        """The last try may have been charged for: what was held for it is kept."""
        self._budget._lose(self)

    def renew(self) -> None:
        """Hold as much again for one more try, if the last one was lost; raises as `Budget.holding` does."""
        if self.fresh < self.bound:
            self._budget._take_again(self)
