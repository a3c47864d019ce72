"""Text from outside: cleaned, on one line, shortened, as names of files."""

from __future__ import annotations

import re
import unicodedata
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.base.text import (
    clean,
    finite_number,
    label,
    one_line,
    shorten,
    slug,
    terminal_text,
    unique_slug,
    whole_number,
)


def test_letters_that_need_joiners_keep_them() -> None:
    assert one_line("می\u200cخواهم") == "می\u200cخواهم"
    assert one_line("👩\u200d🔬") == "👩\u200d🔬"


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("a\x1b[31mb", "a\ufffd[31mb"),
        ("a\u202eb", "a\ufffdb"),
        ("a\ud800b", "a\ufffdb"),
        ("a\ue000b\uffffc", "a\ufffdb\ufffdc"),
        ("a\u00adb\u200bc\ufeffd", "abcd"),
        ("a\u2028b\u00a0c", "a b c"),
        ("a\tb\nc", "a\tb\nc"),
    ],
)
def test_what_no_format_should_hold_is_replaced(text: str, cleaned: str) -> None:
    assert clean(text) == cleaned


def test_one_line_is_one_line() -> None:
    assert one_line(" a\u202eb\tc\n d ") == "a\ufffdb c d"
    assert one_line("a\n b" + "c" * 200, 10) == "a bcccccc…"


@given(st.text(max_size=400))
def test_one_line_holds_visible_characters_spaces_and_joiners(text: str) -> None:
    result = one_line(text, 300)
    assert len(result) <= 300
    assert result.replace("\u200c", "").replace("\u200d", "").isprintable()
    assert one_line(result, 300) == result


@given(st.text(max_size=200))
def test_a_cleaned_text_is_valid_xml_and_has_the_same_lines(text: str) -> None:
    root = ElementTree.Element("a")
    root.text = result = clean(text)
    ElementTree.fromstring(ElementTree.tostring(root, encoding="utf-8"))
    assert result.count("\n") == text.count("\n")
    assert not {unicodedata.category(sign) for sign in result} & {"Cs", "Co", "Cn", "Zl", "Zp"}


def test_a_long_text_is_cut_and_marked() -> None:
    assert [shorten("abcd", most) for most in (5, 4, 3)] == ["abcd", "abcd", "ab…"]


def test_a_label_leaves_the_folders_of_a_machine_out() -> None:
    spec = "dense(encoder=/home/me/models/mine, other=~/x/y, third=../z, url=https://a.org/b)"
    assert label(spec) == "dense(encoder=mine, other=y, third=z, url=https://a.org/b)"
    assert len(label("a/" * 100_000)) <= 160


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("apibank", "apibank"),
        ("RecTools v1(split=2)", "rectools-v1-split-2"),
        ("a_b-c", "a_b-c"),
        ("../..", "unnamed"),
        ("", "unnamed"),
        ("x" * 70, "x" * 60),
    ],
)
def test_a_slug_is_readable(text: str, name: str) -> None:
    assert slug(text) == name


@given(st.text(max_size=200))
def test_no_slug_leads_out_of_a_folder(text: str) -> None:
    assert re.fullmatch(r"[a-z0-9_-]{1,60}", slug(text))


def test_a_unique_slug_tells_no_folder_of_a_machine() -> None:
    assert "home" not in unique_slug("dense(encoder=/home/me/models/mine)")
    assert unique_slug("bm25") == "bm25"
    assert unique_slug("bm25", "test") != unique_slug("bm25", "dev")


def test_a_message_is_cut_in_the_middle_and_cleaned() -> None:
    assert terminal_text("as it is,\nin two lines\r\nor three") == "as it is,\nin two lines\nor three"
    assert terminal_text("a\x1b[2Jb\rc\u202ed") == "a\ufffd[2Jb\ufffdc\ufffdd"
    long = terminal_text("what: " + "x" * 100_000 + "; do this.")
    assert len(long) <= 4000
    assert long.startswith("what: x")
    assert long.endswith("x; do this.")
    assert len(terminal_text("y" * 300, 200)) <= 200


@given(st.integers(-(10**18) + 1, 10**18 - 1), st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_as_programs_print_them_are_read(whole: int, number: float) -> None:
    assert whole_number(str(whole)) == whole
    assert finite_number(repr(number)) == finite_number(f"{number:.17g}") == number
    assert finite_number(str(whole)) == float(whole)


@given(st.text("0123456789_+-.eExXnaif ٣１\t\n", max_size=6))
def test_whatever_else_python_takes_for_a_number_is_none(text: str) -> None:
    assert whole_number(text) is None or text.removeprefix("-").isdigit()
    assert finite_number(text) is None or not set(text) - set("0123456789-.eE") - set(
        "+" if "e+" in text.lower() else ""
    )


@pytest.mark.parametrize(
    "text", ["1_0", "٣", "１", "+5", " 5", "5 ", "5\n", "0x1", "nan", "inf", "-inf", "1e999", "", ".", "9" * 400]
)
def test_what_is_no_number_is_none(text: str) -> None:
    assert (whole_number(text), finite_number(text)) == (None, None)
