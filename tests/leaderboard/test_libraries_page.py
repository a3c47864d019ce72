"""Libraries of other sizes: curves on a page of their dataset, and nothing in the ranking and on the home page."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kit.results import another, edit, id_of, manifest
from kit.sites import Built, Page

from bench.__main__ import run as command
from bench.base.paths import results_folder
from bench.leaderboard.boards import libraries
from bench.leaderboard.boards.board import assemble, read_results
from bench.leaderboard.pages import charts
from bench.leaderboard.pages import datasets as datasets_page
from bench.leaderboard.pages import libraries as libraries_page
from bench.leaderboard.pages.registry import SiteData
from bench.leaderboard.writer import Writer
from bench.results.store import StoredResult
from bench.show.figures import MOST_SERIES, Sized

OF = "starter(distractors=extra)"
SMALL, MIDDLE = "starter(distractors=extra, tools=190)", "starter(distractors=extra, tools=200)"
SPECS = ("starter", SMALL, MIDDLE, OF)
METHODS = ("bm25", "bm25-fields", "random", "oracle")
HOSTILE = '</svg><script>alert("x")</script>\u202e&'
SVG = "{http://www.w3.org/2000/svg}"


def run(*datasets: str, methods: tuple[str, ...] = METHODS, more: tuple[str, ...] = ()) -> None:
    requests = [word for name in methods for word in ("-m", name)] + [
        word for name in datasets for word in ("-d", name)
    ]
    assert command(["run", *requests, "-q", *more]) == 0


@pytest.fixture(scope="module")
def sized_site(site_of: Callable[..., Built]) -> Built:
    """The site of four methods on the embedded dataset and with 11, 21 and 30 distractors of a catalogue.

    Beside its results are `limited` ones: bm25 and random on a part of the queries.
    """

    def prepare(results: Path) -> dict[str, Any]:
        tools = [{"name": f"make_{i}", "description": f"Makes {i} things.", "inputSchema": {}} for i in range(30)]
        catalogue = results.with_name("tools.json")
        catalogue.write_text(json.dumps(tools))
        assert command(["data", "import", "extra", str(catalogue)]) == 0
        run(*SPECS)
        limited = ("--limit", "30", "--results", str(results.with_name("limited")))
        run(SMALL, methods=("bm25", "random"), more=limited)
        return {}

    return site_of("sized-site", prepare, quick=True)


@pytest.fixture
def sizes(sized_site: Built, isolated: None, quick: None, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Path]]:
    """Copies results of some specs and methods as this test's own; gives their folders."""
    monkeypatch.setenv("BENCH_DATA", str(sized_site.folder.with_name("data")))

    def sizes(*specs: str, methods: tuple[str, ...] = METHODS) -> list[Path]:
        collected = []
        for path in sorted(sized_site.folder.with_name("results").glob("[!.]*/*/manifest.json")):
            told = json.loads(path.read_text())
            if told["dataset"]["spec"] in specs and told["method"]["spec"] in methods:
                values = results_folder() / path.parts[-3] / path.parts[-2]
                collected.append(Path(shutil.copytree(path.parent, values)))
        assert len(collected) == len(specs) * len(methods)
        return collected

    return sizes


@pytest.fixture
def page(tmp_path: Path) -> Callable[[str], Page]:
    """The page of curves, or another page, of this test's results: without tests, and without a site."""

    def page(path: str = "l/*.html") -> Page:
        groups, _ = read_results(results_folder())
        boards = [assemble(row, {item.manifest.result_id: None for item in row}, {}) for row in groups]
        drawn = libraries.bases({board.spec for board in boards})
        content = SiteData(boards, [], [], [], {}, [], {}, set(), {}, drawn, {}, [])
        writer = Writer(tmp_path / "pages")
        for module in (libraries_page, datasets_page):
            module._write(content, writer)
        (result,) = writer.out.glob(path)
        return Page(result)

    return page


