"""Keep keys and tokens that this process knows out of everything that is written or printed.

Code that reads a key passes it to `keep`. Text from users (specs, names, files) passes `bench.base.keys.refuse` before
anything runs. Text from outside passes `mask` when it arrives: before and after parsing, because JSON can spell a text
in several ways, and before truncation, because half a key is not recognised. Error messages are masked when they are
created, and all output is masked again.

**What is a key.** A value passed to `keep`; the value of a variable named by `token=`; and the value of any environment
variable whose name ends in one of `ENDINGS`. Surrounding white space is ignored. Values shorter than `SHORTEST`
characters do not count: they are placeholders. A variable recognised only by its name may contain an ordinary word. Its
value does not count if it is public: the name of a method or dataset of bench, a path of this machine, a folder of the
working or home directory, or a part of the tool names of a run.
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
#: Shorter values are placeholders such as `none` and `EMPTY`, which also occur in ordinary texts.
SHORTEST = 8
#: Programs that bench starts get its environment and may print its values, whether or not bench reads them.
ENDINGS = ("KEY", "TOKEN", "SECRET", "PASSWORD")
QUOTES = re.compile(r"[\"'\\]")
#: This many characters of a secret reveal nothing.
_HARMLESS = 3

_kept: set[str] = set()
_public: set[str] = set()
#: Functions that find folders whose entries have public names.
_public_folders: list[Callable[[], Path]] = []
_finding = threading.local()


def keep(secret: str) -> None:
    """Remember a secret, which `mask` removes from now on; surrounding white space is ignored."""
    if len(secret.strip()) >= SHORTEST:
        _kept.add(secret.strip())


def publish(names: Iterable[str]) -> None:
    """Stop treating values of variables as keys if they occur in these tool names, so that answers keep the names."""
    if values := _values():
        text = "\n".join(names)
        _public.update(value for value in values if value in text)


def publish_names_in(find: Callable[[], Path]) -> None:
    """Names of entries in a folder are not keys. It is looked up on use, because the environment may name it."""
    _public_folders.append(find)


def mask_streams() -> None:
    """Remove secrets from all output of this process from now on, including tracebacks and output of methods."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # Replace characters of tool texts that the terminal's encoding lacks.
            stream.reconfigure(errors="replace")
            stream.write = partial(_write_masked, stream.write)  # type: ignore[method-assign]


def _write_masked(write: Callable[[str], int], text: str) -> int:
    write(mask(text))
    return len(text)


def _values() -> set[str]:
    """The keys in the environment."""
    # `items` would decode all values, and this runs for each printed line.
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
    """The folders of `publish_names_in` that can be found."""
    folders: list[Path] = []
    # If the user has no home folder, masking that error message calls this function again.
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
    """All secrets passed to `keep`, and the keys in the environment."""
    return _kept | _values()


def _all_spellings() -> list[str]:
    """All spellings of all secrets, longest first, because one may contain another."""
    return sorted({text for secret in known_secrets() for text in spellings(secret)}, key=len, reverse=True)


@lru_cache(maxsize=64)
def spellings(secret: str) -> frozenset[str]:
    """Spellings of a secret: verbatim, on one line, in JSON, Python, a URL, HTML, and in base64.

    Base64 covers a secret inside a longer text, as in `user:secret`.
    """
    # Imported here because commands without a key do not need them.
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
        # `user:secret`: the first characters depend on the text before the secret, the last on the text after it.
        whole = base64.b64encode(bytes(before) + data).decode()
        inner = whole[-(-before * 8 // 6) : (before + len(data)) * 8 // 6]
        coded |= {inner, inner.replace("+", "-").replace("/", "_"), quote(inner, safe="")}
    return frozenset(text for text in {*quoted, *lower, *written, *coded} if len(text) >= SHORTEST) | {secret}


def mask(text: str) -> str:
    """The text without secrets."""
    return _without(text, _all_spellings())


def mask_so_far(text: str) -> str:
    """The text without secrets, and without the start of one at its end, because the rest may follow."""
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
    # An environment variable may contain bytes that are not UTF-8.
    return mask(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def mask_json(value: Any) -> Any:
    """Mask all strings in parsed JSON, including keys; the JSON parser limits the depth."""
    return _json_without(value, _all_spellings())


def _json_without(value: Any, secrets: Iterable[str]) -> Any:
    if isinstance(value, str):
        return _without(value, secrets)
    if isinstance(value, list):
        return [_json_without(item, secrets) for item in value]
    if isinstance(value, dict):
        return {_without(key, secrets): _json_without(item, secrets) for key, item in value.items()}
    return value
