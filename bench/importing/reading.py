"""Reading the files of a catalogue: JSON, JSON Lines and YAML from anywhere, within bounds.

The files come from other people's servers, so nothing about them is taken for granted. What is returned is plain JSON
data: objects, lists, texts that can be stored, finite numbers, booleans and null, of bounded depth.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from bench.base.errors import DataError, UsageError, require
from bench.base.text import one_line

#: Bytes of one file, and of all together. The largest published list of a server is 2 MB.
MOST_BYTES, MOST_BYTES_IN_ALL = 64 << 20, 512 << 20
#: Files that one folder may bring, and entries that are looked at to find them.
MOST_FILES, MOST_ENTRIES = 20_000, 200_000
#: Objects and lists inside each other. Real schemas have about 20 levels.
MOST_DEPTH = 100
#: Values in one document, aliases written out.
MOST_VALUES = 5_000_000

_JSON, _LINES, _YAML = {".json", ".snap"}, {".jsonl", ".ndjson"}, {".yaml", ".yml"}
#: What a folder is searched for. A snapshot (`.snap`) is the JSON of one tool.
SUFFIXES = frozenset(_JSON | _LINES | _YAML)
_PASSED_OVER = frozenset({"node_modules", "__pycache__"})


@dataclass(frozen=True)
class Document:
    """One parsed value and where it came from.

    Attributes:
        value: JSON data.
        where: the file as the user named it, with the line of a JSON Lines file; for errors.
        label: the same without the folders above the source; for what is stored.
        file: the file; of a value that was passed from Python, an empty path.
        line: the line of a JSON Lines file; 0 for the whole of a file.
    """

    value: Any
    where: str
    label: str
    file: Path = field(default_factory=Path)
    line: int = 0


class ByteBudget:
    """The bytes that may still be read."""

    def __init__(self) -> None:
        self.left = MOST_BYTES_IN_ALL

    def read(self, path: Path) -> bytes:
        """The bytes of a regular file.

        Raises:
            UsageError: it is no regular file, cannot be read, or is too large.
        """
        most = min(MOST_BYTES, self.left)
        with open_regular(path) as file:
            try:
                data = file.read(most + 1)
            except OSError as error:
                raise UsageError(f"cannot read {path}: {error.strerror}.") from None
        if len(data) > most:
            bound = f"{MOST_BYTES >> 20} MiB" if most == MOST_BYTES else f"{MOST_BYTES_IN_ALL >> 20} MiB in all"
            raise UsageError(f"{path} is larger than a catalogue may be ({bound}); split it, or import a part of it.")
        self.left -= len(data)
        return data


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises:
        UsageError: it is no regular file, or cannot be opened.
    """
    try:
        # Without O_NONBLOCK, opening a named pipe waits for somebody to write to it.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
            os.close(handle)
            if is_folder:
                raise UsageError(f"{path} is a folder; name its files.")
            raise UsageError(f"{path} is a device or a pipe; write its content to a file and name that.")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}.") from None
    except ValueError as error:  # a NUL in the name
        raise UsageError(f"cannot read {str(path)!r}: {error}.") from None
    return open(handle, "rb")


def read_documents(source: Path, budget: ByteBudget) -> Iterator[Document]:
    """The documents of a file, or of all files of a folder and its subfolders, in the order of their paths.

    Raises:
        UsageError: the source is missing, is a device or a pipe, is too large, or links out of its folder.
        DataError: a file is not JSON, JSON Lines or YAML, or holds what JSON cannot; its place is named.
        UnavailableError: a file is YAML and PyYAML is not installed.
    """
    if not os.path.isdir(source):  # unlike `Path.is_dir`, it takes any name
        yield from parse_documents(source, source.name, budget.read(source))
        return
    paths = _files(source)
    if not paths:
        raise UsageError(f"the folder {source} has no file that ends in {', '.join(sorted(SUFFIXES))}.")
    top = source.resolve().name
    for path in paths:
        yield from parse_documents(path, f"{top}/{path.relative_to(source).as_posix()}", budget.read(path))


