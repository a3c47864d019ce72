"""What Python and a notebook show of an object: a line, small tables, and DataFrames where pandas is installed."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from bench.base.errors import require
from bench.base.text import one_line
from bench.show.tables import Table, html, text

if TYPE_CHECKING:
    import pandas

#: Metrics that a representation shows, in this order, as far as a result has them; DataFrames hold all.
SHOWN = ("recall@5", "recall@10", "ndcg@5", "ndcg@10", "pass@5", "pass@10", "mrr@10", "map@100", "tracc", "set_f1")
#: Longest line that stands for an object.
_MOST_LINE = 200


class Shown:
    """What is a line by `repr`, small tables by `print`, and the same in a notebook."""

    def _line(self) -> str:
        """What it is, in a line."""
        raise NotImplementedError

    def _tables(self) -> list[Table]:
        """What it holds, in tables."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {one_line(self._line(), _MOST_LINE)}>"

    def __str__(self) -> str:
        return "\n\n".join(map(text, self._tables()))

    def _repr_html_(self) -> str:
        return "".join(map(html, self._tables()))


def pandas_module() -> ModuleType:
    """pandas, imported when a DataFrame is asked for.

    Raises:
        UnavailableError: it is not installed.
    """
    require("pandas", what="a DataFrame")
    import pandas

    return pandas


def frame(rows: Sequence[dict[str, object]], columns: Sequence[str]) -> pandas.DataFrame:
    """Rows as a DataFrame with these columns, which it has also where there are no rows."""
    table: pandas.DataFrame = pandas_module().DataFrame(list(rows), columns=list(columns))
    return table
