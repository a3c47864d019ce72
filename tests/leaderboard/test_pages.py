"""The pages show what the results contain."""

from __future__ import annotations

import gzip
import importlib
import inspect
import json
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats

from bench.__main__ import run as command
from bench.checks.ceilings import ceilings
from bench.leaderboard.pages.rendering import _ticks
from bench.metrics import measures
from bench.registry import load_dataset
from bench.results.comparing import competes
from bench.results.store import Result
from bench.results.units import numbered
from bench.stats.macro import macro_intervals
from bench.stats.tiers import pairwise_tests, rank_intervals
from bench.stats.units import robust_mean, unit_sums
from bench.storage.paths import results_folder

standings = importlib.import_module("bench.leaderboard.boards.standings")


def _folder(method: str) -> Path:
    return next(results_folder().glob(f"starter/{method}-*"))


def test_a_board_is_ranked_and_an_oracle_stands_last_without_a_tier(ready: Path, build: Callable[..., Any]) -> None:
    board = build().made.boards[0]
    order = [row.name for row in board.rows]
    assert order[-1] == "oracle"
    assert order.index("bm25") < order.index("random")
    own = board.standings["recall@5"]
    assert len(own.ids) == 4
    assert board.rows[-1].id not in own.ids
    assert own.tier[own.place(board.rows[0].id)] == 1


@pytest.mark.usefixtures("ready")
def test_numbers_are_those_of_the_result(build: Callable[..., Any]) -> None:
    result = Result.read(_folder("bm25"))
    texts = build().only("d/*.html").texts
    for name in ("recall@5", "ndcg@10", "map@100"):
        value = result.metrics.metrics[name]
        assert f"{value.mean:.3f}" in texts
        assert f"{value.low:.3f}–{value.high:.3f}" in texts


def test_lenient_means_and_ceilings_are_shown_where_they_are_known(
    ready: Path, build: Callable[..., Any], edit: Callable[..., None]
) -> None:
    folder = _folder("random")
    lenient = Result.read(folder).metrics.lenient
    assert lenient is not None
    page = f"r/{folder.name.rpartition('-')[2]}.html"
    changed = lenient.model_copy(update={"queries": 7, "judgements": 9, "means": lenient.means | {"recall@5": 0.876}})
    edit(folder, metrics={"lenient": changed.model_dump()})
    edit(_folder("oracle"), metrics={"lenient": None})
    site = build()
    assert "lenient" in site.page(page).texts
    assert "0.876" in site.page(page).texts
    assert "9 gold tools of 7 judged queries have such an alternative." in site.page(page).text
    oracle = f"r/{_folder('oracle').name.rpartition('-')[2]}.html"
    assert "lenient" not in site.page(oracle).text
    bounds = ceilings(load_dataset("starter"))
    board = site.only("d/*.html").text
    for item in bounds.metrics:
        cells = "".join(f'<td class="n">{value:.3f}' for value in (item.gold, item.tools, item.queries))
        assert f'<th scope="row">{item.metric}{cells}</tr>' in board
    assert f"{bounds.more_gold} have more than 5 gold tools" in board


@pytest.mark.usefixtures("ready")
def test_the_mean_over_datasets_has_the_interval_of_a_two_level_bootstrap(build: Callable[..., Any]) -> None:
    assert command(["run", "-m", "bm25", "-m", "random", "-d", "apibank", "-q"]) in {0, 4}
    site = build()
    texts = site.page("index.html").texts
    folders = sorted(results_folder().glob("[!.]*/bm25-*"))
    found = [Result.read(folder) for folder in folders]
    found = [result for result in found if result.manifest.method.spec == "bm25"]
    found = sorted(found, key=lambda item: item.manifest.dataset.spec)
    taken = [~np.isnan(result.values("recall@5")) for result in found]
    values = [result.values("recall@5")[own] for result, own in zip(found, taken, strict=True)]
    units = [numbered(result.units[own]) for result, own in zip(found, taken, strict=True)]
    assert all(len(set(own)) < len(own) for own in units)
    tables = [own[:, None] for own in values]
    ((mean, low, high),) = macro_intervals(tables, resamples=standings.MACRO_RESAMPLES, units=units)
    assert f"{mean:.3f}" in texts
    assert f"{low:.3f}–{high:.3f}" in texts


