"""Folders in BEIR form: those of others' making, those that bench wrote, and those with a mistake in them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import DataError
from bench.data.beir import export_beir, import_beir, read_about
from bench.data.card import DEFAULT_UNIT, Card
from bench.data.dataset import Dataset
from bench.data.tables import Edge, Parameter, Query, Tables, Tool
from bench.data.template import TEMPLATES, Template

Row = Mapping[str, Any]
CORPUS: tuple[Row, ...] = (
    {"_id": "crm.find", "title": "find_customer", "text": "Looks up customers."},
    {"_id": "post.send", "title": "", "text": "Sends a letter."},
)
QUERIES: tuple[Row, ...] = ({"_id": "q1", "text": "who is it?"}, {"_id": "q2", "text": "write to Ann"})
QRELS = {"train": "q1\tcrm.find\t1\n", "test": "q2\tpost.send\t2\n"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a dataset is exported to."""
    return tmp_path / "beir"


def write(
    folder: Path,
    corpus: Sequence[Row] = CORPUS,
    queries: Sequence[Row] = QUERIES,
    qrels: Mapping[str, str | bytes] = QRELS,
) -> Path:
    (folder / "qrels").mkdir(parents=True)
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    for name, text in qrels.items():
        (folder / "qrels" / f"{name}.tsv").write_bytes(text.encode() if isinstance(text, str) else text)
    return folder


def gold_by_query(tables: Tables) -> dict[str, tuple[str, dict[str, int]]]:
    """Split and gold of each query."""
    return {query.query_id: (query.split, dict(query.gold)) for query in tables.queries}


# Folders of others' making ------------------------------------------------------------------------------------------


def test_a_plain_folder_is_read(folder: Path) -> None:
    tables = import_beir(write(folder))
    assert list(tables.tools) == [
        Tool("crm.find", "find_customer", "Looks up customers.", "", "find_customer", source="Looks up customers."),
        # Without a title a tool is called by its id.
        Tool("post.send", "post.send", "Sends a letter.", "", "post.send", source="Sends a letter."),
    ]
    assert gold_by_query(tables) == {"q1": ("train", {"crm.find": 1}), "q2": ("test", {"post.send": 2})}
    assert (tables.edges, tables.unknown_gold, tables.left_out) == ([], [], [])
    assert read_about(folder) == {}


@pytest.mark.parametrize(
    "text",
    [
        "query-id\tcorpus-id\tscore\nq1\tcrm.find\t1\nq2\tpost.send\t2\n",
        "query-id\tcorpus-id\tscore\r\nq1\tcrm.find\t1\r\n\r\nq2\tpost.send\t2",
        "\ufeffquery-id\tcorpus-id\tscore\nq1\tcrm.find\t1\nq2\tpost.send\t2\n\n",
        "q1\tcrm.find\t1\nq2\tpost.send\t2\nq2\tpost.send\t2\nq2\tcrm.find\t-1\nq2\tcrm.find\t0\n",
        "q1\tcrm.find\t0001\nq2\tpost.send\t2\n",
    ],
    ids=["header", "Windows", "byte order mark", "twice", "zeros before it"],
)
def test_judgements_may_be_written_in_several_ways(folder: Path, text: str) -> None:
    tables = import_beir(write(folder, qrels={"test": text}))
    assert gold_by_query(tables) == {"q1": ("test", {"crm.find": 1}), "q2": ("test", {"post.send": 2})}


@pytest.mark.parametrize("metadata", [None, [], ["tool"], "tool", 3, {}, {"url": "x", "language": ["en"]}], ids=repr)
def test_metadata_of_others_is_left_alone(folder: Path, metadata: object) -> None:
    corpus: list[Row] = [{**row, "metadata": metadata} for row in CORPUS]
    queries: list[Row] = [{**row, "metadata": metadata} for row in QUERIES]
    plain = import_beir(write(folder))
    beir = import_beir(write(folder.with_name("other"), corpus, queries))
    assert (beir.tools, beir.queries) == (plain.tools, plain.queries)


