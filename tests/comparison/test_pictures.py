"""Pictures of comparisons: well-formed, to scale, and with every name as text."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from bench.base.errors import UsageError
from bench.comparison.comparison import Comparison
from bench.comparison.figures import Figure, draw

Make = Callable[..., Comparison]
SVG = "{http://www.w3.org/2000/svg}"


def texts(svg: str) -> list[str]:
    return [item.text or "" for item in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_means_stand_at_their_places_best_first(make: Make) -> None:
    root = ElementTree.fromstring(draw(make()))
    dots = [float(dot.attrib["cx"]) for dot in root.iter(f"{SVG}circle")]
    # 0.7, 0.5 and 0.4: twice as far from the first to the second as from the second to the third.
    assert dots[0] > dots[1] > dots[2]
    assert (dots[0] - dots[1]) / (dots[1] - dots[2]) == pytest.approx(2, abs=0.01)
    result = texts(draw(make()))
    assert result.index("other") < result.index("base") < result.index("third")
    assert [item for item in result if "–" in item or item == "3"] == ["1–2", "2–3", "3"]


def test_every_row_has_its_dot_and_whisker_between_the_ends_of_the_axis(make: Make) -> None:
    root = ElementTree.fromstring(draw(make()))
    (axis,) = (line for line in root.iter(f"{SVG}line") if line.get("class") == "axis")
    left, right, bottom = (float(axis.attrib[name]) for name in ("x1", "x2", "y1"))
    (grid, *_) = (line for line in root.iter(f"{SVG}path") if line.get("class") == "grid")
    top = float(grid.attrib["d"].partition(",")[2].partition("V")[0])
    dots = list(root.iter(f"{SVG}circle"))
    whiskers = [line for line in root.iter(f"{SVG}line") if line.get("class") == "whisker"]
    row = (bottom - top) / len(dots)
    for i, (dot, whisker) in enumerate(zip(dots, whiskers, strict=True)):
        assert left <= float(whisker.attrib["x1"]) < float(dot.attrib["cx"]) < float(whisker.attrib["x2"]) <= right
        assert float(whisker.attrib["y1"]) == float(dot.attrib["cy"]) == top + (i + 0.5) * row


def test_a_single_constant_system_can_be_drawn(make: Make) -> None:
    report = make(names=("a", "b"), means=(0.5, 0.5), corrected=(1.0,))
    assert {"a", "b", "1–2"} <= set(texts(draw(report)))


def test_a_png_and_a_pdf_are_the_drawing(make: Make, tmp_path: Path) -> None:
    pytest.importorskip("typst", reason="the extra pictures is not installed")
    figure = Figure.of(make(names=("base", "othér <&>", "third")))
    width, height = (float(ElementTree.fromstring(figure.svg).attrib[name]) for name in ("width", "height"))
    # The size of a PNG stands in its first chunk: three pixels for each of the drawing.
    data = figure.save(tmp_path / "means.png").read_bytes()
    assert data.startswith(b"\x89PNG")
    assert struct.unpack(">II", data[16:24]) == pytest.approx((3 * width, 3 * height), abs=1)
    pixels = zlib.decompress(b"".join(_chunks(data, b"IDAT")))
    assert len(set(pixels)) > 20, "it is not blank"
    # A PDF is a page of that size, of 72 points in each of 96 pixels, and its text is text.
    data = figure.save(tmp_path / "means.PDF").read_bytes()
    assert data.startswith(b"%PDF")
    (box,) = re.findall(rb"/MediaBox ?\[0 0 ([\d.]+) ([\d.]+)\]", data)
    assert tuple(map(float, box)) == pytest.approx((0.75 * width, 0.75 * height), abs=0.1)
    assert b"/Font" in data
    with pytest.raises(UsageError, match=r"means\.eps has no name that ends with \.svg, \.png or \.pdf"):
        figure.save(tmp_path / "means.eps")


def _chunks(png: bytes, kind: bytes) -> Iterator[bytes]:
    place = 8
    while place < len(png):
        (size,) = struct.unpack(">I", png[place : place + 4])
        if png[place + 4 : place + 8] == kind:
            yield png[place + 8 : place + 8 + size]
        place += 12 + size


def test_over_datasets_there_is_a_row_for_each_system_too(make: Make) -> None:
    result = texts(draw(make(macro=True)))
    assert result.index("other") < result.index("base") < result.index("third")
    assert {"1–2", "2–3", "3"} <= set(result)


def test_texts_are_cut_at_120_signs(make: Make) -> None:
    report = make(macro=True)
    over = report.macro[0].model_copy(update={"datasets": [f"dataset-{i}" for i in range(40)]})
    result = texts(draw(report.model_copy(update={"macro": [over]})))
    assert max(map(len, result)) == 120


def test_hostile_names_are_text(make: Make) -> None:
    name = '<script>"&\x00\x1b' + "x" * 100
    for macro in (False, True):
        svg = draw(make(names=("base", name, "third"), macro=macro))
        assert "<script>" not in svg
        assert any(text.endswith("…") and '<script>"&' in text for text in texts(svg))