@pytest.mark.usefixtures("ready")
def test_the_first_tier_of_a_dataset_is_bold_where_all_queries_count(build: Callable[..., Any]) -> None:
    site = build()
    (board,) = site.made.boards
    own = board.standings["recall@5"]
    first = {name for name, tier in zip(own.ids, own.tier, strict=True) if tier == 1}
    assert 0 < len(first) < len(own.ids)

    def bold(page: str) -> set[str]:
        return set(re.findall(r"<a href=r/(\w+)\.html><b>", (site.folder / page).read_text("utf-8")))

    assert bold("index.html") == first
    assert bold("overall-recall-5-seen.html") == set()


@pytest.mark.usefixtures("ready")
def test_other_limits_splits_and_contents_have_boards_of_their_own(
    build: Callable[..., Any], edit: Callable[..., None], scored: Callable[[str], Path]
) -> None:
    assert command(["run", "-m", "bm25", "-d", "starter", "--limit", "9", "-q"]) == 0
    edit(scored("old-data"), dataset__content_hash="0" * 64, environment__created="2001-01-01T00:00:00+00:00")
    site = build()
    assert len(site.made.boards) == 3
    home = site.page("index.html")
    assert "Other boards" in home.texts
    assert home.text.count('class="n d"') == 1, "one column for the dataset, not one for each of its boards"


@pytest.mark.usefixtures("ready")
def test_an_older_protocol_is_kept_and_not_ranked(build: Callable[..., Any], edit: Callable[..., None]) -> None:
    edit(_folder("random"), protocol="0.9")
    site = build()
    assert site.made.results == 5
    (old,) = (board for board in site.made.boards if not board.current)
    assert not old.standings
    page = site.page(f"d/{old.slug}.html")
    assert "protocol 0.9" in page.texts
    current = [board for board in site.made.boards if board.current]
    assert "random" not in {row.family for board in current for row in board.rows}


@pytest.mark.usefixtures("ready")
def test_only_the_latest_answer_stands_on_the_board_and_the_older_one_keeps_its_page(
    build: Callable[..., Any], edit: Callable[..., None], tmp_path: Path
) -> None:
    first = _folder("random")
    older = first.with_name("random-0000000000aa")
    shutil.copytree(first, older)
    edit(older, result_id="0000000000aa", metrics={"result_id": "0000000000aa"})
    edit(older, environment__created="2001-01-01T00:00:00+00:00")
    site = build()
    assert site.made.results == 5
    page = site.page("r/0000000000aa.html")
    assert f"{Result.read(first).manifest.result_id}.html" in page.links
    assert "r/0000000000aa.html" not in site.page("index.html").links


@pytest.mark.usefixtures("ready")
def test_marks_say_what_a_reader_must_know(build: Callable[..., Any], edit: Callable[..., None]) -> None:
    edit(_folder("bm25"), method__marks=["trained on test"], warnings=["trained on test: it learnt from 7 of these"])
    edit(_folder("random"), scoring="0" * 64)
    site = build()
    home = site.page("index.html")
    assert {"trained on test", "older scoring", "oracle", "bundles seen"} <= set(home.texts) | {
        mark.text for board in site.made.boards for row in board.rows for mark in row.marks
    }
    assert ("title", "it learnt from 7 of these") in home.attributes


