"""The spending limit: reserves the maximum cost of a call before it is sent. Clients call it.

The journal records what was paid; reservations are the maximum costs of the calls in flight. A call is sent only if
both and its own maximum cost stay within the limit, so the limit is never exceeded, however calls end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.base.errors import UnavailableError

_LOOK_AGAIN = 0.2  # seconds after which a waiting call checks whether it should stop


class WorkStopped(Exception):
    """The work was stopped while a call waited."""


class SpendingBudget:
    """Money reserved by the calls in flight.

    Args:
        paid: returns what has been paid so far.
    """

    def __init__(self, paid: Callable[[], float]) -> None:
        self._paid = paid
        self._changed = threading.Condition()
        self._held = 0.0
        self._running = 0  # calls with a reservation that do not wait for more

    @contextmanager
    def holding(self, bound: float, limit: float | None, stop: threading.Event) -> Iterator[Reservation]:
        """Reserve the maximum cost of a call while it is in flight.

        Waits while other calls reserve what is missing: most of them will cost less than they reserve.

        Raises:
            UnavailableError: there is not enough left, and no call in flight that could release some.
            Stopped: `stop` was set while it waited.
        """
        held = Reservation(self, bound, limit, stop)
        self._take(held)
        try:
            yield held
        finally:
            with self._changed:
                self._held -= held.fresh + (held.lost if held.recorded else 0.0)
                self._running -= held.running
                self._changed.notify_all()

    def _take(self, held: Reservation) -> None:
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

    def _lose(self, held: Reservation) -> None:
        with self._changed:
            held.lost += held.fresh
            held.fresh = 0.0

    def _take_again(self, held: Reservation) -> None:
        with self._changed:
            # While it waits it cannot release money: two calls that wait for each other would wait forever.
            self._running -= 1
            held.running = False
            self._changed.notify_all()
        self._take(held)


class Reservation:
    """The reservation of one call.

    Attributes:
        fresh: for the current try or the next.
        lost: possible cost of tries that brought no answer.
        recorded: set once the journal has the cost, lost tries included; otherwise lost money stays reserved.
        settled: the part already in the journal, if the work was stopped before the call ended.
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
        """The last try may have been charged for: keep its reservation."""
        self._budget._lose(self)

    def renew(self) -> None:
        """Reserve the same again for one more try if the last was lost; raises as `SpendingBudget.holding` does."""
        if self.fresh < self.bound:
            self._budget._take_again(self)
