"""A comparison in the Python API: its tables, a DataFrame, Markdown and LaTeX. `bench.compare` returns it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from bench.comparison.report import ComparisonRecord
from bench.show.objects import Displayable, frame
from bench.show.tables import Table

if TYPE_CHECKING:
    import pandas


class Comparison(Displayable, ComparisonRecord):
    """The outcome of `bench compare`.

    Attributes:
        family: the pairs corrected together, in words.
        margin: the difference below which systems count as the same, if set.
    """

    @cached_property
    def table(self) -> pandas.DataFrame:
        """One row per dataset, metric and system.

        Columns: `dataset`, `split`, `metric`, `n`, `units`, `system`, `result_id`; `mean`, `low`, `high` with the 95%
        interval; the ranks that the tests leave open, from `rank_low` to `rank_high`, and `tier`, an old name of
        `rank_low`; `baseline`, and the `difference` to it with its interval, `p` (paired randomisation test, alone),
        `corrected` (for the family, which `Comparison.family` names), `p_t`, `p_wilcoxon`, `dz`, `wins`, `ties`,
        `losses`, `detectable`, `needed` and the `verdict` in words, with the 90% interval that decides about a margin,
        `margin_low` and `margin_high`, if one was given; all NaN for the baseline itself; `lenient`, the mean if tools
        that read like a gold tool count as found, NaN if the result has none; `variants` of the system that are stored
        for these test queries, and if there are several, `best_variant`, whether none is better, and `p_variants`,
        which is corrected for them.

        Raises:
            UnavailableError: pandas is not installed.
        """
        from bench.comparison.render import COLUMNS, flat_rows

        return frame([dict(zip(COLUMNS, row, strict=True)) for row in flat_rows(self)], COLUMNS)

    def to_dict(self) -> dict[str, Any]:
        """The whole comparison, as `bench compare --json` prints it."""
        return self.model_dump(mode="json")

    def to_markdown(self) -> str:
        """The whole comparison as Markdown."""
        from bench.comparison.render import markdown

        return markdown(self)

    def to_latex(self, details: bool = False) -> str:
        """A LaTeX table for a paper, with 95% intervals if asked for; needs the packages booktabs and graphicx."""
        from bench.comparison.render import latex

        return latex(self, details)

    def _line(self) -> str:
        others = [system.name for system in self.datasets[0].systems if system.name != self.baseline]
        names = ", ".join(dataset.dataset for dataset in self.datasets)
        return f"{', '.join(others)} with {self.baseline} on {names}"

    def _tables(self) -> list[Table]:
        from bench.comparison.render import legend, metric_tables
        from bench.comparison.tables import margin_table

        margins = [margin_table(dataset.metrics) for dataset in self.datasets] if self.margin else []
        return [*metric_tables(self), *margins, Table((), notes=[legend(self)])]