def test_failed_queries_are_counted_on_the_row(scored: Callable[[str], Path], build: Callable[..., Any]) -> None:
    failed = Result.read(scored("one-answer")).metrics.n_failed
    assert failed
    site = build()
    assert f"{failed} failed" in site.page("index.html").texts
    assert f"{failed} failed" in site.only("d/*.html").texts
    assert "run file" in site.page("index.html").texts


@pytest.mark.usefixtures("ready")
def test_tokens_of_answers_are_shown_where_they_are_known(build: Callable[..., Any], edit: Callable[..., None]) -> None:
    folder = _folder("bm25")
    result = Result.read(folder)
    site = build()
    own = site.page(f"r/{result.manifest.result_id}.html").texts
    assert "break-even" in own
    assert "tokens of an answer" not in own
    assert "tokens of answer" not in site.only("d/*.html").texts
    tokens = {**result.metrics.tokens, "answer": 4321.0}
    edit(folder, metrics={"tokens": tokens})
    site = build("again")
    own = site.page(f"r/{result.manifest.result_id}.html").texts
    assert any(text.startswith("4,321, as the search sent it") for text in own)
    assert any("an answer of up to 100 tools" in text for text in own)
    board = site.only("d/*.html").texts
    assert "tokens of answer" in board
    assert "4,321" in board
    assert ",4321.0," in (site.folder / "results.csv").read_text()


@pytest.mark.usefixtures("ready")
def test_a_result_page_has_its_command_manifest_and_downloads(build: Callable[..., Any]) -> None:
    result = Result.read(_folder("bm25"))
    site = build()
    own = result.manifest.result_id
    page = site.page(f"r/{own}.html")
    assert result.manifest.environment.command in page.texts
    assert any(result.manifest.method.full_spec in text for text in page.texts)
    run = gzip.decompress((site.folder / f"r/{own}.run.gz").read_bytes()).decode()
    assert len(run.splitlines()) == result.run.num_rows
    assert run.split()[1] == "Q0"
    table = gzip.decompress((site.folder / f"r/{own}.csv.gz").read_bytes()).decode().splitlines()
    assert len(table) == result.per_query.num_rows + 1
    assert "recall@5" in table[0]
    whole = json.loads((site.folder / f"r/{own}-manifest.json").read_text())
    assert whole["manifest"] == json.loads((result.folder / "manifest.json").read_text())
    assert whole["metrics"] == json.loads((result.folder / "metrics.json").read_text())


@pytest.mark.usefixtures("ready")
def test_a_result_page_has_the_risk_coverage_curve_where_some_queries_have_no_gold(
    build: Callable[..., Any],
) -> None:
    made = build()
    ids = {name: Result.read(_folder(name)).manifest.result_id for name in ("bm25", "random")}
    page = made.page(f"r/{ids['bm25']}.html")
    area = Result.read(_folder("bm25")).metrics.metrics["aurc@5"].mean
    assert 'aria-label="Risk by coverage"' in page.text
    assert f"The area under it, {area:.3f}, is" in page.text
    assert "../metrics.html#aurc" in page.links
    assert "aurc" in made.page("metrics.html").ids
    # A random order has no scores.
    assert "Risk by coverage" not in made.page(f"r/{ids['random']}.html").text


@pytest.mark.usefixtures("ready")
def test_without_downloads_the_page_says_so(build: Callable[..., Any]) -> None:
    site = build(downloads=False)
    assert not list(site.folder.rglob("*.gz"))
    assert any(
        "values are not on this site" in text for text in site.page(f"r/{site.made.boards[0].rows[0].id}.html").texts
    )


