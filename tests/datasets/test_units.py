"""The unit of independence of every built-in dataset: what its card says is so, and changes no content hash."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from kit.datasets import loaded

from bench.data.units import judged_units, unit_codes, unit_sizes
from bench.registry import dataset_entries

RESULTS = Path(__file__).resolve().parents[2] / "board" / "results"
#: Those with queries: a catalogue has nothing that could be dependent.
BUILT_IN = {
    name: entry.card
    for name, entry in dataset_entries().items()
    if entry.module is not None and (entry.card.counts is None or entry.card.counts.gold_max)
}
#: dataset -> rule; judged queries, units, queries of the largest, effective number.
UNITS = {
    "apibank": ("gold+group", (269, 71, 13, 47.0)),
    "azure-mcp": ("gold+group", (975, 61, 97, 27.8)),
    "azure-mcp-consolidated": ("gold+group", (975, 44, 97, 21.9)),
    "github-mcp": ("gold", (141, 111, 6, 86.8)),
    "livemcpbench": ("gold", (94, 92, 2, 90.2)),
    "metatool": ("gold", (99, 58, 3, 48.3)),
    "metatool-ptr": ("gold", (100, 62, 4, 51.0)),
    "metatool-single": ("gold", (4123, 199, 217, 87.0)),
    "nestful": ("gold+parent", (300, 184, 12, 89.1)),
    "rectools": ("gold", (200, 133, 3, 111.1)),
    "rectools-ptr": ("gold", (100, 80, 3, 69.4)),
    "rectools(split=bundle-disjoint)": ("gold", (200, 40, 5, 40.0)),
    "restbench-spotify": ("gold+parent", (57, 34, 11, 15.1)),
    "restbench-tmdb": ("gold+parent", (100, 64, 8, 38.5)),
    "rotbench": ("group", (105, 50, 8, 30.4)),
    "sealtools": ("none", (1354, 1354, 1, 1354.0)),
    "sealtools-risk": ("none", (1354, 1354, 1, 1354.0)),
    "starter": ("gold+parent", (126, 93, 4, 71.5)),
    "toolbench": ("gold+group", (765, 576, 20, 351.5)),
    "toolbench(split=held-out)": ("gold+group", (341, 256, 6, 185.5)),
    "toolbench-i1-cat": ("gold+group", (153, 88, 5, 67.5)),
    "toolbench-i1-inst": ("gold+group", (163, 154, 3, 145.2)),
    "toolbench-i1-tool": ("gold+group", (158, 100, 4, 79.0)),
    "toolbench-i2-cat": ("gold+group", (124, 119, 2, 114.7)),
    "toolbench-i2-inst": ("gold+group", (106, 100, 3, 92.1)),
    "toolbench-i3-inst": ("gold+group", (61, 15, 20, 6.6)),
    "toollens": ("gold", (1877, 457, 12, 364.9)),
    "toollens-domains": ("gold", (1976, 213, 41, 71.7)),
    "toollens-ptr": ("gold", (1877, 430, 31, 306.6)),
    "toollens-unseen": ("gold", (1877, 457, 12, 364.9)),
    "toollinkos": ("gold+text", (1569, 407, 27, 259.3)),
    "toolret-apibank": ("gold", (101, 60, 5, 44.5)),
    "toolret-apigen": ("gold", (1000, 804, 7, 636.9)),
    "toolret-gorilla-huggingface": ("gold", (500, 393, 4, 338.8)),
    "toolret-toolink": ("gold+text", (497, 147, 70, 15.0)),
}
#: Datasets whose queries no other dataset has, and of which no results are stored.
SINGLE = ["github-mcp", "livemcpbench", "nestful", "restbench-spotify", "restbench-tmdb", "rotbench", "toollinkos"]
#: Others of which no results are stored.
UNSTORED = {name for name in UNITS if name.startswith(("azure-mcp", "toolret-")) or name.endswith("-ptr")}
UNSTORED |= {"sealtools-risk", "toolbench", "toolbench(split=held-out)"}
SOURCES = {
    "apibank": ["apibank", "apibank-full", "toolret-apibank"],
    "azure-mcp": ["azure-mcp", "azure-mcp-consolidated"],
    "metatool": ["metatool", "metatool-ptr", "metatool-single"],
    "rectools": ["rectools", "rectools-ptr"],
    "toollens": ["toollens", "toollens-domains", "toollens-ptr", "toollens-unseen"],
    "taskbench": ["taskbench-dailylifeapis", "taskbench-huggingface", "taskbench-multimedia"],
    "toolret": [*("toolret", "toolret-apigen", "toolret-gorilla-huggingface", "toolret-instructed", "toolret-toolink")],
    "sealtools": ["sealtools", "sealtools-risk"],
    "ultratool": ["ultratool", "ultratool-risk", "ultratool-zh"],
}


def test_every_dataset_that_can_be_had_is_here() -> None:
    assert {name.partition("(")[0] for name in UNITS} == {name for name, card in BUILT_IN.items() if not card.obtain}


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_a_card_names_its_unit_and_says_why(name: str) -> None:
    card = BUILT_IN[name]
    assert "unit" in card.model_fields_set
    assert len(card.unit.reason.split()) > 20
    # Where the data can be had, the reason gives correlations, or counts what they would be measured on.
    assert re.search(r"\d\.\d\d", card.unit.reason) or card.obtain
    assert (card.counts is not None and card.counts.dependence is not None) == (not card.obtain)


@pytest.mark.parametrize("spec", sorted(UNITS))
def test_the_units_are_those_that_were_looked_at(mirror: Path, spec: str) -> None:
    dataset = loaded(spec)
    sizes = unit_sizes(judged_units(dataset))
    assert (dataset.unit, (sizes.queries, sizes.units, sizes.largest, sizes.effective)) == UNITS[spec]
    if spec in BUILT_IN:
        counts = BUILT_IN[spec].counts
        assert counts is not None
        assert counts.dependence == sizes


@pytest.mark.parametrize("spec", sorted(UNITS.keys() - UNSTORED - set(SINGLE)))
def test_groups_change_no_content_hash(mirror: Path, spec: str) -> None:
    folder = RESULTS / re.sub(r"[(=]", "-", spec).rstrip(")")
    identities = [json.loads(path.read_text("utf-8"))["dataset"] for path in folder.glob("*/manifest.json")]
    assert identities
    assert {identity["content_hash"] for identity in identities} == {loaded(spec).content_hash}


def test_datasets_with_the_same_queries_have_one_source() -> None:
    by_key: dict[str, list[str]] = {}
    for name, card in sorted(BUILT_IN.items()):
        by_key.setdefault(card.source or card.id, []).append(name)
    toolbench = by_key.pop("toolbench")
    assert {name for name in BUILT_IN if name.startswith("toolbench")} == set(toolbench)
    alone = {name: [name] for name in ("starter", "mcp-atlas", "skillret", *SINGLE)}
    assert by_key == {**SOURCES, **alone}


def test_derived_datasets_have_the_source_of_their_base(mirror: Path) -> None:
    assert loaded("rectools(split=bundle-disjoint)").source == "rectools"
    assert loaded("toollens-unseen").source == loaded("toollens").source == "toollens"


def test_dialogues_of_api_bank_come_from_scripts(mirror: Path) -> None:
    dataset = loaded("apibank")
    judged = [query for query in dataset.queries if query.gold]
    scripts = Counter(query.group for query in judged)
    # The 8 samples of level 3 have a script each, and so no group.
    assert scripts.pop("") == 8
    assert (len(scripts), max(scripts.values())) == (89, 8)
    assert unit_codes(dataset, ["group"])[[bool(query.gold) for query in dataset.queries]].max() + 1 >= 97
    stock = [query.text for query in dataset.queries if query.group == "QueryStock"]
    assert len(stock) == 6
    assert sum("stock price of SQ" in text for text in stock) == 5


def test_requests_of_toolbench_come_from_lists_of_candidates(mirror: Path) -> None:
    dataset = loaded("toolbench-i3-inst")
    lists = Counter(query.group for query in dataset.queries)
    assert "" not in lists
    assert (len(lists), max(lists.values())) == (15, 20)
    (bitly,) = {query.group for query in dataset.queries if "bitly" in query.text}
    assert lists[bitly] == 20
