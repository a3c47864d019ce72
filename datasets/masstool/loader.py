"""Requests that need no tool, from MassTool's test file: a set of queries without tools, one JSON text a line."""

from __future__ import annotations

import json

from bench.base.errors import DataError
from bench.base.parameters import ParameterSet
from bench.data.card import Card
from bench.data.files import Files
from bench.data.tables import Query, Tables

REQUESTS = "datasets/ToolLens/ToolDet/neg_queries_test.jsonl"


def load(files: Files, options: ParameterSet, card: Card) -> Tables:
    """The requests numbered in upstream's order, as they are: repeated ones too, and the white space around them.

    Raises:
        DataError: a line is not a JSON text with something in it.
    """
    queries = []
    for number, line in enumerate(files.text(REQUESTS).rstrip("\n").split("\n"), start=1):
        try:
            text = json.loads(line)
        except (ValueError, RecursionError):
            text = None
        if not isinstance(text, str) or not text.strip():
            raise DataError(f"{REQUESTS}, line {number}: not a JSON text with something in it.")
        queries.append(Query(f"{number - 1:04}", text, {}))
    return Tables([], queries)
