"""Keys and tokens that this process knows, kept out of everything that is written or printed.

What reads a key says so with `keep`. What users write (specs, names, files of theirs) passes `bench.base.keys.refuse`
before anything runs. What comes from outside passes `mask` at the door, before it is parsed and after, since JSON can
spell a text in several ways, and before it is cut, since a half of a key is not found; error messages pass it when they
are made, and all that is printed passes it once more.

**What is a key.** What a program gives to `keep`; the value of a variable that a `token=` names; and the value of any
environment variable whose name ends in one of `ENDINGS`. White space around a value is no part of it. Values of less
than `SHORTEST` characters are none: they are placeholders. A variable that is only known by its name may hold an
ordinary word. So its value is no key where it is public anyway: the name of a method or a dataset of bench, a path of
this machine, a folder of the working or home directory, or a part of the names of the tools that a run asks for.
"""

from __future__ import annotations

import io
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import bench

MASK = "[the key]"
#: Shorter ones are placeholders such as `none` and `EMPTY`, which are also words of ordinary texts.
SHORTEST = 8
#: Programs that bench starts get its environment, and may say what they find there, whether or not bench reads it.
ENDINGS = ("KEY", "TOKEN", "SECRET", "PASSWORD")
QUOTES = re.compile(r"[\"'\\]")
#: So few signs of a secret tell nothing.
_HARMLESS = 3

_kept: set[str] = set()
_public: set[str] = set()
#: What finds the folders whose files have public names.
_public_folders: list[Callable[[], Path]] = []
_finding = threading.local()


def keep(secret: str) -> None:
    """Remember a secret, which `mask` takes out from now on; blanks and line ends around it are no part of it."""
    if len(secret.strip()) >= SHORTEST:
        _kept.add(secret.strip())


def publish(names: Iterable[str]) -> None:
    """Values of variables that stand in these names of tools are no keys, so that answers keep their names."""
    if values := _values():
        text = "\n".join(names)
        _public.update(value for value in values if value in text)


def publish_names_in(find: Callable[[], Path]) -> None:
    """The names of what is in a folder are no keys. It is found when it is asked for: the environment may name it."""
    _public_folders.append(find)


def mask_streams() -> None:
    """Take secrets out of all that this process prints from now on, tracebacks and what methods print among it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal that lacks a character of a tool's text shows another in its place.
            stream.reconfigure(errors="replace")
            stream.write = partial(_write_masked, stream.write)  # type: ignore[method-assign]


def _write_masked(write: Callable[[str], int], text: str) -> int:
    write(mask(text))
    return len(text)


def _values() -> set[str]:
    """The keys in the environment."""
    # `items` would decode all values, and this is asked for each line that is printed.
    values = (os.environ[name].strip() for name in os.environ if name.upper().endswith(ENDINGS))
    return {value for value in values if len(value) >= SHORTEST and value not in _public and not _is_known_here(value)}


@lru_cache(maxsize=256)
def _is_known_here(value: str) -> bool:
    """Whether a text is a path of this machine, a folder of the working or home directory, or a name of bench's."""
    path, home = Path(os.path.expanduser(value)), Path(os.path.expanduser("~"))
    if value in (*home.parts, *Path(os.environ.get("PWD", "")).parts):
        return True
    rooms = [*(Path(place, room) for place in bench.__path__ for room in ("methods", "datasets"))]
    names = (value, value.replace("-", "_"), value.replace("-", "_") + ".py")
    places = [room / name for room in (*rooms, *_find_public_folders()) for name in names]
    # A file below `/root` need not be readable.
    return any(map(os.path.exists, (path, *places))) or (path.is_absolute() and Path(*path.parts[:2]).is_dir())


def _find_public_folders() -> list[Path]:
    """The folders of `publish_names_in`, as far as there are any."""
    folders: list[Path] = []
    # That this user has no home folder is an error whose message is masked, too: then this is asked within itself.
    if getattr(_finding, "now", False):
        return folders
    _finding.now = True
    try:
        for find in _public_folders:
            with suppress(Exception):
                folders.append(find())
    finally:
        _finding.now = False
    return folders


def known_secrets() -> set[str]:
    """All that `keep` was given, and the keys in the environment."""
    return _kept | _values()


def _all_spellings() -> list[str]:
    """All spellings of all secrets; the longest first, as one may hold another."""
    return sorted({text for secret in known_secrets() for text in spellings(secret)}, key=len, reverse=True)


@lru_cache(maxsize=64)
def spellings(secret: str) -> frozenset[str]:
    """How a secret may be written: as it is, on one line, in JSON, Python, an address, HTML, and in base64.

    The last with whatever around it, as in `user:secret`.
    """
    # Of no use to a command without a key.
    import base64
    import html
    import json

    data = secret.encode("utf-8", "surrogatepass")
    quoted = {quote(data, safe=""), quote(data), quote_plus(data), quote(data, safe="/:@!$&'()*+,;=")}
    quoted |= {quote(text, safe="") for text in quoted}
    lower = {re.sub("%..", lambda match: match[0].lower(), text) for text in quoted}
    written = {json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1], html.escape(secret)}
    written |= {repr(secret)[1:-1], " ".join(secret.split()), secret.replace("/", "\\/"), QUOTES.sub("", secret)}
    coded = set()
    for before in range(3):
        # `user:secret`: the first signs hang on what is before the secret, the last on what is after it.
        whole = base64.b64encode(bytes(before) + data).decode()
        inner = whole[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        coded |= {inner, inner.replace("+", "-").replace("/", "_"), quote(inner, safe="")}
    return frozenset(text for text in {*quoted, *lower, *written, *coded} if len(text) >= SHORTEST) | {secret}


def mask(text: str) -> str:
    """The text without secrets."""
    return _without(text, _all_spellings())


def mask_so_far(text: str) -> str:
    """The text without secrets, and without the beginning of one at its end: more of it may be on its way."""
    known = _all_spellings()
    text = _without(text, known)
    begun = [n for secret in known for n in range(_HARMLESS + 1, len(secret)) if text.endswith(secret[:n])]
    return text[: len(text) - max(begun, default=0)]


def _without(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(secret, MASK)
    return text


def mask_bytes(data: bytes) -> bytes:
    """Bytes of UTF-8 without secrets."""
    # A variable of the environment may hold what is no UTF-8.
    return mask(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def mask_json(value: Any) -> Any:
    """Parsed JSON, every text in it masked, names of keys too; not deeper than the parser of JSON goes."""
    return _json_without(value, _all_spellings())


def _json_without(value: Any, secrets: Iterable[str]) -> Any:
    if isinstance(value, str):
        return _without(value, secrets)
    if isinstance(value, list):
        return [_json_without(item, secrets) for item in value]
    if isinstance(value, dict):
        return {_without(key, secrets): _json_without(item, secrets) for key, item in value.items()}
    return value
