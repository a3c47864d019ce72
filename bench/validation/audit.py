"""The audit of a dataset as a whole: findings, reachable scores and dependent queries. `api` and the command run it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.base.errors import UsageError, require
from bench.data.dataset import Dataset
from bench.registry import build_method
from bench.show.numbers import format_fixed, several
from bench.show.objects import Displayable, frame
from bench.show.tables import Cell, Table, lines, table_of
from bench.validation.ceilings import CUTOFFS, Ceilings, ceilings
from bench.validation.dataset import KINDS, OF_ANOTHER, Finding, audit, audit_against
from bench.validation.power import METRIC, Power, audit_power
from bench.validation.scripts import Scripts, audit_scripts, lexical_methods
from bench.validation.units import Dependence, audit_units

if TYPE_CHECKING:
    import pandas

#: The methods whose answers the audit compares: they need neither a model nor past queries.
CHEAP = ("bm25", "tfidf")


@dataclass(frozen=True, repr=False)
class Audit(Displayable):
    """The problems of a dataset, and what a reader of its results should know.

    Attributes:
        dataset: its spec.
        unit, unit_reason: its unit of independence, and the reason in its card.
        findings: counts with examples; a `harmful` one above zero is a defect or a leak, others are properties.
        ceilings: the best means that any ranking can reach; None without queries.
        dependence: correlation of methods' scores within units, and a proposed unit; None without queries.
        scripts: the scripts of texts, and which methods cannot read them.
        power: number of groups of queries needed to show a difference.
    """

    dataset: str
    unit: str
    unit_reason: str
    findings: tuple[Finding, ...]
    ceilings: Ceilings | None
    dependence: Dependence | None
    scripts: Scripts
    power: Power

    @staticmethod
    def of(dataset: Dataset, against: Sequence[Dataset] = (), results: Path | None = None) -> Audit:
        """Audit a dataset.

        Args:
            against: other datasets that may share queries and tools with it.
            results: a folder of results; their differences on this dataset determine how many groups are needed.
        """
        findings = [*audit(dataset), *(finding for other in against for finding in audit_against(dataset, other))]
        # A catalogue without queries has neither dependent queries nor gold.
        best = ceilings(dataset) if dataset.queries else None
        alike = audit_units(dataset, [build_method(method) for method in CHEAP]) if dataset.queries else None
        scripts = audit_scripts(dataset, lexical_methods())
        power, reason = audit_power(dataset, results), dataset.card.unit.reason
        return Audit(dataset.spec, dataset.unit, reason, tuple(findings), best, alike, scripts, power)

    def failed(self, kinds: Sequence[str]) -> list[Finding]:
        """The findings of some kinds with a count above zero."""
        return [finding for finding in self.findings if finding.check in kinds and finding.count]

    @cached_property
    def table(self) -> pandas.DataFrame:
        """One row per finding: `check`, `what`, `count`, `total`, `share`, `examples`, `harmful`.

        Raises:
            UnavailableError: pandas is not installed.
        """
        columns = ("check", "what", "count", "total", "share", "examples", "harmful")
        return frame([{name: getattr(finding, name) for name in columns} for finding in self.findings], columns)

    def to_dict(self) -> dict[str, Any]:
        """The whole audit, as `bench data audit --json` prints it."""
        dependence = self.dependence
        return {
            "findings": [{**dataclasses.asdict(finding), "share": finding.share} for finding in self.findings],
            "ceilings": dataclasses.asdict(self.ceilings) if self.ceilings else None,
            "scripts": dataclasses.asdict(self.scripts),
            "power": dataclasses.asdict(self.power),
            "unit": self.unit,
            "proposed_unit": dependence.proposed if dependence else None,
            "units": [
                {**dataclasses.asdict(rule), "sizes": rule.sizes.model_dump()}
                for rule in (dependence.rules if dependence else ())
            ],
        }

    def _line(self) -> str:
        harmful = [finding.check for finding in self.findings if finding.harmful and finding.count]
        return f"{self.dataset}: {several(len(self.findings), 'check')}, {len(harmful)} with defects or leaks"

    def tables(self) -> list[Table]:
        """The whole audit as tables: findings, scripts, needed groups, ceilings, units."""
        title = f"{self.dataset}  (* and red: defects and leaks; the others are properties)"
        findings = Table(["check", "what", "count", "share", "examples"], right=(2, 3), title=title)
        for finding in self.findings:
            defect = finding.harmful and finding.count > 0
            findings.add(
                Cell(finding.check, mark="*" * defect, emphasis="bad" if defect else ""),
                finding.what,
                f"{finding.count} of {finding.total}",
                format_fixed(finding.share),
                lines(finding.examples),
            )
        tables = [findings, scripts_table(self.scripts), power_table(self.power)]
        if self.ceilings is not None and self.dependence is not None:
            tables += [ceilings_table(self.ceilings), self._units_table(self.dependence)]
        return tables

    _tables = tables

    def _units_table(self, dependence: Dependence) -> Table:
        rows = []
        for rule in dependence.rules:
            sizes = (str(rule.sizes.units), str(rule.sizes.largest), format_fixed(rule.sizes.effective, 1))
            alike = [format_fixed(value, 2) for one in rule.methods.values() for value in (one.correlation, one.effect)]
            rows.append([rule.name, *sizes, *alike])
        notes = ["recall@5 of two queries of a unit correlates by r; the variance of a mean is deff times that of"]
        notes.append("independent queries")
        if dependence.proposed != self.unit:
            notes.append(f"The data support the unit {dependence.proposed}; the card's reason: {self.unit_reason}")
        named = [heading for method in CHEAP for heading in (f"{method} r", "deff")]
        title = f"unit of independence: {self.unit}, {dependence.card.sizes}"
        return table_of(("rule", "units", "largest", "effective", *named), rows, title, notes)


def check_kinds(kinds: Sequence[str], against: bool) -> None:
    """Refuse kinds that this audit (`against` another dataset or not) cannot find: `--fail-on` never passes by mistake.

    Raises:
        UsageError: there is no such kind, or it needs another dataset.
        UnavailableError: the package that checks schemas is not installed.
    """
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"an audit finds nothing called {kind!r}; it finds {', '.join(KINDS)}.")
        if kind in OF_ANOTHER and not against:
            raise UsageError(f"{kind} is found by a comparison: name a dataset, as in --against apibank.")
        if kind == "invalid-schema":
            require("jsonschema", what="the check of input schemas")


def power_table(power: Power) -> Table:
    """The number of groups that show a difference, for similar, typical and dissimilar methods."""
    rows = [
        [format_fixed(item.difference, 2), *(f"{count:,}" for count in (*item.groups, item.queries[1]))]
        for item in power.needed
    ]
    source = f"{power.pairs} pairs of kept results on this dataset" if power.pairs else "pairs of methods on our board"
    notes = [f"How much differences vary is from {source}, whose means are at most 5 points apart."]
    if power.detectable:
        shown = ", ".join(format_fixed(value) for value in power.detectable)
        notes.append(f"{several(power.judged, 'judged query')} in {several(power.groups, 'group')} show {shown}.")
    heads = (f"difference of {METRIC}", "groups: alike", "typical", "unlike", "typical queries")
    return table_of(heads, rows, "groups of queries that show a difference with 80% power at the 5% level", notes)


def ceilings_table(best: Ceilings) -> Table:
    """The best means that any ranking can reach, and what keeps them below 1."""
    causes = {
        f"{best.more_gold} have more than {CUTOFFS[0]} gold tools": best.more_gold,
        f"{best.same_tool_text} a gold tool whose text ({best.template}) another tool has, too": best.same_tool_text,
        f"{best.same_query_text} the text of a query with other gold": best.same_query_text,
    }
    told = [cause for cause, count in causes.items() if count]
    if not told:
        return Table((), title="ceilings: none below 1")
    rows = [[item.metric, *map(format_fixed, (item.gold, item.tools, item.queries))] for item in best.metrics]
    heads = ("metric", "any ranking", "by texts of tools", "and of queries")
    return table_of(heads, rows, f"ceilings: of {several(best.judged, 'judged query')}, {', '.join(told)}")


def scripts_table(scripts: Scripts) -> Table:
    """The scripts of tools and queries, and how many judged queries each lexical method cannot read."""
    if scripts.plain:
        return Table((), title="scripts: all texts are in Latin letters")
    # Methods that read the same words share a column.
    columns: dict[tuple[int, ...], list[str]] = {}
    for method in scripts.rows[0].unread:
        columns.setdefault(tuple(row.unread[method] for row in scripts.rows), []).append(method)
    tools, queries = (sum(getattr(row, kind) for row in scripts.rows) for kind in ("tools", "queries"))
    rows = [
        [
            row.name,
            f"{row.tools} of {tools}",
            f"{row.queries} of {queries}",
            *(f"{unread[place]} of {row.judged}" for unread in columns),
            "unknown" if row.unknown_tokens is None else format_fixed(row.unknown_tokens),
        ]
        for place, row in enumerate(scripts.rows)
    ]
    notes = []
    if columns:
        notes.append("Under a lexical method: judged queries that share nothing it reads with any gold tool.")
    if scripts.languages:
        declared = ", ".join(scripts.languages)
        notes.append(f"The embedded encoder's model card declares the language {declared}, and the table counts tokens")
        notes.append("that it does not know. What other models read is unknown.")
    heads = ("script", "tools", "queries", *map(", ".join, columns.values()), "unknown tokens")
    return table_of(heads, rows, "scripts", notes)
