"""Keys and tokens that this process was given, taken out of everything that is written or printed.

What reads a key says so with `keep`. What comes from outside passes `masked` at the door, before it is parsed and
after, since JSON can spell a text in several ways, and before it is cut, since a half of a key is not found; error
messages pass it once more on their way to the terminal.
"""

from __future__ import annotations

import os
from typing import Any

MASK = "[the key]"
#: Shorter ones are placeholders such as `none` and `EMPTY`, which are also words of ordinary texts.
SHORTEST = 8
#: Programs that bench starts get its environment, and may say what they find there, whether or not bench reads it.
VARIABLES = ("BENCH_LLM_KEY", "BENCH_EMBEDDING_KEY", "OPENAI_API_KEY")

_kept: set[str] = set()


def keep(secret: str) -> None:
    """Remember a secret, which `masked` takes out from now on."""
    if len(secret) >= SHORTEST:
        _kept.add(secret)


def _known() -> list[str]:
    """All secrets; the longest first, as one may hold another."""
    there = {os.environ.get(name, "").strip() for name in VARIABLES}
    return sorted(_kept | {secret for secret in there if len(secret) >= SHORTEST}, key=len, reverse=True)


def masked(text: str) -> str:
    """The text without secrets."""
    return _without(text, _known())


def _without(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def masked_bytes(data: bytes) -> bytes:
    """Bytes of UTF-8 without secrets."""
    for secret in _known():
        # A variable of the environment may hold what is no UTF-8.
        data = data.replace(secret.encode("utf-8", "surrogatepass"), MASK.encode())
    return data


def masked_json(value: Any) -> Any:
    """Parsed JSON, every text in it masked, names of keys too; not deeper than the parser of JSON goes."""
    return _json_without(value, _known())


def _json_without(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        return _without(value, secrets)
    if isinstance(value, list):
        return [_json_without(item, secrets) for item in value]
    if isinstance(value, dict):
        return {_without(key, secrets): _json_without(item, secrets) for key, item in value.items()}
    return value
