"""Keys and tokens that this process was given, taken out of everything that is written or printed.

What reads a key says so with `keep`. What comes from outside passes `masked` at the door, before it is parsed and
after, since JSON can spell a text in several ways; error messages pass it once more on their way to the terminal.
"""

from __future__ import annotations

from typing import Any

MASK = "[the key]"
#: Shorter ones are placeholders such as `none` and `EMPTY`, which are also words of ordinary texts.
SHORTEST = 8

_kept: set[str] = set()


def keep(secret: str) -> None:
    """Remember a secret, which `masked` takes out from now on."""
    if len(secret) >= SHORTEST:
        _kept.add(secret)


def masked(text: str) -> str:
    """The text without the secrets kept; the longest first, as one may hold another."""
    for secret in sorted(_kept, key=len, reverse=True):
        text = text.replace(secret, MASK)
    return text


def masked_bytes(data: bytes) -> bytes:
    """Bytes of UTF-8 without the secrets kept."""
    for secret in sorted(_kept, key=len, reverse=True):
        data = data.replace(secret.encode(), MASK.encode())
    return data


def masked_json(value: Any) -> Any:
    """Parsed JSON, every text in it masked, names of keys too; not deeper than the parser of JSON goes."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, list):
        return [masked_json(item) for item in value]
    if isinstance(value, dict):
        return {masked(key): masked_json(item) for key, item in value.items()}
    return value
