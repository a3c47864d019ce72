"""Word tokens of any script; ASCII and the alphabets of Europe are split as they always were."""

from __future__ import annotations

import re
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.base import words as module
from bench.base.words import is_unspaced, script, words

#: The rule that every result on English text was made by.
FIRST = re.compile(r"[^\W_]+")
CODES = [code for code in range(sys.maxunicode + 1) if not 0xD800 <= code < 0xE000]


def by_first_rule(text: str) -> list[str]:
    return FIRST.findall(text.lower())


@given(st.text(st.characters(codec="ascii")))
def test_ascii_is_split_as_ever(text: str) -> None:
    assert words(text) == by_first_rule(text)


@given(st.text(st.sampled_from("aZß éÉñøŁąčœİıſ ΑάΩς ЯёЙқ Ժև ªº²½ ’“”–—…•·°€£™→✓😀_-1 ")))
def test_european_letters_and_the_signs_of_books_are_split_as_ever(text: str) -> None:
    # The capital İ alone is a letter and a mark in lower case.
    assert words(text.replace("İ", "i")) == by_first_rule(text.replace("İ", "i"))


@pytest.mark.parametrize("around", ["{}", "a{}b", "a {} b", "{}{}"])
def test_every_character_that_skips_the_longer_way_comes_out_the_same_there(around: str) -> None:
    texts = [around.replace("{}", chr(code)).lower() for code in CODES if not module._NEEDS_MORE.match(chr(code))]
    quick = [text for text in texts if not module._NEEDS_MORE.search(text)]
    assert len(quick) > 3000
    assert [text for text in quick if module._words_of_any_script(text) != by_first_rule(text)] == []


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        # Chinese, Japanese, Korean: pairs; a character alone; punctuation; other scripts between them.
        ("查询城市的天气", "查询 询城 城市 市的 的天 天气"),
        ("车", "车"),
        ("查询，车", "查询 车"),
        ("调用API接口3天", "调用 api 接口 3 天"),
        ("get_天气_v2", "get 天气 v2"),
        ("レストランを予約", "レス スト トラ ラン ンを を予 予約"),
        ("サーバー", "サー ーバ バー"),
        ("人々", "人々"),
        ("오늘 환율 조회해 줘", "오늘 환율 조회 회해 줘"),
        ("𠮷野家", "𠮷野 野家"),
        ("ㄅㄆㄇ", "ㄅㄆ ㄆㄇ"),
        # Scripts of South-East Asia: a letter with its marks is a character.
        ("โรงแรม", "โร รง งแ แร รม"),
        ("น้ำ", "น้ำ"),
        ("ปี๒๕๖๗", "ปี ๒๕๖๗"),
        ("ໂຮງແຮມ", "ໂຮ ຮງ ງແ ແຮ ຮມ"),
        ("សណ្ឋាគារ", "សណ្ ណ្ឋា ឋាគា គារ"),
        ("ဟိုတယ်", "ဟိုတ တယ်"),
        ("พบ\u200bกัน", "พบ กัน"),
        # Marks cut no word of scripts with spaces.
        ("नमस्ते, कैसे हो?", "नमस्ते कैसे हो"),
        ("হোটেল খুঁজুন", "হোটেল খুঁজুন"),
        ("ஹோட்டல் தேடு", "ஹோட்டல் தேடு"),
        ("བོད་སྐད", "བོད སྐད"),
        ("ދިވެހި", "ދިވެހި"),
        # Marks that writers leave out, and letters joined by invisible signs.
        ("كِتَابٌ", "كتاب"),
        ("كتاب", "كتاب"),
        ("שָׁלוֹם", "שלום"),
        ("می\u200cخواهم", "میخواهم"),
        ("soft\u00adware", "software"),
        ("İstanbul", "istanbul"),
        ("1\ufe0f\u20e3 first", "1 first"),
        # Spellings of one text: composed and not, full and half width, shapes of Arabic letters, jamo.
        ("cafe\u0301", "café"),
        ("ＡＰＩ　１２", "api 12"),
        ("ｶﾞｲﾄﾞ", "ガイ イド"),
        ("ガイド", "ガイ イド"),
        ("\ufeb3\ufefc\ufee1", "سلام"),
        (unicodedata.normalize("NFD", "환율"), "환율"),
        ("豈", "豈"),
        # Accents stay.
        ("Pokémon São Ёлка", "pokémon são ёлка"),
        # Nothing to read.
        ("", ""),
        ("。、「」・ 😀 \u0301 \u200b \ufeff\0", ""),
        ("\0城\0市", "城 市"),
        ("\ud800城市\udfff", "城市"),
    ],
)
def test_tokens(text: str, tokens: str) -> None:
    assert words(text) == tokens.split()


#: Letters, marks and signs of many scripts, invisible ones among them.
ANY = st.one_of(st.text(), st.text(st.sampled_from("天气の하น้ำ्नमसकि ِكب\u200d\u200b\u0301aİ1_\0ｶﾞ가각ᄀ")))


@given(ANY)
def test_a_token_is_its_only_token(text: str) -> None:
    assert [words(token) for token in words(text)] == [[token] for token in words(text)]


@given(ANY)
def test_equal_texts_of_unicode_have_equal_tokens(text: str) -> None:
    assert words(unicodedata.normalize("NFD", text)) == words(unicodedata.normalize("NFC", text)) == words(text)


@given(ANY)
def test_every_text_with_a_letter_has_a_token(text: str) -> None:
    # The sound marks of half-width kana are no letters, though Python calls them so.
    assert bool(words(text)) == any(sign.isalnum() for sign in text if sign not in "ﾞﾟ")


def test_short_tokens_of_scripts_without_spaces_are_told_from_short_words() -> None:
    assert [word for word in words("to 天气 в café 車 ไป é") if is_unspaced(word)] == ["天气", "車", "ไป"]


def test_the_script_of_a_character() -> None:
    assert [script(sign) for sign in "aéяω天のカ하нไ\0"] == [
        *("LATIN", "LATIN", "CYRILLIC", "GREEK", "CJK", "HIRAGANA", "KATAKANA", "HANGUL", "CYRILLIC", "THAI", "")
    ]
