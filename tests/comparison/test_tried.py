"""What a comparison says of the best of many variants: how many there are, and p-values that know of them."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.datasets import make_dataset

from bench.comparison.compare import ComparisonQuestion, compare_results
from bench.comparison.comparison import Comparison
from bench.comparison.render import csv_text, latex, markdown
from bench.comparison.report import Tried
from bench.comparison.tried import tried_sentences
from bench.data.dataset import Dataset
from bench.data.tables import Query, Tool
from bench.evaluation.external import score_run_file
from bench.results.store import StoredResult
from bench.stats.best_of_many import best_of_many
from bench.stats.randomisation import randomisation_test

QUERIES = 60
TOOLS = [Tool(f"t{i:02}", f"t{i:02}", "Does it.", "", "") for i in range(QUERIES + 1)]


@pytest.fixture(scope="module")
def dataset() -> Dataset:
    """A query for each of the first tools."""
    queries = [Query(f"q{i:02}", f"request {i}", {TOOLS[i].tool_id: 1}) for i in range(QUERIES)]
    return make_dataset(TOOLS, queries, id="many")


Submit = Callable[..., StoredResult]


@pytest.fixture
def submit(dataset: Dataset, tmp_path: Path) -> Submit:
    """Scores a run file under a name; it finds the gold tools of these queries."""

    def submit(name: str, found: Sequence[int]) -> StoredResult:
        lines = [
            json.dumps({"query_id": f"q{i:02}", "tools": [TOOLS[i if i in set(found) else -1].tool_id]})
            for i in range(QUERIES)
        ]
        return score_run_file("\n".join(lines).encode(), "run.jsonl", dataset, tmp_path, name=name, command="x")

    return submit


def compared(*results: StoredResult, metric: str = "hit@1") -> Comparison:
    return compare_results(results, ComparisonQuestion((metric,), moved=0))


def tried(report: Comparison) -> dict[str, Tried]:
    return {item.system: item for item in report.datasets[0].metrics[0].tried}


def found(random: np.random.Generator, share: float = 0.5) -> list[int]:
    return [i for i, drawn in enumerate(random.random(QUERIES).tolist()) if drawn < share]


def test_a_single_answer_of_each_is_as_before(submit: Submit) -> None:
    report = compared(submit("mine", range(30)), submit("other", range(20, 60)))
    assert report.datasets[0].metrics[0].tried == []
    assert "tried" not in report.to_dict()["datasets"][0]["metrics"][0]
    assert tried_sentences(report.datasets[0]) == []


def test_a_tuner_who_submits_fifty_variants_is_found_out(submit: Submit) -> None:
    random = np.random.default_rng(0)
    baseline = submit("rival", found(random))
    variants = [submit("mine", found(random)) for _ in range(50)]
    best = max(variants, key=lambda item: item.metrics.metrics["hit@1"].mean)
    report = compared(baseline, best)
    (difference,) = report.datasets[0].metrics[0].differences
    item = tried(report)["mine"]
    # Alone the best of fifty coins looks better than another one.
    assert difference.difference > 0
    assert difference.p < 0.05
    assert (item.variants, item.best) == (50, True)
    assert item.p is not None
    assert item.p > 0.3
    assert item.elsewhere is not None
    assert item.elsewhere < best.metrics.metrics["hit@1"].mean - 0.05
    # The number is that of the test, over all that is stored.
    table = np.column_stack([result.values("hit@1") for result in (baseline, best, *variants)])
    assert item.p == best_of_many(table, np.array([0] + [1] * 51), 0)[1]
    # Whoever is named first, and whichever of the fifty is named.
    assert tried(compared(best, baseline))["rival"].p == item.p
    second = sorted(variants, key=lambda item: -item.metrics.metrics["hit@1"].mean)[1]
    other = tried(compared(baseline, second))["mine"]
    assert not other.best
    assert other.elsewhere is None
    assert other.p is not None
    assert other.p >= item.p


def test_a_real_gain_survives_the_tries(submit: Submit) -> None:
    random = np.random.default_rng(1)
    baseline = submit("rival", range(20))
    best = submit("mine", range(50))
    for _ in range(16):
        submit("mine", found(random, 0.3))
    item = tried(compared(baseline, best))["mine"]
    assert (item.variants, item.best) == (17, True)
    assert item.p is not None
    assert item.p < 0.001
    assert item.elsewhere == pytest.approx(50 / 60)


def test_variants_of_one_system_are_compared_with_the_one_that_is_named(submit: Submit) -> None:
    first, second = submit("mine", range(30)), submit("mine", range(20, 60))
    report = compared(first, second)
    # The other of two is the baseline: nothing was chosen but what is named.
    assert [item.p for item in tried(report).values()] == [None, None]
    assert [item.variants for item in tried(report).values()] == [2, 2]
    submit("mine", range(10, 45))
    plain = compared(first, second).datasets[0].metrics[0].differences[0].p
    p = {name: item.p for name, item in tried(compared(first, second)).items()}
    values = [p for p in p.values() if p is not None]
    assert len(values) == 1
    assert values[0] >= plain


def test_it_is_told_in_every_form(submit: Submit) -> None:
    baseline = submit("rival", range(20))
    best = submit("mine", range(12, 45))
    for start in (14, 16, 18):
        submit("mine", range(start, 45))
    report = compared(baseline, best)
    item = tried(report)["mine"]
    (sentence,) = tried_sentences(report.datasets[0], details=True)
    assert sentence.startswith("mine: best of 4 variants on test; p corrected for variants (and alone): hit@1 .")
    assert "mean to expect on other queries (and here): hit@1 0." in sentence
    # A second p-value stands in details alone.
    assert tried_sentences(report.datasets[0]) == ["mine: best of 4 variants on test"]
    assert "mine: best of 4 variants on test\n" in markdown(report)
    assert "best of 4 variants on test" in latex(report)
    rows = {row["system"]: row for row in csv.DictReader(io.StringIO(csv_text(report)))}
    assert (rows["mine"]["variants"], rows["mine"]["best_variant"], rows["mine"]["p_variants"]) == (
        "4",
        "true",
        str(item.p),
    )
    assert (rows["rival"]["variants"], rows["rival"]["p_variants"]) == ("1", "")
    assert tried_sentences(report.datasets[0], ["recall@5"]) == []


def test_few_units_decide_nothing_of_variants_either(tmp_path: Path) -> None:
    queries = [Query(f"q{i}", f"request {i}", {TOOLS[i].tool_id: 1}) for i in range(6)]
    few = make_dataset(TOOLS, queries, id="few")

    def score(name: str, right: int) -> StoredResult:
        lines = [json.dumps({"query_id": f"q{i}", "tools": [TOOLS[i if i < right else -1].tool_id]}) for i in range(6)]
        return score_run_file("\n".join(lines).encode(), "x.jsonl", few, tmp_path, name=name, command="x")

    baseline, _, best = score("rival", 1), score("mine", 3), score("mine", 5)
    item = tried(compared(baseline, best))["mine"]
    assert (item.variants, item.best, item.p, item.elsewhere) == (2, True, None, None)


def test_the_plain_p_is_that_of_the_pair_test(submit: Submit) -> None:
    one, other = submit("mine", range(30)), submit("rival", range(20, 60))
    (difference,) = compared(one, other).datasets[0].metrics[0].differences
    assert difference.p == randomisation_test((other.values("hit@1") - one.values("hit@1"))[:, None])[0]


def test_the_command_says_it(submit: Submit, tmp_path: Path, bench: Callable[..., Any]) -> None:
    baseline, best = submit("rival", range(20)), submit("mine", range(12, 45))
    submit("mine", range(14, 45))
    ids = [item.manifest.result_id for item in (baseline, best)]
    said = bench("compare", *ids, "--results", str(tmp_path), "-m", "hit@1", "--moved", "0")
    assert "mine: best of 2 variants on test" in " ".join(said.out.split())
    shown = bench("show", ids[1], "--results", str(tmp_path))
    assert "of 2 variants on test" in " ".join(shown.out.split())
    stated = json.loads(bench("show", ids[1], "--results", str(tmp_path), "--json").out)
    assert stated["variants"]["count"] == 2
    assert "hit@1" in stated["variants"]["best"]
    assert "variants" not in json.loads(bench("show", ids[0], "--results", str(tmp_path), "--json").out)
    listed = json.loads(bench("list", "results", "--results", str(tmp_path), "--json").out)["results"]
    assert sorted(item["variants"] for item in listed) == [1, 2, 2]
