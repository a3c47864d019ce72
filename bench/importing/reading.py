"""Read untrusted JSON, JSON Lines and YAML, within bounds. The readers of tools, queries and MCP servers call it.

The result is plain JSON data of bounded depth: objects, lists, texts that can be stored, finite numbers, booleans and
null.
"""

from __future__ import annotations

import ast
import codecs
import math
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

from bench.base.errors import DataError, UsageError, require
from bench.base.strict_json import RepeatedKey, loads, refuse_constant
from bench.base.text import one_line

#: Maximum bytes of one file, and of all together. The largest published list of a server has 2 MB.
MOST_BYTES, MOST_BYTES_IN_ALL = 64 << 20, 512 << 20
#: Maximum files to read in a folder, and maximum entries to search for them.
MOST_FILES, MOST_ENTRIES = 20_000, 200_000
#: Maximum nesting of objects and lists. Real schemas have about 20 levels.
MOST_DEPTH = 100
#: Maximum values in one document, with aliases resolved.
MOST_VALUES = 5_000_000
#: Maximum characters of a text to parse as a list or an object.
_LONGEST_LITERAL = 100_000

#: Half of a surrogate pair, which cannot be stored.
_SURROGATE = re.compile("[\ud800-\udfff]")

_JSON, _LINES, _YAML = {".json", ".snap"}, {".jsonl", ".ndjson"}, {".yaml", ".yml"}
#: Suffixes of the files to read in a folder. A snapshot (`.snap`) is the JSON of one tool.
SUFFIXES = frozenset(_JSON | _LINES | _YAML)
_PASSED_OVER = frozenset({"node_modules", "__pycache__"})


@dataclass(frozen=True)
class Document:
    """A parsed value and its origin.

    Attributes:
        value: JSON data.
        where: the file as the user named it, with the line in JSON Lines; for errors.
        label: the same without the folders above the source; for storage.
        file: the file; an empty path for a value passed from Python.
        line: the line in JSON Lines; 0 for a whole file.
    """

    value: Any
    where: str
    label: str
    file: Path = field(default_factory=Path)
    line: int = 0


