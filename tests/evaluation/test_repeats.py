"""Repeated runs: one result of several answers to every query, which is scored again to the last bit."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from bench.base.config import config_context, current_session, repeat_seed
from bench.base.errors import MethodError, ResultError, UsageError
from bench.base.spec import Spec, parse
from bench.data.dataset import Dataset
from bench.evaluation.plan import Plan
from bench.evaluation.rescore import repeated_answers, rescore, score_again
from bench.evaluation.scoring import score
from bench.interface import Context, Library, Method, Queries, Ranking, ToolSets
from bench.interface.parts import has_chance
from bench.lookup.finding import latest
from bench.registry import build_method
from bench.results.code_versions import template_hash
from bench.results.ids import RANKING_RULES, method_hash, result_id
from bench.results.store import StoredResult, omit_ranking
from bench.stats.repeats import decompose

Run = Callable[..., StoredResult]
FILES = ("run.parquet", "per_query.parquet", "metrics.json")


class Dice(Method):
    """Scores by numbers of its own in each repeat, with ties; fails, abstains and recommends at random."""

    batch_size: ClassVar[int] = 4
    halt: ClassVar[tuple[int, int] | None] = None
    asked: ClassVar[list[tuple[int, int]]] = []
    has_chance = True

    def index(self, library: Library) -> None:
        self._size, self._seed = len(library), repeat_seed(3)

    def _draws(self, row: int) -> NDArray[np.int64]:
        return np.random.default_rng([*self._seed, row]).integers(0, 6, self._size + 1)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        number = current_session().repeat
        if len(queries) > 1:
            for row in queries.rows.tolist():
                if (number, row) == self.halt:
                    raise ConnectionError("the service is away")
            self.asked.extend((number, row) for row in queries.rows.tolist())
        draws = np.array([self._draws(row) for row in queries.rows.tolist()])
        tools = np.argsort(-draws[:, 1:], axis=1, kind="stable")[:, :depth].astype(np.int32)
        scores = np.take_along_axis(draws[:, 1:], tools.astype(np.int64), axis=1).astype(np.float64)
        tools[draws[:, 0] == 1] = -1
        return Ranking(tools, scores, draws[:, 0] == 0)

    def recommend(self, queries: Queries) -> ToolSets:
        return ToolSets.of([np.flatnonzero(self._draws(row)[1:] == 5).astype(np.int32) for row in queries.rows])


class Fixed(Method):
    """Has chance, and no luck: answers the same in every repeat."""

    has_chance = True

    def index(self, library: Library) -> None:
        self._size = len(library)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return Ranking(np.tile(np.arange(self._size, dtype=np.int32)[:depth], (len(queries), 1)))


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test begins with dice that were never asked."""
    monkeypatch.setattr(Dice, "asked", [])
    monkeypatch.setattr(Dice, "halt", None)


def files(result: StoredResult) -> list[bytes]:
    names = (*FILES, *(["repeats.parquet"] if result.manifest.repeats > 1 else []))
    return [(result.folder / name).read_bytes() for name in names]


# Identity -----------------------------------------------------------------------------------------------------------


def test_a_run_without_repeats_has_the_id_that_it_always_had(run: Run, tiny: Dataset) -> None:
    method = build_method("random")
    plan = Plan(parse("tiny"), parse("random"))
    identity = {
        "protocol": RANKING_RULES,
        "dataset": tiny.content_hash,
        "split": "test",
        "limit": None,
        "depth": 100,
        "template": "name_description",
        "texts": template_hash("name_description"),
        "cut": "none",
        "method": method_hash(method),
    }
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    assert result_id(tiny.content_hash, plan.resolve(tiny), method_hash(method)) == digest[:12]
    repeated = Plan(parse("tiny"), parse("random"), repeats=3)
    digest = hashlib.sha256(json.dumps({**identity, "repeats": 3}, sort_keys=True).encode()).hexdigest()
    assert result_id(tiny.content_hash, repeated.resolve(tiny), method_hash(method)) == digest[:12]


def test_files_of_a_run_without_repeats_know_nothing_of_repeats(run: Run) -> None:
    result = run("random")
    assert sorted(path.name for path in result.folder.iterdir()) == sorted([*FILES, "manifest.json"])
    for name in ("manifest.json", "metrics.json"):
        assert "repeats" not in (result.folder / name).read_text("utf-8")
    assert result.run.column_names == ["query_id", "rank", "tool_id", "score"]
    assert result.repeats is None
    assert result.of_repeat() is result
    assert "--repeats" not in result.manifest.environment.command


