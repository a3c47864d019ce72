"""The datasets derived from ToolLens: their sizes, that nothing leaks, and what their cards say is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from kit.datasets import built, digest, loaded, of_upstream
from kit.validation import count_findings

from bench.base.errors import DataError, UsageError
from bench.base.spec import parse
from bench.data.dataset import Dataset
from bench.data.derive import DomainOptions, HoldOutOptions, held_units
from bench.data.entries import dataset_entry
from bench.data.parents import parent_of
from bench.data.tables import Query
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.registry import build_method
from bench.results.slices import by_slice
from bench.results.store import StoredResult

unseen = of_upstream("toollens-unseen")
domains = of_upstream("toollens-domains")


def of(dataset: Dataset, *splits: str, **slices: str) -> list[Query]:
    return [q for q in dataset.queries if q.split in splits and all(q.slices.get(k) == v for k, v in slices.items())]


def tools(queries: Iterable[Query]) -> set[str]:
    return {tool for query in queries for tool in query.gold}


def parents(dataset: Dataset, queries: Iterable[Query]) -> set[tuple[str, ...]]:
    return {parent_of(dataset.tools[dataset.tool_codes[tool]]) for tool in tools(queries)}


def sets(dataset: Dataset, queries: Iterable[Query]) -> list[frozenset[tuple[str, ...]]]:
    return [frozenset(parents(dataset, [query])) for query in queries]


def bundles(queries: Iterable[Query]) -> set[frozenset[str]]:
    return {frozenset(query.gold) for query in queries}


def records(dataset: Dataset, places: Iterable[int]) -> list[tuple[object, ...]]:
    chosen = [(i, dataset.queries[i]) for i in places]
    return [(i, q.query_id, q.split, dict(q.slices), sorted(q.gold)) for i, q in chosen]


# Parents held out of train ------------------------------------------------------------------------------------------


def test_unseen_has_the_whole_library_and_upstreams_test_queries(unseen: Dataset) -> None:
    whole = loaded("toollens")
    assert unseen.tools == whole.tools
    assert [len(unseen.rows(split)) for split in ("train", "dev", "test")] == [10015, 600, 1877]
    before, after = ({q.query_id: (q.text, q.gold) for q in of(d, "test")} for d in (whole, unseen))
    assert before == after
    assert {q.query_id for q in of(unseen, "train", "dev")} < {q.query_id for q in of(whole, "train")}


def test_unseen_records(unseen: Dataset) -> None:
    assert records(unseen, (0, 9, 6246, 12491)) == [
        (0, "0", "train", {}, ["19", "75", "8"]),
        (9, "10005", "train", {}, ["166", "7", "75"]),
        (6246, "1839", "test", {"parent": "seen"}, ["158", "361"]),
        (12491, "9999", "train", {}, ["17", "255", "75"]),
    ]
    assert digest(unseen.tools[463].text("source")) == "e8e88bd4d6b6eee3"


def test_unseen_slices(unseen: Dataset) -> None:
    assert Counter((q.split, q.slices.get("parent", "")) for q in unseen.queries) == {
        ("train", ""): 10015,
        **{("dev", value): count for value, count in (("seen", 514), ("mixed", 34), ("unseen", 52))},
        **{("test", value): count for value, count in (("seen", 1160), ("dev", 186), ("mixed", 332), ("unseen", 199))},
    }


def test_no_parent_of_an_unseen_query_was_met_before(unseen: Dataset) -> None:
    past = parents(unseen, of(unseen, "train", "dev"))
    assert not parents(unseen, of(unseen, "test", parent="unseen")) & past
    assert not parents(unseen, of(unseen, "dev", parent="unseen")) & parents(unseen, of(unseen, "train"))
    assert parents(unseen, of(unseen, "test", parent="seen")) <= parents(unseen, of(unseen, "train"))


def test_the_known_issues_of_unseen_are_what_the_card_says(unseen: Dataset) -> None:
    whole = loaded("toollens")
    train = of(whole, "train")
    lost = {q.query_id for q in train} - {q.query_id for q in unseen.queries}
    without_dev = of(loaded("toollens-unseen(dev=0)"), "train")
    assert (len(lost), len(train) - len(without_dev)) == (6278, 4809)
    assert len({parent_of(tool) for tool in unseen.tools} - parents(unseen, of(unseen, "train"))) == 104
    uses = Counter(parent for query in train for parent in parents(whole, [query]))
    common = {parent for parent, count in uses.items() if count > 0.02 * len(train)}
    assert len(common) == 28
    held = held_units(sets(whole, of(whole, "test")), 0.15 * 314, 0, common)
    for_dev = held_units(sets(whole, without_dev), 0.15 * 314 / 2, 0, common)
    assert (len(held), len(for_dev), held & for_dev) == (49, 24, frozenset())
    assert not (held | for_dev) & parents(unseen, of(unseen, "train"))
    assert not held & parents(unseen, of(unseen, "dev"))
    assert round(sum(bool(parents(whole, [q]) & common) for q in train) / len(train), 2) == 0.75
    tested = {value: of(unseen, "test", parent=value) for value in ("seen", "mixed", "unseen")}
    alone = {value: sum(len(q.gold) == 1 for q in queries) / len(queries) for value, queries in tested.items()}
    assert (round(alone["unseen"], 2), round(alone["seen"], 2)) == (0.38, 0.05)
    # 75 and 17 are the two tools that upstream uses most.
    hubs = [sum(bool(q.gold.keys() & {"75", "17"}) for q in tested[value]) for value in ("seen", "unseen")]
    assert (round(hubs[0] / 1160, 2), hubs[1]) == (0.43, 0)
    assert {value: len(bundles(queries)) for value, queries in tested.items()} == {
        "seen": 284,
        "mixed": 81,
        "unseen": 41,
    }
    known = bundles(of(unseen, "train"))
    assert bundles(tested["seen"]) <= known
    assert not (bundles(tested["mixed"]) | bundles(tested["unseen"])) & known


def test_the_audit_of_unseen_finds_what_is_new_and_no_query_twice(unseen: Dataset) -> None:
    by_check = count_findings(unseen)
    assert by_check["leaked-query"] == by_check["leaked-query-dev"] == by_check["duplicate-query"] == 0
    assert (by_check["leaked-bundle"], by_check["unseen-parent"]) == (1160, 717)


def test_the_slices_differ_for_a_method_that_learns_nothing(unseen: Dataset, tmp_path: Path) -> None:
    runner = Runner(tmp_path / "results", load=lambda spec: unseen, build=build_method)
    (result,) = runner.run([Plan(parse("toollens-unseen"), parse("bm25"))])
    assert isinstance(result, StoredResult)
    by_value = {item.value: item for item in by_slice(result, unseen, "parent", ["recall@5"])}
    assert {value: item.n for value, item in by_value.items()} == {
        "seen": 1160,
        "dev": 186,
        "mixed": 332,
        "unseen": 199,
    }
    assert by_value["seen"].metrics["recall@5"].mean == pytest.approx(0.241, abs=0.002)
    assert by_value["unseen"].metrics["recall@5"].mean == pytest.approx(0.324, abs=0.002)


@pytest.mark.parametrize(
    ("spec", "sizes", "chosen"),
    [
        ("toollens-unseen", [10015, 600, 1877], "8d2357a54dab0a05"),
        ("toollens-unseen(seed=1)", [9770, 600, 1877], "549e4fca38c6cb67"),
        ("toollens-unseen(dev=0)", [12084, 0, 1877], "d64509bfadd666ab"),
        ("toollens-unseen(share=0.3)", [7516, 600, 1877], "133f2cee407fc2bc"),
        ("toollens-unseen(by=category, common=0.15)", [9108, 600, 1877], "be734795a724e7e9"),
        ("toollens-domains", [6122, 600, 1976], "a912ff2c9d7dd40c"),
        ("toollens-domains(seed=1)", [6016, 600, 1932], "6c2bd8ef3ce4be34"),
        ("toollens-domains(dev=0, share=0.1)", [7968, 0, 1466], "168b417e3c373a46"),
    ],
)
def test_splits_never_change(mirror: Path, spec: str, sizes: list[int], chosen: str) -> None:
    dataset = built(spec)
    assert dataset.spec == spec
    assert [len(dataset.rows(split)) for split in ("train", "dev", "test")] == sizes
    assert digest("\n".join(query.query_id for query in of(dataset, "train"))) == chosen


def test_categories_are_held_out_whole(mirror: Path) -> None:
    dataset = loaded("toollens-unseen(by=category, common=0.15)")
    known = {parent[0] for parent in parents(dataset, of(dataset, "train", "dev"))}
    new = {parent[0] for parent in parents(dataset, of(dataset, "test"))} - known
    assert len(new) == 4
    held = [query for query in of(dataset, "test") if {p[0] for p in parents(dataset, [query])} <= new]
    assert held
    assert {query.slices["parent"] for query in held} == {"unseen"}


# Domains ------------------------------------------------------------------------------------------------------------


def test_domains_records(domains: Dataset) -> None:
    assert (len(domains.tools), len({parent_of(tool) for tool in domains.tools})) == (356, 243)
    assert records(domains, (0, 9, 4349, 8697)) == [
        (0, "1", "train", {}, ["100", "148", "30"]),
        (9, "10014", "train", {}, ["118", "17", "75"]),
        (4349, "18525", "train", {}, ["153", "50", "57"]),
        (8697, "9999", "train", {}, ["17", "255", "75"]),
    ]
    assert [(i, domains.tools[i].tool_id, digest(domains.tools[i].text("description"))) for i in (0, 178, 355)] == [
        (0, "1", "8ec270f2aa033ca1"),
        (178, "304", "51bb7d34aa423d02"),
        (355, "99", "29e12294a975e9c7"),
    ]


def test_domains_keep_what_the_paper_keeps(domains: Dataset) -> None:
    whole = loaded("toollens")
    kept = {t.tool_id for t in domains.tools}
    assert [t for t in whole.tools if 5 <= len(t.description.split()) <= 50] == list(domains.tools)
    assert all(1 <= len(q.gold) <= 3 and q.gold.keys() <= kept for q in domains.queries)
    assert domains.card.template == "description"


def test_no_tool_or_parent_leaks_from_the_out_of_domain_test(domains: Dataset) -> None:
    past, out = of(domains, "train", "dev"), of(domains, "test", domain="out")
    assert not tools(out) & tools(past)
    assert not parents(domains, out) & parents(domains, past)
    assert not parents(domains, out) & parents(domains, of(domains, "test", domain="in"))
    assert not {q.text.casefold() for q in out} & {q.text.casefold() for q in past}
    assert tools(of(domains, "test", domain="in")) <= tools(of(domains, "train"))
    assert not of(domains, "dev", domain="out")


def test_the_known_issues_of_domains_are_what_the_card_says(domains: Dataset) -> None:
    whole = loaded("toollens")
    before = {query.query_id: query.split for query in whole.queries}
    past = of(domains, "train", "dev")
    inside, out = (of(domains, "test", domain=name) for name in ("in", "out"))
    assert (len(inside), {before[q.query_id] for q in inside}) == (723, {"test"})
    assert Counter(before[q.query_id] for q in out) == {"train": 1113, "test": 140}
    lengths = [len(tool.description.split()) for tool in whole.tools]
    assert (sum(n < 5 for n in lengths), sum(n > 50 for n in lengths)) == (79, 29)
    kept = {tool.tool_id for tool in domains.tools}
    described = [query for query in whole.queries if query.gold.keys() <= kept]
    assert (len(whole.queries) - len(described), len(described) - len(domains.queries)) == (8895, 1177)
    assert len(kept - tools(domains.queries)) == 110
    assert (len(parents(domains, out)), len(tools(out)), len(parents(whole, described))) == (39, 43, 195)
    alone = [sum(len(q.gold) == 1 for q in queries) / len(queries) for queries in (out, inside)]
    assert [round(share, 2) for share in alone] == [0.39, 0.08]
    assert (len(bundles(out)), len(bundles(inside))) == (31, 182)
    assert bundles(inside) <= bundles(of(domains, "train"))
    texts = {tool.tool_id: " ".join(tool.description.casefold().split()) for tool in domains.tools}
    known = {texts[tool] for tool in tools(past)}
    assert [tool for tool in sorted(tools(out)) if texts[tool] in known] == ["247"]


# Options ------------------------------------------------------------------------------------------------------------


def test_each_card_has_its_own_options() -> None:
    assert dataset_entry("toollens-unseen").own_options() is HoldOutOptions
    assert dataset_entry("ToolLens-domains").own_options() is DomainOptions
    with pytest.raises(UsageError, match=r"dataset toollens has no parameter 'share'; its parameters: distractors"):
        loaded("toollens(share=0.1)")
    with pytest.raises(UsageError, match=r"dataset toollens-domains has no parameter 'by'; its parameters: share"):
        loaded("toollens-domains(by=category)")


def test_what_cannot_be_held_out_is_told(mirror: Path) -> None:
    with pytest.raises(DataError, match=r"nothing can be held out: .* raise `common`"):
        loaded("toollens-unseen(by=category)")
    with pytest.raises(DataError, match=r"cannot move 20000 of 12084 train queries to dev"):
        loaded("toollens-unseen(dev=20000)")