class ByteBudget:
    """Counts the bytes that may still be read."""

    def __init__(self) -> None:
        self.left = MOST_BYTES_IN_ALL

    def read(self, path: Path) -> bytes:
        """The bytes of a regular file.

        Raises:
            UsageError: it is not a regular file, cannot be read, or is too large.
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
        UsageError: it is not a regular file, or cannot be opened.
    """
    try:
        # Without O_NONBLOCK, opening a named pipe waits for a writer.
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
        DataError: a file is not JSON, JSON Lines or YAML, or has a value that JSON cannot have; says where.
        UnavailableError: a file is YAML and PyYAML is not installed.
    """
    if not os.path.isdir(source):  # unlike `Path.is_dir`, it accepts any name
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


def decode(path: Path, data: bytes) -> str:
    """The text of a file in UTF-8, or in UTF-16 with a byte order mark, as Excel and PowerShell write it.

    Raises:
        DataError: it is neither.
    """
    encoding = "utf-16" if data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "utf-8-sig"
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        name = encoding.upper().removesuffix("-SIG")
        raise DataError(f"{path} is not {name} ({error.reason} at byte {error.start}); save it as UTF-8.") from None
    if "\0" in text:
        raise DataError(f"{path} is not UTF-8 (null characters, as in UTF-16 without its mark); save it as UTF-8.")
    return text


def parse_documents(path: Path, label: str, data: bytes) -> list[Document]:
    """The documents of one file: one, or one per line of JSON Lines; errors as in `read_documents`."""
    label = one_line(label, 200)  # names of files in a folder are untrusted
    text = decode(path, data)
    suffix = path.suffix.lower()
    if not text.strip():
        raise DataError(f"{path} is empty.")
    if suffix in _YAML:
        return [Document(check_json(_yaml(text, path), str(path)), str(path), label, path)]
    if suffix not in _LINES:
        try:
            return [Document(_json(text, str(path)), str(path), label, path)]
        except (ValueError, RecursionError) as error:
            # Several values: JSON Lines under another suffix.
            if not str(error).startswith("Extra data") or "\n" not in text.strip():
                raise DataError(f"{path} is not JSON: {_reason(error)}.") from None
    documents = []
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            where = f"{path}, line {number}"
            try:
                value = _json(line, where)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{where} is not JSON: {_reason(error, number - 1)}.") from None
            documents.append(Document(value, where, f"{label}, line {number}", path, number))
    return documents


def parse_cell(value: Any) -> Any:
    """The list or object in a text, as JSON or Python writes it; any other value unchanged.

    Raises:
        RepeatedKey: an object in the text repeats a key.
    """
    if not isinstance(value, str) or value[:1] not in ("[", "{") or len(value) > _LONGEST_LITERAL:
        return value
    for parse in (loads, ast.literal_eval):
        try:
            inner = parse(value)
        except RepeatedKey:
            raise
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        return inner if isinstance(inner, list | dict) else value
    return value


def _json(text: str, where: str) -> Any:
    return check_json(loads(text, parse_constant=refuse_constant), where)


def _reason(error: Exception, before: int = 0) -> str:
    """Why a text is not JSON; `before`: number of lines of its file before it."""
    if isinstance(error, RepeatedKey):
        return error.sentence(before)
    if isinstance(error, RecursionError):
        return f"it is nested deeper than {MOST_DEPTH} levels"
    # Python refuses integers of more than 4,300 digits, with advice for programmers.
    return "a number has too many digits" if "integer string conversion" in str(error) else str(error)


def check_json(value: Any, where: str) -> Any:
    """Check that a value is JSON data of bounded depth and size with texts that can be stored, and return it.

    Raises:
        DataError: it is not; gives the JSON pointer of the fault.
    """
    left = iter(range(MOST_VALUES))

    def check(node: Any, steps: tuple[object, ...]) -> None:
        fault = ""
        if len(steps) > MOST_DEPTH:
            fault = f"more than {MOST_DEPTH} levels of nesting"
        elif next(left, None) is None:
            fault = f"more than {MOST_VALUES} values"
        elif isinstance(node, str):
            fault = "a text that is not valid Unicode (half a surrogate pair)" if _SURROGATE.search(node) else ""
        elif isinstance(node, dict):
            if all(isinstance(key, str) and not _SURROGATE.search(key) for key in node):
                for key, inner in node.items():
                    check(inner, (*steps, key))
            else:
                fault = "a key that is not a valid text"
        elif isinstance(node, list | tuple):
            for number, inner in enumerate(node):
                check(inner, (*steps, number))
        elif isinstance(node, float):
            fault = "" if math.isfinite(node) else "a number that is not finite"
        elif node is not None and not isinstance(node, bool | int):
            fault = f"a value of type {type(node).__name__}, which is not JSON"
        if fault:
            raise DataError(f"{where} has {fault}{f' at {pointer(*steps)}' if steps else ''}.")

    check(value, ())
    return value


def pointer(*steps: object) -> str:
    """A JSON pointer (RFC 6901), cleaned and shortened for messages."""
    return one_line("".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps), 160)


# YAML ---------------------------------------------------------------------------------------------------------------

_NULL = re.compile(r"(~|null|Null|NULL)?")
_BOOLEAN = re.compile(r"true|True|TRUE|false|False|FALSE")
_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")


def _yaml(text: str, path: Path) -> Any:
    """The value of a YAML document by the core schema of YAML 1.2, as OpenAPI requires.

    Merge keys of YAML 1.1 (`<<: *shared`), which many documents have, are supported: an object's own keys have priority
    over merged ones, and earlier merges over later ones.
    """
    require("yaml", what=f"the YAML file {path}")
    import yaml

    try:
        return _YamlReader(text, path).read()
    except yaml.YAMLError as error:
        raise DataError(f"{path} is not YAML: {' '.join(str(error).split())}.") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is not YAML: {_reason(error)}.") from None


class _YamlReader:
    """Builds the value from the parser's events: tags construct nothing, and `no` and `2024-01-01` are texts.

    An alias shares its value instead of copying it, so that a few lines cannot expand to a billion values.
    """

    def __init__(self, text: str, path: Path) -> None:
        import yaml

        self._yaml = yaml
        self._events: Iterator[Any] = iter(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
        self._path = path
        self._anchors: dict[str, Any] = {}
        self._merged = 0

    def read(self) -> Any:
        next(self._events)
        if isinstance(next(self._events), self._yaml.StreamEndEvent):
            raise DataError(f"{self._path} is empty.")
        value = self._value(next(self._events))
        next(self._events)
        if not isinstance(after := next(self._events), self._yaml.StreamEndEvent):
            self._fail(after, "a second document begins here; a file holds one")
        return value

    def _fail(self, event: Any, what: str) -> NoReturn:
        raise DataError(f"{self._path}, line {event.start_mark.line + 1}: {what}.")

    def _value(self, event: Any) -> Any:
        if isinstance(event, self._yaml.AliasEvent):
            if event.anchor not in self._anchors:
                self._fail(event, f"the alias *{event.anchor} stands for nothing, or for what contains it")
            return self._anchors[event.anchor]
        if isinstance(event, self._yaml.ScalarEvent):
            value = event.value if event.style else _scalar(event.value)
        elif isinstance(event, self._yaml.MappingStartEvent):
            value = self._object()
        else:
            value = []
            while not isinstance(inner := next(self._events), self._yaml.SequenceEndEvent):
                value.append(self._value(inner))
        if event.anchor is not None:
            self._anchors[event.anchor] = value
        return value

    def _object(self) -> dict[str, Any]:
        value: dict[str, Any] = {}
        merged: list[dict[str, Any]] = []
        lines: dict[str, int] = {}
        while not isinstance(event := next(self._events), self._yaml.MappingEndEvent):
            if isinstance(name := self._value(event), dict | list):
                self._fail(event, "a key is a list or an object")
            # Response codes in OpenAPI are often unquoted: 200 is the key "200".
            key = event.value if isinstance(event, self._yaml.ScalarEvent) else str(name)
            inner = self._value(after := next(self._events))
            # In quotes, `<<` is an ordinary key.
            if key == "<<" and not getattr(event, "style", None):
                merged += inner if isinstance(inner, list) else [inner]
                if not all(isinstance(each, dict) for each in merged):
                    self._fail(after, "`<<` merges objects; its value must be one, or a list of them")
                self._merged += sum(map(len, merged))
                if self._merged > MOST_VALUES:
                    self._fail(after, f"more than {MOST_VALUES} keys are merged")
                continue
            if key in lines:
                raise RepeatedKey(key, (lines[key], event.start_mark.line + 1))
            lines[key], value[key] = event.start_mark.line + 1, inner
        return {key: each for others in (*reversed(merged), value) for key, each in others.items()}


def _scalar(text: str) -> Any:
    if _NULL.fullmatch(text):
        return None
    if _BOOLEAN.fullmatch(text):
        return text.lower() == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
