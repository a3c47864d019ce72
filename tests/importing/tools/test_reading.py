"""What is read of untrusted files: bounds, and one sentence with the place for everything else."""

from __future__ import annotations

import json
import math
import os
import random
import re
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from bench.base.errors import BenchError, DataError, UsageError
from bench.base.paths import data_folder
from bench.importing import reading
from bench.importing.reading import ByteBudget, check_json, parse_documents, read_documents
from bench.importing.tools.catalogue import Source, read_catalogue
from bench.registry.catalogues import import_sources

TOOL = '{"name": "a", "inputSchema": {}}'
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def value_of(text: str, name: str = "f.json") -> Any:
    (document,) = parse_documents(Path(name), name, text.encode("utf-8", "surrogatepass"))
    return document.value


@given(json_values)
def test_json_is_read_as_it_is(value: Any) -> None:
    try:
        text = json.dumps(value, ensure_ascii=False).encode("utf-8").decode()
    except UnicodeEncodeError:
        with pytest.raises(DataError, match=r"half a surrogate pair|not a valid text"):
            value_of(json.dumps(value))
        return
    if value == {} or text.strip():
        assert value_of(text) == value


#: Numbers of YAML 1.2 that a writer of YAML 1.1 takes for texts, and does not quote.
NUMBERS = re.compile(r"[-+]?(\.\d+|\d+(\.\d*)?)([eE][-+]?\d+)?|0o[0-7]+|0x[0-9a-fA-F]+")
TEXTS = st.text(st.characters(exclude_categories=["C", "Z"])).filter(lambda text: not NUMBERS.fullmatch(text))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | TEXTS,
        lambda inner: (
            st.lists(inner, min_size=1, max_size=4) | st.dictionaries(st.text("abcde"), inner, min_size=1, max_size=4)
        ),
        max_leaves=20,
    )
)
def test_yaml_is_read_as_another_writer_wrote_it(value: Any) -> None:
    # A writer of YAML 1.1 quotes more than a reader of 1.2 needs.
    assert value_of(yaml.safe_dump({"v": value}, allow_unicode=True), "f.yaml") == {"v": value}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: no\nb: 2024-01-01\nc: 12:30:45\nd: 0o7\ne: 1e3\nf: ~\ng: True\nh: 'true'\ni: 1_000", None),
        ("a: &x {k: [1]}\nb: *x\nc: [*x, *x]", {"a": {"k": [1]}, "b": {"k": [1]}, "c": [{"k": [1]}, {"k": [1]}]}),
        ("200: ok\n1.5: x\ntrue: y\n", {"200": "ok", "1.5": "x", "true": "y"}),
        ("!!python/object/apply:os.system ['echo']", ["echo"]),
        ("- !!binary aGk=\n- !custom {a: 1}", ["aGk=", {"a": 1}]),
        ("{}", {}),
        ("[]", []),
        # Merge keys: what the object has itself comes first, then the first that is merged.
        (
            "a: &a {x: 1, y: 2}\nb: &b {y: 3, z: 4}\nc: {<<: [*a, *b], x: 9}\nd:\n  <<: *b\n  <<: *a\n  q: 0\ne: &e\n"
            "  <<: *a\nf: *e\n",
            {
                "a": {"x": 1, "y": 2},
                "b": {"y": 3, "z": 4},
                "c": {"x": 9, "y": 2, "z": 4},
                "d": {"x": 1, "y": 3, "z": 4, "q": 0},
                "e": {"x": 1, "y": 2},
                "f": {"x": 1, "y": 2},
            },
        ),
        ("a: {'<<': 1}\nb: {<<: {}}", {"a": {"<<": 1}, "b": {}}),
        ("a: |\n  two\n  lines\n", {"a": "two\nlines\n"}),
    ],
)
def test_yaml_has_the_types_of_its_core_schema(text: str, value: Any) -> None:
    expected = {"a": "no", "b": "2024-01-01", "c": "12:30:45", "d": "0o7", "e": 1000.0, "f": None, "g": True}
    assert value_of(text, "f.yml") == (value if value is not None else {**expected, "h": "true", "i": "1_000"})


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 60))
DEEP_ALIASES = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 200))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "f.json is empty."),
        (" \n\n", "f.json is empty."),
        ("{", "f.json is not JSON: Expecting property name"),
        ('{"a": [1, 2', "f.json is not JSON: Expecting ',' delimiter"),
        ("[NaN]", "f.json is not JSON: NaN is not a number of JSON."),
        ("[-Infinity]", "f.json is not JSON: -Infinity is not a number of JSON."),
        ("[1e999]", "f.json has a number that is not finite at /0."),
        ("[" + "9" * 5000 + "]", "f.json is not JSON: a number has too many digits."),
        ('{"a": 1, "a": 2}', "f.json is not JSON: an object has the key 'a' twice in line 1."),
        (f'{TOOL}\n{{"a": 1, "a": 2}}', "f.json, line 2 is not JSON: an object has the key 'a' twice in line 2."),
        ("[" * 99_999, "f.json is not JSON: it is nested deeper than 100 levels."),
        ("[" * 200 + "]" * 200, "f.json has more than 100 levels of nesting at /0/0/0"),
        ('{"a/b": ["\\ud800"]}', "f.json has a text that is not valid Unicode (half a surrogate pair) at /a~1b/0."),
        ('{"\\ud800": 1}', "f.json has a key that is not a valid text."),
        (f"{TOOL}\n[NaN]", "f.json, line 2 is not JSON: NaN"),
        (f"{TOOL}\n{{", "f.json, line 2 is not JSON: Expecting"),
    ],
)
def test_what_is_wrong_in_json_is_said_with_its_place(text: str, sentence: str) -> None:
    with pytest.raises(DataError) as caught:
        parse_documents(Path("f.json"), "f.json", text.encode())
    assert str(caught.value).startswith(sentence)
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (BOMB, "f.yaml has more than 20000 values at /a"),
        (DEEP_ALIASES, "f.yaml has more than 100 levels of nesting at /a99/0/0"),
        ("a: &a [*a]", "f.yaml, line 1: the alias *a stands for nothing, or for what contains it."),
        ("a: *b", "f.yaml, line 1: the alias *b stands for nothing, or for what contains it."),
        ("[" * 5000, "f.yaml is not YAML: it is nested deeper than 100 levels."),
        ("[" * 200 + "]" * 200, "f.yaml has more than 100 levels of nesting at /0/0/0"),
        ("a: {b: 1\n", "f.yaml is not YAML: "),
        ("a: 1\na: 2", "f.yaml is not YAML: an object has the key 'a' in line 1 and in line 2."),
        ("a: .\n<<: 3", "f.yaml, line 2: `<<` merges objects; its value must be one, or a list of them."),
        ("a: {<<: [{}, 1]}", "f.yaml, line 1: `<<` merges objects; its value must be one, or a list of them."),
        ("a: &a {<<: *a}", "f.yaml, line 1: the alias *a stands for nothing, or for what contains it."),
        (
            "a: &a {x: 1}\n" + "".join(f"b{n}: {{<<: [*a, *a, *a]}}\n" for n in range(7000)),
            "f.yaml, line 6668: more than 20000 keys",
        ),
        ("? [a]\n: 1", "f.yaml, line 1: a key is a list or an object."),
        ("a: &a [1]\n*a : 2", "f.yaml, line 2: a key is a list or an object."),
        ("a: 1\n---\nb: 2", "f.yaml, line 2: a second document begins here; a file holds one."),
        ("a: 1e999", "f.yaml has a number that is not finite at /a."),
        ("a: " + "9" * 5000, "f.yaml is not YAML: a number has too many digits."),
        ("# nothing", "f.yaml is empty."),
        ('a: "\\ud800"', "f.yaml"),
        ("a: \x01", "f.yaml is not YAML: "),
    ],
)
def test_what_is_wrong_in_yaml_is_said_with_its_place(
    monkeypatch: pytest.MonkeyPatch, text: str, sentence: str
) -> None:
    monkeypatch.setattr(reading, "MOST_VALUES", 20_000)
    with pytest.raises(DataError) as caught:
        parse_documents(Path("f.yaml"), "f.yaml", text.encode())
    assert str(caught.value).startswith(sentence)