def test_the_group_of_a_query_is_a_text_of_its_metadata(folder: Path) -> None:
    groups: list[Any] = ["script 1", 7]
    queries: list[Row] = [{**row, "metadata": {"group": group}} for row, group in zip(QUERIES, groups, strict=True)]
    assert [query.group for query in import_beir(write(folder, queries=queries)).queries] == ["script 1", ""]


def test_numbers_as_ids_and_nothing_as_a_text_are_read(folder: Path) -> None:
    corpus: list[Row] = [{"_id": 1, "title": None, "text": "x"}, {"_id": 2, "text": None}, {"_id": 3}]
    tables = import_beir(write(folder, corpus, [{"_id": 7, "text": None}], {"test": "7\t1\t1\n"}))
    assert [(tool.tool_id, tool.name, tool.description) for tool in tables.tools] == [
        ("1", "1", "x"), ("2", "2", ""), ("3", "3", "")
    ]  # fmt: skip
    assert gold_by_query(tables) == {"7": ("test", {"1": 1})}


def test_line_separators_within_a_text_do_not_end_the_line(folder: Path) -> None:
    text = "one\u2028two\u2029three\x0bfour\x85five"
    (write(folder) / "queries.jsonl").write_text(
        "\n".join(json.dumps({"_id": f"q{i}", "text": text}, ensure_ascii=False) for i in (1, 2)), "utf-8"
    )
    assert [query.text for query in import_beir(folder).queries] == [text, text]


# Queries that take part, and those that do not ----------------------------------------------------------------------


def test_queries_that_no_split_claims_are_left_out_and_listed(folder: Path) -> None:
    more: list[Row] = [{"_id": "q4", "text": "x"}, {"_id": "q3", "text": "y", "metadata": {"slices": {"kind": "way"}}}]
    tables = import_beir(write(folder, queries=[*QUERIES, *more]))
    assert list(gold_by_query(tables)) == ["q1", "q2"]
    assert list(tables.left_out) == ["q4", "q3"]


@pytest.mark.parametrize("grade", ["0", "-1", "00"])
def test_a_judgement_of_0_claims_a_query_that_has_no_gold(folder: Path, grade: str) -> None:
    more = {"_id": "q3", "text": "what a day"}
    qrels = {**QRELS, "dev": f"q3\tcrm.find\t{grade}\n"}
    tables = import_beir(write(folder, queries=[*QUERIES, more], qrels=qrels))
    assert gold_by_query(tables)["q3"] == ("dev", {})
    assert tables.left_out == []


def test_the_metadata_may_name_the_split_of_a_query_that_nobody_judged(folder: Path) -> None:
    more = [
        {"_id": "q3", "text": "x", "metadata": {"split": "dev"}},
        # Judged tools stay in the split in which they are judged.
        {"_id": "q4", "text": "y", "metadata": {"split": "dev"}},
    ]
    qrels = {"test": QRELS["test"] + "q4\tcrm.find\t1\n", "train": QRELS["train"]}
    tables = import_beir(write(folder, queries=[*QUERIES, *more], qrels=qrels))
    assert gold_by_query(tables)["q3"] == ("dev", {})
    assert gold_by_query(tables)["q4"] == ("test", {"crm.find": 1})


UNKNOWN = {"test": "q1\tcrm.find\t1\nq1\tgone\t1\nq2\tgone\t2\nq2\tlost\t1\n"}


def test_gold_outside_the_corpus_is_an_error(folder: Path) -> None:
    with pytest.raises(DataError, match=r"query q1 is judged with 'gone', which is not in corpus\.jsonl"):
        import_beir(write(folder, qrels=UNKNOWN))


def test_gold_outside_the_corpus_is_dropped_if_asked_and_queries_without_any_are_left_out(folder: Path) -> None:
    tables = import_beir(write(folder, qrels=UNKNOWN), drop_unknown_gold=True)
    assert gold_by_query(tables) == {"q1": ("test", {"crm.find": 1})}
    assert list(tables.unknown_gold) == [("q1", "gone"), ("q2", "gone"), ("q2", "lost")]
    assert list(tables.left_out) == ["q2"]


