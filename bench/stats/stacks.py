"""Tables of several metrics as the columns of one, so that a test or an interval draws once for all of them.

The draws of a test and of an interval do not depend on the columns, and each column's numbers come from its own values
and the scale of its table. So tables of two or more columns with the same units, span and scale have the same
numbers, to the last bit, together and one by one. Comparisons and boards use it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.stats.bounded import Span
from bench.stats.exact import as_integers


@dataclass(frozen=True, eq=False)
class Stack:
    """Tables side by side.

    Attributes:
        tables: positions of the tables among those that were given.
        starts: (tables,) the first column of each.
        values: (queries, columns of all tables).
        units: (queries,) the unit of each query.
        span: the range of a mean.
    """

    tables: tuple[int, ...]
    starts: tuple[int, ...]
    values: NDArray[np.float64]
    units: NDArray[np.int64]
    span: Span

    def columns(self, of_each: Sequence[NDArray[np.intp]]) -> NDArray[np.intp]:
        """Columns of the tables as columns of the stack, one table after the other.

        Args:
            of_each: for each table that was given, columns of it.
        """
        return np.concatenate([of_each[i] + start for i, start in zip(self.tables, self.starts, strict=True)])

    def parts(self, of_each: Sequence[Sized]) -> Iterator[tuple[int, slice]]:
        """Table by table, its position and that of its numbers among the numbers of the stack.

        Args:
            of_each: for each table that was given, something as long as its numbers.
        """
        start = 0
        for i in self.tables:
            yield i, slice(start, start + len(of_each[i]))
            start += len(of_each[i])


def stack_tables(
    values: Sequence[NDArray[np.float64]], units: Sequence[NDArray[np.int64]], spans: Sequence[Span]
) -> Iterator[Stack]:
    """Put tables side by side as far as their numbers stay the same.

    Args:
        values: for each table, (queries, systems), finite.
        units: for each table, (queries,) the unit of each query.
        spans: for each table, the range of a mean.
    """
    groups: dict[tuple[bytes, Span, float], list[int]] = {}
    for i, (table, codes, span) in enumerate(zip(values, units, spans, strict=True)):
        groups.setdefault((codes.tobytes(), span, float(as_integers(table)[1].max())), []).append(i)
    for (_, span, _), members in groups.items():
        widths = [values[i].shape[1] for i in members]
        starts = np.cumsum([0, *widths[:-1]]).tolist()
        yield Stack(tuple(members), tuple(starts), np.hstack([values[i] for i in members]), units[members[0]], span)
