"""What a ranking did with each tool, as a notebook shows it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from bench.base.tables import frame
from bench.comparison.tool_report import Confusion, ToolRow
from bench.comparison.tool_report import ToolsReport as Report
from bench.show.tables import Table, html, text

if TYPE_CHECKING:
    import pandas

_COLUMNS = tuple(name for name in ToolRow.model_fields if name != "loses_to")
_PAIRS = ("missed", *(name for name in Confusion.model_fields if name != "tool_id"))
#: Tools that a representation shows; DataFrames hold all.
_MOST_SHOWN = 15


class ToolsReport:
    """What `Result.tools` found: each tool of the library, those that are missed most often first.

    Examples:
        >>> report = bench.run("bm25", "starter").tools(k=5)
        >>> worst = report.table.iloc[0]
        >>> print(worst.tool_id, worst.found, "of", worst.wanted)
        rolobox.find_contact 0 of 14
        >>> pair = report.pairs.iloc[0]
        >>> print(pair.missed, "behind", pair.shown, "in", pair.queries)
        rolobox.find_contact behind larderly.find_recipes in 5
    """

    def __init__(self, report: Report) -> None:
        #: Everything that was found, as a pydantic model; `report.model_dump_json()` is the JSON of `bench tools`.
        self.report = report

    @cached_property
    def table(self) -> pandas.DataFrame:
        """One row a tool of the library; the columns are those of the schema `tools-report`.

        Raises:
            UnavailableError: pandas is not installed.
        """
        return frame([row.model_dump(include=set(_COLUMNS)) for row in self.report.tools], _COLUMNS)

    @cached_property
    def pairs(self) -> pandas.DataFrame:
        """One row a pair of a missed tool and one that was shown in its place, the most frequent pairs of each first.

        Columns: `missed` and `shown`, ids; `queries`, how many; `example`, the id of one, and the `rank` of the missed
        tool in it; `cosine` of the two texts; `why` and `why_by`, what decides in the example, of the worst tools.

        Raises:
            UnavailableError: pandas is not installed.
        """
        rows = [
            {"missed": row.tool_id, "shown": pair.tool_id, **pair.model_dump(exclude={"tool_id"})}
            for row in self.report.tools
            for pair in row.loses_to
        ]
        return frame(rows, ("missed", "shown", *_PAIRS[1:]))

    def _table(self) -> Table:
        report = self.report
        heads = ["tool", "found", "wanted", "median rank", "unwanted", "loses to"]
        table = Table(heads, right=range(1, len(heads) - 1))
        for row in report.tools[:_MOST_SHOWN]:
            rank = "-" if row.median_rank is None else f"{row.median_rank:g}"
            rivals = ", ".join(f"{pair.tool_id} ({pair.queries})" for pair in row.loses_to[:2])
            table.add(row.tool_id, str(row.found), str(row.wanted), rank, str(row.unwanted), rivals)
        counts = f"found in the first {report.k}: {report.found}/{report.requirements}"
        table.title = f"{report.label} ({report.split}): {counts}"
        left = len(report.tools) - len(table.rows)
        more = [f"{left} more tools in .table"] if left else []
        table.notes = [*more, f"never found, though wanted: {len(report.never_found)}"]
        return table

    def __repr__(self) -> str:
        return text(self._table())

    def _repr_html_(self) -> str:
        return html(self._table())
