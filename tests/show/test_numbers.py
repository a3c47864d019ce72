"""Numbers as text: they read back, and never say what is not so."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.show.numbers import (
    count,
    dagger,
    duration,
    estimate,
    format_fixed,
    format_signed,
    interval,
    money,
    p_value,
    percent,
    ranks,
    score,
    several,
    significant,
    size,
)

VALUES = st.floats(-1e5, 1e5)
SHARES = st.floats(0, 1)


@given(VALUES, st.integers(0, 6))
def test_a_number_reads_back_within_its_rounding(value: float, digits: int) -> None:
    for text in (format_fixed(value, digits), format_signed(value, digits)):
        assert abs(float(text) - value) <= 0.5 * 10**-digits * (1 + 1e-9) + 1e-10


@given(st.floats(-2, 2))
def test_what_rounds_to_zero_has_no_sign(value: float) -> None:
    assert format_fixed(value) != "-0.000"
    assert format_signed(value) not in {"-0.000", "+0.000"}
    assert format_signed(value)[0] == ("0" if float(format_signed(value)) == 0 else "+" if value > 0 else "-")


def test_what_is_no_number_is_told_by_a_dash_or_by_what_the_caller_says() -> None:
    for value in (None, math.nan, math.inf, -math.inf):
        assert (format_fixed(value), format_signed(value), significant(value)) == ("-", "-", "-")
        assert format_fixed(value, none="") == ""
        assert interval(value, 0.5) == interval(0.5, value) == "-"


def test_a_very_large_number_keeps_three_digits() -> None:
    assert (format_fixed(999_999.0), format_fixed(1e6), format_fixed(-2.5e9), format_signed(1e7)) == (
        "999999.000",
        "1e+06",
        "-2.5e+09",
        "+1e+07",
    )


@given(SHARES, SHARES)
def test_the_styles_of_an_interval_show_the_same_ends(low: float, high: float) -> None:
    ends = f"{format_fixed(low)} {format_fixed(high)}"
    assert interval(low, high).replace(" to ", " ") == ends
    assert interval(low, high, "brackets") == f"[{ends.replace(' ', ', ')}]"
    assert interval(low, high, "dash").replace("–", " ") == ends
    for text, end in zip(interval(-low, high, sign=True).split(" to "), (-low, high), strict=True):
        assert abs(float(text) - end) <= 0.0005 + 1e-12
        # An end that is short of zero shows its side.
        assert (text[0] in "+-") == (abs(end) >= 1e-12)
    assert len(interval(low, high, "short")) <= len(".10–1.00") + 1


def test_a_mean_stands_before_its_interval_if_it_has_one() -> None:
    assert estimate(0.7, 0.67, 0.73) == "0.700 [0.670, 0.730]"
    assert estimate(-0.1, -0.15, 0.0, sign=True) == "-0.100 [-0.150, 0.000]"
    assert estimate(0.7, None, None) == "0.700"


@given(SHARES)
def test_a_p_value_is_never_zero_and_reads_back(p: float) -> None:
    text = p_value(p)
    assert len(text) <= 5
    assert not text.startswith("0")
    assert text == "<.001" if p < 0.001 else abs(float(text) - p) <= 0.0005 + 1e-12


@pytest.mark.parametrize(
    ("p", "text"), [(0, "<.001"), (0.00099, "<.001"), (0.001, ".001"), (0.0375, ".037"), (0.9994, ".999"), (1, "1")]
)
def test_p_values(p: float, text: str) -> None:
    assert p_value(p) == text


@given(SHARES)
def test_daggers_follow_the_levels(p: float) -> None:
    assert dagger(p) == ("‡" if p < 0.01 else "†" if p < 0.05 else "")


@given(SHARES)
def test_a_share_above_zero_is_not_shown_as_none(share: float) -> None:
    text = percent(share)
    assert (text == "0%") == (share == 0)
    assert abs(float(text[:-1]) - 100 * share) <= 0.5 + 1e-9


@given(st.integers(-(10**14), 10**14))
def test_counts_read_back(value: int) -> None:
    assert int(count(value).replace(",", "")) == value


@given(st.floats(0, 1e5))
def test_a_duration_reads_back_within_its_rounding(seconds: float) -> None:
    text, unit = duration(seconds).split()
    factor = {"µs": 1e-6, "ms": 1e-3, "s": 1, "min": 60}[unit]
    assert abs(float(text) * factor - seconds) <= factor * (0.5 if unit == "µs" else 0.05) * (1 + 1e-9)
    assert float(text) < {"µs": 1000, "ms": 1000, "s": 90, "min": math.inf}[unit]


@given(st.integers(0, 1 << 44))
def test_a_size_reads_back_within_its_rounding(octets: int) -> None:
    text, unit = size(octets).split()
    factor = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit]
    assert abs(float(text) * factor - octets) <= 0.05 * factor * (1 + 1e-9)
    assert unit == "GiB" or float(text) < 1024


@given(st.floats(1e-6, 1e6))
def test_money_reads_back(value: float) -> None:
    assert float(money(value).replace(",", "")) == pytest.approx(value, rel=0.006)


def test_single_forms() -> None:
    assert (money(None), money(0), money(1234.5)) == ("not known", "0", "1,234.50")
    assert (ranks(2, 2), ranks(1, 3)) == ("2", "1–3")
    assert (score(0.5), score(0), score(0.01234), score(-3)) == ("0.500", "0.000", "0.0123", "-3.000")
    assert (significant(0.1 + 0.2), significant(2, sign=True), significant(-0.0, sign=True)) == ("0.3", "+2", "0")
    assert (percent(0.004), percent(0.5), percent(0.12345, 1)) == ("0.4%", "50%", "12.3%")


@pytest.mark.parametrize(
    ("number", "words", "text"),
    [
        (1, ("tool",), "1 tool"),
        (0, ("judged query",), "0 judged queries"),
        (1_200, ("query",), "1,200 queries"),
        (1, ("query has", "queries have"), "1 query has"),
        (2, ("query has", "queries have"), "2 queries have"),
    ],
)
def test_one_of_something_has_no_plural(number: int, words: tuple[str, ...], text: str) -> None:
    assert several(number, *words) == text
