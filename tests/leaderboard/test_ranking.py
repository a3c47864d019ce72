"""The ranking: what is declared, and what submitters who want to climb can change: nothing but their own rows."""

from __future__ import annotations

import functools
import itertools
import json
import re
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit.results import another, folder_of, id_of, scored_by
from kit.sites import KEPT, LISTED, Built, hurry, kept
from numpy.typing import NDArray

from bench import compare
from bench.__main__ import run as command
from bench.base.errors import UnavailableError, UsageError
from bench.base.paths import results_folder
from bench.comparison.rows import competes
from bench.data.dataset import Dataset
from bench.data.entries import dataset_entries
from bench.leaderboard.boards import answers as answers_module
from bench.leaderboard.boards import board as board_module
from bench.leaderboard.boards import overall as overall_module
from bench.leaderboard.boards import rankingset, registered, standings, tables
from bench.leaderboard.boards.pairs import DIFFERENCE, HIGH, LOW, METRIC, P, pairs_of
from bench.leaderboard.buildcache import BuildCache
from bench.registry import load_dataset
from bench.results.store import StoredResult
from bench.stats.noninferiority import pair_verdict
from bench.stats.ranking import correct_pairs, pairwise_tests

FLOORS = {"popularity", "random", "random-bundle"}
#: Ranked methods that learn from past queries where there are some.
LEARNERS = {"hybrid"}
#: Ranked methods without a model.
WITHOUT_MODELS = {"bm25", "bm25-fields", "bm25-okapi", "coverage", "names", "server-first", "tfidf"}
#: On which the attacks are tried: a source with two datasets, and two of one.
SPECS = ("apibank", "starter", "toolbench-i1-inst", "toolbench-i1-cat")
DECLARED = rankingset.RankingSet.model_validate(
    {"version": "1", "views": [{"name": "all", "title": "all", "why": "for the attacks", "datasets": list(SPECS)}]}
)

Submissions = Mapping[str, Sequence[tuple[str, NDArray[np.float64]]]]