def test_a_key_that_occurs_twice_in_a_large_object_is_found_at_once() -> None:
    text = "{" + ",".join(f'"k{n}": 1' for n in range(200_000)) + ', "k199999": 2}'
    with pytest.raises(DataError, match="the key 'k199999' twice"):
        value_of(text)


@pytest.mark.parametrize("data", [b"\xff\xfe[\x00]", b'["\xe4"]', b"\x00\x01\x02"], ids=repr)
def test_bytes_that_are_no_text(data: bytes) -> None:
    with pytest.raises(DataError, match=r"^f\.json is not (UTF-8|UTF-16|JSON)"):
        parse_documents(Path("f.json"), "f.json", data)


def test_a_mark_of_the_byte_order_is_no_part_of_the_text() -> None:
    assert value_of("\ufeff[1]") == [1]
    (document,) = parse_documents(Path("f.json"), "f.json", "[1]".encode("utf-16"))
    assert document.value == [1]


def test_values_of_a_program_are_held_to_the_same() -> None:
    for value in (math.nan, {1: 2}, [object()], {"a": b"x"}):
        with pytest.raises(DataError, match=r"^it has "):
            check_json(value, "it")


# Files --------------------------------------------------------------------------------------------------------------


def refused(source: Path) -> str:
    with pytest.raises(UsageError) as caught:
        list(read_documents(source, ByteBudget()))
    return str(caught.value)


