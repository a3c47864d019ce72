"""The page of a method says what differs from its paper."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from kit.sites import kept
from markupsafe import escape

from bench.leaderboard.boards.board import assemble
from bench.leaderboard.pages import method
from bench.leaderboard.pages.registry import SiteData
from bench.leaderboard.writer import Writer
from bench.registry.differences import differences, with_differences


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pages of the four methods and of another one, without tests."""
    wanted = {*with_differences(), "bm25"}
    row = [item for item in kept("toollens-unseen") if item.manifest.method.spec.partition("(")[0] in wanted]
    board = assemble(row, {item.manifest.result_id: None for item in row}, {})
    writer = Writer(tmp_path_factory.mktemp("pages"))
    method._write(SiteData([board], [], [], [], {}, [], {}, set(), {}, [], {}, []), writer)
    return writer.out / "m"


@pytest.mark.parametrize("name", with_differences())
def test_each_of_the_four_has_its_table(pages: Path, name: str) -> None:
    table = differences(name)
    assert table is not None
    html = (pages / f"{name}.html").read_text("utf-8")
    part = html[html.index('<h2 id="differs">') : html.index("<h2>Results")]
    assert f'<a href="{table.url}">' in part
    heads = re.findall(r'<th scope="col">([^<]+)', part)
    assert heads == ["aspect", "paper", "released code", "here", "why"]
    rows = re.findall(r'<tr><th scope="row">(.*?)</tr>', part, re.DOTALL)
    assert len(rows) == len(table.rows)
    for text, row in zip(rows, table.rows, strict=True):
        cells = re.sub(r"</?code>", "", text).strip().split('<td class="wrap s">')
        assert cells == [str(escape(cell.replace("`", ""))) for cell in row.cells]


def test_other_methods_have_none(pages: Path) -> None:
    assert 'id="differs"' not in (pages / "bm25.html").read_text("utf-8")
