"""What a notebook shows of a result, and DataFrames where pandas is installed."""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from bench.base.errors import require

if TYPE_CHECKING:
    import pandas

#: Metrics that a representation shows, in this order, as far as a result has them; DataFrames hold all.
SHOWN = ("recall@5", "recall@10", "ndcg@5", "ndcg@10", "pass@5", "pass@10", "mrr@10", "map@100", "tracc", "set_f1")


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
    found: pandas.DataFrame = pandas_module().DataFrame(list(rows), columns=list(columns))
    return found
