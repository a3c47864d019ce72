"""The page of choices, on results of `bench choose` against a scripted endpoint."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kit.results import another, edit, folder_of, id_of, manifest, rehash
from kit.sites import Built

from bench.choices import page as choices_page
from bench.choices.fitness import fitness
from bench.choices.outcomes import GROUPS, read_replies
from bench.choices.page import PickerBoard
from bench.leaderboard.pages import charts
from bench.leaderboard.site import build_site
from bench.results.choices import is_choice
from bench.results.store import NOTES, NOTES_SCHEMA, StoredResult, find_results
from bench.stats.noninferiority import LEVEL

HOSTILE = '<img src=x onerror="alert(1)">'


@pytest.fixture
def results(choice_site: Built, tmp_path: Path, isolated: None) -> Path:
    """A copy of its results."""
    return Path(shutil.copytree(choice_site.folder.with_name("results"), tmp_path / "results"))


def pickers(site: Built) -> dict[str, PickerBoard]:
    (board,) = site.made.choices
    return {item.picker.model: item for item in board.pickers}


def stored(site: Built) -> dict[str, StoredResult]:
    found = find_results(site.folder.with_name("results"))
    return {item.manifest.method.spec: item for item in found if isinstance(item, StoredResult)}


def test_the_page_says_what_the_results_do(choice_site: Built) -> None:
    reads, by_spec = pickers(choice_site)["reads"], stored(choice_site)
    page = choice_site.page("choices.html")
    assert {(row.base, row.shown) for row in reads.rows} == {
        *(("BM25", k) for k in (1, 3, 5)),
        *(("BM25, without the gold", k) for k in (1, 3, 5)),
        ("the whole library", None),
        ("the gold alone", None),
    }
    for row in reads.rows:
        choices = read_replies(row.row.result)
        assert row.summary.accuracy.mean == np.mean([outcome == "right" for outcome in choices.outcomes])
        assert sum(row.summary.counts.values()) == 40
        assert f"r/{row.row.id}.html" in page.links
    spec = "choose(base=planted(base=random), llm=reads)"
    test = fitness(by_spec[spec])
    assert (reads.calibration.faults, reads.calibration.tests["random"]) == ([], test)
    assert f"{test.hit:.3f}" in page.texts
    assert {"random tools", "hard tools", "nothing else"} <= set(page.texts)
    # Best first, and what knows the gold after all others.
    ranked = [row.summary.accuracy.mean for row in reads.rows if not row.row.oracle]
    assert ranked == sorted(ranked, reverse=True)
    assert [row.row.oracle for row in reads.rows] == [False] * 4 + [True] * 4
    # Each table says which model chose, and so does what opens it.
    assert "<caption>Choices of reads: rank by right choices" in page.text
    assert 'outcomes: <span class="q">reads, ' in page.text


def test_another_order_of_the_tools_is_a_part_of_the_calibration(choice_site: Built) -> None:
    (board,) = choice_site.made.choices
    assert [item.picker.model for item in board.pickers] == ["first", "reads"]
    first, reads = board.pickers
    assert first.calibration.same_reordered is not None
    assert first.calibration.same_reordered < 0.6
    assert reads.calibration.same_reordered == 1.0
    assert "called in another order of the hard tools for 1.00 of the queries" in choice_site.page("choices.html").text


def test_an_unfit_picker_has_no_ranks(choice_site: Built) -> None:
    by_model = pickers(choice_site)
    assert by_model["first"].standing is None
    assert "it does not find the gold more often than chance" in by_model["first"].calibration.faults
    assert by_model["reads"].standing is not None
    assert set(by_model["reads"].standing.ids) == {row.row.id for row in by_model["reads"].rows if not row.row.oracle}
    text = choice_site.page("choices.html").text
    unfit, fit = text.split(">first <small>")[1].split(">reads <small>")
    assert "not fit to judge" in unfit
    assert ">rank<" not in unfit
    assert "not fit to judge" not in fit
    assert ">rank<" in fit


def test_each_model_has_a_sentence_that_says_what_its_rows_show(choice_site: Built) -> None:
    first, reads = (pickers(choice_site)[name] for name in ("first", "reads"))
    means = [row.summary.accuracy.mean for row in first.rows if not row.row.oracle]
    assert f"so its rows have no rank. Right choices: {min(means):.3f} to {max(means):.3f}, over 1 row." in (
        choice_site.page("choices.html").text
    )
    best, others = reads.rows[0], [row for row in reads.rows[1:] if not row.row.oracle]
    said = choices_page._sentence(reads)
    assert said.startswith(f"Shown “{best.name}”, it makes most right choices, {best.summary.accuracy.mean:.3f} ")
    assert reads.standing is not None
    pairs = dict(zip(reads.standing.ids, reads.standing.pairs[reads.standing.ids.index(best.row.id)], strict=True))
    for row in others:
        assert (f"“{row.name}”" in said) == (not pairs[row.row.id] < LEVEL), row.name
    bound = next(row for row in reads.rows if row.base == "the gold alone").summary.accuracy.mean
    assert said.endswith(f"With the gold alone: {bound:.3f}.")


def test_a_model_file_has_a_short_name_unless_another_has_the_same() -> None:
    one, two, three = (f"local:{name}.gguf@sha256:{'0' * 12}" for name in ("a", "b", "B"))
    assert choices_page._short_names({one, two, three, "served"}) == {
        one: "a",
        two: "b",
        three: "B",
        "served": "served",
    }
    again = one.replace("0", "1")
    assert choices_page._short_names({one, again}) == {one: one, again: again}


def test_a_row_that_shows_what_another_shows_has_no_rank(results: Path, tmp_path: Path) -> None:
    folder = folder_of(results, "choose(base=bm25(), llm=reads)")
    full = manifest(folder)["method"]["full_spec"].replace("base=bm25()", "base=twin()")
    another(folder, id_of("twin"), method__full_spec=full, method__spec=full)
    site = Built(tmp_path / "site", build_site(results, tmp_path / "site"))
    reads = pickers(site)["reads"]
    (twin,) = (row for row in reads.rows if row.same_as)
    assert (twin.base, twin.shown, twin.same_as) == ("twin", 5, "BM25")
    assert reads.standing is not None
    assert set(reads.standing.ids) == {row.row.id for row in reads.rows if not row.row.oracle and row != twin}
    assert "the same tools as BM25" in site.page("choices.html").texts


def test_without_calibration_there_are_no_ranks(results: Path, tmp_path: Path) -> None:
    shutil.rmtree(folder_of(results, "choose(base=planted(base=random), llm=reads)"))
    (board,) = build_site(results, tmp_path / "site").choices
    (reads,) = (item for item in board.pickers if item.picker.model == "reads")
    assert reads.calibration.faults == ["it was not calibrated on these queries"]
    assert reads.standing is None


def test_no_choice_is_on_a_board_of_retrieval(choice_site: Built) -> None:
    (board,) = choice_site.made.boards
    assert [row.family for row in board.rows] == ["bm25"]
    assert not board.superseded
    chosen = [item for item in stored(choice_site).values() if is_choice(item)]
    assert choice_site.made.results == len(chosen) + 1
    ids = {item.manifest.result_id for item in chosen}
    for path in choice_site.folder.rglob("*.*"):
        place = path.relative_to(choice_site.folder).as_posix()
        if (
            place not in {"choices.html", "files.json"}
            and not place.startswith("r/")
            and path.suffix not in {".zip", ".gz"}
        ):
            text = path.read_text("utf-8")
            assert not any(name in text for name in ids), place
    # Their own pages stay, and lead back; no link is dead.
    for name in ids:
        page = choice_site.page(f"r/{name}.html")
        assert any(link.startswith("../choices.html#") for link in page.links)
        for link in page.links:
            if not link.startswith(("#", "http")):
                assert (choice_site.folder / "r" / link.partition("#")[0]).exists(), link


def test_the_first_page_and_that_of_the_dataset_lead_to_it(choice_site: Built) -> None:
    (link,) = (link for link in choice_site.only("d/*.html").links if "choices.html" in link)
    assert link.removeprefix("../choices.html#") in choice_site.page("choices.html").ids
    assert "choices.html" in choice_site.page("index.html").links


def test_a_build_with_nothing_to_do_makes_the_same_page(results: Path, tmp_path: Path) -> None:
    build_site(results, tmp_path / "site")
    before = Built(tmp_path / "site", build_site(results, tmp_path / "site"))
    assert not before.made.files.written
    shutil.rmtree(folder_of(results, "choose(base=bm25(), llm=first)"))
    after = build_site(results, tmp_path / "site")
    assert [path for path in after.files.removed if path.endswith(".html")]


def test_hostile_names_are_escaped(results: Path, tmp_path: Path) -> None:
    folder = folder_of(results, "choose(base=bm25(), llm=reads)")
    full = manifest(folder)["method"]["full_spec"]
    changed = full.replace("llm=reads", f"llm={json.dumps(HOSTILE)}").replace(
        "base=bm25()", f"base={json.dumps(HOSTILE)}"
    )
    edit(folder, method__full_spec=changed, method__spec=changed)
    other = folder_of(results, "choose(base=bm25(), llm=reads, shown=1)")
    for i, (old, new) in enumerate([("shown=1", "shown=" + "9" * 400), ("llm=reads, ", ""), ("seed=0", "seed=x")]):
        whole = manifest(other)["method"]["full_spec"].replace(old, new)
        another(other, id_of(f"hostile {i}"), method__full_spec=whole, method__spec=whole)
    site = Built(tmp_path / "site", build_site(results, tmp_path / "site"))
    page = site.page("choices.html")
    assert HOSTILE not in page.text
    assert "onerror" not in {name for name, _ in page.attributes}
    assert HOSTILE in {item.picker.model for item in site.made.choices[0].pickers}
    assert sum("its choices cannot be read" in item.reason for item in site.made.rejected) == 3


def test_what_was_wrong_with_right_replies_stands_beside_the_outcomes(results: Path, tmp_path: Path) -> None:
    folder = folder_of(results, "choose(base=oracle(), llm=reads, shown=100)")
    (result,) = (item for item in find_results(results) if isinstance(item, StoredResult) and item.folder == folder)
    before = read_replies(result)
    read = zip(before.queries, before.outcomes, before.notes, strict=True)
    marked = [query for query, outcome, note in read if outcome == "right" and note is not None][:3]
    assert len(marked) == 3
    table = pq.read_table(folder / NOTES).to_pydict()
    for i, query in enumerate(table["query_id"]):
        if query in marked:
            table["note"][i] = json.dumps(json.loads(table["note"][i]) | {"faults": ["unknown name", "unknown name"]})
    pq.write_table(pa.table(table, schema=NOTES_SCHEMA), folder / NOTES)
    rehash(folder, NOTES)
    site = Built(tmp_path / "site", build_site(results, tmp_path / "site"))
    (row,) = (row for row in pickers(site)["reads"].rows if row.base == "the gold alone")
    assert row.summary.counts == before.summary.counts
    assert row.summary.faults["unknown name"] == 3
    # Of both calibrations, and of the rows of the one picker that has any.
    assert site.page("choices.html").texts.count("unknown names") == 2 + 1


def test_tokens_that_are_estimated_say_so(results: Path, tmp_path: Path) -> None:
    folder = folder_of(results, "choose(base=bm25(), llm=reads)")
    table = pq.read_table(folder / NOTES)
    notes = [note and json.dumps({**json.loads(note), "estimated": True}) for note in table["note"].to_pylist()]
    pq.write_table(table.set_column(table.column_names.index("note"), "note", pa.array(notes)), folder / NOTES)
    rehash(folder, NOTES)
    page = Built(tmp_path / "site", build_site(results, tmp_path / "site")).page("choices.html").text
    assert page.count("the endpoint counted no tokens in ") == 2, "beside the tokens in and out of one row"


def test_damaged_notes_leave_a_result_out_and_are_told(results: Path, tmp_path: Path) -> None:
    folder = folder_of(results, "choose(base=bm25(), llm=reads)")
    (folder / NOTES).write_bytes(b"PAR1")
    rehash(folder, NOTES)
    site = Built(tmp_path / "site", build_site(results, tmp_path / "site"))
    (told,) = site.made.rejected
    assert told.where.endswith(manifest(folder)["result_id"])
    assert f"r/{manifest(folder)['result_id']}.html" not in site.page("choices.html").links


def test_a_bar_has_a_part_for_each_count() -> None:
    bars = [("a", [3, 1, 0, 0, 0, 0]), (HOSTILE, [0, 0, 0, 0, 2, 2]), ("nothing", [0] * 6)]
    svg = charts.shares("t", bars, list(GROUPS), "key")
    assert HOSTILE not in svg
    assert "a: right 3 of 4" in svg
    assert ">75<" in svg
    # Parts that no row has are not in the key; a row without queries has no bar.
    assert "wrong tools" not in svg
    assert "nothing" not in svg
    widths = [float(part.split('"')[0]) for part in svg.split('width="')[1:] if "." in part.split('"')[0]]
    assert widths[-4] == pytest.approx(3 * widths[-3], abs=0.3)
    assert charts.shares("t", [("nothing", [0] * 6)], list(GROUPS), "key") == ""
