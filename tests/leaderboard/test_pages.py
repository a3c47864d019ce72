"""The pages show what the results contain."""

from __future__ import annotations

import inspect
import re
import shutil
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from kit.results import edit, folder_of
from kit.sites import kept

from bench.__main__ import run as command
from bench.base.paths import results_folder
from bench.comparison.best import best_sentence
from bench.comparison.rows import competes
from bench.leaderboard import site as site_module
from bench.leaderboard.boards import standings
from bench.leaderboard.boards.overall import overall_by_metrics
from bench.leaderboard.boards.rankingset import read_ranking_set, views_of
from bench.leaderboard.exports.downloads import write_download
from bench.leaderboard.pages.rendering import _ticks
from bench.methods import bm25
from bench.metrics import measures
from bench.registry import load_dataset
from bench.results.store import StoredResult, find_results
from bench.results.units import number_units
from bench.stats.bootstrap import bca_intervals
from bench.stats.bounded import Span
from bench.stats.macro import macro_intervals, macro_values
from bench.stats.noninferiority import enough_units
from bench.stats.ranking import pairwise_tests
from bench.stats.robust_t import robust_t
from bench.stats.units import robust_mean, unit_sums
from bench.validation.ceilings import ceilings


@pytest.fixture(scope="module")
def two_datasets(site_of: Callable[..., Any], starter_results: Path) -> Any:
    """A site where bm25 alone has results on a second dataset."""

    def prepare(results: Path) -> dict[str, Any]:
        for spec in ("bm25", "random"):
            folder = folder_of(starter_results, spec)
            shutil.copytree(folder, results / "starter" / folder.name)
        (other,) = kept("apibank", "bm25")
        shutil.copytree(other.folder, results / "apibank" / other.folder.name)
        return {}

    return site_of("two-datasets", prepare, quick=True)


def test_a_board_is_ranked_and_an_oracle_stands_last_without_a_rank(ready_site: Any) -> None:
    board = ready_site.board
    order = [row.name for row in board.rows]
    assert order[-1] == "oracle"
    assert order.index("bm25") < order.index("random")
    recall_5 = board.standings["recall@5"]
    assert len(recall_5.ids) == 4
    assert board.rows[-1].id not in recall_5.ids
    assert recall_5.ranks[recall_5.position(board.rows[0].id), 0] == 1


def test_numbers_are_those_of_the_result(ready_site: Any) -> None:
    metrics = ready_site.row("bm25").result.metrics.metrics
    texts = ready_site.only("d/*.html").texts
    for name in ("recall@5", "ndcg@10", "map@100"):
        assert f"{metrics[name].mean:.3f}" in texts
        assert f"{metrics[name].low:.3f}–{metrics[name].high:.3f}" in texts


def test_lenient_means_and_ceilings_are_shown_where_they_are_known(ready_site: Any, marked_site: Any) -> None:
    page = marked_site.page(f"r/{marked_site.row('turned').id}.html")
    assert "lenient" in page.texts
    assert "0.876" in page.texts
    assert "9 gold tools of 7 judged queries have such an alternative." in page.text
    assert "lenient" not in marked_site.page(f"r/{marked_site.row('strict').id}.html").text
    bounds = ceilings(load_dataset("starter"))
    board = ready_site.only("d/*.html").text
    for item in bounds.metrics:
        cells = "".join(f'<td class="n">{value:.3f}' for value in (item.gold, item.tools, item.queries))
        assert f'<th scope="row">{item.metric}{cells}</tr>' in board
    assert f"{bounds.more_gold} have more than 5 gold tools" in board


def test_the_mean_over_datasets_has_the_interval_of_a_two_level_bootstrap(two_datasets: Any) -> None:
    texts = two_datasets.page("index.html").texts
    boards = sorted(two_datasets.made.boards, key=lambda board: str(board.spec))
    rows = [next(row for row in board.rows if row.result.manifest.method.spec == "bm25") for board in boards]
    results = [row.result for row in rows]
    taken = [~np.isnan(result.values("recall@5")) for result in results]
    values = [result.values("recall@5")[row] for result, row in zip(results, taken, strict=True)]
    units = [number_units(result.units[row]) for result, row in zip(results, taken, strict=True)]
    assert all(len(set(row)) < len(row) for row in units)
    tables = [row[:, None] for row in values]
    ((mean, low, high),) = macro_intervals(tables, units=units, span=Span(0, 1))
    assert f"{mean:.3f}" in texts
    assert f"{low:.3f}–{high:.3f}" in texts


