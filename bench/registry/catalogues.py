"""Importing catalogues of tools as datasets of the user's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.base.errors import UnavailableError, UsageError
from bench.base.text import one_line
from bench.data.beir import import_queries
from bench.data.card import Relation, cards_from
from bench.data.dataset import Dataset
from bench.data.tables import Query, Tables
from bench.data.tool_names import NameRecord, ToolNames
from bench.importing.queries import queries_of, read_queries
from bench.importing.query_rows import FieldNames
from bench.importing.reading import Document, check_json
from bench.importing.tools.catalogue import Catalogue, Source, catalogue_of, read_sources
from bench.importing.tools.forms import Form
from bench.importing.tools.objects import as_json
from bench.importing.tools.tool import name_fault
from bench.registry.adding import check_absent, check_free, check_id, keep, with_unit
from bench.remote.answers import Unusable
from bench.remote.mcp import McpClient
from bench.remote.servers import Server

#: What messages call a value that was passed from Python.
_PASSED = "the tools"


def import_sources(
    name: str,
    sources: Sequence[str | Path],
    queries: Path | Sequence[Any] | None = None,
    *,
    servers: Sequence[Server] = (),
    form: Form | None = None,
    drop_duplicates: bool = False,
    drop_unknown_gold: bool = False,
    replace: bool = False,
    unit: Sequence[Relation] | None = None,
    fields: Mapping[str, str] | None = None,
    notes: list[str] | None = None,
) -> Dataset:
    """Keep the tools of files, folders and MCP servers as a dataset, with or without queries.

    Args:
        name: a new id.
        sources: files or folders, each as `PATH` or `SERVER=PATH`.
        queries: a file of queries, a folder with queries.jsonl and qrels in BEIR form, or rows with `query` and
            `tools`; None for a dataset without queries.
        servers: MCP servers, which are started or asked for their tools, one after the other.
        form: read all sources as this form; None to recognise it.
        drop_duplicates: of different tools with the same id, keep the first.
        drop_unknown_gold: leave out what queries need of tools that no source has, instead of an error.
        replace: put the new dataset in the place of one that was added under the same id.
        unit: the relations that make queries dependent; None for the default.
        fields: what fields of the queries are called in their file: our name, or `text`, -> a path such as
            `case.prompt`.
        notes: takes sentences about what of the queries was read otherwise than it is written, which the dataset keeps
            among its known issues.

    Raises:
        UsageError: the id is taken, a source or the queries cannot be read, or two servers have one name.
        DataError: a source or the queries are malformed, or two tools have the same id.
        UnavailableError: a file is YAML and PyYAML is not installed, or a server does not list its tools.
    """
    _check(name, replace)
    named = FieldNames.of(fields or {})
    if servers and form not in {None, "mcp"}:
        raise UsageError(
            f"an MCP server lists its tools as mcp, not as {form}; leave out --as, and each form is recognised."
        )
    places = [Source.of(source if isinstance(source, str) else str(source)) for source in sources]
    documents = read_sources(places)
    listed, remarks = _list_server_tools(servers)
    catalogue = catalogue_of([*documents, *listed], form, drop_duplicates=drop_duplicates)
    catalogue = Catalogue(catalogue.tools, (*remarks, *catalogue.remarks))
    names = [place.path.name for place in places] + [document.label for document, _ in listed]
    summary = f"Imported from {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}."
    told = [] if notes is None else notes
    return _keep_catalogue(name, catalogue, queries, named, summary, drop_unknown_gold, replace, unit, told)


def import_values(
    name: str,
    tools: Any,
    queries: Path | Sequence[Any] | None = None,
    *,
    form: Form | None = None,
    drop_duplicates: bool = False,
    drop_unknown_gold: bool = False,
    replace: bool = False,
    unit: Sequence[Relation] | None = None,
    fields: Mapping[str, str] | None = None,
) -> Dataset:
    """Keep tools of a Python program as a dataset: JSON data, or objects that `bench.importing.tools.objects` knows.

    Arguments and errors are those of `import_sources`.
    """
    _check(name, replace)
    named = FieldNames.of(fields or {})
    document = Document(check_json(as_json(tools), _PASSED), _PASSED, _PASSED)
    catalogue = catalogue_of([(document, Source(Path()))], form, drop_duplicates=drop_duplicates)
    return _keep_catalogue(
        name, catalogue, queries, named, "Imported from a Python program.", drop_unknown_gold, replace, unit, []
    )


def _list_server_tools(servers: Sequence[Server]) -> tuple[list[tuple[Document, Source]], list[tuple[str, str]]]:
    """The tools of MCP servers, each a document with the server's name, or that of its host or program; and remarks.

    Raises:
        UsageError: two servers have the same name.
        DataError: a list has what JSON data of bounded size has not.
        UnavailableError: a server cannot be started, does not answer, or not with a list of tools.
    """
    by_name: dict[str, tuple[Document, Source]] = {}
    remarks: list[tuple[str, str]] = []
    for server in servers:
        client = McpClient(server, "asking an MCP server for its tools")
        try:
            server_name, _ = client.info()
            listing = client.tools()
        except Unusable as error:
            raise UnavailableError(f"{server.words} did not list its tools: {error}.") from None
        finally:
            client.close()
        name = server.name or (server.fallback if name_fault(server_name) else server_name)
        if name in by_name:
            raise UsageError(
                f"two MCP servers are called {one_line(name, 60)!r}; name one of them: --mcp 'NAME=COMMAND ARGS'."
            )
        label = f"the MCP server {one_line(name, 120)}"
        by_name[name] = Document(check_json({"tools": listing.tools}, label), label, label), Source(Path(), name)
        if listing.remark:
            remarks.append((label, f"{listing.remark}, with {len(listing.tools)} tools"))
    return list(by_name.values()), remarks


def _check(name: str, replace: bool) -> None:
    """What can be known before anything is read."""
    check_id(name)
    check_free(name)
    check_absent(name, replace)


def _keep_catalogue(
    name: str,
    catalogue: Catalogue,
    queries: Path | Sequence[Any] | None,
    fields: FieldNames,
    summary: str,
    drop_unknown_gold: bool,
    replace: bool,
    unit: Sequence[Relation] | None,
    notes: list[str],
) -> Dataset:
    issues = []
    if catalogue.remarks:
        issues.append(
            f"Left out or not resolved on import: {len(catalogue.remarks)} parts of the sources; the first: "
            f"{': '.join(catalogue.remarks[0])}."
        )
    parsed: list[Query] = []
    unknown: list[tuple[str, str]] = []
    dropped = unknown if drop_unknown_gold else None
    if isinstance(queries, Path) and queries.is_dir():
        if fields.given:
            raise UsageError("--field names fields of a file of queries; a folder in BEIR form has its own.")
        record = NameRecord()
        parsed, _, left_out = import_queries(queries, ToolNames(catalogue.tools), record=record)
        notes += filter(None, [record.mapped()])
        if left_out:
            issues.append(f"{len(left_out)} queries were omitted on import, because no split contains them.")
    elif isinstance(queries, Path):
        parsed = read_queries(queries, catalogue.tools, dropped, fields=fields, notes=notes)
    elif isinstance(queries, str) or not isinstance(queries, Sequence | None):
        raise UsageError("queries must be a path, or a list of objects with query and tools.")
    elif queries is not None:
        rows = check_json(list(queries), "the queries")
        placed = [(f"entry {n}", row) for n, row in enumerate(rows, start=1)]
        parsed = queries_of(placed, catalogue.tools, "the queries", dropped, fields=fields, notes=notes)
    if unknown:
        issues.append(
            f"{len(unknown)} judgements of tools outside the library were dropped on import; a query that needs no "
            "other tool was omitted."
        )
    issues += [f"Of the queries: {note}." for note in notes]
    card_fields = {
        "id": name,
        "title": name,
        "summary": summary,
        "licence": "not stated",
        "redistribution": False,
        "template": "name_description",
        "known_issues": issues,
    }
    card = with_unit(cards_from(card_fields, name)[0], unit)
    return keep(
        Dataset.build(name, card, Tables(catalogue.tools, parsed, unknown_gold=unknown, remarks=catalogue.remarks)),
        replace,
    )
