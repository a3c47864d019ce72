"""Which tools may destroy something, by their annotations; and annotations that are written and read again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from kit.tiny import CARD

from bench.data.beir import export_beir, import_beir
from bench.data.dataset import Dataset
from bench.data.hints import destructive_tools
from bench.data.parquet import read_dataset, write_dataset
from bench.data.tables import Query, Tables, Tool


def tools(*annotations: Any) -> list[Tool]:
    return [
        Tool(f"t{i}", "t", "d", annotations=None if given is None else json.dumps(given))
        for i, given in enumerate(annotations)
    ]


READS, ADDS = {"readOnlyHint": True}, {"readOnlyHint": False, "destructiveHint": False}


@pytest.mark.parametrize(
    ("annotations", "destructive"),
    [
        ({"readOnlyHint": True}, False),
        ({"readOnlyHint": False}, True),
        ({"destructiveHint": True}, True),
        ({"destructiveHint": False}, False),
        # Meaningful only where the tool is not read-only.
        ({"readOnlyHint": True, "destructiveHint": True}, False),
        ({"readOnlyHint": False, "destructiveHint": True}, True),
        ({"readOnlyHint": False, "destructiveHint": False}, False),
        # No hints of either: the default of MCP.
        (None, True),
        ({}, True),
        ({"openWorldHint": False, "idempotentHint": True, "title": "Send"}, True),
        ({"readOnlyHint": "true"}, True),
        ({"readOnlyHint": 1}, True),
        ({"destructiveHint": None}, True),
        ({"readOnlyHint": None, "destructiveHint": False}, False),
        ([READS], True),
        ("readOnlyHint", True),
    ],
)
def test_the_defaults_of_mcp_hold(annotations: Any, destructive: bool) -> None:
    flags = destructive_tools(tools(annotations, READS, ADDS))
    assert flags is not None
    assert flags.tolist() == [destructive, False, False]


@pytest.mark.parametrize(
    "annotations",
    [
        (),
        (None,),
        (None, None),
        (READS, None, None),
        (READS, ADDS, None, None, None),
        ({"title": "Read"}, {"method": "GET", "path": "/"}),
        ({"readOnlyHint": "yes"}, None),
    ],
)
def test_a_library_of_which_too_little_is_said_has_none(annotations: tuple[Any, ...]) -> None:
    assert destructive_tools(tools(*annotations)) is None


def test_half_of_the_tools_suffice() -> None:
    flags = destructive_tools(tools(READS, None))
    assert flags is not None
    assert flags.tolist() == [False, True]


HINTS = {
    "title": "Löschen",
    "readOnlyHint": False,
    "destructiveHint": True,
    "idempotentHint": False,
    "openWorldHint": True,
    "secretHint": False,
}


def test_annotations_are_kept_by_beir_and_parquet(tmp_path: Path) -> None:
    rows = Tables(tools(HINTS, READS, None), [Query("q", "delete it", {"t0": 1})])
    dataset = Dataset.build("tiny", CARD, rows)
    export_beir(dataset, tmp_path / "beir", "description")
    write_dataset(dataset, tmp_path / "parquet")
    for again in (Dataset.build("tiny", CARD, import_beir(tmp_path / "beir")), read_dataset(tmp_path / "parquet")):
        assert [tool.annotations for tool in again.tools] == [tool.annotations for tool in dataset.tools]
        assert json.loads(again.tools[0].annotations or "") == HINTS
        assert again.content_hash == dataset.content_hash