def test_a_random_order_is_the_one_that_it_always_was_and_another_in_each_repeat(run: Run, tiny: Dataset) -> None:
    one, three = run("random"), run("random", repeats=3)
    assert one.manifest.result_id != three.manifest.result_id
    assert three.manifest.environment.command == "bench run --method random --dataset tiny --repeats 3"
    assert three.of_repeat(1).run.equals(one.run)
    assert three.of_repeat(1).per_query.equals(one.per_query)
    orders = {tuple(three.of_repeat(number).run["tool_id"].to_pylist()) for number in (1, 2, 3)}
    assert len(orders) == 3
    # A result with more repeats begins with that of fewer.
    five = run("random", repeats=5)
    assert [five.of_repeat(i).run.equals(three.of_repeat(i).run) for i in (1, 2, 3)] == [True] * 3
    # Each answers a question of its own.
    assert len(latest([one, three, five])) == 3
    # By hand: the key of the first repeat is that of bench 0.3, others name the repeat.
    for number, key in ((1, "0"), (2, "0.2")):
        query, text = tiny.queries[int(tiny.rows("test")[0])].query_id, tiny.queries[int(tiny.rows("test")[0])].text
        draws = [_mixed(_number(f"{key}:{text}") ^ _number(tool.tool_id)) for tool in tiny.tools]
        wanted = [tiny.tools[i].tool_id for i in np.argsort(np.array(draws, dtype=np.uint64), kind="stable")]
        table = three.of_repeat(number).run.to_pylist()
        assert [row["tool_id"] for row in table if row["query_id"] == query] == wanted


def _number(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def _mixed(value: int) -> int:
    most = (1 << 64) - 1
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & most
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & most
    return value ^ (value >> 31)


def test_a_method_without_chance_runs_once_and_says_so(run: Run, notes: Any) -> None:
    once = run("bm25")
    again = run("bm25", repeats=5, progress=notes)
    assert again.manifest == once.manifest
    assert notes.lines[0] == "bm25: it is deterministic, so it runs once"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("random", True),
        ("random-bundle", True),
        ("bm25", False),
        ("ptr", False),
        ("ptr(retriever=random)", True),
        ("ptr(llm=gpt)", True),
        ("ptr(llm=gpt, coverage=false)", False),
        ("rrf(methods=[bm25, random])", True),
        ("query-generation(base=bm25)", False),
        ("query-generation(base=random)", True),
        ("query-generation(base=bm25, llm=gpt)", True),
        ("query-generation(base=bm25, llm=local:folder)", False),
        ("query-generation(base=bm25, llm=local:folder, temperature=0.7)", True),
    ],
)
def test_which_methods_have_chance(spec: str, expected: bool) -> None:
    assert has_chance(build_method(spec)) is expected


# Numbers ------------------------------------------------------------------------------------------------------------


def test_a_query_has_the_mean_of_its_values_in_the_repeats(run: Run, tiny: Dataset) -> None:
    result = run(Dice, repeats=4)
    parts = [result.of_repeat(number) for number in range(1, 5)]
    # Each repeat has the numbers of a run of its own.
    for part, (_, table) in zip(parts, _one_by_one(result, tiny), strict=True):
        assert part.per_query.equals(table)
    repeats = result.metrics.repeats
    assert repeats is not None
    judged = np.array(result.per_query["n_gold"].to_pylist()) > 0
    fails = np.array([part.per_query["failed"].to_pylist() for part in parts])
    assert repeats.n_failed == (fails & judged).sum(axis=1).tolist()
    assert result.per_query["failed"].to_pylist() == fails.any(axis=0).tolist()
    assert result.metrics.n_failed == int((fails.any(axis=0) & judged).sum()) > max(repeats.n_failed)
    assert repeats.metrics.keys() == result.metrics.metrics.keys() >= {"recall@5", "tracc", "abstained"}
    for name, value in result.metrics.metrics.items():
        stacked = np.stack([part.values(name) for part in parts])
        np.testing.assert_allclose(result.values(name), stacked.mean(axis=0), atol=1e-12)
        taken = ~np.isnan(stacked[0])
        assert value.mean == pytest.approx(stacked[:, taken].mean())
        assert repeats.metrics[name].means == pytest.approx(stacked[:, taken].mean(axis=1).tolist())
        units = np.unique(result.units[taken], return_inverse=True)[1]
        split = decompose(stacked[:, taken, None], units)
        assert repeats.metrics[name].within == pytest.approx(split.within[0])
        if not np.isnan(split.share[0]):
            assert repeats.metrics[name].share == pytest.approx(split.share[0])
            assert repeats.metrics[name].error == pytest.approx(split.error[0])
    recall = result.metrics.metrics["recall@5"]
    assert recall.tie_low is not None
    assert recall.tie_high is not None
    assert recall.tie_low < recall.mean < recall.tie_high