def test_a_ranking_on_one_dataset_says_and_shows_what_its_board_does(ready_site: Any) -> None:
    (view, *_), _ = views_of(read_ranking_set(), ready_site.made.boards, {})
    (ranking,), standing = overall_by_metrics(view, ["recall@5"], "all", {}), ready_site.board.standings["recall@5"]
    assert ranking.best is not None
    titles = {row.key: row.title for row in ready_site.board.rows}
    ids = {row.key: row.id for row in ready_site.board.rows}
    home = ready_site.page("index.html")
    assert best_sentence(ranking.best, titles) in home.texts
    best = standing.ids.index(ids[ranking.best.system])
    for lead in ranking.best.leads:
        p = standing.pairs[best, standing.ids.index(ids[lead.system])]
        assert lead.p == p
        assert lead.verdict == ("ahead" if p < 0.05 else "not told apart")
    board = ready_site.only("d/*.html").texts
    for place in ranking.rows:
        stored = place.row.result.metrics.metrics["recall@5"]
        if place.low is not None and not place.row.older:
            assert (place.low, place.high) == pytest.approx((stored.low, stored.high), abs=1e-12)
            said = f"{stored.low:.3f}–{stored.high:.3f}"
            assert said in home.texts
            assert said in board


def test_a_method_that_lacks_a_dataset_has_no_mean(two_datasets: Any) -> None:
    (view, *_), _ = views_of(read_ranking_set(), two_datasets.made.boards, {})
    rows = {place.key: place for place in overall_by_metrics(view, ["recall@5"], "all", {})[0].rows}
    assert rows["bm25"].mean is not None
    assert rows["random"].mean is None
    assert rows["random"].lacks == ("apibank",)
    home = two_datasets.page("index.html")
    assert "lacks apibank" in {value for name, value in home.attributes if name == "title"}


def test_what_may_be_first_on_a_dataset_is_bold_where_all_queries_count(ready_site: Any) -> None:
    recall_5 = ready_site.board.standings["recall@5"]
    first = {name for name, best in zip(recall_5.ids, recall_5.ranks[:, 0], strict=True) if best == 1}
    assert 0 < len(first) < len(recall_5.ids)

    def bold(page: str) -> set[str]:
        return set(re.findall(r"<a href=r/(\w+)\.html><b>", ready_site.page(page).text))

    assert bold("index.html") == first
    assert bold("overall-recall-5-seen.html") == set()


def test_nobody_is_first_where_there_are_too_few_groups(few: Path, build: Callable[..., Any]) -> None:
    shutil.rmtree(few)
    assert command(["run", "-m", "bm25", "-m", "random", "-d", "starter", "--limit", "15", "-q"]) == 0
    for folder in few.glob("[!.]*/*"):
        edit(folder, dataset__limit=None)
    assert "<b>" not in build().page("index.html").text


def test_other_limits_splits_contents_and_protocols_have_boards_of_their_own(marked_site: Any) -> None:
    boards = marked_site.made.boards
    assert len({board.slug for board in boards}) == 4
    assert sorted((board.current, board.limit or 0, len(board.rows) > 3) for board in boards) == [
        (False, 0, False),
        (True, 0, False),
        (True, 0, True),
        (True, 9, False),
    ]
    home = marked_site.page("index.html")
    assert "Other boards" in home.texts
    assert home.text.count('class="n d"') == 1, "one column for the dataset, not one for each of its boards"


def test_only_the_latest_answer_stands_on_the_board_and_the_older_one_keeps_its_page(marked_site: Any) -> None:
    page = marked_site.page(f"r/{'a' * 12}.html")
    assert f"{marked_site.row('bm25').id}.html" in page.links
    assert f"r/{'a' * 12}.html" not in marked_site.page("index.html").links
    assert marked_site.made.results == sum(len(board.rows) for board in marked_site.made.boards)


def test_tokens_of_answers_are_shown_where_they_are_known(ready_site: Any, marked_site: Any) -> None:
    texts = ready_site.page(f"r/{ready_site.row('bm25').id}.html").texts
    assert "break-even" in texts
    assert "tokens of an answer" not in texts
    assert "tokens of answer" not in ready_site.only("d/*.html").texts
    texts = marked_site.page(f"r/{marked_site.row('answered').id}.html").texts
    assert any(text.startswith("4,321, as the search sent it") for text in texts)
    assert any("an answer of up to 100 tools" in text for text in texts)
    board = marked_site.page(f"d/{marked_site.board.slug}.html").texts
    assert "tokens of answer" in board
    assert "4,321" in board
    assert ",4321.0," in marked_site.page("results.csv.gz").text


