"""How Python and a notebook show the API's objects: a line, small tables, and DataFrames if pandas is installed."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from bench.base.errors import require
from bench.base.text import one_line
from bench.show.tables import Table, html, text

if TYPE_CHECKING:
    import pandas

#: Metrics of a representation, in order, if a result has them; DataFrames contain all.
SHOWN = ("recall@5", "recall@10", "ndcg@5", "ndcg@10", "pass@5", "pass@10", "mrr@10", "map@100", "tracc", "set_f1")
#: Maximum characters of an object's line.
_MOST_LINE = 200


class Displayable:
    """An object shown as a line by `repr`, and as small tables by `print` and in a notebook."""

    def _line(self) -> str:
        """The object in one line."""
        raise NotImplementedError

    def _tables(self) -> list[Table]:
        """The object's content as tables."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {one_line(self._line(), _MOST_LINE)}>"

    def __str__(self) -> str:
        return "\n\n".join(map(text, self._tables()))

    def _repr_html_(self) -> str:
        return "".join(map(html, self._tables()))


def pandas_module() -> ModuleType:
    """pandas, imported when a DataFrame is needed.

    Raises:
        UnavailableError: it is not installed.
    """
    require("pandas", what="a DataFrame")
    import pandas

    return pandas


def frame(rows: Sequence[dict[str, object]], columns: Sequence[str]) -> pandas.DataFrame:
    """Rows as a DataFrame with these columns, even without rows."""
    table: pandas.DataFrame = pandas_module().DataFrame(list(rows), columns=list(columns))
    return table