def table(page: Page) -> dict[str, list[str]]:
    """Method -> the text of its means, by size, of the first table of curves."""
    text = page.text
    body = text[text.index("<tbody>") : text.index("</tbody>")]
    rows = re.findall(r"<tr[^>]*><th[^>]*><a[^>]*>(.*?)</a>(.*?)</tr>", body, flags=re.DOTALL)
    return {
        name: [re.sub("<.*?>", "", cell) for cell in re.findall(r"<td[^>]*>(?:<a[^>]*>(.*?)</a>)?", cells)]
        for name, cells in rows
    }


def test_the_numbers_are_those_of_the_results(sized_site: Built, sizes: Callable[..., list[Path]]) -> None:
    site = sized_site
    assert not site.made.rejected
    stored = [StoredResult.read(path) for path in sizes(*SPECS)]
    by_size = {(item.manifest.method.spec, item.manifest.dataset.spec): item for item in stored}
    page = site.only("l/*.html")
    titles = {"bm25": "BM25", "bm25-fields": "BM25F", "random": "Random", "oracle": "Oracle"}
    assert list(table(page))[-1] == "Oracle"
    for method in METHODS:
        own = [by_size[method, spec] for spec in SPECS]
        assert table(page)[titles[method]] == [f"{item.metrics.metrics['recall@5'].mean:.3f}" for item in own]
        assert all(f"../r/{item.manifest.result_id}.html" in page.links for item in own[1:])
    # Two methods compete; their four dots and intervals each are drawn, and their names.
    root = ElementTree.fromstring(
        re.findall(r"<svg.*?</svg>", page.text, flags=re.DOTALL)[0].replace(
            "<svg ", '<svg xmlns="http://www.w3.org/2000/svg" '
        )
    )
    assert len(list(root.iter(f"{SVG}circle"))) == 8
    texts = {item.text for item in root.iter(f"{SVG}text")}
    assert {"BM25", "BM25F", "179", "209"} <= texts
    assert not {"Random", "Oracle"} & texts
    # What was done with near-duplicates, in the words of the dataset's card.
    assert "30 are distractors of extra; 0 near-duplicates of tools that queries name are left out." in page.text


def test_they_are_found_under_their_dataset_and_from_every_board(sized_site: Built) -> None:
    site = sized_site
    boards = {board.spec: board for board in site.made.boards}
    assert set(boards) == {"starter", SMALL, MIDDLE, OF}
    (path,) = (str(page.path.relative_to(site.folder)) for page in site.pages() if page.path.parent.name == "l")
    listing = site.page("datasets.html")
    assert path in listing.links
    # One row, with the others in it.
    assert listing.text.count('<th scope="row">') == 1
    for spec, board in boards.items():
        assert f"../{path}" in site.page(f"d/{board.slug}.html").links
        assert f"d/{board.slug}.html" in listing.links
        values = "Not the dataset's own library:" in site.page(f"d/{board.slug}.html").texts
        assert values == (spec != "starter")
        assert f"../d/{board.slug}.html" in site.page(path).links
    assert "with extra, library of" in " ".join(listing.texts)
    # A method on four libraries is on one dataset.
    row = re.findall(r"<tr><th[^>]*><a[^>]*>BM25F<.*?</tr>", site.page("methods.html").text, flags=re.DOTALL)[0]
    assert re.findall(r'<td class="n">(\d+)', row) == ["1", "1", "4"]
    home = site.page("index.html")
    assert not [link for link in home.links if link.startswith("d/") and boards["starter"].slug not in link]


@pytest.mark.parametrize("declared", [True, False])
def test_the_overall_boards_stay_as_they_are_but_for_a_link(
    declared: bool, sizes: Callable[..., list[Path]], build: Callable[..., Built], tmp_path: Path
) -> None:
    sizes("starter", methods=("bm25-fields", "random"))
    chosen = tmp_path / "set.toml"
    view = '[[views]]\nname = "all"\ntitle = "All"\nwhy = "Because."\ndatasets = ["starter"]\n'
    chosen.write_text('version = "1"\n' + view)
    options = {"ranking_set": chosen} if declared else {}

    def homes(site: Built) -> dict[str, bytes]:
        pages = [*site.folder.glob("index.html"), *site.folder.glob("overall-*.html")]
        return {path.name: path.read_bytes() for path in pages}

    before = homes(build("before", **options))
    sizes(SMALL, OF, methods=("bm25-fields", "random"))
    for folder in sizes(MIDDLE, methods=("bm25",)):
        edit(folder, dataset__spec="starter(distractors=extra, tools=180, seed=3)")
    after = build("after", **options)
    assert len(after.made.boards) == 4
    link = b' Larger libraries: <a href="l/starter.html">starter</a>.'
    result = homes(after)
    assert result["index.html"].count(link) == 1
    assert {name: page.replace(link, b"") for name, page in result.items()} == before


