"""Counting language-model usage during a block of code."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass
class Meter:
    """Requests and tokens, each request counted as often as a model was made to answer it.

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


# Meters that run now. One list for all threads: a model may be asked from another one than the meter was begun in.
_RUNNING: list[Meter] = []


@contextmanager
def metered() -> Iterator[Meter]:
    """Count the requests of the process until the end of the block."""
    meter = Meter()
    _RUNNING.append(meter)
    try:
        yield meter
    finally:
        # By identity: two meters that have counted the same are equal.
        _RUNNING[:] = [other for other in _RUNNING if other is not meter]


def note_request(*, asked: bool, failed: bool, input_tokens: int, output_tokens: int, cost: float | None) -> None:
    """Tell the running meters of a request; `cost` is None where no price is known."""
    for meter in _RUNNING:
        meter.calls += asked
        meter.from_journal += not asked
        meter.failures += failed
        meter.input_tokens += input_tokens
        meter.output_tokens += output_tokens
        meter.cost = None if meter.cost is None or cost is None else meter.cost + cost