def test_a_result_page_has_its_command_manifest_and_downloads(ready_site: Any) -> None:
    result = ready_site.row("bm25").result
    result_id = result.manifest.result_id
    page = ready_site.page(f"r/{result_id}.html")
    assert result.manifest.environment.command in page.texts
    assert any(result.manifest.method.full_spec in text for text in page.texts)
    assert f"bench show {result_id} --results FOLDER" in page.texts


def test_the_download_of_a_board_is_a_folder_of_its_results(ready_site: Any, tmp_path: Path) -> None:
    (archive,) = (link for link in ready_site.page(f"r/{ready_site.row('bm25').id}.html").links if "downloads/" in link)
    with zipfile.ZipFile(ready_site.folder / "r" / archive) as members:
        members.extractall(tmp_path)
    unpacked = {item.manifest.result_id: item for item in find_results(tmp_path) if isinstance(item, StoredResult)}
    shown = {row.id: row.result for row in ready_site.board.rows}
    assert unpacked.keys() == shown.keys()
    for name, item in unpacked.items():
        item.verify()
        files = {path.name: path.read_bytes() for path in item.folder.iterdir()}
        assert files == {path.name: path.read_bytes() for path in shown[name].folder.iterdir()}


@pytest.mark.usefixtures("own_cache")
def test_a_download_is_left_out_if_a_file_changes_during_the_build(
    few: Path, build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(board: str, results: Sequence[StoredResult], writer: Any) -> None:
        path = results[0].folder / "per_query.parquet"
        data = path.read_bytes()
        path.write_bytes(data + b"x")
        try:
            write_download(board, results, writer)
        finally:
            path.write_bytes(data)

    with monkeypatch.context() as patch:
        patch.setattr("bench.leaderboard.boardjobs.write_download", late)
        site = build(downloads=True)
    assert not list(site.folder.glob("downloads/*"))
    (said,) = [item.reason for item in site.made.rejected if "download" in item.reason]
    assert "per_query.parquet has changed since it was stored" in said
    assert str(few) not in said
    # The next build makes it.
    assert build(downloads=True).bytes() == build("fresh", downloads=True).bytes()


def test_a_result_page_has_the_risk_coverage_curve_where_some_queries_have_no_gold(ready_site: Any) -> None:
    bm25, random = ready_site.row("bm25"), ready_site.row("random")
    page = ready_site.page(f"r/{bm25.id}.html")
    assert 'aria-label="Risk by coverage"' in page.text
    assert f"The area under it, {bm25.result.metrics.metrics['aurc@5'].mean:.3f}, is" in page.text
    assert "../metrics.html#aurc" in page.links
    assert "aurc" in ready_site.page("metrics.html").ids
    # A random order has no scores.
    assert "Risk by coverage" not in ready_site.page(f"r/{random.id}.html").text


def test_downloads_are_left_out_where_they_are_too_large_and_the_page_says_so(
    few: Path, build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    # One that is too large takes no download from another.
    assert command(["run", "-m", "bm25(k1=0.7)", "-d", "starter", "-q", "--depth", "5"]) == 0
    (shallow,) = [item for item in find_results(few) if isinstance(item, StoredResult) and item.manifest.depth == 5]
    size = sum((shallow.folder / name).stat().st_size for name in shallow.manifest.files)
    monkeypatch.setattr(site_module, "_most_bytes", lambda sizes: size)
    site, name = build(), shallow.manifest.result_id
    (archive,) = site.folder.glob("downloads/*")
    assert all(name in member for member in zipfile.ZipFile(archive).namelist())
    said = "values are not on this site"
    for row in site.board.rows:
        page = " ".join(site.page(f"r/{row.id}.html").texts)
        assert (said in page) == (row.id != name)
    (archive,) = build(downloads=True).folder.glob("downloads/*")
    assert all(any(row.id in member for member in zipfile.ZipFile(archive).namelist()) for row in site.board.rows)


@pytest.mark.parametrize(
    ("sizes", "bound"),
    [([], 10**7), ([3_000, 90_000], 10**7), ([99_000_000, 900_000], 10**7), ([60_000] * 2_000, 10_000)],
)
def test_the_bound_of_downloads_is_the_largest_power_of_ten_that_fits(sizes: list[int], bound: int) -> None:
    assert site_module._most_bytes(sizes) == bound


def test_a_method_page_has_its_parameters_and_every_setting(ready_site: Any) -> None:
    page = ready_site.page("m/bm25.html")
    assert {"k1", "b"} <= set(page.texts)
    assert {"BM25", "BM25 (k1=0.5)"} <= set(page.texts)
    assert ("title", "bm25(k1=0.5)") in page.attributes
    # The module's docstring introduces the method, and the class's says how it works.
    lead, works = ((inspect.getdoc(item) or "").split("\n\n")[0] for item in (bm25, bm25.BM25))
    assert page.texts.index(" ".join(lead.split())) < page.texts.index(" ".join(works.split()))


def test_a_name_that_is_not_registered_is_never_imported(few: Path, build: Callable[..., Any]) -> None:
    edit(folder_of(few, "random"), method__spec="antigravity:Method", method__full_spec="antigravity:Method")
    sys.modules.pop("antigravity", None)
    site = build()
    assert "antigravity" not in sys.modules
    assert any("no method of that name" in text for page in site.pages() for text in page.texts)


def test_every_metric_has_its_definition_and_a_formula(ready_site: Any) -> None:
    page = ready_site.page("metrics.html")
    texts = " ".join(page.texts)
    for name, measure in measures().items():
        assert name in page.ids
        assert measure.definition[:1].upper() + measure.definition[1:] in texts
    assert page.tags.count("math") >= len(measures()) - 1


def test_a_board_links_to_each_of_its_sections(
    ready_site: Any, build: Callable[..., Any], scored: Callable[[str], Path]
) -> None:
    # A run file that was scored has no costs.
    scored("mine")
    for site, cost in ((ready_site, True), (build(), False)):
        page = site.only("d/*.html")
        assert ("cost" in page.ids) == cost
        linked = {link[1:] for link in page.links if link.startswith("#")}
        for section in ("board", "ranks", "cost", "curves", "card"):
            assert (section in linked) == (section in page.ids)


def test_every_competitor_has_its_latency(ready_site: Any) -> None:
    texts = ready_site.only("d/*.html").texts
    # The caption of the table follows the title of the picture.
    start = texts.index("recall@5 against latency", texts.index("recall@5 against latency") + 1)
    after = texts[start:]
    for row in ready_site.board.rows:
        if competes(row.result):
            assert after[after.index(row.title) + 1].endswith("s")
            assert after[after.index(row.title) + 2] == f"{row.result.metrics.metrics['recall@5'].mean:.3f}"


def test_a_board_says_why_its_dataset_is_not_at_hand(ready_site: Any, marked_site: Any) -> None:
    said = "The dataset has changed since these results were computed."
    assert said not in " ".join(ready_site.only("d/*.html").texts)
    (gone,) = (board for board in marked_site.made.boards if board.content_hash == "0" * 64)
    assert said in " ".join(marked_site.page(f"d/{gone.slug}.html").texts)


def test_slices_of_a_result_have_their_means_and_intervals(ready_site: Any) -> None:
    result = ready_site.row("bm25").result
    texts = ready_site.page(f"r/{result.manifest.result_id}.html").texts
    gold = result.per_query["n_gold"].to_numpy()
    start = next(i for i, text in enumerate(texts) if text.startswith("By gold: means, and 95% intervals where"))
    shown = 0
    for count in sorted(set(gold[gold > 0].tolist())):
        values = result.values("recall@5")[gold == count]
        row = texts.index(str(count), start)
        units = number_units(result.units[gold == count])
        groups = len(set(units.tolist()))
        told = [str(len(values)), str(groups), f"{values.mean():.3f}"]
        if enough_units(units):
            ((low, high),) = robust_t(values[:, None], units).intervals(0.95)
            told.append(f"{max(0.0, low):.3f}–{min(1.0, high):.3f}")
            shown += 1
        assert texts[row + 1 : row + 1 + len(told)] == told
        assert enough_units(units) or "–" not in texts[row + 4]
    # Some are of too few groups for an interval.
    assert shown < len(set(gold[gold > 0].tolist()))


def test_limits_agree_with_what_they_are_the_limits_of() -> None:
    random = np.random.default_rng(3)
    skill = np.linspace(0.3, 0.34, 8)
    values = np.clip(random.normal(skill, 0.3, (1500, 8)) + random.normal(0, 0.2, (1500, 1)), 0, 1)
    values[:, 3] = values[:, 2]
    units = np.arange(1500) // 3
    pairs = standings.pairs_limit(values, units).p
    assert np.median(pairs) > 0.05
    assert (pairs < 0.05).any()
    assert np.abs(pairs - pairwise_tests(values, units=units).p).max() < 0.03
    parts, member = [values, values[:699] * 0.5, values[:900] * 0.8], [units, units[:699], units[:900]]
    sources = ["one", "two", "two"]
    means = np.array([part.mean(axis=0) for part in parts])
    errors = np.array([robust_mean(part, codes)[1] for part, codes in zip(parts, member, strict=True)])
    exact = macro_intervals(parts, units=member, sources=sources, span=Span(0, 1))
    own = np.array([bca_intervals(part, units=codes) for part, codes in zip(parts, member, strict=True)])
    assert standings.over_datasets_limit(means, errors, own, sources, Span(0, 1)) == pytest.approx(exact, abs=0.02)
    assert exact[:, 0] == pytest.approx((means[0] + (means[1] + means[2]) / 2) / 2)
    alone = standings.over_datasets_limit(means[:1], errors[:1], own[:1], sources[:1], Span(0, 1))
    assert alone[:, 1:].tobytes() == own[0].tobytes()


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(2, 40), st.integers(1, 3)), elements=st.floats(0, 1, width=16)),
    st.integers(0, 2**32 - 1),
    st.booleans(),
)
def test_quick_errors_are_those_of_the_statistics(values: Any, seed: int, alone: bool) -> None:
    drawn = np.random.default_rng(seed).integers(0, len(values), len(values))
    units = np.arange(len(values)) if alone else number_units(drawn)
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
    assert (standings.pairs_limit(values, units).p == 1).all()


