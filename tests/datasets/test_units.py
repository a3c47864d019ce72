"""The unit of independence of every built-in dataset: what its card says is so, and changes no content hash."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from kit.datasets import loaded

from bench.data.card import UnitSizes
from bench.data.units import judged_units, unit_codes, unit_sizes
from bench.registry import dataset_entries

RESULTS = Path(__file__).resolve().parents[2] / "board" / "results"
#: Those with queries: a catalogue has nothing that could be dependent.
BUILT_IN = {
    name: entry.card
    for name, entry in dataset_entries().items()
    if entry.module is not None and (entry.card.counts is None or entry.card.counts.gold_max)
}
#: Those whose files are in the mirror.
AT_HAND = sorted(name for name, card in BUILT_IN.items() if not card.obtain)
#: Options under which queries depend on each other in another way.
OPTIONS = {
    "rectools(split=bundle-disjoint)": UnitSizes(queries=200, units=40, largest=5, effective=40.0),
    "toolbench(split=held-out)": UnitSizes(queries=341, units=256, largest=6, effective=185.5),
}
#: Datasets that have queries in common, by their source.
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


def results_of(spec: str) -> list[Path]:
    """The stored results of a dataset."""
    return sorted((RESULTS / re.sub(r"[(=]", "-", spec).rstrip(")")).glob("*/manifest.json"))


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_a_card_names_its_unit_and_says_why(name: str) -> None:
    card = BUILT_IN[name]
    assert "unit" in card.model_fields_set
    assert len(card.unit.reason.split()) > 20
    # Where the data can be had, the reason gives correlations, or counts what they would be measured on.
    assert re.search(r"\d\.\d\d", card.unit.reason) or card.obtain
    assert (card.counts is not None and card.counts.dependence is not None) == (not card.obtain)


@pytest.mark.parametrize("spec", [*AT_HAND, *OPTIONS])
def test_the_units_are_those_that_were_looked_at(mirror: Path, spec: str) -> None:
    counts = BUILT_IN[spec.partition("(")[0]].counts
    assert counts is not None
    assert unit_sizes(judged_units(loaded(spec))) == OPTIONS.get(spec, counts.dependence)


@pytest.mark.parametrize("spec", [spec for spec in [*AT_HAND, *OPTIONS] if results_of(spec)])
def test_groups_change_no_content_hash(mirror: Path, spec: str) -> None:
    identities = [json.loads(path.read_text("utf-8"))["dataset"] for path in results_of(spec)]
    assert {identity["content_hash"] for identity in identities} == {loaded(spec).content_hash}


def test_datasets_with_the_same_queries_have_one_source() -> None:
    families = {**SOURCES, "toolbench": [name for name in BUILT_IN if name.startswith("toolbench")]}
    for source, names in families.items():
        assert {BUILT_IN[name].source or name for name in names} == {source}


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
