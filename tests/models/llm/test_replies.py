"""Reading replies: what is plainly there is found in every dress that models give it, and nothing else is."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.models.llm.replies import json_array, json_object, text_lines

VALUE = {"tools": ["a", "b"], "why": "because {x} and [y]", "n": 2}
TEXT = json.dumps(VALUE)
PRETTY = json.dumps(VALUE, indent=2)

# JSON ---------------------------------------------------------------------------------------------------------------

GOOD = {
    "bare": TEXT,
    "on several lines": PRETTY,
    "white space around it": f"\n\n  {TEXT}\t\n",
    "byte order mark": f"\ufeff{TEXT}",
    "fenced": f"```json\n{PRETTY}\n```",
    "fenced without a language": f"```\n{TEXT}\n```",
    "fenced by tildes": f"~~~\n{TEXT}\n~~~",
    "indented fence": f"1. The answer:\n   ```json\n   {TEXT}\n   ```",
    "four ticks": f"````\n{TEXT}\n````",
    "fence that is never closed": f"```json\n{TEXT}",
    "preamble": f"Sure! Here is the JSON you asked for:\n{TEXT}",
    "afterword": f"{TEXT}\n\nLet me know if you need anything else.",
    "preamble and afterword on one line": f"The answer is {TEXT}, I think.",
    "preamble, fence, afterword": f"Here you go:\n\n```json\n{PRETTY}\n```\n\nIt has {{two}} tools.",
    "other brackets in the talk": f"As asked [by you], in the form {{object}}: {TEXT} (see [above])",
    "brackets in the talk around a fence": f'I changed {{"a": 1}} to\n```json\n{TEXT}\n```',
    "an array beside it": f"Tools [1] and [2]: {TEXT}",
    "said twice": f"{TEXT}\nThat is:\n{PRETTY}",
    "thoughts before it": f'<think>Maybe {{"tools": []}}? No.</think>\n{TEXT}',
    "Windows line ends": PRETTY.replace("\n", "\r\n"),
    "escapes": TEXT.replace("a", "\\u0061", 1).replace("\\u0061", "a"),
}


@pytest.mark.parametrize("case", GOOD)
def test_an_object_is_found_in_every_dress(case: str) -> None:
    assert json_object(GOOD[case]) == VALUE


BAD = {
    "nothing": "",
    "blank": " \n\t ",
    "words": "I cannot help with that.",
    "a refusal with brackets": "I'm sorry [policy 4], I can't.",
    "cut short in a text": TEXT[:20],
    "cut short behind a value": TEXT[:-1],
    "cut short with whole objects in it": '{"problems": [{"name": "a"}, {"name": "b"',
    "cut short in a fence": f"```json\n{PRETTY[:-5]}\n```",
    "single quotes": str(VALUE),
    "single quotes around an object": "{'a': {\"b\": 1}}",
    "bare keys": '{tools: {"a": 1}}',
    "typographic quotes": "{“tools”: []}",
    "trailing comma": '{"a": 1,}',
    "comment": '{\n // the tools\n "tools": []}',
    "missing comma": '{"a": 1 "b": 2}',
    "a key twice": '{"a": 1, "a": 2}',
    "a key twice further in": '{"x": {"a": 1, "a": 2}}',
    "two that differ": '{"a": 1}\n{"a": 2}',
    "two fences that differ": '```\n{"a": 1}\n```\nor\n```\n{"a": 2}\n```',
    "an array": '["a", "b"]',
    "an object inside an array": '[{"a": 1}]',
    "a text": '"{a}"',
    "a number": "42",
    "null": "null",
    "NaN": '{"a": NaN}',
    "infinity": '{"a": -Infinity}',
    "a number that overflows": '{"a": 1e999}',
    "a number without end": '{"a": ' + "9" * 5000 + "}",
    "half a surrogate pair": '{"a": "\\ud83d"}',
    "half a surrogate pair in a key": '{"\\ude00": 1}',
    "control character in a text": '{"a": "b\nc"}',
    "nested too deep": '{"a":' * 50_000,
    "brackets without end": "[" * 190_000,
    "braces without end": "{" * 190_000,
    "too long": '{"a": "' + "x" * 200_000 + '"}',
    "thoughts alone": f"<think>{TEXT}",
    "YAML": "tools:\n  - a\n  - b",
    "XML": "<tools><tool>a</tool></tools>",
    "broken before a good one": f'{{"a": }} {TEXT}',
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_not_one_whole_object_is_none_and_takes_no_time(case: str) -> None:
    started = time.perf_counter()
    assert json_object(BAD[case]) is None
    assert time.perf_counter() - started < 2


def test_an_array_is_found_and_an_object_is_none() -> None:
    dressed = 'Sure:\n```json\n["a", {"b": [1]}]\n```\nDone.'
    assert json_array(dressed) == ["a", {"b": [1]}]
    assert json_array("[]") == []
    for text in ('{"a": [1]}', "[1] and [2]", "[1, 2", "none", '["a", ]', "[as asked]"):
        assert json_array(text) is None
    assert json_object(dressed) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
#: Talk as models do it: no brackets that begin JSON, no fences.
TALK = st.text(st.characters(blacklist_characters="{}[]<>`~", blacklist_categories=["Cs", "Cc"]), max_size=40)


@given(st.dictionaries(st.text(), JSON, max_size=4), TALK, TALK, st.booleans(), st.booleans())
def test_any_object_comes_back_out_of_any_dress(
    value: dict[str, Any], before: str, after: str, fenced: bool, escaped: bool
) -> None:
    text = json.dumps(value, ensure_ascii=escaped, indent=1)
    dressed = f"{before}\n```json\n{text}\n```\n{after}" if fenced else f"{before}\n{text}\n{after}"
    assert json_object(dressed) == value


@given(st.lists(JSON, max_size=4), TALK, TALK)
def test_any_array_comes_back_out_of_any_dress(value: list[Any], before: str, after: str) -> None:
    assert json_array(f"{before}\n{json.dumps(value)}\n{after}") == value


@given(st.dictionaries(st.text(min_size=1), JSON, min_size=1, max_size=4), st.data())
def test_an_object_that_is_cut_short_is_never_taken_for_one(value: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(value)
    cut = data.draw(st.integers(0, len(text) - 1))
    assert json_object(text[:cut]) is None


@given(st.text() | st.text(st.sampled_from('{}[]":,ab1 \n`')))
def test_any_text_gives_an_object_or_none(text: str) -> None:
    result = json_object(text)
    assert result is None or isinstance(result, dict)
    listed = json_array(text)
    assert listed is None or isinstance(listed, list)


# Lines --------------------------------------------------------------------------------------------------------------

ITEMS = ["Find hotels near a place", "3 cheap flights to Rome", "Convert 5.5 miles (8.85 km) to kilometres"]
PLAIN = "\n".join(ITEMS)

DRESSED = {
    "plain": PLAIN,
    "blank lines between": "\n\n".join(ITEMS),
    "spaces around": "\n".join(f"   {item}\t" for item in ITEMS),
    "Windows line ends": PLAIN.replace("\n", "\r\n"),
    "1.": "\n".join(f"{i}. {item}" for i, item in enumerate(ITEMS, 1)),
    "1)": "\n".join(f"{i}) {item}" for i, item in enumerate(ITEMS, 1)),
    "1)text": "\n".join(f"{i}){item}" for i, item in enumerate(ITEMS, 1)),
    "(1)": "\n".join(f"({i}) {item}" for i, item in enumerate(ITEMS, 1)),
    "1:": "\n".join(f"{i}: {item}" for i, item in enumerate(ITEMS, 1)),
    "1 -": "\n".join(f"{i} - {item}" for i, item in enumerate(ITEMS, 1)),
    "#1": "\n".join(f"#{i} {item}" for i, item in enumerate(ITEMS, 1)),
    "full-width": "\n".join(f"{i}、{item}" for i, item in enumerate(ITEMS, 1)),
    "a)": "\n".join(f"{sign}) {item}" for sign, item in zip("abc", ITEMS, strict=True)),
    "Query 1:": "\n".join(f"Query {i}: {item}" for i, item in enumerate(ITEMS, 1)),
    "Step 1.": "\n".join(f"Step {i}. {item}" for i, item in enumerate(ITEMS, 1)),
    "Description:": "\n".join(f"Description: {item}" for item in ITEMS),
    "bold number": "\n".join(f"**{i}.** {item}" for i, item in enumerate(ITEMS, 1)),
    "all bold": "\n".join(f"**{i}. {item}**" for i, item in enumerate(ITEMS, 1)),
    "- bullets": "\n".join(f"- {item}" for item in ITEMS),
    "* bullets": "\n".join(f"* {item}" for item in ITEMS),
    "• bullets": "\n".join(f"•{item}" for item in ITEMS),
    "– bullets": "\n".join(f"– {item}" for item in ITEMS),
    "indented bullets": "\n".join(f"   - {item}" for item in ITEMS),
    "numbered bullets": "\n".join(f"- {i}. {item}" for i, item in enumerate(ITEMS, 1)),
    "quotes": "\n".join(f'"{item}"' for item in ITEMS),
    "typographic quotes": "\n".join(f"“{item}”" for item in ITEMS),
    "single quotes": "\n".join(f"'{item}'" for item in ITEMS),
    "ticks": "\n".join(f"`{item}`" for item in ITEMS),
    "guillemets": "\n".join(f"«{item}»" for item in ITEMS),
    "numbers and quotes": "\n".join(f'{i}. "{item}"' for i, item in enumerate(ITEMS, 1)),
    "quotes and commas": ",\n".join(f'"{item}"' for item in ITEMS),
    "preamble": f"Here are three descriptions:\n{PLAIN}",
    "two preambles": f"Sure! I can help with that.\nBelow are the queries:\n\n{PLAIN}",
    "Certainly": f"Certainly, these might help:\n{PLAIN}",
    "afterword": f"{PLAIN}\n\nLet me know if you need more!",
    "These APIs": f"{PLAIN}\n\nThese APIs can help you to plan the trip.",
    "note": f"{PLAIN}\nNote: the names are made up.",
    "question": f"{PLAIN}\nWould you like me to go on?",
    "two afterwords": f"{PLAIN}\nThese three tools should suffice.\nI hope this helps!",
    "preamble, numbers, afterword": f"Of course.\n1. {ITEMS[0]}\n2. {ITEMS[1]}\n3. {ITEMS[2]}\nThat is all.",
    "explanations between": f"1. {ITEMS[0]}\nIt finds them.\n2. {ITEMS[1]}\n   Cheap ones.\n3. {ITEMS[2]}",
    "heading": f"## Queries\n\n{PLAIN}",
    "rule": f"{ITEMS[0]}\n---\n{ITEMS[1]}\n***\n{ITEMS[2]}",
    "fenced": f"Sure:\n```text\n{PLAIN}\n```\nDone.",
    "fence that is never closed": f"```\n{PLAIN}",
    "JSON list": json.dumps(ITEMS),
    "JSON list in a fence": f"```json\n{json.dumps(ITEMS, indent=1)}\n```",
    "JSON object": json.dumps({"queries": ITEMS}),
    "thoughts": f"<think>\n1. What do they want?\n2. Hotels.\n</think>\n\n{PLAIN}",
    "signs alone": f"...\n{PLAIN}\n---\n😀",
}


@pytest.mark.parametrize("case", DRESSED)
def test_items_are_found_in_every_dress(case: str) -> None:
    assert text_lines(DRESSED[case], 5) == ITEMS


def test_no_more_than_asked_for_are_given() -> None:
    assert text_lines(PLAIN, 2) == ITEMS[:2]
    assert text_lines(PLAIN, 0) == text_lines(PLAIN, -1) == []


@pytest.mark.parametrize(
    "text",
    [
        *("", " \n\t\n", "1.\n2.\n3.", "-\n-", "```\n```", "...\n---\n***", "## Queries", "“”", '""', "[]", "1. ..."),
        *("Sure, here are the queries:", "Here is the list:\n\nI hope this helps!", "Of course!\n\n```json\n[]\n```"),
        *("<think>Hotels?</think>", "<think>\n1. Hotels near", "\N{ZERO WIDTH SPACE}"),
    ],
)
def test_a_reply_without_items_has_none(text: str) -> None:
    assert text_lines(text, 5) == []


@pytest.mark.parametrize(
    "item",
    [
        "3.5 stars or better",
        "5-star hotels",
        "24/7 support line",
        "2024 calendar of holidays",
        "-5 degrees in Celsius",
        "Here and there: a map",
        "These days, what is on?",
        "Sure bets for the weekend",
        "Note taking with reminders",
        '"Hamlet" and "Macbeth" tickets',
        "It's raining, isn't it?",
        "Rock 'n' roll",
        "C++ compiler",
        "#hashtag search",
        "a) or b)?",
        "What is 7 * 8 * 9?",
        "Query the weather",
        "Let's plan a trip",
        "Based on my budget, find a hotel",
        "I have a meeting at 5. Find a room",
    ],
)
def test_what_only_looks_like_a_mark_stays(item: str) -> None:
    expected = item.removeprefix("a) ")
    assert text_lines(f"{item}\nanother", 5)[0] == expected


WORDS = st.lists(
    st.text(st.sampled_from("abcdefghij工具éß"), min_size=2, max_size=8).map(lambda word: f"x{word}"),
    min_size=2,
    max_size=6,
).map(" ".join)
MARKS = st.sampled_from(["{i}. ", "{i}) ", "({i}) ", "- ", "* ", "• ", "Query {i}: ", "- {i}. "])
BEFORE = st.sampled_from(["", "Sure! Here are some:\n\n", "Here is a list:\n", "Of course.\n"])
AFTER = st.sampled_from(["", "\n\nLet me know!", "\nI hope this helps.", "\nThese tools should do."])
QUOTES = st.sampled_from(["{}", '"{}"', "“{}”", "**{}**", "'{}'"])


@given(st.lists(WORDS, max_size=7), st.just("") | MARKS, QUOTES, BEFORE, AFTER, st.integers(0, 8))
def test_any_items_come_back_out_of_any_dress(
    items: list[str], mark: str, quotes: str, before: str, after: str, most: int
) -> None:
    rows = [mark.format(i=i) + quotes.format(item) for i, item in enumerate(items, 1)]
    assert text_lines(before + "\n".join(rows) + after, most) == items[:most]


@given(st.text() | st.text(st.sampled_from("1.-*)(\"'`~ \nab:#[]{}“”")), st.integers(-2, 9))
def test_any_text_gives_at_most_so_many_lines_none_blank(text: str, most: int) -> None:
    result = text_lines(text, most)
    assert len(result) <= max(0, most)
    for item in result:
        assert item == item.strip()
        assert any(sign.isalnum() for sign in item)
        assert "\n" not in item


@pytest.mark.parametrize(
    "text", ["1. " * 60_000, "- " * 90_000, '"' * 180_000, "``` x\n" * 30_000, "**" * 90_000, " " * 190_000]
)
def test_no_reply_takes_long(text: str) -> None:
    started = time.perf_counter()
    text_lines(text, 5)
    json_object(text)
    assert time.perf_counter() - started < 3
