"""Effects are the paired comparisons of the stored values, and captures are counted as by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import bench
from bench.base.config import config_context
from bench.base.errors import ResultError, UsageError
from bench.cli.schemas import shipped_schema
from bench.data.dataset import Dataset
from bench.data.tables import Tables
from bench.results.store import STRESS, StoredResult, span_of
from bench.results.units import number_units
from bench.robustness.report import captured_queries, read_stress, with_family
from bench.stats.multiple import holm
from bench.stats.paired import compare

Bench = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("isolated", "fewer_flips")


def test_a_loss_is_the_paired_comparison_with_the_result_of_the_main_board() -> None:
    made = bench.stress("bm25", "starter", ["no-descriptions", "values"])
    result = bench.run("bm25", "starter")
    effect, values = made.report.methods[0].effects
    assert effect.before == pytest.approx(result.mean("recall@5"))
    # A perturbed library is a dataset of its own, whose result by `bench.run` has the same numbers.
    data = bench.load_dataset("starter")
    from bench.robustness.perturbation import apply, choose

    bare, _ = apply(choose(["no-descriptions"])[0], data, data.rows("test"), 0)
    other = bench.run("bm25", Dataset("bare", data.card.model_copy(update={"id": "bare"}), *_parts(bare)))
    assert effect.after == pytest.approx(other.mean("recall@5"))
    lost = result.stored.values("recall@5") - other.stored.values("recall@5")
    taken = ~np.isnan(lost)
    span = span_of("recall@5").of_differences()
    (pair,) = compare(lost[taken][:, None], units=number_units(result.stored.units[taken]), span=span)
    assert (effect.loss, effect.low, effect.high, effect.p) == (pair.difference, pair.low, pair.high, pair.p)
    assert (effect.worse, effect.better, effect.n) == (pair.wins, pair.losses, 126)
    assert effect.worst is not None
    assert effect.worst.before > effect.worst.after
    # Only requests with a number or a date are compared.
    assert 30 < values.n < 126
    corrected = holm([effect.p or 0.0, values.p or 0.0])
    assert [effect.corrected, values.corrected] == corrected.tolist()


def _parts(data: Dataset) -> tuple[Any, ...]:
    return data.tools, data.queries, data.gold, data.edges


def test_captures_are_counted_query_by_query() -> None:
    made = bench.stress("names", "starter", ["squatting(share=0.1)"], metric="recall@3")
    capture = made.report.methods[0].effects[0].capture
    assert capture is not None
    data = bench.load_dataset("starter")
    from bench.robustness.perturbation import apply, choose

    attacked, _ = apply(choose(["squatting(share=0.1)"])[0], data, data.rows("test"), 0)
    other = bench.run("names", Dataset("attacked", data.card.model_copy(update={"id": "attacked"}), *_parts(attacked)))
    first: dict[str, list[str]] = {}
    for row in other.stored.run.to_pylist():
        if row["rank"] <= 3:
            first.setdefault(row["query_id"], []).append(row["tool_id"])
    among = {query: sum(tool.startswith("attacker/") for tool in tools) for query, tools in first.items()}
    n = len(data.rows("test"))
    assert capture.captured == [query for query, number in among.items() if number]
    assert capture.capture.mean == pytest.approx(len(capture.captured) / n)
    assert capture.mean == pytest.approx(sum(among.values()) / n)
    assert capture.domination == pytest.approx(sum(number == 3 for number in among.values()) / n)
    pairs = [
        tools.index(tool) < tools.index(tool.removeprefix("attacker/"))
        for tools in first.values()
        for tool in tools
        if tool.startswith("attacker/") and tool.removeprefix("attacker/") in tools
    ]
    assert (capture.pairs, capture.above) == (len(pairs), pytest.approx(np.mean(pairs)))
    assert len(pairs) > 5


USERS = """
from dataclasses import replace
from bench.robustness.perturbation import perturbation
@perturbation("attack", invariant="it is wrong", source="a test")
def without_targets(queries, tools, seed):
    return queries, [*tools, *(replace(tool, tool_id=f"evil/{tool.tool_id}") for tool in tools)]