def _files(folder: Path) -> list[Path]:
    inside = folder.resolve()
    paths: list[Path] = []
    seen = 0

    def unreadable(error: OSError) -> NoReturn:
        raise UsageError(f"cannot read the folder {error.filename}: {error.strerror}.") from None

    for place, folders, files in os.walk(folder, onerror=unreadable):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in _PASSED_OVER)
        seen += len(folders) + len(files)
        for name in sorted(files):
            path = Path(place, name)
            if path.suffix.lower() not in SUFFIXES or name.startswith("."):
                continue
            if not path.resolve().is_relative_to(inside):
                raise UsageError(f"{path} is a link out of the folder {folder}; name its target as a source instead.")
            paths.append(path)
        if seen > MOST_ENTRIES or len(paths) > MOST_FILES:
            raise UsageError(
                f"the folder {folder} has more than {MOST_FILES} files to import or {MOST_ENTRIES} entries; name a "
                "smaller one."
            )
    return paths


def parse_documents(path: Path, label: str, data: bytes) -> list[Document]:
    """The documents of one file: one, or one per line of JSON Lines; raises as `read_documents` does."""
    label = one_line(label, 200)  # the names of files inside a folder are not the user's
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 ({error.reason} at byte {error.start}).") from None
    suffix = path.suffix.lower()
    if not text.strip():
        raise DataError(f"{path} is empty.")
    if suffix in _YAML:
        return [Document(check_json(_yaml(text, path), str(path)), str(path), label, path)]
    if suffix not in _LINES:
        try:
            return [Document(check_json(_json(text), str(path)), str(path), label, path)]
        except json.JSONDecodeError as error:
            # Several values one after the other: JSON Lines under another name.
            if not error.msg.startswith("Extra data") or "\n" not in text.strip():
                raise DataError(f"{path} is not JSON: {error}.") from None
        except (ValueError, RecursionError) as error:
            raise DataError(f"{path} is not JSON: {_reason(error)}.") from None
    documents = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            try:
                value = check_json(_json(line), where)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{where} is not JSON: {_reason(error)}.") from None
            documents.append(Document(value, where, f"{label}, line {number}", path, number))
    return documents


def _json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_object, parse_constant=_no_number, parse_float=_float)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        # An object has its keys in the order of their first appearance: the first pair out of step repeats one.
        twice = next(key for (key, _), first in zip(pairs, [*members, None], strict=False) if key != first)
        raise ValueError(f"an object has the key {one_line(twice, 60)!r} twice")
    return members


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number of JSON")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"the number {one_line(text, 40)} is too large")
    return value


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return f"it is nested deeper than {MOST_DEPTH} levels"
    # Python refuses whole numbers of more than 4,300 digits, with advice for programmers.
    return "a number has too many digits" if "integer string conversion" in str(error) else str(error)


def check_json(value: Any, where: str) -> Any:
    """The value, if it is JSON data of bounded depth and size whose texts can be stored.

    Raises:
        DataError: it is not; the JSON pointer of the place is named.
    """
    pending: list[tuple[Any, int, tuple[Any, ...]]] = [(value, 0, ())]
    count = 0
    while pending:
        node, depth, place = pending.pop()
        count += 1
        if depth > MOST_DEPTH or count > MOST_VALUES:
            bound = f"{MOST_VALUES} values" if count > MOST_VALUES else f"{MOST_DEPTH} levels of nesting"
            raise DataError(f"{where} has more than {bound}{_at(place)}.")
        if isinstance(node, str):
            if not node.isascii() and not _encodable(node):
                raise DataError(f"{where} has a text that is not valid Unicode (half a surrogate pair){_at(place)}.")
        elif isinstance(node, dict):
            for key, item in node.items():
                if not isinstance(key, str) or not _encodable(key):
                    raise DataError(f"{where} has a key that is not a valid text{_at(place)}.")
                pending.append((item, depth + 1, (place, key)))
        elif isinstance(node, list | tuple):
            pending.extend((item, depth + 1, (place, number)) for number, item in enumerate(node))
        elif isinstance(node, float):
            if not math.isfinite(node):
                raise DataError(f"{where} has a number that is not finite{_at(place)}.")
        elif node is not None and not isinstance(node, bool | int):
            raise DataError(f"{where} has a value of type {type(node).__name__}, which is not JSON{_at(place)}.")
    return value


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _at(place: tuple[Any, ...]) -> str:
    """` at /tools/0/name`, the JSON pointer of a place; nothing for the whole. A place is (place above, key)."""
    steps: list[object] = []
    while place:
        place, step = place
        steps.append(step)
    return f" at {pointer(*reversed(steps))}" if steps else ""


def pointer(*steps: object) -> str:
    """A JSON pointer (RFC 6901), cleaned and shortened for a message."""
    return one_line("".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps), 160)


# YAML ---------------------------------------------------------------------------------------------------------------