def test_a_result_that_is_too_large_takes_no_download_from_another(
    ready: Path, build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The rankings of this board have 134 queries and at most 100 tools each; a shallow one has fewer than 1,000 lines.
    assert command(["run", "-m", "bm25(k1=0.7)", "-d", "starter", "-q", "--depth", "5"]) == 0
    monkeypatch.setattr(importlib.import_module("bench.leaderboard.site"), "MOST_DOWNLOADED", 5_000)
    site = build()
    shallow = {row.id for row in site.made.boards[0].rows if row.result.manifest.depth == 5}
    assert len(shallow) == 1
    assert {path.name.partition(".")[0] for path in site.folder.glob("r/*.gz")} == shallow
    every = build("every", downloads=True)
    assert len(list(every.folder.glob("r/*.csv.gz"))) == len(every.made.boards[0].rows)


@pytest.mark.usefixtures("ready")
def test_a_method_page_has_its_parameters_and_every_setting(build: Callable[..., Any]) -> None:
    page = build().page("m/bm25.html")
    assert {"k1", "b"} <= set(page.texts)
    assert {"BM25", "BM25 (k1=0.5)"} <= set(page.texts)
    assert ("title", "bm25(k1=0.5)") in page.attributes
    # The module's docstring introduces the method, and the class's says how it works.
    module = importlib.import_module("bench.methods.bm25")
    lead, works = ((inspect.getdoc(item) or "").split("\n\n")[0] for item in (module, module.BM25))
    assert page.texts.index(" ".join(lead.split())) < page.texts.index(" ".join(works.split()))


@pytest.mark.usefixtures("ready")
def test_a_name_that_is_not_registered_is_never_imported(build: Callable[..., Any], edit: Callable[..., None]) -> None:
    edit(_folder("random"), method__spec="antigravity:Method", method__full_spec="antigravity:Method")
    sys.modules.pop("antigravity", None)
    site = build()
    assert "antigravity" not in sys.modules
    assert any("no method of that name" in text for page in site.pages() for text in page.texts)


def test_every_metric_has_its_definition_and_a_formula(build: Callable[..., Any]) -> None:
    page = build().page("metrics.html")
    for name, measure in measures().items():
        assert name in page.ids
        definition = measure.definition[:1].upper() + measure.definition[1:]
        assert definition in " ".join(page.texts)
    assert page.tags.count("math") >= len(measures()) - 1


@pytest.mark.parametrize("cost", [True, False])
def test_a_board_links_to_each_of_its_sections(
    build: Callable[..., Any], scored: Callable[[str], Path], request: pytest.FixtureRequest, cost: bool
) -> None:
    if cost:
        request.getfixturevalue("ready")
    else:
        # A run file that was scored has no costs.
        scored("mine")
    page = build().only("d/*.html")
    assert ("cost" in page.ids) == cost
    linked = {link[1:] for link in page.links if link.startswith("#")}
    for section in ("board", "tiers", "cost", "curves", "slices", "card"):
        assert (section in linked) == (section in page.ids)


@pytest.mark.usefixtures("ready")
def test_every_competitor_has_its_latency(build: Callable[..., Any]) -> None:
    site = build()
    texts = site.only("d/*.html").texts
    # The caption of the table follows the title of the picture.
    start = texts.index("recall@5 against latency", texts.index("recall@5 against latency") + 1)
    after = texts[start:]
    for row in site.made.boards[0].rows:
        if competes(row.result):
            assert after[after.index(row.title) + 1].endswith("s")
            assert after[after.index(row.title) + 2] == f"{row.result.metrics.metrics['recall@5'].mean:.3f}"


@pytest.mark.usefixtures("ready")
def test_slices_of_a_dataset_at_hand_are_shown(build: Callable[..., Any], edit: Callable[..., None]) -> None:
    texts = build().only("d/*.html").texts
    assert any(text.startswith("by ") for text in texts)
    for folder in results_folder().glob("[!.]*/*"):
        edit(folder, dataset__content_hash="0" * 64)
    again = " ".join(build("other").only("d/*.html").texts)
    assert "The dataset has changed since these results were computed." in again


@pytest.mark.usefixtures("ready")
def test_slices_of_a_result_have_their_means_and_intervals(build: Callable[..., Any]) -> None:
    result = Result.read(_folder("bm25"))
    texts = build().page(f"r/{result.manifest.result_id}.html").texts
    gold = result.per_query["n_gold"].to_numpy()
    start = next(i for i, text in enumerate(texts) if text.startswith("By gold: means, and 95% intervals where"))
    shown = 0
    for count in sorted(set(gold[gold > 0].tolist())):
        values = result.values("recall@5")[gold == count]
        row = texts.index(str(count), start)
        units = numbered(result.units[gold == count])
        groups = len(set(units.tolist()))
        _, (error,), (freedom,) = robust_mean(values[:, None], units)
        reach = error * stats.t.ppf(0.975, freedom)
        told = [str(len(values)), str(groups), f"{values.mean():.3f}"]
        if groups >= 20:
            low, high = max(0.0, values.mean() - reach), min(1.0, values.mean() + reach)
            told.append(f"{low:.3f}–{high:.3f}")
            shown += 1
        assert texts[row + 1 : row + 1 + len(told)] == told
        assert groups >= 20 or "–" not in texts[row + 4]
    # Some values have an interval, and some are of too few groups for one.
    assert 0 < shown < len(set(gold[gold > 0].tolist()))


def test_limits_agree_with_what_they_are_the_limits_of() -> None:
    random = np.random.default_rng(3)
    skill = np.linspace(0.3, 0.34, 8)
    values = np.clip(random.normal(skill, 0.3, (1500, 8)) + random.normal(0, 0.2, (1500, 1)), 0, 1)
    values[:, 3] = values[:, 2]
    units = np.arange(1500) // 3
    pairs = standings.pairs_limit(values, units)
    assert np.median(pairs) > 0.05
    assert (pairs < 0.05).any()
    assert np.abs(pairs - pairwise_tests(values, units=units)).max() < 0.03
    assert np.abs(standings.ranks_limit(values, units) - rank_intervals(values, units=units)).max() <= 1
    parts, own = [values, values[:699] * 0.5, values[:900] * 0.8], [units, units[:699], units[:900]]
    sources = ["one", "two", "two"]
    means = np.array([part.mean(axis=0) for part in parts])
    errors = np.array([robust_mean(part, codes)[1] for part, codes in zip(parts, own, strict=True)])
    exact = standings.over_datasets(parts, own, sources)
    assert standings.over_datasets_limit(means, errors, sources) == pytest.approx(exact, abs=0.02)
    assert exact[:, 0] == pytest.approx((means[0] + (means[1] + means[2]) / 2) / 2)


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(2, 40), st.integers(1, 3)), elements=st.floats(0, 1, width=16)),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
def test_quick_errors_are_those_of_the_statistics(values: Any, seed: int, alone: bool) -> None:
    drawn = np.random.default_rng(seed).integers(0, len(values), len(values))
    units = np.arange(len(values)) if alone else numbered(drawn)
    sums, sizes = standings.unit_totals(values, units)
    exact_sums, exact_sizes = unit_sums(values, units)
    assert sums == pytest.approx(exact_sums, abs=1e-12)
    assert sizes.tolist() == exact_sizes.tolist()
    means, errors = standings.mean_errors(values, units)
    exact_means, exact_errors, _ = robust_mean(values, units)
    assert means == pytest.approx(exact_means, abs=1e-12)
    assert errors == pytest.approx(exact_errors, abs=1e-9, nan_ok=True)


