"""The words of identifiers: names of tools, parameters and servers. Methods call it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from bench.search.words import words

#: Boundaries in a camelCase name: `getUser` before the U, `HTMLPage` before the P.
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def name_parts(name: str) -> list[str]:
    """The lower-cased parts of a name, in order: split at camelCase, and at everything that is not a letter or digit.

    `getUserToken`, `get_user_token`, `get-user.token` and `Get user token` have the same parts.
    """
    return words(_HUMP.sub(" ", name))


def name_words(name: str) -> list[str]:
    """The parts of a name, plus each of its camelCase words as one word.

    A request for `youtube` or `getusertoken` then finds `YouTube` and `getUserToken`, as one for `you tube` does.
    """
    parts = name_parts(name)
    return parts + [word for word in words(name) if word not in parts]


def contains_words(text: Sequence[str], name: Sequence[str]) -> bool:
    """Whether the words of a name, at least one, occur in a text, one after another."""
    return bool(name) and f" {' '.join(name)} " in f" {' '.join(text)} "


def singular(word: str) -> str:
    """The singular of a regular English plural; other words as they are.

    The rules are Harman's S stemmer ("How effective is suffixing?", JASIS 42(1), 1991): the first that applies of -ies
    to -y (not -eies, -aies), -es to -e (not -aes, -ees, -oes), -s to nothing (not -us, -ss). Words of three letters or
    fewer are unchanged.
    """
    if len(word) <= 3 or not word.endswith("s"):
        return word
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return word[:-3] + "y"
    if word.endswith("es") and not word.endswith(("aes", "ees", "oes")):
        return word[:-1]
    return word if word.endswith(("us", "ss")) else word[:-1]