def _one_by_one(result: StoredResult, dataset: Dataset) -> list[tuple[Any, pa.Table]]:
    rows, repeats = repeated_answers(result, dataset)
    scored = [score("x", dataset, rows, [answers], "name_description", (), 100) for answers in repeats]
    return [(item.metrics, item.per_query) for item in scored]


def test_tie_bands_and_token_counts_are_means_over_the_repeats(run: Run, tiny: Dataset) -> None:
    result = run(Dice, repeats=3)
    single = [metrics for metrics, _ in _one_by_one(result, tiny)]
    for name, value in result.metrics.metrics.items():
        for field in ("tie_low", "tie_expected", "tie_high"):
            ends = [getattr(metrics.metrics[name], field) for metrics in single]
            assert getattr(value, field) == (None if None in ends else pytest.approx(np.mean(ends)))
    assert result.metrics.n_tied == max(metrics.n_tied for metrics in single)
    for name, count in result.metrics.tokens.items():
        assert count == pytest.approx(np.mean([metrics.tokens[name] for metrics in single]))


@pytest.mark.parametrize("repeats", [2, 3, 7])
def test_equal_repeats_have_the_numbers_of_one_run_to_the_last_bit(run: Run, tiny: Dataset, repeats: int) -> None:
    one, several = run(Fixed), run(Fixed, repeats=repeats)
    assert several.per_query.equals(one.per_query)
    assert several.metrics.model_copy(update={"repeats": None, "result_id": one.metrics.result_id}) == one.metrics
    result = several.metrics.repeats
    assert result is not None
    assert {variation.within for variation in result.metrics.values()} == {0.0}
    assert {variation.share for variation in result.metrics.values()} <= {0.0, None}
    # So have copies of answers with ties, failures and sets.
    dice = run(Dice)
    rows, (answers,) = repeated_answers(dice, tiny)
    copies = score(dice.manifest.result_id, tiny, rows, [answers] * repeats, "name_description", (), 100)
    assert copies.per_query.equals(dice.per_query)
    assert copies.metrics.model_copy(update={"repeats": None}) == dice.metrics


def test_a_learnt_cut_is_learnt_once_and_applied_to_every_repeat(run: Run) -> None:
    result = run("random", repeats=3, cut="size")
    size = int((result.manifest.method.cut or "").removeprefix("cut=size(").removesuffix(")"))
    assert result.repeats is not None
    assert {len(names) for names in result.repeats["recommended"].to_pylist()} == {size}
    for number in (1, 2, 3):
        part = result.of_repeat(number)
        heads = [row["tool_id"] for row in part.run.to_pylist() if row["rank"] <= size]
        assert [name for names in part.per_query["recommended"].to_pylist() for name in names] == heads


# Stored results -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["random", Dice])
def test_a_repeated_result_is_scored_again_to_the_last_bit(run: Run, tiny: Dataset, method: Any) -> None:
    result = run(method, repeats=3)
    again = score_again(result, tiny, [])
    assert again.run.equals(result.run)
    assert again.per_query.equals(result.per_query)
    assert result.repeats is not None
    assert again.repeats is not None
    assert again.repeats.equals(result.repeats)
    assert again.metrics == result.metrics
    before = files(result)
    assert files(rescore(result, tiny, [])) == before
    # With a further metric, asked for by the next run.
    wider = run(method, repeats=3, metrics=["recall@3"])
    assert wider.manifest.environment.created == result.manifest.environment.created
    assert wider.repeats is not None
    assert "recall@3" in wider.repeats.column_names
    assert wider.metrics.repeats is not None
    assert "recall@3" in wider.metrics.repeats.metrics


def test_without_its_rankings_the_values_of_the_repeats_are_kept(run: Run, tiny: Dataset) -> None:
    result = run(Dice, repeats=3)
    before, repeats = result.per_query, result.repeats
    omit_ranking(result)
    rescore(StoredResult.read(result.folder), tiny, [])
    again = StoredResult.read(result.folder)
    assert again.per_query.equals(before)
    assert again.repeats is not None
    assert again.repeats.equals(repeats)
    assert again.metrics == result.metrics


