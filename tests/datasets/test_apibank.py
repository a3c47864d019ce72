"""API-Bank: the table, the dialogues and the scripts as upstream has them; the full set on files of our own."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from kit.datasets import digest, loaded, of_upstream

from bench.base.errors import DataError, UnavailableError, UsageError
from bench.data.dataset import Dataset
from bench.data.files import Files
from bench.data.tables import Query, Tables, Tool
from bench.datasets.apibank import importer, loader, parsing
from bench.registry import dataset_entry

UPSTREAM = "AlibabaResearch/DAMO-ConvAI/483554eae102996f5ec1f4feab4e78ef29c2a394"
HEADER = "id,类型,应用场景,API名称,参数,路径,类名,input_parameters,expressions,api_info\n"
ECHO = "description = 'Says it again.'\ninput_parameters = {'word': {'type': 'str', 'description': 'What.'}}\n" + (
    "output_parameters = {}"
)


apibank = of_upstream("apibank")


def tools(dataset: Dataset) -> dict[str, Tool]:
    return {tool.tool_id: tool for tool in dataset.tools}


def queries(dataset: Dataset) -> dict[str, Query]:
    return {query.query_id: query for query in dataset.queries}


# The real data


def test_counts(apibank: Dataset) -> None:
    sizes = Counter((query.slices["level"], len(query.gold)) for query in apibank.queries)
    assert len(apibank.tools) == 101
    assert sum(sizes.values()) == len(apibank.rows("test")) == 272
    assert {key: n for key, n in sizes.items() if key[0] == "1"} == {
        ("1", 0): 2, ("1", 1): 97, ("1", 2): 80, ("1", 3): 23, ("1", 4): 12,
    }  # fmt: skip
    assert {key: n for key, n in sizes.items() if key[0] == "2"} == {("2", 0): 1, ("2", 1): 24, ("2", 2): 25}
    assert {key: n for key, n in sizes.items() if key[0] == "3"} == {
        ("3", 2): 1, ("3", 3): 1, ("3", 4): 4, ("3", 5): 1, ("3", 6): 1,
    }  # fmt: skip
    assert all(set(query.slices) == {"level"} for query in apibank.queries)


def test_gold_is_in_the_library_and_searching_is_none(apibank: Dataset) -> None:
    library = tools(apibank)
    used = {tool for query in apibank.queries for tool in query.gold}
    assert used <= library.keys()
    assert "ToolSearcher" not in used
    assert len(library.keys() - used) == 52
    assert sum("GetUserToken" in query.gold for query in apibank.queries) == 112
    assert all(grade == 1 for query in apibank.queries for grade in query.gold.values())


@pytest.mark.parametrize(
    ("row", "tool_id", "category", "length", "described", "returns", "parameters"),
    [
        (0, "AIConferenceSearch", "Study and research", 113, "0a85c9b453f4019e", "54d727f7b2ba266a", 1),
        (9, "BookTicket", "Entertainment", 394, "83002dcb210c0978", "a265888cc9d163ea", 4),
        (50, "ModifyScene", "Smart home", 307, "04e0a364f8b956eb", "6f738c14b987020d", 2),
        (100, "Wiki", "Information", 138, "162112cf23aaca42", "8379e22abbc1b950", 1),
    ],
)
def test_tools(
    apibank: Dataset, row: int, tool_id: str, category: str, length: int, described: str, returns: str, parameters: int
) -> None:
    tool = apibank.tools[row]
    assert (tool.tool_id, tool.name, tool.category) == (tool_id, tool_id, category)
    assert (len(tool.description), digest(tool.description)) == (length, described)
    assert tool.text(apibank.card.template) == tool.description
    assert tool.returns is not None
    assert digest(tool.returns) == returns
    assert len(tool.parameters) == parameters


def test_texts_of_the_whole_library(apibank: Dataset) -> None:
    assert apibank.card.template == "description"
    assert digest("\n".join(tool.text("description") for tool in apibank.tools)) == "902987fcbb7b5713"


@pytest.mark.parametrize(
    ("query_id", "dialogue", "first", "gold"),
    [
        ("l1-001", "3ee7614ab4dbbec3", "7c78f801a59766b3", {"AddAgenda", "AddAlarm", "GetUserToken"}),
        ("l1-010", "c6ba9a4a7324af82", "2aad6cf43b01cf3d", {"AddReminder", "GetUserToken"}),
        ("l1-101", "240931c43675293f", "ac35449b6f74552e", {"DeleteAccount", "ForgotPassword", "GetUserToken"}),
        ("l1-214", "8b09e20c0ba6c43a", "8b09e20c0ba6c43a", {"Wiki"}),
        ("l2-001", "b10181f6783b96c6", "f1a4b64907349777", {"AddAgenda", "GetUserToken"}),
        ("l2-050", "e517373be55acab5", "e517373be55acab5", {"SymptomSearch"}),
        (
            "l3-001", "e499b99265be1b4a", "e499b99265be1b4a",
            {"AddReminder", "Calculator", "GetUserToken", "QueryBalance"},
        ),
        (
            "l3-008", "8f7d37e03096f87a", "8f7d37e03096f87a",
            {"AddAgenda", "AddReminder", "GetUserToken", "QueryAgenda", "QueryBalance"},
        ),
    ],
)  # fmt: skip
def test_queries_in_both_views(apibank: Dataset, query_id: str, dialogue: str, first: str, gold: set[str]) -> None:
    short = loaded("apibank(query_view=first)")
    assert short.spec == "apibank(query_view=first)"
    assert digest(queries(apibank)[query_id].text) == dialogue
    assert digest(queries(short)[query_id].text) == first
    assert queries(apibank)[query_id].gold.keys() == queries(short)[query_id].gold.keys() == gold


def test_query_ids_number_the_sorted_paths_and_hide_the_gold(apibank: Dataset) -> None:
    expected = [f"l1-{n:03}" for n in range(1, 215)] + [f"l2-{n:03}" for n in range(1, 51)]
    expected += [f"l3-{n:03}" for n in range(1, 9)]
    assert [query.query_id for query in apibank.queries] == expected


def test_samples_without_gold_and_with_too_little(apibank: Dataset) -> None:
    assert {query.query_id: len(query.text) for query in apibank.queries if not query.gold} == {
        "l1-193": 158, "l1-200": 0, "l2-041": 158,
    }  # fmt: skip
    assert queries(apibank)["l1-175"].gold.keys() == {"OpenBankAccount"}
    assert queries(apibank)["l2-039"].gold.keys() == {"GetUserToken"}


def test_first_view_repeats_texts(apibank: Dataset) -> None:
    assert max(Counter(query.text for query in apibank.queries).values()) == 1
    groups: dict[str, list[Query]] = {}
    for query in loaded("apibank(query_view=first)").queries:
        groups.setdefault(query.text, []).append(query)
    shared = [group for group in groups.values() if len(group) > 1]
    torn = [group for group in shared if len({frozenset(query.gold) for query in group}) > 1]
    assert (len(shared), sum(map(len, shared))) == (14, 40)
    assert (len(torn), sum(map(len, torn))) == (5, 15)


def test_parameters_from_the_signature_alone(apibank: Dataset) -> None:
    added = {
        tool.tool_id: parameter.name
        for tool in apibank.tools
        for parameter in tool.parameters
        if not parameter.description
    }
    assert added.pop("ImageCaption") == "image"
    assert set(added.values()) == {"token"}
    assert len(added) == 8
    token = tools(apibank)["QueryBalance"].parameters[-1]
    assert (token.name, token.type, token.required) == ("token", "str", True)
    assert sum(len(tool.parameters) for tool in apibank.tools) == 225
    assert all(parameter.required for tool in apibank.tools for parameter in tool.parameters)


def test_odd_definitions(apibank: Dataset) -> None:
    library = tools(apibank)
    assert library["GetToday"].parameters == library["ReceiveEmail"].parameters == ()
    assert library["ImageCaption"].description == "Image Caption (image: str)"
    assert library["ImageCaption"].returns is None
    assert [tool.tool_id for tool in apibank.tools if tool.returns is None] == ["ImageCaption"]


def test_hierarchy(apibank: Dataset) -> None:
    assert all(tool.parent == tool.tool_id for tool in apibank.tools)
    assert Counter(tool.category for tool in apibank.tools) == {
        "Information": 22, "Schedule": 19, "Travel": 13, "Finance": 9, "Health": 8, "Smart home": 8,
        "Entertainment": 7, "Account": 5, "Study and research": 4, "Work": 4, "DingTalk": 2,
    }  # fmt: skip


def test_edges_are_our_annotation(apibank: Dataset) -> None:
    assert Counter(edge.reason for edge in apibank.edges) == {"result": 45, "verification": 4}
    first, last = apibank.edges[0], apibank.edges[-1]
    assert (first.dependent, first.prerequisite, first.reason) == ("AddAgenda", "CheckTimeConflict", "verification")
    assert (last.dependent, last.prerequisite, last.reason) == ("Transfer", "GetUserToken", "result")


def test_names_and_options(mirror: Path) -> None:
    assert dataset_entry("API-Bank").card.id == "apibank"
    assert dataset_entry("api-bank-full").card.id == "apibank-full"
    with pytest.raises(UsageError, match="'query_view' of dataset apibank is 'last'"):
        loaded("apibank(query_view=last)")


def test_card_lists_what_the_loader_reads(mirror: Path) -> None:
    card = dataset_entry("apibank").card
    (upstream,) = card.upstream
    folder = mirror / UPSTREAM
    real = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert real - upstream.files.keys() == {"SHA256SUMS", "api-bank/data/exceptions.json"}
    assert not upstream.files.keys() - real


# Small files of our own


def table(name: str = "Echo", scene: str = "工作相关", signature: str = "(word: str)", info: str = ECHO) -> str:
    cells = ["1", "", scene, "", "", "", name, signature, "", info]
    return HEADER + ",".join('"' + cell.replace('"', '""') + '"' for cell in cells) + "\n"


def test_table_row() -> None:
    (tool,) = parsing.table_tools(table(signature="(word: str, names: List[str])"), "t.csv")
    assert (tool.tool_id, tool.category, tool.parent, tool.returns) == ("Echo", "Work", "Echo", "{}")
    assert [(p.name, p.type, p.description) for p in tool.parameters] == [
        ("word", "str", "What."),
        ("names", "List[str]", ""),
    ]


def test_required_is_upstreams_where_it_says_so() -> None:
    info = ECHO.replace("'What.'", "'What.', 'required': False")
    (tool,) = parsing.table_tools(table(info=info), "t.csv")
    assert [p.required for p in tool.parameters] == [False]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("id,类名\n1,Echo\n", r"t\.csv has no column '应用场景'"),
        (HEADER + "1,a,工作相关\n", r"t\.csv line 2 has too few columns"),
        (table(scene="别的"), r"t\.csv line \d \(Echo\) has the unknown category '别的'"),
        (table(name="No name"), r"\(No name\) has no class name"),
        (table(signature="(word)"), r"'\(word\)' is not a signature"),
        (table(info="description = 'open"), r"\(Echo\) does not parse as Python"),
        (table(info="description = 'a'\ninput_parameters = {}"), "does not assign output_parameters"),
        (table(info=ECHO.replace("'Says it again.'", "open('x')")), "description is not a Python literal"),
        (table(info=ECHO.replace("'Says it again.'", "''")), "no description"),
        (table(info=ECHO.replace("{'word': {'type': 'str', 'description': 'What.'}}", "['word']")), "list, not a dict"),
        (table(info=ECHO.replace("{'type': 'str', 'description': 'What.'}", "'str'")), "'word' is not a name with a"),
        (table(info=ECHO.replace("'str'", "7")), "type and description of 'word' must be text"),
        (table(info=ECHO.replace("output_parameters = {}", "output_parameters = {'a': {1}}")), "written as JSON"),
    ],
)
def test_bad_table(text: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        parsing.table_tools(text, "t.csv")


def test_nothing_of_upstream_is_executed(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    code = f"open({str(trap)!r}, 'w')\n" + ECHO
    parsing.table_tools(table(info=code), "t.csv")
    parsing.source_tools(f"open({str(trap)!r}, 'w')\n" + source("Echo"), "e.py")
    assert not trap.exists()


def turn(role: str, **rest: Any) -> str:
    return json.dumps({"role": role, **rest})


def test_dialogue() -> None:
    lines = [
        turn("User", text="Say hello."),
        turn("API", api_name="ToolSearcher"),
        turn("API", api_name="Echo"),
        "",
        turn("AI", text="[Shout(word='hello')]"),
        turn("User", text="Again."),
        turn("API", api_name="Echo"),
    ]
    sample = parsing.dialogue("\n".join(lines), "d.jsonl")
    assert sample.query("q", "1", "dialogue") == Query("q", "Say hello. Again.", {"Echo": 1}, "test", {"level": "1"})
    assert sample.query("q", "1", "first").text == "Say hello."
    assert parsing.dialogue("", "d.jsonl").query("q", "1", "first") == Query("q", "", {}, "test", {"level": "1"})


@pytest.mark.parametrize("line", [turn("User"), turn("API", api_name=None), turn("Tool", text="x"), "[]"])
def test_bad_turn(line: str) -> None:
    with pytest.raises(DataError, match=r"d\.jsonl line 2 is not a turn of User"):
        parsing.dialogue(turn("User", text="a") + "\n" + line, "d.jsonl")


def test_dialogue_that_is_not_json() -> None:
    with pytest.raises(DataError, match=r"d\.jsonl line 1 is not JSON"):
        parsing.dialogue('{"role": "User"', "d.jsonl")


@pytest.mark.parametrize("utterance", ["First Utterance", "First Utterence"])
@pytest.mark.parametrize("heading", ["API Call:", "API Calls:", "GT API Call:", "- GT API Call:", "- API Calls:"])
def test_script_headings(utterance: str, heading: str) -> None:
    text = (
        f"Scene: A\n\n{utterance}: Say it. \nKey Info:\nNote(1)\n\n{heading}\n\nEcho(word=1)\nShout(Echo=2): x\nEcho()"
    )
    assert parsing.script(text, "s.txt") == parsing.DialogueSample(("Say it.",), ("Echo", "Shout"))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("Scene: A\nAPI Calls:\nEcho()", r"s\.txt has no first utterance"),
        ("First Utterance: Say it.\nEcho()", r"s\.txt has no API call"),
        ("First Utterance: Say it.\nAPI Calls:\nnone", r"s\.txt has no API call"),
    ],
)
def test_bad_script(text: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        parsing.script(text, "s.txt")


def test_loader_names_the_corrupt_file(mirror: Path, tmp_path: Path) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(mirror / UPSTREAM / "api-bank", folder / "api-bank")
    damaged = sorted((folder / parsing.LEVEL_2).iterdir())[3]
    damaged.chmod(0o644)
    damaged.write_text("{}", "utf-8")
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*.*")}
    files = Files(paths, Path(str(loader.__file__)).parent)
    with pytest.raises(DataError, match=rf"{damaged.name} line 1 is not a turn"):
        loader.load(files, loader.Options(), dataset_entry("apibank").card)


# The full set


def source(name: str, base: str = "API") -> str:
    attributes = ECHO.replace("\n", "\n    ")
    return f'import json\n\nclass {name}({base}):\n    {attributes}\n    def call(self):\n        return "\\d"\n'


SCENES = [
    {"requirement": " Shout and hear it. ", "response": "", "apis": [
        {"api_name": "ToolSearcher", "input": {}, "output": {}},
        {"api_name": "Shout", "input": {}, "output": {}},
        {"api_name": "Echo", "input": {}, "output": {}},
        {"api_name": "Shout", "input": {}, "output": {}},
    ]},
    {"requirement": "Echo.", "response": "", "apis": [{"api_name": "Echo", "input": {}, "output": {}}]},
]  # fmt: skip


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return folder


def full(scenes: str = "test-data/level-3.json") -> dict[str, str]:
    said = turn("User", text="Say it.") + "\n" + turn("API", api_name="Echo")
    return {
        parsing.TOOL_TABLE: table(),
        f"{parsing.LEVEL_1}/Echo-level-1-1.jsonl": said,
        f"{parsing.LEVEL_2}/Echo-level-3-1.jsonl": said,
        "api-bank/lv3_apis/__init__.py": "import",
        "api-bank/lv3_apis/api.py": "class API: ...",
        "api-bank/lv3_apis/tool_search.py": source("ToolSearcher"),
        "api-bank/lv3_apis/check_token.py": source("CheckToken"),
        "api-bank/lv3_apis/echo.py": source("Echo").replace("again", "otherwise"),
        "api-bank/lv3_apis/shout.py": source("Shout", "api.API") + "\nclass Helper:\n    description = 'no tool'\n",
        scenes: json.dumps(SCENES),
    }


@pytest.mark.parametrize("place", importer.SCENES)
def test_full(tmp_path: Path, place: str) -> None:
    tables = importer.read(write(tmp_path, full(place)))["apibank-full"]
    assert isinstance(tables, Tables)
    echo, shout = tables.tools
    assert (echo.tool_id, echo.description, echo.category) == ("Echo", "Says it again.", "Work")
    assert (shout.tool_id, shout.category, shout.parent, shout.returns) == ("Shout", "", "Shout", "{}")
    assert [(p.name, p.type) for p in shout.parameters] == [("word", "str")]
    assert list(tables.queries) == [
        Query("l1-001", "Say it.", {"Echo": 1}, "test", {"level": "1"}, "Echo"),
        Query("l2-001", "Say it.", {"Echo": 1}, "test", {"level": "2"}, "Echo"),
        Query("l3-001", "Shout and hear it.", {"Shout": 1, "Echo": 1}, "test", {"level": "3"}),
        Query("l3-002", "Echo.", {"Echo": 1}, "test", {"level": "3"}),
    ]
    assert len(tables.edges) == 49


def test_full_over_the_real_table(mirror: Path, tmp_path: Path) -> None:
    shutil.copytree(mirror / UPSTREAM / "api-bank", tmp_path / "api-bank")
    added = {name: text for name, text in full().items() if "lv3_apis" in name or "level-3.json" in name}
    tables = importer.read(write(tmp_path, added))["apibank-full"]
    dataset = Dataset.build("apibank-full", dataset_entry("apibank-full").card, tables)
    assert len(dataset.tools) == 101 + 2  # Echo and Shout
    assert len(dataset.queries) == 214 + 50 + 2
    assert int((dataset.gold.counts == 0).sum()) == 3
    assert [query.query_id for query in dataset.queries][-3:] == ["l2-050", "l3-001", "l3-002"]


def test_full_must_be_brought() -> None:
    with pytest.raises(UnavailableError, match=r"bench data add apibank-full --from FOLDER"):
        loaded("apibank-full")


def test_full_of_another_folder_is_nothing(tmp_path: Path) -> None:
    assert importer.read(write(tmp_path, {"README.md": "something else"})) == {}


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (parsing.TOOL_TABLE, r"there is no api-bank/data/all_apis\.csv"),
        ("api-bank/lv3_apis", r"there is no api-bank/lv3_apis/\*\.py"),
        ("test-data", r"there is no test-data/level-3\.json"),
    ],
)
def test_full_in_part(tmp_path: Path, name: str, sentence: str) -> None:
    files = {path: text for path, text in full().items() if not path.startswith(name)}
    with pytest.raises(UnavailableError, match=sentence):
        importer.read(write(tmp_path, files))


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("test-data/level-3.json", "[]", r"level-3\.json is not a list of scenes"),
        ("test-data/level-3.json", '[{"requirement": " "}]', r"level-3\.json scene 0 has no requirement"),
        ("test-data/level-3.json", '[{"requirement": "a", "apis": [{}]}]', r"scene 0 has a call without an api_name"),
        ("test-data/level-3.json", "nothing", r"level-3\.json is not JSON"),
        ("api-bank/lv3_apis/shout.py", "class Shout(API:", r"shout\.py does not parse as Python"),
        ("api-bank/lv3_apis/shout.py", "class Shout(API): ...", r"shout\.py \(class Shout\) does not assign desc"),
        ("api-bank/lv3_apis/shout.py", source("Shout").replace("{}", "dict()"), "output_parameters is not a Python"),
    ],
)
def test_full_with_a_corrupt_file(tmp_path: Path, name: str, text: str, sentence: str) -> None:
    with pytest.raises(DataError, match=sentence):
        importer.read(write(tmp_path, {**full(), name: text}))