@pytest.fixture(autouse=True)
def _fewer_flips(fewer_flips: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Boards draw fewer signs, too, and test exactly what they test so otherwise."""
    monkeypatch.setattr(standings, "FLIPS", fewer_flips)
    monkeypatch.setattr(standings, "_FLIPPED", standings._FLIPPED // 10)


@functools.cache
def _kept(spec: str) -> tuple[list[StoredResult], dict[str, NDArray[np.float64]]]:
    """The kept results on a dataset, and their values by the ranking metrics."""
    members = kept(spec)
    known: list[Any] = []
    checked_values = [tables.check_values(item, board_module.RANKED, False, known)[0] for item in members]
    values = {
        item.manifest.result_id: row for item, row in zip(members, checked_values, strict=True) if row is not None
    }
    assert len(values) == len(members)
    return members, values


def _without_challengers(spec: str) -> tuple[list[StoredResult], dict[str, NDArray[np.float64]]]:
    """The same, without kept results that compete and are no references: not all pairs of such are tested."""
    members, values = _kept(spec)
    members = [item for item in members if item.manifest.result_id in LISTED or not competes(item)]
    return members, {item.manifest.result_id: values[item.manifest.result_id] for item in members}


def _submitted(
    real: StoredResult, name: str, values: NDArray[np.float64], number: int, spec: str | None = None
) -> StoredResult:
    """A result by another name, with these values."""
    manifest = real.manifest
    part = f"{number:012x}"
    means = {
        metric: item.model_copy(update={"mean": float(values[:, board_module.RANKED.index(metric)].mean())})
        if metric in board_module.RANKED
        else item
        for metric, item in real.metrics.metrics.items()
    }
    return replace(
        real,
        manifest=manifest.model_copy(
            update={
                "result_id": part,
                "dataset": manifest.dataset.model_copy(update={"spec": spec or manifest.dataset.spec}),
                "method": manifest.method.model_copy(update={"spec": name, "full_spec": name, "hash": part * 5}),
            }
        ),
        metrics=real.metrics.model_copy(update={"result_id": part, "metrics": means}),
    )


def _boards(added: Submissions, copies: Sequence[str] = ()) -> list[Any]:
    """Boards of the kept results and of what is added; `copies` are datasets that are submitted as datasets of their
    own, with every second query right for one method."""
    collected = []
    for place, spec in enumerate(SPECS):
        members, values = _without_challengers(spec)
        part, known = list(members), dict(values)
        for number, (name, table) in enumerate(added.get(spec, ())):
            item = _submitted(members[0], name, table, 1000 * place + number + 1)
            part.append(item)
            known[item.manifest.result_id] = table
        collected.append(_sampled(part, known))
    for number, spec in enumerate(copies):
        real = _kept(SPECS[0])[0][0]
        table = np.ones_like(_kept(SPECS[0])[1][real.manifest.result_id])
        item = _submitted(real, "mine", table, 900_000 + number, spec)
        collected.append(_sampled([item], {item.manifest.result_id: table}))
    return collected


def _sampled(members: Sequence[StoredResult], values: Mapping[str, NDArray[np.float64]]) -> Any:
    return board_module.sample_rows(board_module.assemble(members, values, {}, references=LISTED), {}, True)


def _ranking(boards: Sequence[Any], metric: str = "recall@5") -> Any:
    views, missing = rankingset.views_of(DECLARED, boards, {})
    assert not missing
    return overall_module.overall_by_metrics(views[0], [metric], "all", {})[0]


def _rows(ranking: Any, only: frozenset[str] | None = None) -> list[tuple[str, float | None]]:
    """System and mean, in the order of the board; `only` of these."""
    return [(place.key, place.mean) for place in ranking.rows if only is None or place.key in only]


def _standing(ranking: Any, only: frozenset[str]) -> tuple[dict[str, tuple[Any, ...]], list[list[float]]]:
    """What each of these systems has, and the p-values of their pairs."""
    places = {
        place.key: (place.ranks, place.low, place.high, place.lacks, place.reference)
        for place in ranking.rows
        if place.key in only
    }
    at = [i for i, key in enumerate(ranking.standing.ids) if key in only]
    return places, ranking.standing.pairs[np.ix_(at, at)].tolist()


@functools.cache
def _before() -> Any:
    return _ranking(_boards({}))


def _honest() -> frozenset[str]:
    return frozenset(place.key for place in _before().rows)


def _noise(spec: str, seed: int, level: float = 0.05) -> NDArray[np.float64]:
    values = next(iter(_kept(spec)[1].values()))
    return (np.random.default_rng(seed).random(values.shape) < level).astype(np.float64)


def _noisy(spec: str, seed: int, share: float) -> NDArray[np.float64]:
    """The values on a dataset of the method that is first over all of them, a share of the queries answered anew."""
    random = np.random.default_rng(seed)
    values = _first(spec)
    anew = random.random((len(values), 1)) < share
    return np.where(anew, values[random.permutation(len(values))], values)


def _best(spec: str) -> NDArray[np.float64]:
    """The values of the best honest method on a dataset."""
    return max(_honest_values(spec).values(), key=lambda table: float(table[:, 0].mean()))


def _first(spec: str) -> NDArray[np.float64]:
    """The values on a dataset of the method that is first over all of them."""
    return _honest_values(spec)[_before().rows[0].key]


def _honest_values(spec: str) -> dict[str, NDArray[np.float64]]:
    members, values = _kept(spec)
    return {
        item.manifest.method.spec: values[item.manifest.result_id]
        for item in members
        if not item.manifest.method.oracle
    }


def test_every_declared_dataset_is_there_with_the_content_of_the_kept_results() -> None:
    chosen = rankingset.read_ranking_set()
    declared = {spec for view in chosen.views for spec in view.datasets}
    assert declared == set(chosen.content)
    assert {spec.partition("(")[0] for spec in declared} <= set(dataset_entries())
    kept: dict[str, set[str]] = {}
    for path in KEPT.glob("*/*/manifest.json"):
        data = json.loads(path.read_text("utf-8"))["dataset"]
        kept.setdefault(data["spec"], set()).add(data["content_hash"])
    assert {spec: {digest} for spec, digest in chosen.content.items()} == {spec: kept[spec] for spec in declared}


#: What submitters add; made when it is tried, as it is made of what is first without it.
ATTACKS: dict[str, Callable[[], Submissions]] = {
    "three noise results on half of the datasets": lambda: {
        spec: [(f"random-bundle(seed={seed})", _noise(spec, seed)) for seed in (1, 2, 3)]
        for spec in ("starter", "toolbench-i1-inst")
    },
    "floors everywhere": lambda: {
        spec: [(f"random(seed={seed})", _noise(spec, seed)) for seed in range(9)] for spec in SPECS
    },
    "a specialist of one dataset": lambda: {"apibank": [("specialist", np.ones((269, 5)))]},
    "copies with more and more noise": lambda: {
        spec: [(f"mine{number}", _noisy(spec, number, number / 30)) for number in range(30)] for spec in SPECS
    },
    "a system that is never wrong": lambda: {spec: [("mine", np.ones_like(_first(spec)))] for spec in SPECS},
    "a run submitted fifty times under new names": lambda: {
        spec: [(f"mine{number}", _first(spec)) for number in range(50)] for spec in SPECS
    },
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_no_attack_changes_what_stands_of_the_others(attack: str) -> None:
    after = _ranking(_boards(ATTACKS[attack]()))
    assert _rows(after, _honest()) == _rows(_before())
    assert _standing(after, _honest()) == _standing(_before(), _honest())


def test_datasets_that_are_not_declared_and_other_data_change_nothing() -> None:
    boards = _boards({}, copies=["apibank-copy", "apibank-copy2", "mydata"])
    # The same name with other content, with the most results and the newest.
    real = _kept("apibank")[0][0]
    forged = []
    values = {}
    for number in range(40):
        item = _submitted(real, f"mine{number}", np.ones((269, 5)), 950_000 + number)
        data = item.manifest.dataset.model_copy(update={"content_hash": "f" * 64})
        when = item.manifest.environment.model_copy(update={"created": "2099-01-01T00:00:00+00:00"})
        item = replace(item, manifest=item.manifest.model_copy(update={"dataset": data, "environment": when}))
        forged.append(item)
        values[item.manifest.result_id] = np.ones((269, 5))
    content = {board.spec: board.content_hash for board in boards[: len(SPECS)]}
    declared = DECLARED.model_copy(update={"content": content})
    views, missing = rankingset.views_of(declared, [*boards, _sampled(forged, values)], {})
    assert not missing
    assert _rows(overall_module.overall_by_metrics(views[0], ["recall@5"], "all", {})[0]) == _rows(_before())


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(
        st.tuples(
            st.sets(st.sampled_from(SPECS), min_size=1),
            st.integers(0, 2**32 - 1),
            st.sampled_from([0.0, 0.02, 0.3, 0.7, 1.0]),
            st.sampled_from(["mine", "random(seed=7)", "tgr(base=names)"]),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_whatever_is_added_the_others_keep_their_order_and_their_means(
    made: list[tuple[set[str], int, float, str]],
) -> None:
    added: dict[str, list[tuple[str, NDArray[np.float64]]]] = {}
    for number, (specs, seed, level, name) in enumerate(made):
        for spec in sorted(specs):
            added.setdefault(spec, []).append((f"{name}-{number}", _noise(spec, seed, level)))
    after = _ranking(_boards(added))
    assert _rows(after, _honest()) == _rows(_before())
    assert _standing(after, _honest()) == _standing(_before(), _honest())
    first = [place.ranks[0] for place in after.rows if place.ranks]
    assert first == sorted(first)


def _contradictions(standing: standings.RankedSystems) -> list[tuple[str, str, str]]:
    """Pairs with a reference of which the ranks say another thing than the p-value, and what."""
    found = []
    for i, j in itertools.combinations(range(len(standing.ids)), 2):
        first, second = (i, j) if standing.means[i] > standing.means[j] else (j, i)
        (best, worst), (other_best, other_worst) = standing.ranks[first].tolist(), standing.ranks[second].tolist()
        both, names = standing.references[i] and standing.references[j], (standing.ids[first], standing.ids[second])
        if standing.pairs[i, j] < 0.05:
            # References do not count challengers, which may thus be better and share the first rank.
            if (best, worst) >= (other_best, other_worst) if both else best > other_best:
                found.append((*names, "shown to be better, with no better ranks"))
        elif (standing.references[i] or standing.references[j]) and (worst < other_best or other_worst < best):
            # Worse than a third one that is worse than the other: the two tests say together what theirs leaves open.
            between = (standing.pairs[first] < 0.05) & (standing.pairs[second] < 0.05)
            between &= (standing.means < standing.means[first]) & (standing.means > standing.means[second])
            if between.any():
                continue
            found.append((*names, "not told apart, with other ranks"))
    order = standing.order()
    if [standing.ranks[i, 0] for i in order] != sorted(standing.ranks[:, 0]):
        found.append(("", "", "not in the order of the first ranks"))
    return found


def _contradictions_of(board: Any) -> list[tuple[str, str, str]]:
    """Of all standings of a board, and of what is said of pairs on its compare page."""
    found = [item for standing in board.standings.values() for item in _contradictions(standing)]
    pairs = pairs_of(board)
    if pairs is None:
        return found
    standing = board.standings[METRIC]
    for one, other in itertools.combinations(pairs.ids, 2):
        numbers = pairs.between(one, other)
        if numbers is None:
            continue
        p = standing.pairs[standing.position(one), standing.position(other)]
        verdict = pair_verdict(numbers[DIFFERENCE], p, standing.decided)
        if numbers[P] != p or (verdict in {"better", "worse"}) != (p < 0.05):
            found.append((one, other, "other p-values"))
        if np.isfinite(numbers[[LOW, HIGH]]).all() and (numbers[LOW] > 0 or numbers[HIGH] < 0) != (p < 0.05):
            found.append((one, other, "an interval that contradicts p"))
    return found


@pytest.mark.parametrize("spec", ["apibank", "starter"])
def test_nothing_that_a_board_says_of_a_pair_contradicts_another_statement(spec: str) -> None:
    members, values = _kept(spec)
    assert not _contradictions_of(board_module.assemble(members, values))


@pytest.mark.parametrize("metric", board_module.RANKED)
def test_nor_does_what_is_said_over_datasets(metric: str) -> None:
    assert not _contradictions(_ranking(_boards({}), metric).standing)


@pytest.mark.slow("the kept results")
def test_nothing_on_the_whole_board_contradicts_another_statement() -> None:
    folder, count = KEPT, 0
    for members in board_module.read_results(folder)[0]:
        board, _ = board_module.make_board(members, folder, verify=False)
        assert board is not None
        assert not _contradictions_of(board), board.name
        count += len(board.standings)
    assert count > 200


@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 9),
    st.integers(25, 60),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0.0, 0.1, 0.4]),
    st.integers(0, 3),
)
def test_ranks_of_simulated_boards_follow_from_the_p_values(
    systems: int, queries: int, seed: int, spread: float, challengers: int
) -> None:
    random = np.random.default_rng(seed)
    skill = np.clip(0.5 + spread * random.normal(size=systems), 0.05, 0.95)
    values = (random.random((queries, systems)) < skill).astype(np.float64)
    own = np.arange(systems) >= min(challengers, systems - 1)
    ranked = standings.rank_systems([str(i) for i in range(systems)], values, np.arange(queries), own)
    assert np.array_equal(ranked.pairs, ranked.pairs.T)
    for system in range(systems):
        shown = own & (ranked.pairs[system] < 0.05)
        assert ranked.ranks[system, 0] == 1 + (shown & (ranked.means > ranked.means[system])).sum()
        copy = own[system] or any((values[:, system] == values[:, i]).all() for i in np.flatnonzero(own))
        count = own.sum() + (not copy)
        assert ranked.ranks[system, 1] == count - (shown & (ranked.means < ranked.means[system])).sum()


def test_answers_name_the_best_that_fits_and_everybody_who_ties() -> None:
    ranking = _before()
    asked = answers_module.cases([ranking])
    assert asked is not None
    found = {(case.training, case.limit): case.answer for case in asked.cases if case.answer is not None}
    assert found.keys() >= {(0, 0), (0, 1), (1, 0)}
    assert found[0, 0].best.key != found[0, 1].best.key
    # With training queries, every method fits.
    assert found[1, 0].best is ranking.rows[0]
    assert not found[1, 0].outside
    unlearnt = replace(ranking, rows=tuple(row for row in ranking.rows if row.key.partition("(")[0] not in LEARNERS))
    without = answers_module.cases([unlearnt])
    assert without is not None
    assert without.answer(ranking.view.title, training=1) is None
    assert without.answer(ranking.view.title) is not None
    pairs, ids = ranking.standing.pairs, ranking.standing.ids
    for place, answer in found.items():
        # With those outside, everybody who is not told apart from the best one is named.
        at = ids.index(answer.best.key)
        same = {ids[i] for i in np.flatnonzero(pairs[at] >= 0.05) if i != at and ids[i] not in FLOORS}
        ties, outside = ({row.key for row in rows} for rows in (answer.ties, answer.outside))
        assert same == ties | outside
        assert not ties & outside
        rest = [row for row in ranking.rows if row.ranks and row.key.partition("(")[0] not in FLOORS | LEARNERS]
        if place == (0, 0):
            assert answer.others == len(rest) - 1
            assert answer.best.mean == max(row.mean for row in rest)
            index = ids.index(answer.best.key)
            tied = {row.key for row in rest if row is not answer.best and pairs[index, ids.index(row.key)] >= 0.05}
            assert {row.key for row in answer.ties} == tied
        if place == (0, 1):
            # What embeds, ranks by embeddings, or is built on it has a model; words and names have none.
            modelless = [row for row in rest if row.key in WITHOUT_MODELS]
            assert answer.best.key == max(modelless, key=lambda row: row.mean).key
            assert answer.others == len(modelless) - 1
        assert answer.best.key != "random"
        for row in answer.ties:
            assert (row.mean or 0.0) <= (answer.best.mean or 0.0)


def test_the_statement_agrees_with_the_overall_table_and_every_dataset(tmp_path: Path) -> None:
    collected = []
    for spec in SPECS:
        members, values = _without_challengers(spec)
        collected.append(board_module.sample_rows(board_module.assemble(members, values, references=LISTED), {}, True))
    ranking = _ranking(collected)
    best, standing = ranking.best, ranking.standing
    rows = {row.key: row for row in ranking.rows}
    compete = [row.key for row in ranking.rows if row.ranks and row.key not in FLOORS]
    assert best.system == compete[0]
    assert {lead.system for lead in best.leads} == set(compete[1:])
    assert (best.sources, len(best.datasets)) == (3, 4)
    first = standing.ids.index(best.system)
    for lead in best.leads:
        other = standing.ids.index(lead.system)
        assert lead.difference == pytest.approx(rows[best.system].mean - rows[lead.system].mean)
        assert (lead.verdict == "not told apart") == (standing.pairs[first, other] >= 0.05)
        assert lead.low < lead.difference < lead.high
        if rows[lead.system].ranks[0] == 1:
            assert lead.verdict == "not told apart"
    worse = set()
    for place, board in enumerate(ranking.boards):
        found, mine = board.standings["recall@5"], rows[best.system].cells[place][1].id
        at = found.ids.index(mine)
        for i, name in enumerate(found.ids):
            if found.means[i] > found.means[at] and found.pairs[at, i] < 0.05:
                worse.add((board.name, next(row.key for row in board.rows if row.id == name)))
    assert {(item.dataset, item.system) for item in best.worse} == worse
    # Restored from the cache of a build, nothing changes.
    cache = BuildCache(tmp_path)
    cache.put("a", "key", overall_module._Numbers({"a": np.ones(3)}, None, np.ones((2, 3))))
    numbers = overall_module._restore(cache.get("a", "key"))
    assert numbers is not None
    assert numbers.leads.tolist() == np.ones((2, 3)).tolist()


def test_a_challenger_is_the_answer_only_if_it_is_known_to_be_better_than_the_best_reference() -> None:
    usual = _before().rows[0]
    assert usual.reference

    def best(values: Callable[[str], NDArray[np.float64]]) -> Any:
        ranking = _ranking(_boards({spec: [("mine", values(spec))] for spec in SPECS}))
        assert ranking.rows[0].key == "mine"
        asked = answers_module.cases([ranking])
        assert asked is not None
        return asked.answer(ranking.view.title)

    def ahead(spec: str) -> NDArray[np.float64]:
        table = np.array(_first(spec))
        table[np.flatnonzero(table[:, 0] < 1)[:2]] = 1.0
        return table

    by_chance, truly = best(ahead), best(lambda spec: np.ones_like(_first(spec)))
    assert by_chance.best.key != "mine"
    assert by_chance.best.reference
    assert "mine" in {row.key for row in by_chance.ties}
    assert truly.best.key == "mine"
    assert not truly.ties
    assert not truly.better


def test_what_nobody_ran_here_is_named_as_better_and_not_recommended() -> None:
    ranking = _ranking(_boards({spec: [("mine", np.ones_like(_first(spec)))] for spec in SPECS}))

    def unrun(row: Any) -> Any:
        # One dataset is enough.
        (value, cell), *others = row.cells
        return replace(row, cells=((value, replace(cell, evidence="checked")), *others))

    asked = answers_module.cases(
        [replace(ranking, rows=tuple(unrun(row) if row.key == "mine" else row for row in ranking.rows))]
    )
    assert asked is not None
    answer = asked.answer(ranking.view.title)
    assert answer is not None
    assert answer.best.key != "mine"
    assert [row.key for row in answer.better] == ["mine"]


def test_pairs_of_references_know_nothing_of_challengers_and_copies_have_their_p_values() -> None:
    random = np.random.default_rng(5)
    values = (random.random((80, 4)) < [0.7, 0.55, 0.5, 0.3]).astype(np.float64)
    alone = pairwise_tests(values).p
    noise = (random.random((80, 30)) < 0.1).astype(np.float64)
    copies = np.repeat(values[:, :1], 10, axis=1)
    references = np.array([True] * 4 + [False] * 40)
    crowded = pairwise_tests(np.column_stack([values, noise, copies]), references=references, challengers=False).p
    assert np.array_equal(crowded[:4, :4], alone)
    assert (crowded[0, 34:] == 1).all()
    assert np.array_equal(crowded[1, 34:], np.full(10, alone[0, 1]))
    assert np.isnan(crowded[4:34, 34:]).all()
    # By hand: three systems, two of which are one, have a single pair.
    (tests,) = correct_pairs([np.array([1.0, 0.03, 0.03])], [np.array([[1, 1, 0], [0, 0, 1.0]])])
    assert tests.p.tolist() == [
        [1.0, 1.0, 0.03],
        [1.0, 1.0, 0.03],
        [0.03, 0.03, 1.0],
    ]


@pytest.mark.parametrize("spec", ["apibank", "starter", "toolbench-i3-inst"])
def test_the_site_has_of_references_and_a_challenger_what_bench_compare_has_of_these(spec: str) -> None:
    members, values = _kept(spec)
    board = board_module.assemble(members, values, references=LISTED)
    ids = {item.manifest.result_id: item for item in members}
    recall_5 = board.standings["recall@5"]
    own = recall_5.references
    challengers = [i for i in np.flatnonzero(~own).tolist() if competes(ids[recall_5.ids[i]])]
    for challenger in [None, *challengers]:
        # In the order of the board.
        at = [i for i in range(len(own)) if own[i] or i == challenger]
        report = compare(*(ids[recall_5.ids[i]].folder for i in at), metrics=["recall@5"])
        (metric,) = report.datasets[0].metrics
        if challenger is None:
            assert metric.pairs == recall_5.pairs[np.ix_(at, at)].tolist()
        else:
            assert metric.pairs[at.index(challenger)] == recall_5.pairs[challenger, at].tolist()
        said = {item.system: (item.rank_low, item.rank_high) for item in metric.standings}
        names = [system.name for system in report.datasets[0].systems]
        for i, name in zip(at, names, strict=True):
            if challenger in (None, i):
                assert said[name] == tuple(recall_5.ranks[i])


def test_the_export_has_the_rankings_and_the_p_values_of_all_pairs(ready_site: Built) -> None:
    export = json.loads((ready_site.folder / "results.json").read_text("utf-8"))
    (board,) = export["boards"]
    made = ready_site.board
    for standing in board["standings"]:
        values = made.standings[standing["metric"]]
        assert standing["systems"] == list(values.ids)
        assert standing["ranks"] == values.ranks.tolist()
        assert standing["tiers"] == values.ranks[:, 0].tolist()
        assert standing["references"] == [values.ids[i] for i in np.flatnonzero(values.references)]
        for first, row in enumerate(standing["p"]):
            assert row == values.pairs[first, first + 1 :].tolist()
    first = export["overall"][0]
    assert (first["metric"], first["queries"], first["ranking_set"]) == ("recall@5", "all", "")
    order = [(row["best_rank"], -row["mean"]) for row in first["rows"] if row["best_rank"]]
    assert order == sorted(order)
    assert len(first["rows"]) == len(made.rows)


@pytest.mark.usefixtures("few")
def test_a_site_without_a_declared_dataset_says_so_and_strict_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, values = str(tmp_path / "site"), tmp_path / "set.toml"
    text = 'version = "7"\n[[views]]\nname = "ours"\ntitle = "Ours"\nwhy = "all we have"\ndatasets = ["starter"]\n'
    other = text.partition("\n")[2].replace('"starter"', '"apibank", "github-mcp"').replace("ours", "others")
    values.write_text(text + other, "utf-8")
    assert command(["leaderboard", "build", "--out", out, "--strict", "--ranking-set", str(values)]) == 4
    said = capsys.readouterr().err
    assert "there are no results on its datasets apibank, github-mcp" in said
    assert "do not publish it" in said
    values.write_text(text, "utf-8")
    assert command(["leaderboard", "build", "--out", out, "--strict", "--ranking-set", str(values)]) == 0
    assert "ranking set 7" in (tmp_path / "site" / "index.html").read_text("utf-8")


@pytest.mark.usefixtures("few")
def test_a_dataset_that_is_not_at_hand_is_named_and_nothing_is_ranked_on_a_fragment(
    build: Callable[..., Built], ready_site: Built, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert list(ready_site.folder.glob("overall-*-unseen.html"))
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("BENCH_DATA", str(tmp_path / "empty"))

    def unavailable(spec: str) -> Dataset:
        raise UnavailableError(f"offline, and the files of {spec} are not in the cache.")

    monkeypatch.setattr(registered, "load_dataset", unavailable)
    site = build()
    (said,) = [sentence for sentence in site.made.incomplete if "was not available" in sentence]
    assert said.startswith("starter: ")
    assert "`bench data fetch DATASET` brings each" in said
    assert "starter" in site.page("datasets.html").text.partition("Boards without their dataset")[2]
    assert not list(site.folder.glob("overall-*-unseen.html"))
    assert "was unavailable when this site was built" in site.page("index.html").text


@pytest.mark.usefixtures("few")
def test_a_build_has_every_dataset_that_needs_no_network_whatever_the_cache_has(
    build: Callable[..., Built], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    known = build()
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "empty"))
    assert not build("fresh").made.incomplete
    assert build("fresh").bytes() == known.bytes()
    # A damaged table in the cache is built again too.
    (table,) = (tmp_path / "empty").glob("datasets/starter-*/tools.parquet")
    table.write_bytes(table.read_bytes()[:-50])
    assert build("again").bytes() == known.bytes()


VIEW = '[[views]]\nname = "a"\ntitle = "x"\nwhy = "y"\ndatasets = ["starter"]\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('version = "1"\n', "views"),
        ('version = "1"\nviews = []\n', "views"),
        ('version = "1"\n[[views]]\nname = "A b"\ntitle = "x"\nwhy = "y"\ndatasets = ["starter"]\n', "name"),
        ('version = "1"\n[[views]]\nname = "a"\ntitle = "x"\nwhy = "y"\ndatasets = ["s", "s"]\n', "names s twice"),
        ('version = "<b>"\n[[views]]\nname = "a"\ntitle = "x"\nwhy = "y"\ndatasets = ["s"]\n', "version"),
        ("views = 1 = 2", "not TOML"),
        (f'version = "1"\nsystems = ["bm25", "names"]\n{VIEW}', "bench leaderboard references"),
        (f'version = "1"\n{VIEW}[references]\nbm25 = "{"0" * 64}"\n', "references"),
        (f'version = "1"\n{VIEW}[references]\n{"0" * 12} = "0"\n', "references"),
    ],
)
def test_a_ranking_set_that_is_wrong_is_refused_in_a_sentence(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "set.toml"
    path.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=said):
        rankingset.read_ranking_set(path)


def test_challengers_without_values_leave_the_references_as_they_are() -> None:
    boards = _boards({spec: [("mine", _noise(spec, 1))] for spec in SPECS})
    every = [replace(row, values=row.values if row.reference else None) for board in boards for row in board.rows]
    rows = {row.id: row for row in every}
    bare = [replace(board, rows=tuple(rows[row.id] for row in board.rows)) for board in boards]
    whole, part = _ranking(boards), _ranking(bare)
    references = frozenset(place.key for place in whole.rows if place.reference)
    assert part.declared
    assert part.limit
    assert _rows(part, references) == _rows(whole, references)
    assert _standing(part, references) == _standing(whole, references)
    (mine,) = (place for place in part.rows if place.key == "mine")
    assert mine.ranks is None
    assert mine.mean == pytest.approx(next(place.mean for place in whole.rows if place.key == "mine"))


def test_listed_results_are_the_references_and_a_board_with_one_has_all(tmp_path: Path) -> None:
    members, values = _kept("starter")
    shutil.copytree(KEPT / "starter", tmp_path / "starter")
    listed, _ = rankingset.list_references(tmp_path, ["tgr(graph=manual)", "bm25", "random"])
    digests = {item.manifest.result_id: item.manifest.digest for item in listed}
    board = board_module.assemble(members, values, references=digests)
    # A floor is none.
    assert {row.key for row in board.rows if row.reference} == {"tgr(graph=manual)", "bm25"}
    (bm25,) = (item.manifest for item in members if item.manifest.method.spec == "bm25")
    alone = board_module.assemble(members, values, references={bm25.result_id: bm25.digest})
    assert not alone.declared
    competing = {row.id for row in alone.rows if competes(row.result)}
    standing = alone.standings["recall@5"]
    assert {standing.ids[i] for i in np.flatnonzero(standing.references)} == competing


#: Honest systems of a site that is attacked, all of them methods of this repository at their defaults.
FIVE = ("names", "bm25", "tgr", "dense", "recommended")


@pytest.mark.parametrize("limit", [False, True], ids=["tests", "limit"])
def test_a_flooded_site_keeps_what_its_export_says_of_the_five(
    limit: bool, tmp_path: Path, build: Callable[..., Built], monkeypatch: pytest.MonkeyPatch
) -> None:
    if limit:
        hurry(monkeypatch)
    for item in kept("starter", *FIVE):
        shutil.copytree(item.folder, results_folder() / "starter" / item.folder.name)
    best = folder_of(results_folder(), "recommended")
    values = tmp_path / "set.toml"
    ids = [item.manifest.result_id for item in kept("starter", *FIVE)]
    listed = "".join(f'{name} = "{LISTED[name]}"\n' for name in ids)
    values.write_text(f'version = "1"\n{VIEW}[references]\n{listed}', "utf-8")
    # Queries of seen and unseen tools have rankings, too, where the dataset is at hand.
    load_dataset("starter")
    before = _exported(build(ranking_set=values))
    # Copies of the best under other names, the first who entered; with a tool text that is then the most frequent.
    for number in range(12):
        changes = {"dataset__template": "full", "environment__created": f"2000-01-{number + 1:02}T00:00:00+00:00"}
        another(best, id_of(f"copy {number}"), method__spec=f"mine-{number}", **changes)
    # The newest result, of other scoring code: the others are not what does not compare.
    code = scored_by("1" * 64, StoredResult.read(best).metrics.metrics)
    another(best, id_of("code"), method__spec="code", scoring=code, environment__created="2099-01-01T00:00:00+00:00")
    # Run files: copies with noise, whose answers are those of other queries on more and more of them.
    run = StoredResult.read(best).run.to_pandas().groupby("query_id")["tool_id"].agg(list)
    for number, share in enumerate([0.02, 0.3, 1.0]):
        random = np.random.default_rng(number)
        moved = random.random(len(run)) < share
        answers = np.where(moved, random.permutation(len(run)), np.arange(len(run)))
        lines = [{"query_id": name, "tools": run.iloc[i]} for name, i in zip(run.index, answers.tolist(), strict=True)]
        path = tmp_path / f"noise-{number}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
        assert command(["score", "-d", "starter", str(path), "--name", f"noise-{number}"]) == 0
    site = build(ranking_set=values)
    assert not site.made.rejected
    assert len(site.board.rows) == len(FIVE) + 16
    assert _exported(site) == before
    assert any(re.fullmatch(r"\(1(–\d+)?\)", text) for text in site.only("d/*.html").texts)


def _exported(site: Built) -> list[tuple[Any, ...]]:
    """What `results.json` has of the references: on the board, and over all datasets."""
    export = json.loads((site.folder / "results.json").read_text("utf-8"))
    (board,) = export["boards"]
    found: list[tuple[Any, ...]] = []
    for standing in [*board["standings"], *(item["standing"] for item in export["overall"])]:
        own = [i for i, name in enumerate(standing["systems"]) if name in standing["references"]]
        assert len(own) == len(FIVE)
        p = [[standing["p"][i][j - i - 1] for j in own if j > i] for i in own]
        found.append((*([standing[part][i] for i in own] for part in ("systems", "ranks")), p))
    for item in export["overall"]:
        rows = [row for row in item["rows"] if row["system"] in FIVE]
        assert len(rows) == len(FIVE)
        found.append(tuple(rows))
    return found
