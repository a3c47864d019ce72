"""Word tokens: the one rule by which texts of any script are split into words.

- A word is a run of letters and digits, in lower case. The underscore separates, so snake_case names fall apart.
- A letter keeps the marks that belong to it (vowel signs, viramas, tones), so no word of an Indic script or Thai is cut
  at them. Marks that writers leave out (points of Hebrew, Arabic and Syriac) do not count, and neither do accents that
  no letter of Unicode has.
- Scripts whose words nothing separates, and Korean, whose endings are attached to words, are split into pairs of
  neighbouring characters, a single character where a run has one. The limit between such a script and another one
  separates. Pairs need no dictionary, and are what Lucene's `CJKBigramFilter` makes.
- Spellings that Unicode holds for one are one (NFC), and so are full and half width, and the shapes of Arabic letters.
  Invisible signs do not count; a zero-width space separates.
- Letters with accents stay other letters: `cafe` is not `café`.

A token is its own only token. ASCII text needs nothing but the first rule, and so does most text of the alphabets of
Europe.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from itertools import pairwise

_WORD = re.compile(r"[^\W_]+")
#: What needs more than the first rule: all but Latin, Greek, Cyrillic and Armenian letters as they are usually typed,
#: the punctuation of books, symbols and pictures.
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
#: Marks that writers leave out, by the beginning of their names.
_LEFT_OUT = re.compile(r"COMBINING|HEBREW|ARABIC|SYRIAC|MUSICAL|(MONGOLIAN FREE )?VARIATION SELECTOR")
#: Other shapes of a letter, by what Unicode says of their decomposition.
_SHAPES = frozenset({"<wide>", "<narrow>", "<initial>", "<medial>", "<final>", "<isolated>"})
#: Stands before each character of a script that is split into pairs; a text has no such sign once its letters are read.
_BEFORE = "\0"
#: A run of such characters, or a word, each letter with its marks. Nothing else is left but spaces.
_RUN = re.compile(r"(?:\0\w[^\w\s\0]*)+|(?:\w[^\w\s\0]*)+")


def words(text: str) -> list[str]:
    """The word tokens of a text, in order."""
    lowered = text.lower()
    if lowered.isascii() or not _NEEDS_MORE.search(lowered):
        return _WORD.findall(lowered)
    return _words_of_any_script(lowered)


def is_unspaced(word: str) -> bool:
    """Whether a token is of a script that is split into pairs: short, and yet as telling as a word."""
    return not word.isascii() and _is_unspaced(word[0])


def script(character: str) -> str:
    """The script of a letter as its name in Unicode begins, such as LATIN, CJK and HANGUL; empty if it has no name."""
    return unicodedata.name(character, "").partition(" ")[0]


def _words_of_any_script(text: str) -> list[str]:
    # Shapes first: the sign of a voiced half-width kana becomes part of its letter only in full width.
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
    """What each character is replaced by, worked out when it is first met."""

    def __init__(self, replace: Callable[[str], str]) -> None:
        super().__init__()
        self._replace = replace

    def __missing__(self, code: int) -> str:
        self[code] = self._replace(chr(code))
        return self[code]


def _plain(character: str) -> str:
    """The usual shape of a character; invisible ones are left out."""
    if unicodedata.category(character) == "Cf":
        return " " if character == "\N{ZERO WIDTH SPACE}" else ""
    shape, *codes = unicodedata.decomposition(character).split() or [""]
    return "".join(chr(int(code, 16)) for code in codes) if shape in _SHAPES else character


def _letter(character: str) -> str:
    """A letter, digit or mark as it counts, and a space for everything else."""
    if unicodedata.category(character).startswith("M"):
        return "" if _LEFT_OUT.match(unicodedata.name(character, "")) else character
    if not character.isalnum():
        return " "
    return _BEFORE + character if _is_unspaced(character) else character


def _is_unspaced(character: str) -> bool:
    return script(character) in _UNSPACED and not character.isdecimal()


_PLAIN, _LETTERS = _Table(_plain), _Table(_letter)
