"""Store tool catalogues as user datasets, and write the tools of servers to files, for `bench data` and the API."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.base.errors import UnavailableError, UsageError
from bench.base.paths import storage_errors, write_text
from bench.base.secrets import MASK
from bench.base.text import one_line, unique_slug
from bench.data.beir import import_queries
from bench.data.card import Relation, cards_from
from bench.data.dataset import Dataset
from bench.data.tables import Query, Tables, Tool
from bench.data.tool_names import NameRecord, ToolNames
from bench.importing.queries import queries_of
from bench.importing.query_files import query_rows
from bench.importing.query_rows import FieldNames
from bench.importing.reading import Document, check_json
from bench.importing.tools.catalogue import Catalogue, Source, catalogue_of, read_catalogue, read_sources
from bench.importing.tools.forms import Form
from bench.importing.tools.tool import as_listed, canonical, name_fault
from bench.registry.adding import check_absent, check_free, check_id, keep, stored_tools, with_unit
from bench.remote.answers import Unusable
from bench.remote.mcp import McpClient
from bench.remote.servers import Server
from bench.show.numbers import several


def import_sources(
    name: str,
    sources: Sequence[str | Path | Document],
    queries: Path | Sequence[Any] | None = None,
    *,
    servers: Sequence[Server] = (),
    form: Form | None = None,
    drop_duplicates: bool = False,
    drop_unknown_gold: bool = False,
    skip_failed: bool = False,
    replace: bool = False,
    unit: Sequence[Relation] | None = None,
    fields: Iterable[tuple[str, str]] = (),
    notes: list[str] | None = None,
) -> Dataset:
    """Store the tools of files, folders, MCP servers and programs as a dataset, with or without queries.

    Args:
        name, form, drop_duplicates, drop_unknown_gold, replace: as in `bench.import_tools`.
        sources: files or folders, each as `PATH` or `SERVER=PATH`, or documents from a program.
        queries: a file of queries, a BEIR folder with queries.jsonl and qrels, or rows with `query` and `tools`; None
            for a dataset without queries.
        servers: MCP servers to start or ask for their tools, one after the other.
        skip_failed: leave out servers that do not list their tools, instead of raising an error.
        unit: the relations that make queries dependent; None for the default.
        fields: pairs of bench's name of a field, or `text`, and its name in the queries: a path such as `case.prompt`.
        notes: receives sentences about parts of the queries that are not read, or read differently from how they are
            written; they also become known issues of the dataset.

    Raises:
        UsageError: the id is taken, a source or the queries cannot be read, or two servers have one name.
        DataError: a source or the queries are malformed, or two tools have the same id.
        UnavailableError: a file is YAML and PyYAML is not installed, or a server does not list its tools.
    """
    check_id(name)
    check_free(name)
    check_absent(name, replace)
    notes = [] if notes is None else notes
    named = FieldNames.of(fields)
    passed = [(each, Source(Path())) for each in sources if isinstance(each, Document)]
    places = [Source.of(str(each)) for each in sources if not isinstance(each, Document)]
    documents = [*passed, *read_sources(places)]
    listed, failed, remarks = list_tools(servers, form, skip_failed=skip_failed, others=bool(documents))
    catalogue = catalogue_of([*documents, *listed], form, drop_duplicates=drop_duplicates)
    parts = (*remarks, *catalogue.remarks)
    catalogue = Catalogue(catalogue.tools, (*failed, *parts))
    names = [place.path.name for place in places] + [document.label for document, _ in (*passed, *listed)]
    issues = []
    if failed:
        of = f"{len(failed)} of {len(servers)}"
        issues.append(f"MCP servers left out on import ({of}): {', '.join(words for words, _ in failed)}.")
    if parts:
        issues.append(
            f"Left out or not resolved on import: {several(len(parts), 'part')} of the sources; the first: "
            f"{': '.join(parts[0])}."
        )
    unknown: list[tuple[str, str]] = []
    # The dataset that is replaced shows which tools were renamed.
    tools, earlier = catalogue.tools, partial(stored_tools, name)
    parsed: list[Query] = []
    if isinstance(queries, Path) and queries.is_dir():
        if named.given:
            raise UsageError("--field names fields of a query file; the field names of a BEIR folder are fixed.")
        record = NameRecord()
        parsed, _, _ = import_queries(queries, ToolNames(tools, earlier), notes, record=record)
        notes += filter(None, [record.mapped()])
    elif queries is not None:
        rows, where = _rows_of(queries, named)
        dropped = unknown if drop_unknown_gold else None
        parsed = queries_of(rows, tools, where, dropped, fields=named, notes=notes, earlier=earlier)
    if unknown:
        issues.append(
            f"Dropped on import: {several(len(unknown), 'judgement')} of tools outside the library; a query that needs "
            "no other tool was omitted."
        )
    issues += [f"Of the queries: {note}." for note in notes]
    card_fields = {
        "id": name,
        "title": name,
        "summary": f"Imported from {', '.join(names[:3])}{', ...' if len(names) > 3 else ''}.",
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


def _rows_of(queries: object, fields: FieldNames) -> tuple[list[tuple[str, Any]], str]:
    """(place, row) of each row of a file or a list, and its name in messages."""
    if isinstance(queries, Path):
        return query_rows(queries, fields), str(queries)
    if isinstance(queries, str) or not isinstance(queries, Sequence):
        raise UsageError("queries must be a path, or a list of objects with query and tools.")
    rows = check_json(list(queries), "the queries")
    return [(f"entry {number}", row) for number, row in enumerate(rows, start=1)], "the queries"


def list_tools(
    servers: Sequence[Server], form: Form | None = None, *, skip_failed: bool = False, others: bool = False
) -> tuple[list[tuple[Document, Source]], list[tuple[str, str]], list[tuple[str, str]]]:
    """Ask MCP servers for their tools.

    Args:
        servers: servers to start or ask, one after the other.
        form: the form of all sources.
        skip_failed: leave out servers that fail, unless all fail and there are no other sources.
        others: whether there are other sources.

    Returns:
        For each server a document with its name, or the name of its host or program; (server, reason) for each server
        that failed; (server, remark) for lists with oddities.

    Raises:
        UsageError: two servers have the same name, or the form is not MCP.
        DataError: a list is not JSON data of bounded size.
        UnavailableError: a server cannot be started, does not reply, or replies without a list of tools.
    """
    if servers and form not in {None, "mcp"}:
        raise UsageError(
            f"an MCP server lists its tools as mcp, not as {form}; remove --as to detect the form of each source."
        )
    by_name: dict[str, tuple[Document, Source]] = {}
    remarks: list[tuple[str, str]] = []
    failed: list[tuple[str, str]] = []
    for server in servers:
        client = McpClient(server, "asking an MCP server for its tools")
        try:
            server_name, _ = client.info()
            listing = client.tools()
        except (Unusable, UnavailableError) as error:
            reason = str(error).removesuffix(".")
            is_named = isinstance(error, UnavailableError)
            failed.append((server.words, reason if is_named else f"{server.words} did not list its tools: {reason}"))
            continue
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
            remarks.append((label, f"{listing.remark}, with {several(len(listing.tools), 'tool')}"))
        if MASK in repr(listing.tools):
            remarks.append((label, f"its list contains a key, which is replaced by {MASK}"))
    if failed and not (skip_failed and (by_name or others)):
        hint = "; leave out servers that fail with --skip-failed" if by_name or others else ""
        raise UnavailableError(f"{'; '.join(reason for _, reason in failed)}{hint}.")
    return list(by_name.values()), [(words, f"left out: {reason}") for words, reason in failed], remarks


def write_tools(servers: Sequence[Server], folder: Path, *, skip_failed: bool = False) -> Iterator[tuple[str, str]]:
    """Write the tools of live servers to `SERVER.json` files that `bench data import` reads.

    Tools are sorted by name. A tool that differs only in the order of keys stays as it is in the file.

    Args:
        servers: servers to start or ask.
        folder: the folder for the files; created if missing.
        skip_failed: leave out servers that fail.

    Yields:
        (place, outcome) for each file, for each file of the folder without a server, and for everything left out.

    Raises:
        UnavailableError: a server does not list its tools.
        DataError: an existing file is not a list of tools.
        StorageError: a file cannot be written.
    """
    listed, failed, remarks = list_tools(servers, skip_failed=skip_failed)
    catalogue = catalogue_of(listed)
    by_server: defaultdict[str, list[Tool]] = defaultdict(list)
    for tool in sorted(catalogue.tools, key=lambda tool: tool.name):
        by_server[tool.tool_id.removesuffix(f"/{tool.name}")].append(tool)
    files: set[Path] = set()
    for server, tools in sorted(by_server.items()):
        is_plain = re.fullmatch(r"\w[\w. -]*", server, re.ASCII) is not None
        file = folder / f"{server if is_plain else unique_slug(server)}.json"
        files.add(file)
        before = {tool.name: tool for tool in read_catalogue([Source(file)]).tools} if file.exists() else {}
        now = [
            old if (old := before.get(tool.name)) is not None and canonical(old) == canonical(tool) else tool
            for tool in tools
        ]
        text = json.dumps({"server": server, "tools": list(map(as_listed, now))}, indent=2, ensure_ascii=False) + "\n"
        is_same = file.exists() and file.read_bytes() == text.encode()
        if not is_same:
            write_text(file, text)
        yield str(file), f"{'unchanged' if is_same else 'written'}, {several(len(tools), 'tool')}"
    with storage_errors(str(folder)):
        for stale in sorted(set(folder.glob("*.json")) - files):
            yield str(stale), "belongs to none of the listed servers; delete it if its server is gone"
    yield from (*failed, *remarks, *catalogue.remarks)
