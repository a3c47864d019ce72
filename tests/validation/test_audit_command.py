"""`bench data audit`: its table, its JSON, and the findings that fail a build."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Bench = Callable[..., Any]


def test_audit_shows_every_finding(bench: Bench) -> None:
    rows = bench("data", "audit", "starter", "--json").json["findings"]
    assert {"empty-description", "leaked-query", "unseen-parent"} <= {row["check"] for row in rows}
    (no_gold,) = [row for row in rows if row["check"] == "no-gold"]
    assert (no_gold["count"], no_gold["total"], no_gold["share"]) == (24, 375, 24 / 375)
    table = bench("data", "audit", "starter").out
    assert all(row["check"] in table for row in rows)
    assert re.search(r"no-gold +.* 24 of 375 +0\.064", table)


def test_audit_compares_with_other_datasets(bench: Bench) -> None:
    said = bench("data", "audit", "starter", "--against", "starter", "--json").json["findings"]
    by_key = {row["check"]: row for row in said if row["check"].startswith(("shared-", "near-"))}
    assert by_key["shared-query"]["share"] == by_key["shared-tool"]["share"] == 1
    assert by_key["near-query"]["count"] == by_key["near-query"]["total"] > 100
    assert "did you mean 'starter'" in bench("data", "audit", "starter", "--against", "startr", code=2).err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--fail-on", "confusable"], 1, "the audit of mine found what --fail-on names: confusable 2 of 4."),
        (["--fail-on", "never-gold", "--fail-on", "empty-query", "--fail-on", "confusable"], 1,
         "names: confusable 2 of 4, never-gold 1 of 4."),
        (["--fail-on", "shared-tool", "--against", "starter", "--fail-on", "near-query", "--against", "mine"], 1,
         "names: near-query 3 of 3, shared-tool 4 of 4."),
        (["--fail-on", "empty-query"], 0, ""),
        # What cannot be found is no pass.
        (["--fail-on", "confusing"], 2, "an audit finds nothing called 'confusing'; it finds empty-description, dupli"),
        (["--fail-on", "shared-tool"], 2, "shared-tool is found by a comparison: name a dataset"),
    ],
)  # fmt: skip
def test_an_audit_can_fail_a_build(bench: Bench, folder: Path, words: list[str], code: int, said: str) -> None:
    with (folder / "corpus.jsonl").open("a") as corpus:
        corpus.write('{"_id": "crm.get", "title": "get", "text": "Looks up the customers, by name or by e-mail."}\n')
    bench("data", "add", "mine", "--from", folder)
    done = bench("data", "audit", "mine", *words, code=code)
    assert said in done.err
    assert ("crm.find ~ crm.get" in done.out) == (code < 2)
    if code < 2:
        failed = bench("data", "audit", "mine", *words, "--json", code=code).json["failed"]
        assert failed == re.findall(r"([a-z-]+) \d+ of", done.err)


def test_audit_shows_how_dependent_the_queries_are(bench: Bench) -> None:
    result = bench("data", "audit", "starter", "--json").json
    assert result["unit"] == "gold+parent"
    rules = {rule["name"]: rule for rule in result["units"]}
    assert {"gold", "group", "text", "parent", "gold+parent", result["proposed_unit"]} == rules.keys()
    assert rules["gold+parent"]["sizes"] == {"queries": 126, "units": 93, "largest": 4, "effective": 71.5}
    assert rules["group"]["methods"]["bm25"] == {"correlation": None, "effect": pytest.approx(1.0)}
    effect = rules["gold+parent"]["methods"]["bm25"]["effect"]
    said = bench("data", "audit", "starter").out
    assert "unit of independence: gold+parent, 126 judged queries in 93 units, at most 4 in one" in said
    assert re.search(rf"^ gold\+parent +93 +4 +71\.5 +-?0\.\d\d +{effect:.2f} ", said, re.M)
    assert "The data support the unit parent; the card's reason: Every request was written" in " ".join(said.split())