def test_a_pipe_or_a_device_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    assert "is a device or a pipe" in refused(tmp_path / "pipe.json")
    assert "is a device or a pipe" in refused(tmp_path)
    assert "is a device or a pipe" in refused(Path("/dev/zero"))


@pytest.mark.parametrize("name", ["gone.json", "a\x00b.json", "x" * 300])
def test_a_file_that_is_not_there(tmp_path: Path, name: str) -> None:
    assert refused(tmp_path / name).startswith("cannot read ")


def test_a_link_out_of_a_folder_is_refused_and_one_inside_is_read(tmp_path: Path) -> None:
    (tmp_path / "secret.json").write_text(TOOL)
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "a.json").write_text(TOOL)
    (folder / "b.json").symlink_to(folder / "a.json")
    assert len(list(read_documents(folder, ByteBudget()))) == 2
    (folder / "c.json").symlink_to(tmp_path / "secret.json")
    assert refused(folder) == (
        f"{folder / 'c.json'} is a link out of the folder {folder}; name its target as a source instead."
    )
    (folder / "c.json").unlink()
    # A folder that is linked is not entered, so that links cannot make a circle.
    (folder / "again").symlink_to(folder)
    assert len(list(read_documents(folder, ByteBudget()))) == 2


def test_sizes_and_numbers_of_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in "abc":
        (tmp_path / f"{name}.json").write_text(TOOL)
    monkeypatch.setattr(reading, "MOST_FILES", 2)
    assert "has more than 2 files to import" in refused(tmp_path)
    monkeypatch.setattr(reading, "MOST_FILES", 3)
    monkeypatch.setattr(reading, "MOST_BYTES_IN_ALL", 2 * len(TOOL))
    assert "c.json is larger than a catalogue may be (0 MiB in all)" in refused(tmp_path)
    monkeypatch.setattr(reading, "MOST_BYTES", len(TOOL) - 1)
    assert "a.json is larger than a catalogue may be" in refused(tmp_path)


def test_names_of_files_are_stored_as_plain_text(tmp_path: Path) -> None:
    folder = tmp_path / "tools"
    folder.mkdir()
    (folder / "good.json").write_text(f"[{TOOL}]")
    for name in (b"bad\x1b[31m.json", b"bad\xff.json", "bad\u202e.json".encode()):
        (folder / os.fsdecode(name)).write_text('[{"name": ""}]')
    data = import_sources("mine", [folder])
    assert [tool.name for tool in data.tools] == ["a"]
    assert len(data.remarks) == 3
    assert all(
        place.isprintable() and place.startswith("tools/bad\N{REPLACEMENT CHARACTER}") for place, _ in data.remarks
    )


def test_an_empty_folder(tmp_path: Path) -> None:
    assert refused(tmp_path).endswith("has no file that ends in .json, .jsonl, .ndjson, .snap, .yaml, .yml.")


# Anything ------------------------------------------------------------------------------------------------------------

SEEDS = [
    ("f.json", json.dumps({"tools": [{"name": "a", "description": "d", "inputSchema": {"type": "object"}}]})),
    ("f.jsonl", f'{TOOL}\n{{"jsonrpc": "2.0", "result": {{"tools": [{TOOL}]}}}}\n'),
    ("f.json", json.dumps([{"type": "function", "function": {"name": "f", "parameters": {"properties": {"x": {}}}}}])),
    ("f.json", json.dumps([{"functionDeclarations": [{"name": "f", "parameters": {"type": "OBJECT"}}]}])),
    ("f.json", json.dumps({"openapi": "3.0.0", "paths": {"/a": {"get": {"parameters": [{"$ref": "#/p"}]}}}, "p": {}})),
    ("f.yaml", "swagger: '2.0'\npaths: {/a: {post: {parameters: [{name: b, in: body, schema: &s {type: object}}]}}}\n"),
    (
        "f.yaml",
        "- &a {name: x, description: y, inputSchema: {properties: {q: {type: string}}}}\n"
        "- {server_name: s, tools: [*a]}",
    ),
    (
        "f.snap",
        '{"name": "a", "annotations": {"title": "T"}, "inputSchema": {"$ref": "#/$defs/A", "$defs": {"A": {}}}}',
    ),
]
PIECES = [
    *(
        "{",
        "}",
        "[",
        "]",
        '"',
        ":",
        ",",
        "null",
        "-1",
        "1e999",
        "NaN",
        "\\ud800",
        "\x00",
        "\x07",
        "\n",
        "\ufeff",
        "&a ",
        "*a",
    ),
    *(
        '"$ref"',
        '"#"',
        '"#/paths"',
        '"tools"',
        '"name"',
        '"inputSchema"',
        "{}",
        "[]",
        "true",
        "- ",
        "<<: ",
        "!!str ",
        "\u202e",
    ),
]