def test_too_few_units_decide_nothing() -> None:
    random = np.random.default_rng(1)
    values = np.column_stack([np.full(190, 0.9), np.full(190, 0.1)]) + random.normal(0, 0.01, (190, 2))
    few = standings.rank_systems(["a", "b"], values, np.arange(190) // 10)
    assert (few.units, few.ranks.tolist(), few.pairs.min()) == (19, [[1, 2]] * 2, 1.0)
    enough = standings.rank_systems(["a", "b"], values, np.minimum(np.arange(190) // 6, 30))
    assert (enough.units, enough.ranks.tolist()) == (31, [[1, 1], [2, 2]])


def test_over_datasets_every_source_counts_once_and_all_units_are_evidence() -> None:
    random = np.random.default_rng(2)
    parts = [np.column_stack([random.random(30), random.random(30)]) for _ in range(3)]
    parts[0][:, 0] += 0.3
    units = [np.arange(30), np.arange(30) // 2, np.arange(30)]
    values, codes = macro_values(parts, units, ["one", "two", "two"])
    ranked_over_datasets = standings.rank_systems(["a", "b"], values, codes)
    means = np.array([part.mean(axis=0) for part in parts])
    assert ranked_over_datasets.means == pytest.approx((means[0] + (means[1] + means[2]) / 2) / 2)
    assert ranked_over_datasets.units == 75


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


def test_the_board_of_a_dataset_has_an_address_that_lasts(begun: Any, build: Callable[..., Any]) -> None:
    board = begun.board
    moved = begun.page("d/starter.html")
    assert f'content="0; url={board.slug}.html"' in moved.text
    assert f'href="{board.slug}.html"' in moved.text
    assert 'href="starter.html"' in begun.page(f"d/{board.slug}.html").text
    # Results of another protocol, or on other data, are a board of their own, to which the name does not lead.
    edit(folder_of(results_folder(), "bm25"), dataset__content_hash="0" * 64)
    again = build()
    assert len(again.made.boards) == 2
    (kept,) = (board for board in again.made.boards if board.slug == begun.board.slug)
    assert f"url={kept.slug}.html" in again.page("d/starter.html").text
    # What nobody links to any more is removed with its last result.
    shutil.rmtree(results_folder())
    assert not list(build().folder.glob("d/*.html"))


@pytest.mark.usefixtures("few", "own_cache")
def test_a_download_is_whole_again_after_a_build_that_could_not_make_it(
    few: Path, build: Callable[..., Any], tmp_path: Path
) -> None:
    path = folder_of(few, "bm25") / "metrics.json"
    build(downloads=True)
    good = path.read_bytes()
    path.write_bytes(good + b" ")
    without = build(downloads=True)
    assert any("metrics.json" in item.reason for item in without.made.rejected)
    path.write_bytes(good)
    assert build(downloads=True).bytes() == build("fresh", downloads=True).bytes()


@pytest.mark.usefixtures("few", "own_cache")
def test_no_result_with_a_key_of_this_environment_is_offered(
    few: Path, build: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = StoredResult.read(folder_of(few, "bm25"))

    def is_offered() -> bool:
        archives = build(downloads=True).folder.glob("downloads/*")
        return any(result.manifest.result_id in name for path in archives for name in zipfile.ZipFile(path).namelist())

    # Whether the board comes from the cache or not.
    assert is_offered()
    monkeypatch.setenv("OPENAI_API_KEY", result.manifest.method.hash[:40])
    assert not is_offered()
    monkeypatch.delenv("OPENAI_API_KEY")
    assert is_offered()
