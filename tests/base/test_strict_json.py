"""JSON from outside: no key twice."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.base.strict_json import RepeatedKey, loads

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)


@given(VALUES, st.sampled_from([None, 1]))
def test_what_has_no_key_twice_is_read_as_json_reads_it(value: Any, indent: int | None) -> None:
    text = json.dumps(value, indent=indent)
    assert loads(text) == json.loads(text)
    assert loads(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "key", "lines"),
    [
        ('{"a": 1, "a": 1}', "a", (1, 1)),
        ('{"a": 1,\n\n"b": {"a": 2},\n"a": 3}', "a", (1, 4)),
        ('[{"x": "}{,\\"", "y": [{"k": 1}, {"k": 2}]},\n {"y": {},\n "y": {}}]', "y", (2, 3)),
        # The same name, written in two ways; and an inner object that ends first.
        ('{"\\u0061": 1, "a": {"b": [1, 2],\n"b": 3}}', "b", (1, 2)),
        ('{"\\u0061": 1,\n"a": 2}', "a", (1, 2)),
    ],
)
def test_a_key_twice_is_refused_with_both_lines(text: str, key: str, lines: tuple[int, int]) -> None:
    for form in (text, text.encode(), text.encode("utf-16")):
        with pytest.raises(RepeatedKey) as caught:
            loads(form)
        assert (caught.value.key, caught.value.lines) == (key, lines)


@given(VALUES, st.text(max_size=5), st.integers(0, 3), st.integers(0, 3))
def test_the_lines_are_found_in_any_text(value: Any, key: str, before: int, between: int) -> None:
    inner, name = json.dumps(value, indent=1), json.dumps(key)
    lines = inner.count("\n")
    text = "[" + "\n" * before + inner + ", {" + name + ":" + inner + "," + "\n" * between + name + ": 0}]"
    with pytest.raises(RepeatedKey) as caught:
        loads(text)
    first = 1 + before + lines
    assert caught.value.lines == (first, first + lines + between)


def test_what_is_no_json_is_a_value_error_of_its_own() -> None:
    for text in ('{"a": 1,}', '{"a": 1, "a": 2', b"\xff", "", '{"a"'):
        with pytest.raises(ValueError) as caught:  # noqa: PT011
            loads(text)
        assert not isinstance(caught.value, RepeatedKey)


def test_a_sentence_counts_lines_from_the_beginning_of_the_file() -> None:
    with pytest.raises(RepeatedKey) as caught:
        loads('{"a": 1,\n"a": 2}')
    assert caught.value.sentence(before=9) == "an object has the key 'a' in line 10 and in line 11"
