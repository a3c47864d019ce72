"""Word tokens: the rule that splits texts of any script into words, for lexical methods, slices and statistics.

- A word is a run of letters and digits, in lower case. The underscore separates words, so snake_case names are split.
- A letter keeps its combining marks (vowel signs, viramas, tones), so words of Indic scripts and Thai are not cut at
  them. Optional marks (points of Hebrew, Arabic and Syriac) are ignored, and so are accents without a precomposed
  letter in Unicode.
- Scripts without separators between words, and Korean, whose endings are attached to words, are split into pairs of
  neighbouring characters; a run of one character is one token. The boundary between such a script and another one
  separates words. Pairs need no dictionary; Lucene's `CJKBigramFilter` makes the same ones.
- Canonically equivalent spellings are equal (NFC), and so are full and half width, and the shapes of Arabic letters.
  Invisible characters are ignored; a zero-width space separates words.
- Letters with accents differ from letters without: `cafe` is not `café`.

Splitting a token returns the token itself. ASCII text, and most text in European alphabets, needs only the first rule.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from itertools import pairwise

_WORD = re.compile(r"[^\W_]+")
#: Characters that need more than the first rule: all except Latin, Greek, Cyrillic and Armenian letters in their usual
#: encoding, common punctuation, symbols and emoji.
_NEEDS_MORE = re.compile(
    r"[^\0-\xac\xae-\u02ff\u0388-\u0482\u048a-\u058f\u2010-\u2027\u2030-\u205e\u20a0-\u20cf\u2100-\u2bff"
    r"\U0001f000-\U0001faff]"
)

#: Scripts that are split into pairs, by the first words of their characters' names: those whose lines Unicode breaks
#: between any two ideographs or syllables, or by a dictionary (Unicode Standard Annex #14, classes ID, CJ, H2, H3 and
#: SA), and Javanese and Balinese.
_UNSPACED = frozenset(
    "CJK IDEOGRAPHIC HIRAGANA KATAKANA KATAKANA-HIRAGANA BOPOMOFO HANGUL YI TANGUT NUSHU KHITAN THAI LAO KHMER "
    "MYANMAR TAI NEW AHOM JAVANESE BALINESE".split()
)
#: Optional marks, by the beginning of their names.
_LEFT_OUT = re.compile(r"COMBINING|HEBREW|ARABIC|SYRIAC|MUSICAL|(MONGOLIAN FREE )?VARIATION SELECTOR")
#: Other shapes of a letter, by the tag of their decomposition in Unicode.
_SHAPES = frozenset({"<wide>", "<narrow>", "<initial>", "<medial>", "<final>", "<isolated>"})
#: Prefix of each character of a script that is split into pairs; `_LETTERS` removes it from everything else.
_BEFORE = "\0"
#: A run of such characters, or a word, each letter with its marks. Only spaces remain between them.
_RUN = re.compile(r"(?:\0\w[^\w\s\0]*)+|(?:\w[^\w\s\0]*)+")


def words(text: str) -> list[str]:
    """The word tokens of a text, in order."""
    lowered = text.lower()
    if lowered.isascii() or not _NEEDS_MORE.search(lowered):
        return _WORD.findall(lowered)
    return _words_of_any_script(lowered)


def is_unspaced(word: str) -> bool:
    """Whether a token is of a script that is split into pairs: short, but as informative as a word."""
    return not word.isascii() and _is_unspaced(word[0])


def script(character: str) -> str:
    """The script of a letter as its name in Unicode begins, such as LATIN, CJK and HANGUL; empty if it has no name."""
    return unicodedata.name(character, "").partition(" ")[0]


def _words_of_any_script(text: str) -> list[str]:
    # Shapes first: the voicing mark of a half-width kana combines with its letter only in full width.
    plain = unicodedata.normalize("NFC", text.translate(_PLAIN)).translate(_LETTERS)
    tokens: list[str] = []
    for run in _RUN.findall(plain):
        if run[0] != _BEFORE:
            tokens.append(run)
            continue
        characters = run.split(_BEFORE)[1:]
        tokens += [one + other for one, other in pairwise(characters)] or characters
    return tokens


class _Table(dict[int, str]):
    """The replacement of each character, computed on first use."""

    def __init__(self, replace: Callable[[str], str]) -> None:
        super().__init__()
        self._replace = replace

    def __missing__(self, code: int) -> str:
        self[code] = self._replace(chr(code))
        return self[code]


def _plain(character: str) -> str:
    """The usual shape of a character; empty for invisible ones."""
    if unicodedata.category(character) == "Cf":
        return " " if character == "\N{ZERO WIDTH SPACE}" else ""
    shape, *codes = unicodedata.decomposition(character).split() or [""]
    return "".join(chr(int(code, 16)) for code in codes) if shape in _SHAPES else character


def _letter(character: str) -> str:
    """A letter, digit or mark in the form used in tokens, and a space for everything else."""
    if unicodedata.category(character).startswith("M"):
        return "" if _LEFT_OUT.match(unicodedata.name(character, "")) else character
    if not character.isalnum():
        return " "
    return _BEFORE + character if _is_unspaced(character) else character


def _is_unspaced(character: str) -> bool:
    return script(character) in _UNSPACED and not character.isdecimal()


_PLAIN, _LETTERS = _Table(_plain), _Table(_letter)