def one_more_is_right(queries, tools, seed):
    return [replace(query, gold={**query.gold, tools[0].tool_id: 1}) for query in queries], tools
def seen_by_few(queries, tools, seed):
    return [replace(query, scope=tuple(query.meeting)) for query in queries], tools
"""


def test_attackers_may_lack_targets_and_gold_or_scope_may_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "stressed_by_me.py").write_text(USERS)
    monkeypatch.syspath_prepend(tmp_path)
    names = [f"stressed_by_me:{name}" for name in ("without_targets", "one_more_is_right", "seen_by_few")]
    (method,) = bench.stress("bm25", "starter", names).report.methods
    attack, gold, scope = method.effects
    assert attack.capture is not None
    assert attack.capture.capture.mean > 0.9
    assert (attack.capture.pairs, attack.capture.above) == (0, None)
    assert gold.loss is not None
    assert gold.loss > 0
    assert gold.n > 120
    assert (scope.after or 0) > 0.9
    assert scope.n == 126


def test_hidden_tools_are_told_apart_by_the_score_and_the_cut_is_learnt_on_past_queries() -> None:
    report = bench.stress(["oracle", "bm25"], "starter", ["absence"]).report
    by_name = {method.method: method.effects[0] for method in report.methods}
    assert by_name["oracle"].note == "the method gives no scores"
    made = by_name["bm25"].separation
    assert made is not None
    assert 0.5 < made.auroc.mean < 0.7
    assert made.learnt_on > 30
    assert made.answered is not None
    assert made.false_returns is not None
    assert 0 < made.false_returns < 0.25


def test_a_template_that_does_not_show_a_change_says_for_how_many_tools() -> None:
    stressed = bench.stress("bm25", "starter", ["no-descriptions", "praise", "clone"], template="{{ name }}")
    bare, praise, clone = stressed.report.methods[0].effects
    size = len(bench.load_dataset("starter").tools)
    assert bare.note == f"the template '{{{{ name }}}}' does not show the change in {size} of {size} changed tools"
    assert praise.note == bare.note.replace(str(size), str(round(size * 0.05)))
    assert clone.note == ""


def test_growth_costs_from_the_smaller_library_to_the_whole() -> None:
    data = bench.load_dataset("starter")
    queries = tuple(query for query in data.queries if query.split == "test")[:60]
    less = Dataset.build("less", data.card.model_copy(update={"id": "less"}), Tables(data.tools, queries))
    (method,) = bench.stress("bm25", less, ["smaller-library(share=0.0)"]).report.methods
    (effect,) = method.effects
    named = {tool for query in queries for tool in query.gold}
    assert effect.tools == len(named) < len(data.tools)
    small = Dataset.build("small", less.card, Tables([tool for tool in data.tools if tool.tool_id in named], queries))
    whole, part = (bench.run("bm25", each).mean("recall@5") for each in (less, small))
    assert (effect.before, effect.after) == (pytest.approx(part), pytest.approx(whole))
    assert effect.loss == pytest.approx(part - whole)
    assert method.worst is None


def test_effects_are_kept_beside_the_result_until_code_or_settings_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with config_context(results=tmp_path):
        bench.stress("bm25", "starter", ["upper-case"])
        bench.stress("bm25", "starter", ["clone"])
        folder = bench.run("bm25", "starter").folder
        kept = read_stress(folder)
        assert kept is not None
        assert [effect.perturbation for effect in kept.effects] == ["upper-case", "clone"]
        captured = captured_queries(folder)
        assert {name for name, ids in captured.items() if ids is not None} == {"capture@5 under clone"}
        assert len(captured) == 5
        assert StoredResult.read(folder).manifest.result_id == kept.result_id
        # Another seed or metric does not compare with what site and gate read, and is printed only.
        bench.stress("bm25", "starter", ["clone"], seed=1)
        other_metric = bench.stress("bm25", "starter", ["clone"], metric="recall@10")
        assert other_metric.notes == ["not stored: site and gate know what was measured by recall@5 with seed 0"]
        assert not bench.stress("bm25", "starter", ["clone"]).notes
        assert read_stress(folder) == kept
        # Nothing is known of the code of another perturbation.
        (tmp_path / "own_words.py").write_text("def shout(queries, tools, seed):\n    return queries, tools[::-1]\n")
        monkeypatch.syspath_prepend(tmp_path)
        assert bench.stress("bm25", "starter", ["own_words:shout"]).report.methods[0].effects
        assert read_stress(folder) == kept
        # What was measured before one that fails is not lost, nor by a run that makes the same result again.
        with pytest.raises(UsageError, match="no perturbation 'typos'"):
            bench.stress("bm25", "starter", ["filler", "typos"])
        bench.run("bm25", "starter", overwrite="always")
        assert read_stress(folder) == kept
        other = json.loads((folder / STRESS).read_text("utf-8")) | {"code": "0" * 64}
        (folder / STRESS).write_text(json.dumps(other))
        with pytest.raises(ResultError, match="was made by other code; run `bench stress` again"):
            captured_queries(folder)


def test_the_family_is_all_losses_and_the_smallest_worst_loss_is_first() -> None:
    made = bench.stress(["tfidf", "random"], "starter", ["no-descriptions", "filler"])
    assert made.report.tests == 4
    assert [method.method for method in made.report.methods] == ["random", "tfidf"]
    assert with_family(made.report.methods) == made.report
    jsonschema.Draft202012Validator(shipped_schema("stress-report")).validate(made.to_dict())
    jsonschema.Draft202012Validator(shipped_schema("stress")).validate(made.report.methods[0].model_dump(mode="json"))
    assert "tfidf @ starter: no-descriptions -0." in repr(made)


def test_a_search_with_a_catalogue_of_its_own_is_not_attacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own_search.py").write_text(
        "def search(text):\n    return ['crateful.get_catalogue'] if text.islower() else []\n"
        "def fewer(queries, tools, seed):\n    return queries, [*tools[1:], tools[0]]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    names = ["clone", "greedy", "upper-case", "own_search:fewer"]
    (method,) = bench.stress("own_search:search", "starter", names).report.methods
    for effect in method.effects:
        if effect.kind == "request":
            assert effect.loss is not None
        else:
            assert effect.loss is effect.capture is None
            assert "has its own catalogue: edited descriptions in the dataset do not reach it" in effect.note


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"metric": "auroc"}, "auroc cannot be stressed; give a metric of rankings with a cut-off"),
        ({"metric": "recall@gold"}, "recall@gold cannot be stressed"),
        ({"repeats": 2}, "repeats cannot be set"),
    ],
)
def test_what_cannot_be_stressed_is_refused(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        bench.stress("bm25", "starter", ["clone"], **arguments)


def test_the_command_prints_tables_and_the_query_that_loses_most(bench: Bench, tmp_path: Path) -> None:
    report = bench("stress", "bm25", "-p", "filler", "-p", "stuffing", "--json").json
    assert [effect["perturbation"] for effect in report["methods"][0]["effects"]] == ["filler", "stuffing"]
    table = bench("stress", "bm25", "-p", "filler", "-p", "stuffing")
    assert "capture@5" in table.out
    assert re_lines(table.out, "filler: ")
    lines = bench("stress", "bm25", "-p", "filler", "--format", "markdown").out.splitlines()
    assert lines[0] == "| perturbation | bm25 |"
    assert "it changes nothing on this dataset" in bench("stress", "bm25", "-p", "growth").err
    assert "bench curve is now bench stress" in bench("curve", "sizes.toml", code=2).err
    assert "there is no perturbation 'typos'" in bench("stress", "bm25", "-p", "typos", code=2).err


def re_lines(text: str, start: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith(start)]