def test_one_size_is_no_curve_and_stands_for_itself_where_the_dataset_has_no_board(
    sizes: Callable[..., list[Path]], build: Callable[..., Built], page: Callable[..., Page]
) -> None:
    sizes(SMALL, methods=("bm25", "random"))
    site = build()
    alone = site.only("l/*.html")
    assert "svg" not in alone.tags
    assert "No curve: no method has results on two sizes." in alone.texts
    (board,) = site.made.boards
    assert f"d/{board.slug}.html" in site.page("datasets.html").links
    assert "bm25" in site.page("index.html").text
    # With the dataset itself there are two.
    sizes("starter", methods=("bm25",))
    assert page().tags.count("svg") == 1
    assert "1 more method has results on one size only." in " ".join(page().texts)


def test_draws_of_another_seed_and_methods_of_another_seed_are_lines_of_their_own(
    sizes: Callable[..., list[Path]], page: Callable[..., Page]
) -> None:
    chosen = sizes("starter", SMALL, OF)
    for folder in [*chosen, *sizes(MIDDLE)]:
        told = manifest(folder)
        if told["method"]["spec"] in {"oracle", "random"}:
            spec = {"oracle": "bm25(k1=0.5)", "random": "random(seed=1)"}[told["method"]["spec"]]
            another(folder, id_of(str(folder)), method__spec=spec, method__oracle=False)
    for folder in sorted(results_folder().glob("[!.]*/*")):
        # The small and the middle library are drawn with two seeds, or with the second alone.
        spec = manifest(folder)["dataset"]["spec"]
        content = {"dataset__content_hash": id_of(spec) * 5}
        if spec == MIDDLE:
            edit(folder, dataset__spec=MIDDLE.replace(")", ", seed=1)"), **content)
        elif spec == SMALL:
            seeded = SMALL.replace("tools=190", "seed=1, tools=190")
            another(folder, id_of(f"seeded {folder}"), "seeded", dataset__spec=seeded, **content)
    result = page()
    assert result.tags.count("svg") == 2
    heads = [text for text in result.texts if text.startswith("With distractors of")]
    assert len(heads) == 2
    assert sum("seed 1" in text for text in heads) == 1
    for values in re.findall(r"<tbody>(.*?)</tbody>", result.text, flags=re.DOTALL):
        names = re.findall(r'<th scope="row"><a[^>]*>(.*?)</a>', values)
        assert len(names) == len(set(names)) == 6
        # Each has three sizes, its own dataset among them.
        assert all(len(re.findall("<small>", row)) == 3 for row in values.split("</tr>")[:-1])


def test_other_queries_under_the_same_name_are_no_point(
    sized_site: Built, sizes: Callable[..., list[Path]], page: Callable[..., Page]
) -> None:
    sizes(*SPECS)
    # Somebody says that results on a part of the queries are on a larger library.
    for folder in sorted(sized_site.folder.with_name("limited").glob("[!.]*/*")):
        path = Path(shutil.copytree(folder, results_folder() / "limited" / folder.name))
        edit(path, dataset__limit=None, dataset__spec=OF.replace(")", ", tools=1000)"), dataset__tools=1000)
    assert "1,000" in " ".join(page("datasets.html").texts)
    heads = re.findall(r"<thead>(.*?)</thead>", page().text, flags=re.DOTALL)
    assert len(heads) == 1
    assert "1,000" not in heads[0]