def test_a_query_whose_gold_was_all_dropped_is_no_query_without_gold(folder: Path) -> None:
    queries = [QUERIES[0], {**QUERIES[1], "metadata": {"split": "test"}}]
    tables = import_beir(write(folder, queries=queries, qrels=UNKNOWN), drop_unknown_gold=True)
    assert list(gold_by_query(tables)) == ["q1"]
    assert list(tables.left_out) == ["q2"]


def test_what_is_not_read_or_read_otherwise_is_told_once_with_its_first_line(folder: Path) -> None:
    told: list[str] = []
    import_beir(write(folder), notes=told)
    assert told == []
    corpus: list[Row] = [
        {**CORPUS[0], "lang": "en", "metadata": {"url": "x", "tool": "hammer", "split": "test"}},
        {
            **CORPUS[1],
            "lang": "en",
            "extra": None,
            "text": "edited",
            "metadata": {"tool": {"name": "n", "description": "d"}},
        },
    ]
    queries: list[Row] = [
        {**QUERIES[0], "title": "t", "metadata": {"more": {"theirs": 1}, "slices": [], "group": 7}},
        {
            **QUERIES[1],
            "metadata": {
                "split": "dev",
                "more": {"forbidden": ["gone", "crm.find"], "scope": ["post.send", "crm.find"]},
            },
        },
        {"_id": "q3", "text": "x", "metadata": "none"},
    ]
    other = write(folder.with_name("other"), corpus, queries, {
        "train": QRELS["train"], "test": "q2\tpost.send\t2\nq2\tpost.send\t2\nq2\tlost\t-2\nq2\tlost\t-1\n",
        "validation": "",
    })  # fmt: skip
    tables = import_beir(other, notes=told)
    assert tables.queries[1].forbidden == ("crm.find",)
    assert told == [
        "corpus.jsonl has fields that are not read: lang (2 times, the first: line 1), metadata.split (line 1), "
        "metadata.tool (line 1), metadata.url (line 1)",
        "the title or text of a tool differs from its metadata.tool, which counts (corpus.jsonl, line 2)",
        "qrels has files beside train.tsv, dev.tsv, test.tsv, which are not read (validation.tsv)",
        "a relevance below 0 is read as 0, judged and not relevant (2 times, the first: qrels/test.tsv, line 3)",
        "a line of judgements repeats an earlier one (2 times, the first: qrels/test.tsv, line 2)",
        "queries.jsonl has fields that are not read: metadata (line 3), metadata.group (line 1), metadata.more "
        "(line 1), title (line 1)",
        "left out 1 query that no split contains or whose gold was all dropped; the first is q3. A "
        "judgement of 0 keeps a query that has no gold",
        "the metadata names another split than the judgements, which count (queries.jsonl, line 2)",
        "metadata and judgements of 0 name tools that corpus.jsonl lacks, which are left out (2 times, the first: "
        "'lost' in qrels/test.tsv, line 3)",
    ]


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        ({"more": {"forbiden": [], "scope": []}}, "line 2: more.forbiden: Extra inputs are not permitted"),
        ({"more": {"any_of": {"gone": ["crm.find"]}, "scope": ["gone"]}}, "line 2: no tool of the scope"),
    ],
)
def test_metadata_that_bench_writes_must_be_whole(folder: Path, metadata: Row, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        import_beir(write(folder, queries=[QUERIES[0], {**QUERIES[1], "metadata": metadata}]))


@pytest.mark.parametrize(
    ("name", "line"),
    [("corpus", '{"_id": "x", "text": "a",\t"text": "b"}'), ("queries", '{"_id": "q", "metadata": {"a": 1, "a": 2}}')],
)
def test_a_key_that_an_object_has_twice_is_told(folder: Path, name: str, line: str) -> None:
    path = write(folder) / f"{name}.jsonl"
    path.write_text(f"{path.read_text()}{line}\n")
    with pytest.raises(DataError, match=r", line 3: an object has the key '(text|a)' twice in line 3\.$"):
        import_beir(folder)


# Mistakes -----------------------------------------------------------------------------------------------------------

FIELDS = {"name": "n", "description": "d", "category": "", "parent": "", "returns": None, "source": None}
PARAMETER = {"name": "to", "type": "string", "description": "", "required": True, "default": None}


def tool_of(**change: object) -> dict[str, Any]:
    tool = {**FIELDS, "parameters": [PARAMETER], **change}
    return {"_id": "post.send", "metadata": {"tool": {key: value for key, value in tool.items() if value != "gone"}}}


@pytest.mark.parametrize(
    ("row", "place"),
    [
        ({"text": "no id"}, "_id: "),
        ({"_id": None}, "_id: "),
        ({"_id": "x", "text": {}}, "text: "),
        ({"_id": "x", "title": ["x"]}, "title: "),
        (tool_of(description="gone"), "tool.description: "),
        (tool_of(returns={}), "tool.returns: "),
        (tool_of(more="x"), "tool.more: "),
        (tool_of(parameters="none"), "tool.parameters: "),
        (tool_of(parameters=[PARAMETER, {}]), "tool.parameters.1.name: "),
        (tool_of(parameters=[{**PARAMETER, "required": "yes"}]), "tool.parameters.0.required: "),
        (tool_of(parameters=[{**PARAMETER, "default": 3}]), "tool.parameters.0.default: "),
        (tool_of(parameters=[{**PARAMETER, "enum": []}]), "tool.parameters.0.enum: "),
    ],
    ids=repr,
)
def test_a_tool_out_of_form_is_told_with_file_line_and_field(folder: Path, row: Row, place: str) -> None:
    write(folder, corpus=[CORPUS[0], row])
    with pytest.raises(DataError) as caught:
        import_beir(folder)
    assert str(caught.value).startswith(f"{folder / 'corpus.jsonl'}, line 2: {place}")
    assert str(caught.value).endswith(".")


def test_what_a_hand_written_tool_leaves_out_is_empty(folder: Path) -> None:
    tool = {"name": "n", "description": None, "parameters": [{"name": "to", "type": None}]}
    corpus = [{"_id": "post.send", "metadata": {"tool": tool}}, *(row for row in CORPUS if row["_id"] != "post.send")]
    first = next(tool for tool in import_beir(write(folder, corpus=corpus)).tools if tool.tool_id == "post.send")
    whole = Tool("post.send", "n", "", parameters=(Parameter("to", "", "", required=False),))
    assert dataclasses.replace(first, source=None) == whole


def test_all_faults_of_a_file_are_told_at_once(folder: Path) -> None:
    third = tool_of(returns={}, more="x")
    wrong = [tool_of(description=3), CORPUS[0], {**third, "_id": "x"}, {"text": "no id"}, CORPUS[0]]
    write(folder, corpus=wrong)
    with pytest.raises(DataError) as caught:
        import_beir(folder)
    told = str(caught.value)
    places = ("line 1: tool.description: ", "line 3: tool.returns: ", "line 3: tool.more: ", "line 4: _id: ")
    assert [told.count(place) for place in (*places, "line 5: _id: 'crm.find' is also that of line 2")] == [1] * 5
    with pytest.raises(DataError, match=r"line 10: tool\.description: [^;]*; and 4 more\.$"):
        import_beir(
            write(folder.with_name("other"), corpus=[{**tool_of(description=3), "_id": str(i)} for i in range(14)])
        )


@pytest.mark.parametrize(
    ("metadata", "place"),
    [({"split": "held-out"}, "split: "), ({"split": 3}, "split: "), ({"slices": {"size": ["two"]}}, "slices.size: ")],
)
def test_metadata_of_a_query_out_of_form_is_told_with_file_line_and_field(
    folder: Path, metadata: Row, place: str
) -> None:
    write(folder, queries=[QUERIES[0], {**QUERIES[1], "metadata": metadata}])
    with pytest.raises(DataError) as caught:
        import_beir(folder)
    assert str(caught.value).startswith(f"{folder / 'queries.jsonl'}, line 2: {place}")


@pytest.mark.parametrize("line", ["{", "[]", "3", '{"_id": "x"', "not JSON", '{"_id": "\\ud83d"}'])
@pytest.mark.parametrize("name", ["corpus", "queries"])
def test_a_line_that_is_no_json_object_is_told(folder: Path, name: str, line: str) -> None:
    path = write(folder) / f"{name}.jsonl"
    path.write_text(f"\n{path.read_text()}{line}\n")
    with pytest.raises(DataError) as caught:
        import_beir(folder)
    assert str(caught.value).startswith(f"{path}, line 4")
    assert "JSON" in str(caught.value)


WANTED = "expected query id, tool id and whole number, tab-separated, or the four columns of TREC."


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        *((f"q2\tpost.send\t{grade}", WANTED) for grade in ("", "x", "1.0", "--1", "+1", "²", "٣", "1 ", "9" * 5000)),
        ("q2\tpost.send", WANTED),
        ("q2 post.send", WANTED),
        ("q2\t1\tpost.send\t1", WANTED),
        ("q2 post send 1", WANTED),
        ("q1\tcrm.find\t1", "query q1 is also in train (qrels/train.tsv, line 1)."),
        (
            "q2\tpost.send\t2",
            "query q2 and tool 'post.send' have the relevance 2, and 1 in qrels/test.tsv, line 1; keep one of them.",
        ),
        (
            "q2 post.send 0",
            "query q2 and tool 'post.send' have the relevance 0, and 1 in qrels/test.tsv, line 1; keep one of them.",
        ),
        (
            "q2 Q0 post.send -1",
            "query q2 and tool 'post.send' have the relevance 0, and 1 in qrels/test.tsv, line 1; keep one of them.",
        ),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_judgement_out_of_form_is_told_with_file_and_line(folder: Path, line: str, sentence: str) -> None:
    write(folder, qrels={**QRELS, "test": f"q2\tpost.send\t1\n{line}\n"})
    with pytest.raises(DataError) as caught:
        import_beir(folder)
    assert str(caught.value) == f"{folder / 'qrels' / 'test.tsv'}, line 2: {sentence}"


@pytest.mark.parametrize(
    "qrels",
    [
        "q2\tpost.send\t1\n",
        "query-id\tcorpus-id\tscore\nq2\tpost.send\t1\n",
        "query_id\tdoc_id\trelevance\nq2\tpost.send\t1\n",
        "q2 0 post.send 1\n",
        "q2\tQ0\tpost.send\t1\r\n",
        "qid iteration tool grade\nq2 0 post.send 1\n",
    ],
)
def test_judgements_may_have_a_header_or_none_and_the_columns_of_trec(folder: Path, qrels: str) -> None:
    write(folder, qrels={**QRELS, "test": qrels})
    (query,) = [query for query in import_beir(folder).queries if query.query_id == "q2"]
    assert query.gold == {"post.send": 1}


def test_a_first_judgement_is_no_header_whatever_its_query_is_called(folder: Path) -> None:
    queries = [*QUERIES, {"_id": "query-id-7", "text": "more", "metadata": {}}]
    write(folder, queries=queries, qrels={**QRELS, "test": "query-id-7\tpost.send\t1\nq2\tpost.send\t1\n"})
    gold = {query.query_id: query.gold for query in import_beir(folder).queries if query.split == "test"}
    assert gold == {"query-id-7": {"post.send": 1}, "q2": {"post.send": 1}}
    with pytest.raises(DataError, match="line 1: expected query id"):
        import_beir(write(folder.with_name("other"), qrels={**QRELS, "test": "q2\tpost.send\tx\n"}))


def test_a_judged_query_must_be_there(folder: Path) -> None:
    with pytest.raises(DataError, match=r"dev\.tsv, line 1: query 'q9' is judged but not in queries\.jsonl\.$"):
        import_beir(write(folder, qrels={**QRELS, "dev": "q9\tcrm.find\t1\n"}))


@pytest.mark.parametrize("name", ["corpus.jsonl", "queries.jsonl", "qrels/test.tsv"])
def test_a_file_that_is_not_utf_8_is_told(folder: Path, name: str) -> None:
    (write(folder) / name).write_bytes(b"\xff\xfe")
    with pytest.raises(DataError, match=f"^{folder / name} is not UTF-8: "):
        import_beir(folder)


def test_a_folder_without_judgements_is_told(folder: Path) -> None:
    with pytest.raises(DataError, match=r"qrels has none of train\.tsv, dev\.tsv, test\.tsv\.$"):
        import_beir(write(folder, qrels={"validation": QRELS["test"]}))


# Folders that bench wrote -------------------------------------------------------------------------------------------

CARD = Card(
    id="made",
    title="Gemacht №1",
    summary="",
    licence="CC-BY-4.0",
    redistribution=True,
    template="description",
    known_issues=["Ein „Fehler“.", "工具"],
)
TABLES = Tables(
    [
        Tool(
            "a", "send", "Sends.", "Post", "mail", (Parameter("to", "string", "whom", True, '"Ann"'),), '{"id": 1}', "x"
        ),
        Tool("b", "find\u2028it", "", parameters=(Parameter("x"),)),
    ],
    [
        Query("1", "one", {"a": 1, "b": 3}, "train", {"size": "two", "kind": ""}, "Ann"),
        Query("2", "nothing to do", {}, "test"),
        Query("3", "three", {"b": 1}, "dev"),
    ],
    [Edge("a", "b", "result", "id – №")],
)


@pytest.mark.parametrize("template", TEMPLATES)
def test_what_is_exported_is_imported_whole_whatever_the_text(folder: Path, template: Template) -> None:
    dataset = Dataset.build("made", CARD, TABLES)
    export_beir(dataset, folder, template)
    tables = import_beir(folder)
    again = Dataset.build("again", CARD, tables)
    assert again.content_hash == dataset.content_hash
    assert (again.tools, again.queries, again.edges) == (dataset.tools, dataset.queries, dataset.edges)
    assert (tables.unknown_gold, tables.left_out) == ([], [])
    rows = [json.loads(line) for line in (folder / "corpus.jsonl").read_text("utf-8").split("\n") if line]
    assert [row["text"] for row in rows] == [tool.text(template) for tool in dataset.tools]


def test_what_the_card_says_is_written_beside_it_and_read_back(folder: Path) -> None:
    export_beir(Dataset.build("made", CARD, TABLES), folder, "source")
    assert read_about(folder) == {
        "title": "Gemacht №1",
        "licence": "CC-BY-4.0",
        "redistribution": True,
        # The card's own, not that of the text chosen for the export.
        "template": "description",
        "split": "test",
        "known_issues": ["Ein „Fehler“.", "工具"],
        "unit": {"by": ["gold"], "reason": DEFAULT_UNIT.reason},
        "source": "made",
    }


def test_an_export_of_an_older_bench_says_nothing_of_units(folder: Path) -> None:
    export_beir(Dataset.build("made", CARD, TABLES), folder, "source")
    path = folder / "about.json"
    stored = json.loads(path.read_text("utf-8"))
    del stored["unit"], stored["source"]
    path.write_text(json.dumps(stored), "utf-8")
    about = read_about(folder)
    assert (about["unit"]["by"], about["source"]) == (["gold"], "")


@pytest.mark.parametrize("key", ["title", "licence", "redistribution", "template", "known_issues"])
@pytest.mark.parametrize("value", [None, {}, "gone"], ids=repr)
def test_what_the_card_says_must_be_whole(folder: Path, key: str, value: object) -> None:
    export_beir(Dataset.build("made", CARD, TABLES), folder, "source")
    path = folder / "about.json"
    stored = json.loads(path.read_text("utf-8"))
    if value == "gone":
        del stored[key]
    else:
        stored[key] = value
    path.write_text(json.dumps(stored), "utf-8")
    with pytest.raises(DataError) as caught:
        read_about(folder)
    assert str(caught.value).startswith(f"{path} does not follow its schema ({key}: ")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b"\xff\xfe"])
def test_what_the_card_says_must_be_json(folder: Path, data: bytes) -> None:
    (write(folder) / "about.json").write_bytes(data)
    with pytest.raises(DataError) as caught:
        read_about(folder)
    assert str(caught.value).startswith(f"{folder / 'about.json'} ")