_NULL = re.compile(r"(~|null|Null|NULL)?")
_BOOLEAN = re.compile(r"true|True|TRUE|false|False|FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]+")
#: The key `<<`, which stands for the keys of another object; in quotes it is a key like any other.
_MERGE = object()
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


@dataclass
class _Open:
    """A collection that is being read: its value, the key that waits for one, its anchor, its size, what is merged."""

    value: Any
    anchor: str | None
    key: Any = None
    has_key: bool = False
    merged: list[dict[str, Any]] = field(default_factory=list)
    size: int = 1
    height: int = 1


def _yaml(text: str, path: Path) -> Any:
    """The value of a YAML document by the core schema of YAML 1.2, which is what OpenAPI asks for.

    Merge keys of YAML 1.1 (`<<: *shared`) are read too, because many documents have them: an object's own keys come
    before those that are merged, and what is merged first before what is merged later.

    The value is built from the parser's events: no tag makes an object, `no` and `2024-01-01` are texts, and an alias
    counts as often as it is written, so that a few lines cannot stand for a billion values.
    """
    require("yaml", what=f"the YAML file {path}")
    import yaml

    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    def fail(event: Any, what: str) -> NoReturn:
        raise DataError(f"{path}, line {event.start_mark.line + 1}: {what}.")

    # What an anchor stands for: value, size, height.
    anchors: dict[str, tuple[Any, int, int]] = {}
    stack: list[_Open] = [_Open([], None)]
    documents = 0
    try:
        for event in yaml.parse(text, Loader=loader):
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    fail(event, "a second document begins here; a file holds one")
            elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
                if len(stack) > MOST_DEPTH:
                    fail(event, f"nested deeper than {MOST_DEPTH} levels")
                if stack[-1].has_key is False and isinstance(stack[-1].value, dict):
                    fail(event, "a key is a list or an object")
                stack.append(_Open({} if isinstance(event, yaml.MappingStartEvent) else [], event.anchor))
            elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
                done = stack.pop()
                if done.merged:
                    done.value = {
                        key: each for part in (*reversed(done.merged), done.value) for key, each in part.items()
                    }
                if done.anchor is not None:
                    anchors[done.anchor] = (done.value, done.size, done.height)
                _put(stack[-1], done.value, done.size, done.height, event, fail)
            elif isinstance(event, yaml.ScalarEvent):
                value = event.value if event.style else _scalar(event.value)
                if isinstance(value, float) and not math.isfinite(value):
                    fail(event, "a number is too large")
                if event.anchor is not None:
                    anchors[event.anchor] = (value, 1, 0)
                _put(stack[-1], value, 1, 0, event, fail)
            elif isinstance(event, yaml.AliasEvent):
                if event.anchor not in anchors:
                    fail(event, f"the alias *{event.anchor} stands for nothing, or for what contains it")
                value, size, height = anchors[event.anchor]
                if len(stack) + height > MOST_DEPTH:
                    fail(event, f"nested deeper than {MOST_DEPTH} levels")
                _put(stack[-1], value, size, height, event, fail)
    except yaml.YAMLError as error:
        raise DataError(f"{path} is not YAML: {' '.join(str(error).split())}.") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not YAML: {_reason(error)}.") from None
    if not stack[0].value:
        raise DataError(f"{path} is empty.")
    return stack[0].value[0]


def _put(into: _Open, value: Any, size: int, height: int, event: Any, fail: Any) -> None:
    into.size += size
    into.height = max(into.height, height + 1)
    if into.size > MOST_VALUES:
        fail(event, f"aliases written out, the document has more than {MOST_VALUES} values")
    if isinstance(into.value, list):
        into.value.append(value)
    elif into.has_key and into.key is _MERGE:
        parts = value if isinstance(value, list) else [value]
        if not all(isinstance(part, dict) for part in parts):
            fail(event, "`<<` merges objects; its value must be one, or a list of them")
        into.merged += parts
        into.has_key = False
    elif into.has_key:
        into.value[into.key] = value
        into.has_key = False
    else:
        if isinstance(value, dict | list):
            fail(event, "a key is a list or an object")
        # OpenAPI's response codes are often unquoted: 200 is the key "200".
        key = event.value if hasattr(event, "value") else str(value)
        if key == "<<" and not getattr(event, "style", None):
            key = _MERGE
        elif key in into.value:
            fail(event, f"an object has the key {one_line(key, 60)!r} twice")
        into.key, into.has_key = key, True


def _scalar(text: str) -> Any:
    if _NULL.fullmatch(text):
        return None
    if _BOOLEAN.fullmatch(text):
        return text.lower() == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
