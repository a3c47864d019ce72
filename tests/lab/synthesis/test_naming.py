"""Which queries give a tool away by its name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.lab.synthesis.writer import spells_out


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Use search_issues for it", "search_issues"),
        ("please SEARCH ISSUES about login", "search_issues"),
        ("search-issues, now", "searchIssues"),
        ("getweather in Rome", "getWeather"),
        ("the HTTP fetch of it", "HTTPFetch"),
        ("ask qr2code", "qr2code"),
        ("GET /movie/{id} please", "GET /movie/{id}"),
    ],
)
def test_a_name_is_found_however_it_is_written(text: str, name: str) -> None:
    assert spells_out(text, name)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("What is the forecast for Rome?", "forecast"),
        ("What is the forecast for Rome?", "Forecast"),
        ("Search the issues about login", "search_issues"),
        ("research issues", "search_issues"),
        ("anything", ""),
        ("anything", "__"),
    ],
)
def test_ordinary_words_and_other_orders_give_nothing_away(text: str, name: str) -> None:
    assert not spells_out(text, name)


@given(st.lists(st.text("abcxyz", min_size=2, max_size=6), min_size=2, max_size=4), st.text(max_size=20))
def test_a_name_of_several_words_is_found_in_any_text(parts: list[str], around: str) -> None:
    for name in ("_".join(parts), parts[0] + "".join(part.capitalize() for part in parts[1:])):
        assert spells_out(f"{around} {' '.join(parts)} {around}", name)
        assert spells_out(f"{around} {name.upper()} {around}", name)
