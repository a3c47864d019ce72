"""RestBench: requests for the APIs of TMDB and Spotify, each with the operations that answer it, as method and path.

The tools are the operations of the API's OpenAPI document, which upstream has beside the requests.
"""

from __future__ import annotations

import json

from pydantic import BaseModel, ConfigDict, Field

from bench.base.parameters import ParameterSet
from bench.data.card import Card
from bench.data.files import Files
from bench.data.tables import Query, Tables
from bench.importing.tools.catalogue import Source, read_catalogue


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")

    query: str = Field(min_length=1)
    solution: list[str] = Field(min_length=1)


def load(files: Files, options: ParameterSet, card: Card) -> Tables:
    """The operations of the card's API, and the requests numbered in upstream's order.

    Gold that names an operation which the document does not have is in `unknown_gold`.

    Raises:
        DataError: a file is not in upstream's format.
    """
    read = read_catalogue([Source(files.path(f"specs/{card.variant}_oas.json"))], "openapi")
    operations: dict[str, str] = {}
    for tool in read.tools:
        about = json.loads(tool.annotations or "{}")
        operations[f"{about['method']} {about['path']}"] = tool.tool_id
    queries: list[Query] = []
    unknown: list[tuple[str, str]] = []
    left_out: list[str] = []
    for number, record in enumerate(files.read_as(list[_Record], f"datasets/{card.variant}.json")):
        identifier = f"{number:03}"
        # Upstream has spaces around some paths.
        calls = [call.strip() for call in record.solution]
        unknown += [(identifier, call) for call in dict.fromkeys(calls) if call not in operations]
        gold = {operations[call]: 1 for call in calls if call in operations}
        if gold:
            queries.append(Query(identifier, record.query, gold))
        else:
            left_out.append(identifier)
    return Tables(read.tools, queries, unknown_gold=unknown, left_out=left_out, remarks=read.remarks)