def mutated(text: str, source: random.Random) -> bytes:
    """The text with some places cut, doubled, overwritten or filled."""
    for _ in range(source.randint(1, 4)):
        start, end = sorted(source.randint(0, len(text)) for _ in range(2))
        end = min(end, start + 12)
        text = source.choice(
            [
                text[:start],
                text[:start] + text[end:],
                text[:end] + text[start:],
                text[:start] + source.choice(PIECES) + text[end:],
                text[:start] + source.choice(PIECES) * source.choice([1, 2, 150]) + text[start:],
            ]
        )
    data = bytearray(text.encode("utf-8", "surrogatepass"))
    if data and source.random() < 0.2:
        data[source.randrange(len(data))] = source.randrange(256)
    return bytes(data)


#: What takes the place of a value: other types, and what means something elsewhere.
VALUES: list[Any] = [
    *(None, True, 0, -1, 1.5, "", "x", "a/b", "\x07", "#/paths", [], {}, [[]], [None], [{}], {"x": None}),
    *({"$ref": "#"}, {"$ref": 1}, {"type": ["string", 1]}, {"allOf": 1}, {"properties": []}, {"properties": {"p": 1}}),
    *({"tools": 1}, {"tools": {"s": {"tools": [{}]}}}, {"name": "n", "parameters": [1]}, {"function": 1}, {"in": []}),
]


def confused(text: str, source: random.Random) -> bytes:
    """The text with some values replaced, keys renamed or values repeated; still JSON."""
    value = (
        json.loads(text)
        if text.startswith(("{", "[")) and "\n" not in text
        else yaml.safe_load(text.partition("\n")[0])
    )
    for _ in range(source.randint(1, 3)):
        places = [value]
        for node in places:
            inner = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
            places += [each for each in inner if isinstance(each, dict | list) and each]
        holder = source.choice(places)
        new = source.choice(VALUES)
        if isinstance(holder, dict) and holder:
            key = source.choice(list(holder))
            if source.random() < 0.2:
                holder[source.choice(["tools", "name", "$ref", "paths", "parameters", "x"])] = holder.pop(key)
            else:
                holder[key] = json.loads(json.dumps(new))
        elif isinstance(holder, list) and holder:
            number = source.randrange(len(holder))
            holder[number : number + source.randint(0, 1)] = [json.loads(json.dumps(new))]
    return json.dumps(value).encode()


def test_hundreds_of_damaged_files_are_imported_or_refused_in_a_sentence(tmp_path: Path) -> None:
    """Nothing else is raised, nothing hangs, and what is refused leaves nothing behind."""
    source = random.Random(7)
    ends = {"imported": 0, "refused": 0}
    for number in range(600):
        name, text = SEEDS[number % len(SEEDS)]
        path = tmp_path / name
        path.write_bytes((confused if number % 3 else mutated)(text, source))
        timer = threading.Timer(20, os._exit, [9])  # a hang ends the run
        timer.start()
        try:
            catalogue = read_catalogue([Source(path)])
            assert catalogue.tools
            if number % 20 < 4:
                import_sources(f"d{number}", [path])
            ends["imported"] += 1
        except BenchError as error:
            sentence = str(error)
            assert path.name in sentence or "two tools" in sentence
            assert sentence.endswith(".")
            assert "\n" not in sentence
            assert len(sentence) < 1000
            ends["refused"] += 1
        finally:
            timer.cancel()
        kept = data_folder() / "datasets" / f"d{number}"
        assert not kept.exists() or (kept / "dataset.json").is_file()
    assert min(ends.values()) > 100, ends


@pytest.mark.parametrize(("name", "text"), SEEDS[:6])
def test_a_file_cut_anywhere_is_refused_or_read(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    for end in range(len(text)):
        path.write_text(text[:end])
        try:
            read_catalogue([Source(path)])
            whole = True
        except BenchError as error:
            whole = False
            told = str(error)
        if whole:
            assert name.endswith((".yaml", ".jsonl")), f"a cut file is no JSON: {text[:end]}"
        else:
            assert path.name in told
