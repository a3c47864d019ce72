"""Keys and tokens that this process was given, taken out of everything that is written or printed.

What reads a key says so with `keep`. What comes from outside passes `masked` at the door, before it is parsed and
after, since JSON can spell a text in several ways, and before it is cut, since a half of a key is not found; error
messages pass it once more on their way to the terminal.
"""

from __future__ import annotations

import os
import re
from functools import lru_cache
from typing import Any

MASK = "[the key]"
#: Shorter ones are placeholders such as `none` and `EMPTY`, which are also words of ordinary texts.
SHORTEST = 8
#: Programs that bench starts get its environment, and may say what they find there, whether or not bench reads it.
VARIABLES = ("BENCH_LLM_KEY", "BENCH_EMBEDDING_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")
#: So few signs of a secret tell nothing.
_HARMLESS = 3

_kept: set[str] = set()


def keep(secret: str) -> None:
    """Remember a secret, which `masked` takes out from now on; blanks and line ends around it are no part of it."""
    if len(secret.strip()) >= SHORTEST:
        _kept.add(secret.strip())


def _all_spellings() -> list[str]:
    """All spellings of all secrets; the longest first, as one may hold another."""
    there = {os.environ.get(name, "").strip() for name in VARIABLES}
    secrets = _kept | {secret for secret in there if len(secret) >= SHORTEST}
    return sorted({text for secret in secrets for text in _spellings(secret)}, key=len, reverse=True)


@lru_cache(maxsize=64)
def _spellings(secret: str) -> frozenset[str]:
    """How a secret may be written: as it is, in JSON, in an address, in HTML, and in base64 with whatever around it."""
    # Of no use to a command without a key.
    import base64
    import html
    import json
    from urllib.parse import quote, quote_plus

    data = secret.encode("utf-8", "surrogatepass")
    quoted = {quote(data, safe=""), quote(data), quote_plus(data)}
    lower = {re.sub("%..", lambda match: match[0].lower(), text) for text in quoted}
    written = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], html.escape(secret)}
    coded = set()
    for before in range(3):
        # `user:secret`: the first signs hang on what is before the secret, the last on what is after it.
        whole = base64.b64encode(bytes(before) + data).decode()
        inner = whole[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        coded |= {inner, inner.replace("+", "-").replace("/", "_")}
    return frozenset({secret, *quoted, *lower, *written, *(text for text in coded if len(text) >= SHORTEST)})


def mask(text: str) -> str:
    """The text without secrets."""
    return _without(text, _all_spellings())


def mask_so_far(text: str) -> str:
    """The text without secrets, and without the beginning of one at its end: more of it may be on its way."""
    known = _all_spellings()
    text = _without(text, known)
    begun = [n for secret in known for n in range(_HARMLESS + 1, len(secret)) if text.endswith(secret[:n])]
    return text[: len(text) - max(begun, default=0)]


def _without(text: str, secrets: list[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def mask_bytes(data: bytes) -> bytes:
    """Bytes of UTF-8 without secrets."""
    for secret in _all_spellings():
        # A variable of the environment may hold what is no UTF-8.
        data = data.replace(secret.encode("utf-8", "surrogatepass"), MASK.encode())
    return data


def mask_json(value: Any) -> Any:
    """Parsed JSON, every text in it masked, names of keys too; not deeper than the parser of JSON goes."""
    return _json_without(value, _all_spellings())


def _json_without(value: Any, secrets: list[str]) -> Any:
    if isinstance(value, str):
        return _without(value, secrets)
    if isinstance(value, list):
        return [_json_without(item, secrets) for item in value]
    if isinstance(value, dict):
        return {_without(key, secrets): _json_without(item, secrets) for key, item in value.items()}
    return value
