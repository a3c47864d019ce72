"""Read the tools of all sources as one catalogue: assign their ids, and report what is left out.

`bench.registry.catalogues`, diagnosis, traces and loaders of datasets call it.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench.base.errors import DataError, UsageError
from bench.base.paths import expand_path
from bench.base.text import one_line
from bench.data.dataset import MAX_ID_LENGTH
from bench.data.tables import Tool
from bench.data.tool_names import operation_of
from bench.importing.reading import ByteBudget, Document, pointer, read_documents
from bench.importing.tools.forms import Form, NoCatalogueError, is_single, tools_of
from bench.importing.tools.openapi import is_openapi
from bench.importing.tools.references import References
from bench.importing.tools.tool import DocumentTool, Skipped, canonical, name_fault
from bench.show.numbers import several

MOST_TOOLS = 200_000
#: Maximum characters of all schemas together, with references resolved.
MOST_SCHEMAS = 512 << 20
#: Names of files and folders that do not name a server; the folder above does.
_GENERIC = frozenset(
    "tools tool functions index server servers openapi swagger api spec schema schemas manifest mcp catalog catalogue "
    "tools_list tools-list list_tools".split()
)


@dataclass(frozen=True)
class Source:
    """A file or folder from the user, and the server of its tools (empty: as the file says)."""

    path: Path
    server: str = ""

    @staticmethod
    def of(text: str) -> Source:
        """Parse a source: `PATH` or `SERVER=PATH`.

        Raises:
            UsageError: the server's name has control characters or is too long.
        """
        server, sign, rest = text.partition("=")
        if not sign or not server or os.path.exists(text):
            return Source(expand_path(text))
        if fault := name_fault(server):
            raise UsageError(f"the server's name {fault}.")
        return Source(expand_path(rest), server)


@dataclass(frozen=True)
class Catalogue:
    """The tools of all sources, and (place, reason) of each part that was left out."""

    tools: tuple[Tool, ...]
    remarks: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class _Entry:
    """A tool with its document and source."""

    document: Document
    source: Source
    item: DocumentTool

    @property
    def label(self) -> str:
        return _place(self.document.label, self.item.steps)

    @property
    def where(self) -> str:
        return _place(self.document.where, self.item.steps)


def read_catalogue(sources: Sequence[Source], form: Form | None = None, *, drop_duplicates: bool = False) -> Catalogue:
    """Read files and folders; arguments and errors as in `catalogue_of`.

    Raises:
        UsageError: a source cannot be read, or is too large.
        UnavailableError: a file is YAML and PyYAML is not installed.
    """
    return catalogue_of(read_sources(sources), form, drop_duplicates=drop_duplicates)


def read_sources(sources: Sequence[Source]) -> list[tuple[Document, Source]]:
    """The documents of files and folders, each with its source; errors as in `read_documents`."""
    budget = ByteBudget()
    return [(document, source) for source in sources for document in read_documents(source.path, budget)]


def catalogue_of(
    documents: Sequence[tuple[Document, Source]], form: Form | None = None, *, drop_duplicates: bool = False
) -> Catalogue:
    """The catalogue of parsed documents.

    A tool's id is `server/name`, or only its name if neither the user nor the documents name a server and there is a
    single list of tools. If there are several lists, a list without a server is named after its file (a folder with one
    file per tool is one list, named after the folder).

    Args:
        documents: parsed documents, each with its source.
        form: the form of all documents; None to recognise the form of each tool.
        drop_duplicates: of different tools with the same id, keep the first; the others are among the remarks.

    Raises:
        UsageError: there are too many tools.
        DataError: a source is not a catalogue, there is no tool at all, or two different tools have the same id.
    """
    budget = ByteBudget()
    remarks: list[tuple[Document, str, str]] = []
    entries: list[_Entry] = []
    empty: list[Document] = []
    parts: set[Path] = set()
    unread: defaultdict[str, list[_Entry]] = defaultdict(list)
    size = 0
    for document, source in documents:
        folder = source.path if source.path != document.file else Path()
        is_api = form == "openapi" or is_openapi(document.value)
        references = References(document.value, document.file, folder, budget) if is_api else None
        before = len(entries) + len(remarks)
        try:
            for item in tools_of(document.value, form, references, is_line=document.line > 0):
                if isinstance(item, Skipped):
                    remarks.append((document, _place(document.label, item.steps), item.reason))
                else:
                    entries.append(_Entry(document, source, item))
                    for name in item.unread:
                        unread[name].append(entries[-1])
                    size += len(item.tool.input_schema or "") + len(item.tool.returns or "")
                many = len(entries) + len(remarks) > MOST_TOOLS
                if many or size > MOST_SCHEMAS:
                    what = f"{MOST_TOOLS} tools" if many else f"{MOST_SCHEMAS >> 20} MiB of schemas"
                    raise UsageError(f"the sources have more than {what}; import a part of them.")
        except DataError as error:
            raise DataError(f"{document.where}: {error}") from None
        except NoCatalogueError as error:
            # A folder may contain other files; a file that the user names must be a catalogue.
            if source.path == document.file:
                raise DataError(f"{document.where} cannot be imported: {error}.") from None
            remarks.append((document, document.label, f"{error}"))
        parts |= references.files if references is not None else set()
        empty += [document] if len(entries) + len(remarks) == before else []
    if parts:  # files that an API refers to are not separate catalogues
        entries = [entry for entry in entries if not _is_part(entry.document, parts)]
        remarks = [remark for remark in remarks if not _is_part(remark[0], parts)]
    if not entries:
        names = [str(document.file) if document.file.name else document.where for document, _ in documents]
        what = f"; {remarks[0][1]}: {remarks[0][2]}" if remarks else ""
        more = f" (and {len(remarks) - 1} more)" if len(remarks) > 1 else ""
        raise DataError(f"there is no tool in {', '.join(dict.fromkeys(names[:3]))}{what}{more}.")
    told = [(place, reason) for _, place, reason in remarks]
    told += [(document.label, "it has no tools") for document in empty if not _is_part(document, parts)]
    for name, having in unread.items():
        told.append((having[0].label, f"the field {one_line(name, 80)!r} is not read ({several(len(having), 'tool')})"))
    tools = _distinct(_assign_ids(entries, told), drop_duplicates, told)
    return Catalogue(tuple(tools), tuple(told))


def _is_part(document: Document, parts: set[Path]) -> bool:
    is_api = is_openapi(document.value) and "paths" in document.value
    return not is_api and Path(os.path.realpath(document.file)) in parts


def _assign_ids(entries: Sequence[_Entry], remarks: list[tuple[str, str]]) -> list[tuple[Tool, str]]:
    """(tool, place) of each entry, with its id and its position in the hierarchy."""
    guesses = {id(entry.document): _guess(entry.document) for entry in entries}
    many = len(set(guesses.values())) > 1
    #: (server, name) -> its operations with their places.
    operations: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    servers = []
    for entry in entries:
        guess = guesses[id(entry.document)][1] if many else ""
        servers.append(entry.source.server or entry.item.server or guess)
        if fault := name_fault(servers[-1] or "-"):
            raise DataError(f"{entry.where}: the server's name {fault}; use SERVER=PATH.")
        if operation := operation_of(entry.item.tool):
            operations[servers[-1], entry.item.tool.name].setdefault(operation, entry.label)
    doubled = {key: places for key, places in operations.items() if len(places) > 1}
    for (_, name), places in doubled.items():
        called = f"{', '.join(list(places)[:5])}{', ...' if len(places) > 5 else ''}"
        reason = f"the operationId {one_line(name, 80)!r} is that of {len(places)} operations; they are called {called}"
        remarks.append((" and ".join(list(places.values())[:2]), one_line(reason, 600)))
    placed = []
    for entry, server in zip(entries, servers, strict=True):
        tool = entry.item.tool
        name = operation_of(tool) if (server, tool.name) in doubled else tool.name
        identifier = f"{server}/{name}" if server else name
        if len(identifier) > MAX_ID_LENGTH:
            raise DataError(f"{entry.where}: the id of the tool is longer than {MAX_ID_LENGTH}.")
        # Category > parent > tool: the tags of an API are below it.
        category, parent = (server, tool.parent) if tool.parent else ("", server)
        tool = replace(tool, tool_id=identifier, name=name, category=category, parent=parent)
        placed.append((tool, entry.label))
    return placed


def _guess(document: Document) -> tuple[str, str]:
    """A key of the list that a document belongs to, and a name for it if it has no server."""
    path = document.file
    if not path.name:
        return "", ""
    full = Path(os.path.abspath(path))
    # One tool per file: the folder is the list. One tool per line: the file is.
    single = is_single(document.value) and not document.line and not is_openapi(document.value)
    named = stem = full.parent / full.stem
    # `pkg/github/__toolsnaps__` and `servers/github/tools.json` are about github.
    if single:
        named = full.parent
    while named.parent.name and (named.name.lower() in _GENERIC or (named.name.startswith("_") and named != stem)):
        named = named.parent
    # File names may contain invalid bytes and control characters.
    return str(full.parent if single else full), one_line(named.name.encode("utf-8", "replace").decode(), 120)


def _distinct(placed: Sequence[tuple[Tool, str]], drop_duplicates: bool, remarks: list[tuple[str, str]]) -> list[Tool]:
    """One tool per id; an equal copy is dropped with a remark."""
    kept: dict[str, tuple[Tool, str]] = {}
    clashes: list[str] = []
    for tool, label in placed:
        first, place = kept.setdefault(tool.tool_id, (tool, label))
        if first is tool:
            continue
        if canonical(first) == canonical(tool):
            remarks.append((label, f"it is equal to {place}, which is kept"))
        elif drop_duplicates:
            remarks.append((label, f"it has the id of {place}, which is kept: {tool.tool_id}"))
        else:
            clashes.append(f"{one_line(tool.tool_id, 120)!r}: {place} and {label}")
    if clashes:
        more = f" ({len(clashes) - 1} more ids are taken twice)" if len(clashes) > 1 else ""
        raise DataError(
            f"two tools have the id {clashes[0]}{more}; `bench data import` names servers by SERVER=PATH, and keeps "
            "the first of each with --drop-duplicates."
        )
    return [tool for tool, _ in kept.values()]


def _place(where: str, steps: tuple[object, ...]) -> str:
    return f"{where}, {pointer(*steps)}" if steps else where
