"""API-Bank from its repository: 101 tools, dialogues of levels 1 and 2, scripts of level 3.

Gold = the tools that the annotated dialogue calls, without the benchmark's own ToolSearcher. Samples
without such a call stay, as queries without gold.
"""

from __future__ import annotations

from pydantic import Field

from bench.base.parameters import ParameterSet
from bench.data.card import Card
from bench.data.edges import read_edges
from bench.data.files import Files
from bench.data.tables import Tables

from .parsing import TOOL_TABLE, QueryView, dialogue_queries, level_3_queries, script, table_tools

LEVEL_3 = "api-bank/lv3-samples"
EDGES = "edges.tsv"


class Options(ParameterSet):
    """What the query is."""

    query_view: QueryView = Field(
        "dialogue",
        description="query text: all user turns joined by a space (dialogue), or the first turn only (first)",
    )


def load(files: Files, options: Options, card: Card) -> Tables:
    """The tables of `apibank`; every query is a test query.

    Raises:
        DataError: a file is not in upstream's format.
    """
    scripts = [script(files.text(name), name) for name in files.under(LEVEL_3)]
    return Tables(
        tools=table_tools(files.text(TOOL_TABLE), TOOL_TABLE),
        queries=[*dialogue_queries(files, options.query_view), *level_3_queries(scripts)],
        edges=read_edges(files.folder / EDGES),
    )