def test_other_units_change_the_split_and_no_value(run: Run, tiny: Dataset, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(Dice, repeats=3)
    result.verify()
    omit_ranking(result)
    coarser = tiny.units // 2
    monkeypatch.setitem(vars(tiny), "units", np.unique(coarser, return_inverse=True)[1].astype(np.int64))
    rescore(StoredResult.read(result.folder), tiny, [])
    again = StoredResult.read(result.folder)
    assert again.repeats is not None
    assert again.repeats["unit"].to_pylist() == again.per_query["unit"].to_pylist() * 3
    assert len(set(again.units.tolist())) < len(set(result.units.tolist()))
    assert again.values("recall@5").tobytes() == result.values("recall@5").tobytes()
    assert again.metrics.repeats is not None
    assert result.metrics.repeats is not None
    assert again.metrics.repeats.n_failed == result.metrics.repeats.n_failed
    assert again.metrics.repeats.metrics["recall@5"] != result.metrics.repeats.metrics["recall@5"]


def test_one_repeat_is_asked_for_by_its_number(run: Run) -> None:
    result = run("random", repeats=3)
    for wrong in (0, 4):
        with pytest.raises(UsageError, match=f"has the repeats 1 to 3; there is no repeat {wrong}"):
            result.of_repeat(wrong)
    with pytest.raises(UsageError, match="has no repeats; there is no repeat 2"):
        run("random").of_repeat(2)


def test_a_result_whose_files_disagree_on_the_repeats_is_refused(run: Run) -> None:
    folder = run("random", repeats=3).folder
    text = (folder / "manifest.json").read_text("utf-8")
    for wrong in (text.replace('"repeats": 3,', '"repeats": 4,'), text.replace('"repeats": 3,\n', "")):
        assert wrong != text
        (folder / "manifest.json").write_text(wrong, "utf-8")
        with pytest.raises(ResultError, match=r"metrics.json does not describe the \d repeats of manifest.json"):
            StoredResult.read(folder)
    (folder / "manifest.json").write_text(text.replace('"repeats": 3,', '"repeats": 1000,'), "utf-8")
    with pytest.raises(ResultError, match="does not follow its schema"):
        StoredResult.read(folder)
    (folder / "manifest.json").write_text(text, "utf-8")
    (folder / "repeats.parquet").write_bytes(b"PAR1")
    with pytest.raises(ResultError, match=r"repeats.parquet is truncated or changed"):
        StoredResult.read(folder).verify()


# Runs that stop half way --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("halt", [(1, 9), (2, 0), (2, 13), (3, 21)])
def test_a_run_that_stops_continues_between_and_within_repeats(
    run: Run, monkeypatch: pytest.MonkeyPatch, halt: tuple[int, int]
) -> None:
    monkeypatch.setattr(Dice, "halt", halt)
    with pytest.raises(MethodError, match="the service is away"):
        run(Dice, repeats=3)
    stopped = list(Dice.asked)
    assert all(number <= halt[0] for number, _ in stopped)
    monkeypatch.setattr(Dice, "halt", None)
    result = run(Dice, repeats=3)
    assert result.manifest.resumed
    # Each query once in each repeat, and no batch twice.
    assert sorted(Dice.asked) == [(number, row) for number in (1, 2, 3) for row in range(22)]
    resumed = files(result)
    assert resumed == files(run(Dice, repeats=3, overwrite="always"))
    assert not list(result.folder.parent.glob(".*.partial"))


def test_each_repeat_has_a_method_of_its_own_and_a_session_that_says_which(tiny: Dataset, run: Run) -> None:
    made: list[int] = []

    class Keeping(Fixed):
        """Keeps its answer, as some methods do."""

        def __init__(self, parameters: Any, context: Context) -> None:
            super().__init__(parameters, context)
            self._kept: Ranking | None = None
            self._made = current_session().repeat

        def rank(self, queries: Queries, depth: int) -> Ranking:
            if self._kept is None:
                made.append(self._made)
                order = np.roll(np.arange(self._size, dtype=np.int32), self._made)
                self._kept = Ranking(np.tile(order[:depth], (len(queries), 1)))
            return self._kept.take(np.zeros(len(queries), dtype=np.int64))

    result = run(Keeping, repeats=3)
    assert made == [1, 2, 3]
    assert [result.of_repeat(number).run["tool_id"][0].as_py() for number in (1, 2, 3)] == ["t11", "t10", "t09"]


def test_a_run_begins_with_the_first_repeat_wherever_it_is_started(run: Run) -> None:
    with config_context(repeat=2):
        inside = run("random", repeats=2)
    assert files(inside) == files(run("random", repeats=2, overwrite="always"))


def test_seeds_of_repeats() -> None:
    assert repeat_seed(7) == (7,)
    with config_context(repeat=2):
        assert repeat_seed(7) == (7, 2)
        with config_context(offline=True):
            assert repeat_seed(7) == (7, 2)
    assert Spec("random") == build_method("random").spec