def test_a_limit_of_systems_that_are_alike_finds_no_difference() -> None:
    values = np.tile(np.random.default_rng(0).random((50, 1)), (1, 4))
    units = np.arange(50) // 2
    assert (standings.pairs_limit(values, units) == 1).all()
    assert (standings.ranks_limit(values, units) == [1, 4]).all()


def test_too_few_units_decide_nothing() -> None:
    random = np.random.default_rng(1)
    values = np.column_stack([np.full(190, 0.9), np.full(190, 0.1)]) + random.normal(0, 0.01, (190, 2))
    few = standings.ranked_systems(["a", "b"], values, np.arange(190) // 10)
    assert (few.units, few.tier.tolist(), few.pairs.min()) == (19, [1, 1], 1.0)
    enough = standings.ranked_systems(["a", "b"], values, np.minimum(np.arange(190) // 9, 20))
    assert (enough.units, enough.tier.tolist()) == (21, [1, 2])


def test_over_datasets_every_source_counts_once_and_all_units_are_evidence() -> None:
    random = np.random.default_rng(2)
    parts = [np.column_stack([random.random(30), random.random(30)]) for _ in range(3)]
    parts[0][:, 0] += 0.3
    units = [np.arange(30), np.arange(30) // 2, np.arange(30)]
    found = standings.ranked_over_datasets(["a", "b"], parts, units, ["one", "two", "two"])
    means = np.array([part.mean(axis=0) for part in parts])
    assert found.means == pytest.approx((means[0] + (means[1] + means[2]) / 2) / 2)
    assert found.units == 75


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize(("protocol", "told"), [("1.0", True), ("2.0", False)])
def test_a_report_that_took_queries_as_independent_says_so(
    build: Callable[..., Any], tmp_path: Path, protocol: str, told: bool
) -> None:
    environment = Result.read(next(results_folder().glob("*/bm25-*"))).manifest.environment.model_dump()
    report: dict[str, Any] = {"tables": [], "cells": [], "blocks": [], "claims": [], "seconds": 1.0}
    path = tmp_path / "reproduction.json"
    path.write_text(json.dumps(report | {"protocol": protocol, "environment": environment}), "utf-8")
    said = " ".join(build(reproduction=path).page("reproduction.html").texts)
    assert ("took queries as independent" in said) == told


@pytest.mark.usefixtures("ready")
@pytest.mark.parametrize(("limit", "bold"), [(None, True), (15, False)])
def test_nobody_is_first_where_there_are_too_few_groups(
    build: Callable[..., Any], edit: Callable[..., None], limit: int | None, bold: bool
) -> None:
    if limit is not None:
        shutil.rmtree(results_folder())
        assert command(["run", "-m", "bm25", "-m", "random", "-d", "starter", "--limit", str(limit), "-q"]) == 0
        for folder in results_folder().glob("[!.]*/*"):
            edit(folder, dataset__limit=None)
    assert ("<b>" in build().page("index.html").text) == bold


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a `b` c", "a <code>b</code> c"),
        ("`b` and `<d>`", "<code>b</code> and <code>&lt;d&gt;</code>"),
        ("a lone ` is no code", "a lone ` is no code"),
        ("<plain>", "&lt;plain&gt;"),
    ],
)
def test_text_between_back_quotes_is_code(text: str, shown: str) -> None:
    assert str(_ticks(text)) == shown


def test_the_board_of_a_dataset_has_an_address_that_lasts(ready: Path, build: Callable[..., Any]) -> None:
    site = build()
    board = site.made.boards[0]
    moved = site.page("d/starter.html")
    assert f'content="0; url={board.slug}.html"' in moved.text
    assert f'href="{board.slug}.html"' in moved.text
    assert 'href="starter.html"' in site.page(f"d/{board.slug}.html").text
    # Results of another protocol, or on other data, are a board of their own, to which the name does not lead.
    for path in ready.glob("*/bm25-*/manifest.json"):
        raw = json.loads(path.read_text("utf-8"))
        raw["dataset"]["content_hash"] = "0" * 64
        del raw["digest"]
        path.write_text(json.dumps(raw), "utf-8")
    again = build()
    assert len(again.made.boards) == 2
    kept = next(board for board in again.made.boards if len(board.rows) == 3)
    assert f"url={kept.slug}.html" in again.page("d/starter.html").text
    # What nobody links to any more is removed with its last result.
    shutil.rmtree(ready)
    assert not list(build().folder.glob("d/*.html"))
