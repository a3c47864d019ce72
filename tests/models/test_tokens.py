"""Token counts are those of the tokeniser itself, to the token."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bench.models.tokens as tokens
from bench.models.tokens import count_tokens
from bench.registry import load_dataset

TOKENISER = tokens._load()
#: What a tokeniser may treat in its own way: special tokens, white space, control characters, accents before and after
#: composition, letters whose lower case is longer or depends on the place, scripts without spaces, the longest words.
PIECES = [
    *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[mask]", "[", "]", "[PA", "D]", "##", "'", "\\", "snake_case"),
    *(
        "X1",
        " ",
        "\n",
        "\r\n",
        "\t",
        "\x00",
        "\x0b",
        "\x0c",
        "\x1c",
        "\x1f",
        "\x7f",
        "\x85",
        "\xa0",
        "\u2028",
        "\u3000",
    ),
    *("\u200b", "\ufeff", "\ufffd", "\u0301", "e\u0301", "é", "İ", "ΑΣ", "ß", "ﬁ", "Ｆ", "工具", "한국", "🙂", "—"),
    *("a" * 99, "A" * 100, "é" * 100, "1" * 101, "z" * 250),
]


def by_tokeniser(texts: Sequence[str]) -> list[int]:
    return [len(encoded.ids) for encoded in TOKENISER.encode_batch(list(texts), add_special_tokens=False)]


@settings(max_examples=400, deadline=None)
@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=6) | st.characters(max_codepoint=127)).map("".join))
def test_a_text_has_the_tokens_that_the_tokeniser_makes(text: str) -> None:
    assert count_tokens([text]).tolist() == by_tokeniser([text])


def test_the_tools_and_queries_of_a_dataset_have_them_too() -> None:
    starter = load_dataset("starter")
    texts = [tool.text(template) for tool in starter.tools for template in ("description", "full", "toolbench")]
    texts += [query.text for query in starter.queries]
    assert count_tokens(texts).tolist() == by_tokeniser(texts)


def test_memory_for_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_MOST_WORDS", 5)
    counts = tokens._WordCounts()
    texts = [f"{word} tool{word} {'long' * 100}{word}" for word in range(20)]
    assert [counts.total(text) for text in texts] == by_tokeniser(texts)
    assert len(counts) <= 5
    assert max(map(len, counts)) <= tokens._LONGEST