@pytest.mark.parametrize("tools", [0, -5, 10**40])
def test_sizes_that_no_library_has_are_no_points(
    tools: int, sizes: Callable[..., list[Path]], page: Callable[..., Page]
) -> None:
    sizes(*SPECS[:-1])
    for folder in sizes(OF):
        edit(folder, dataset__tools=tools)
    assert [len(cells) for cells in table(page()).values()] == [3] * 4


@pytest.mark.parametrize(
    "spec",
    ["starter(tools=", "starter(tools=x)(", "starter(distractors=extra()", "starter(distractors=[1], tools=3)", ""],
)
def test_a_spec_that_says_nothing_of_a_library_is_a_dataset_of_its_own(spec: str) -> None:
    assert libraries.library_of(spec) is None
    assert libraries.base_of(spec) == spec


@given(st.text(max_size=40))
def test_no_spec_is_an_error(spec: str) -> None:
    assert libraries.base_of(libraries.base_of(spec)) == libraries.base_of(spec)


def test_a_page_whose_results_are_all_excluded_says_so(
    sizes: Callable[..., list[Path]], build: Callable[..., Built]
) -> None:
    sizes("starter", methods=("bm25", "random"))
    for folder in sizes(*SPECS[1:]):
        (folder / "per_query.parquet").write_bytes(b"PAR1")
    site = build()
    assert len(site.made.boards) == 1
    page = site.only("l/*.html")
    assert "svg" not in page.tags
    assert "../rejected.html" in page.links
    assert f"../{page.path.relative_to(site.folder)}" in site.only("d/starter*.html").links


def test_builds_are_the_same_bytes_and_pages_go_with_their_results(
    sizes: Callable[..., list[Path]], build: Callable[..., Built]
) -> None:
    sizes("starter", methods=("bm25",))
    libraries = sizes(SMALL, OF, methods=("bm25",))
    site = build()
    assert site.bytes() == build("fresh").bytes()
    assert not build().made.files.written
    for folder in libraries:
        shutil.rmtree(folder)
    after = build()
    assert [path for path in after.made.files.removed if path.startswith("l/")]
    assert not (after.folder / "l").exists()
    assert after.bytes() == build("bare").bytes()


def _numbers(svg: str) -> list[float]:
    root = ElementTree.fromstring(svg)
    return [float(root_.attrib[name]) for root_ in root.iter() for name in ("cx", "cy") if name in root_.attrib]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(1, 10**9), st.floats(0, 1)), min_size=1, max_size=12, unique_by=lambda p: p[0]),
        max_size=12,
    )
)
def test_the_picture_stays_in_its_frame(found: list[list[tuple[int, float]]]) -> None:
    lines = [
        Sized(f"m{i}", tuple((size, mean, mean / 2, math.nan if mean > 0.9 else 1.0) for size, mean in sorted(row)))
        for i, row in enumerate(found)
    ]
    svg = charts.sizes("t", lines, "recall@5")
    drawn = [row for row in found if len(row) > 1][:MOST_SERIES]
    assert bool(svg) == bool(drawn)
    if svg:
        assert len(_numbers(svg)) == 2 * sum(map(len, drawn))
        assert all(0 <= value <= charts.WIDTH for value in _numbers(svg))


def test_the_picture_escapes_its_names_and_tells_long_ones_apart() -> None:
    points = ((527, 0.4, 0.3, 0.5), (17_925, 0.2, None, None))
    svg = charts.sizes(
        HOSTILE,
        [Sized(HOSTILE, points), Sized("x" * 90 + "1", points), Sized("x" * 90 + "2", points)],
        HOSTILE,
    )
    root = ElementTree.fromstring(svg)
    names = [item.text for item in root.iter("text") if item.attrib.get("class") == "name"]
    assert len(set(names)) == 3
    assert not list(root.iter("script"))
    texts = [item.text for item in root.iter("text")]
    assert {"527", "17.9k"} <= set(texts)
    assert len(list(root.iter("circle"))) == 6
    # What has no interval has none drawn.
    assert svg.count('class="reach"') == 3
