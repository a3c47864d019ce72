"""`bench graph`: show and evaluate a dataset's dependency graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np

from bench.base.bars import progress
from bench.base.paths import write_text
from bench.cli.help import VerbCommand
from bench.cli.options import complete_datasets
from bench.cli.output import console, print_json
from bench.data.dataset import Dataset
from bench.data.edges import COLUMNS
from bench.interface import Library
from bench.lab.graph.agreement import Agreement, agreement, densities, three_way, wilson
from bench.methods.tgr.edges import Edges, connected_share
from bench.methods.tgr.sources import GRAPHS, GraphSource
from bench.models.trainingcard import read_card, tool_digest
from bench.registry import load_dataset
from bench.show.numbers import format_fixed, interval, percent
from bench.show.tables import Table

FILE = click.Path(path_type=Path, dir_okay=False)


@click.command("graph", cls=VerbCommand, common=("source", "json"))
@click.argument("dataset", shell_complete=complete_datasets)
@click.option(
    "--graph", default="rules", show_default=True, help=f"One of {', '.join(GRAPHS)}, or a TSV file of edges."
)
@click.option("--discriminator", default="", help="Classifier folder, for --graph discriminator.")
@click.option("--by-category", is_flag=True, help="Show the graph density of each category.")
@click.option("--out", type=FILE, help="Write the edges to this file, to be read by `--graph FILE`.")
def command(
    dataset: str,
    graph: str,
    discriminator: str,
    by_category: bool,
    out: Path | None,
    as_json: bool,
) -> None:
    """Show the dependency graph of a DATASET's tools.

    If the dataset has annotated edges, the graph is evaluated against them. A discriminator is also evaluated on its
    own, as in the TGR paper.
    """
    bars = progress()
    loaded = load_dataset(dataset, bars)
    library = Library.of(loaded, loaded.card.template)
    source = GraphSource(graph, discriminator=discriminator, progress=bars)
    source.check(library)
    edges = source.edges(library)
    if out is not None:
        write_text(out, edges_text(loaded, edges))
    compared = library.edges if len(library.edges) and graph != "manual" else None
    report = _report(loaded, source, edges, compared)
    if as_json:
        report["categories"] = [vars(row) for row in densities(loaded.tools, edges)]
        print_json(report)
        return
    _print(loaded, graph, report, compared is not None)
    if by_category:
        table = Table(["category", "tools", "connected", "share", "edges inside"], right=(1, 2, 3, 4))
        for row in densities(loaded.tools, edges):
            counts = [str(row.tools), str(row.connected), format_fixed(row.share), str(row.edges)]
            table.add(row.category or "no category", *counts)
        console().print(table)
    if out is not None:
        click.echo(f"written to {out}")


def edges_text(dataset: Dataset, edges: Edges) -> str:
    """The edge list that `read_edges` reads; annotated edges keep their reason."""
    reasons = {(edge.dependent, edge.prerequisite): edge.reason for edge in dataset.edges}
    rows = ["\t".join(COLUMNS[:3])]
    for dependent, prerequisite in edges.tolist():
        pair = (dataset.tools[dependent].tool_id, dataset.tools[prerequisite].tool_id)
        rows.append("\t".join((*pair, reasons.get(pair, "result"))))
    return "\n".join(rows) + "\n"


def _report(dataset: Dataset, source: GraphSource, edges: Edges, annotated: Edges | None) -> dict[str, Any]:
    tools = len(dataset.tools)
    report: dict[str, Any] = {
        "dataset": dataset.spec,
        "graph": source.graph,
        "tools": tools,
        "edges": len(edges),
        "connected": len(np.unique(edges)),
        "connected_share": connected_share(edges, tools),
    }
    if source.graph == "discriminator":
        pairs = source.classifier.candidates(dataset.tools, source.nearest, source.within)
        report["pairs_classified"] = len(pairs)
        report["pairs"] = tools * (tools - 1) // 2
        report["threshold"] = source.classifier.settings.threshold
        card = read_card(Path(source.discriminator).expanduser())
        learnt = set() if card is None else set(card.tools)
        # Scores on edges that it was trained on say nothing about other libraries.
        report["tools_learnt_from"] = sum(tool_digest(tool) in learnt for tool in dataset.tools)
        if annotated is not None:
            report["three_way"] = three_way(source.classifier.probabilities, dataset.tools, annotated)
    if annotated is not None:
        report["agreement"] = vars(agreement(edges, annotated))
    return report


def _print(dataset: Dataset, graph: str, report: dict[str, Any], annotated: bool) -> None:
    from rich.text import Text

    out = console()
    out.print(Text(f"{dataset.spec}, graph={graph}", style="bold"))
    share = format_fixed(report["connected_share"])
    out.print(f"{report['edges']} edges; {report['connected']} of {report['tools']} tools have one (share {share})")
    if "pairs_classified" in report:
        part = report["pairs_classified"] / report["pairs"]
        out.print(
            f"{report['pairs_classified']} of {report['pairs']} pairs classified ({percent(part, 1)}); "
            f"an edge from probability {format_fixed(report['threshold'])} on"
        )
    if report.get("tools_learnt_from"):
        count = f"{report['tools_learnt_from']} of these {report['tools']} tools"
        out.print(Text(f"note: the discriminator learnt from {count}", style="yellow"))
    if not annotated:
        return
    agreed = Agreement(**report["agreement"])
    table = Table(["against annotated edges", "precision", "recall", "F1"], right=(1, 2, 3))
    low, high = wilson(agreed.right, agreed.found)
    bottom, top = wilson(agreed.right, agreed.annotated)
    table.add(
        f"{agreed.right} right of {agreed.found} found and {agreed.annotated} annotated",
        f"{format_fixed(agreed.precision)} ({interval(low, high)})",
        f"{format_fixed(agreed.recall)} ({interval(bottom, top)})",
        format_fixed(agreed.f1),
    )
    if "three_way" in report:
        way = report["three_way"]
        table.add(
            f"means over the three categories: {way['edges']} pairs with an edge, {way['others']} without",
            *(format_fixed(way[key]) for key in ("precision", "recall", "f1")),
        )
    out.print(table)
