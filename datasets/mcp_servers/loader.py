"""MCP servers of Toucan: the tools of real servers as they answered, without queries."""

from __future__ import annotations

from bench.base.parameters import ParameterSet
from bench.data.card import Card
from bench.data.files import Files
from bench.data.tables import Tables
from bench.importing.tools.catalogue import Source, read_catalogue

FOLDER = "mcp_servers"


def load(files: Files, options: ParameterSet, card: Card) -> Tables:
    """The tools as `server/name`; of tools of one server with the same name the first.

    Raises:
        DataError: a file is not in upstream's format.
    """
    sources = [Source(files.path(name)) for name in files.under(FOLDER)]
    read = read_catalogue(sources, drop_duplicates=True)
    return Tables(read.tools, [], remarks=read.remarks)
