"""What differs from the papers: tables that are whole, strictly read, and no part of what names a result."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.base.errors import DataError
from bench.base.records import read_toml
from bench.base.text import one_line
from bench.registry import method_class
from bench.registry.differences import Difference, Differences, differences, differences_of, with_differences
from bench.results.code_versions import of_methods

#: The aspects that every table has, and how deep it looks: a cut of a set, or depths of a ranking.
ASPECTS = {"model", "training data", "metric"}
DEPTHS = {"cut", "depths"}
ROW = "[[rows]]\naspect = '{aspect}'\npaper = 'p'\nreleased = 'r'\nhere = 'h'\nwhy = 'w'\n"
HEAD = "paper = 'Someone 2024'\nurl = 'https://example.org'\ncode = 'none'\n"


def read(folder: Path, text: str) -> Differences:
    path = folder / "differs.toml"
    path.write_text(text, "utf-8")
    return read_toml(Differences, path, "the differences of a method", DataError)


def test_the_four_systems_have_a_table() -> None:
    assert with_differences() == ["ptr", "query-generation", "tgr", "toolrerank"]
    assert differences("bm25") is None
    assert differences("../tgr") is None


@pytest.mark.parametrize("name", with_differences())
def test_a_table_has_every_aspect_once_and_no_empty_cell(name: str) -> None:
    table = differences(name)
    assert table is not None
    aspects = [row.aspect for row in table.rows]
    assert len(set(aspects)) == len(aspects)
    assert ASPECTS.issubset(aspects)
    assert DEPTHS.intersection(aspects)
    # ToolRerank asks no language model.
    assert ("prompt" in aspects) == (name != "toolrerank")
    for row in table.rows:
        for cell in row.cells:
            assert cell == cell.strip()
            assert any(sign.isalnum() for sign in cell)
            assert cell.count("`") % 2 == 0
    assert table.url.startswith("https://")


@pytest.mark.parametrize("name", with_differences())
def test_a_table_takes_no_part_in_what_names_a_result(name: str) -> None:
    reached = of_methods([method_class(name)])
    assert not [found for found in reached.definitions if found.module == "bench.registry.differences"]


def test_the_tables_of_a_spec_are_those_of_its_methods() -> None:
    assert list(differences_of("tgr(graph=manual)")) == ["tgr"]
    assert list(differences_of("rrf(methods=[bm25, toolrerank(base=tgr(base=dense))])")) == ["toolrerank", "tgr"]
    assert differences_of("bm25") == {}
    assert differences_of("tgr(") == {}
    assert differences_of("package.module:tgr") == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD, "rows: Field required"),
        (HEAD + "rows = []\n", "rows: List should have at least 1 item"),
        (HEAD + ROW.format(aspect=" \u200b"), "rows.0.aspect: is empty"),
        (HEAD + ROW.format(aspect="a") + "note = 'n'\n", "rows.0.note: Extra inputs are not permitted"),
        (HEAD + ROW.format(aspect="a").replace("'w'", "3"), "rows.0.why: Input should be a valid string"),
    ],
)
def test_what_is_no_table_is_refused_in_a_sentence(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(DataError, match=r"the differences of a method .* is not valid") as error:
        read(tmp_path, text)
    assert said in str(error.value)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_a_cell_is_one_clean_line_or_refused(text: str) -> None:
    raw = {"aspect": text, "paper": "p", "released": "r", "here": "h", "why": "w"}
    if one_line(text):
        cell = Difference.model_validate(raw).aspect
        assert not {"\n", "\x1b", "\u202e"}.intersection(cell)
    else:
        with pytest.raises(ValueError, match="is empty"):
            Difference.model_validate(raw)
