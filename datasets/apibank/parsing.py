"""API-Bank's file formats: the tool table, dialogues, scenes, and tools in Python source.

Everything here is upstream's text and is only ever parsed: Python literals with `ast.literal_eval`,
the rest as CSV and JSON. Shared by the loader (`apibank`) and the importer (`apibank-full`).
"""

from __future__ import annotations

import ast
import csv
import io
import json
import re
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bench.base.errors import DataError
from bench.data.files import Files
from bench.data.tables import Parameter, Query, Tool

TOOL_TABLE = "api-bank/data/all_apis.csv"
LEVEL_1 = "api-bank/lv1-lv2-samples/level-1-given-desc"
LEVEL_2 = "api-bank/lv1-lv2-samples/level-2-toolsearcher"

QueryView = Literal["dialogue", "first"]

# The benchmark's own search tool: what finds tools is not a tool to be found.
SEARCHER = "ToolSearcher"
# Upstream's tool manager uses it to check tokens; no dialogue can call it.
HELPERS = frozenset({SEARCHER, "CheckToken"})

# The columns that are read (class name, scene, signature, definition) and our names for the scenes.
COLUMNS = ("类名", "应用场景", "input_parameters", "api_info")
CATEGORIES = {
    "信息查询和处理": "Information",
    "日程安排和管理": "Schedule",
    "旅游出行": "Travel",
    "财务管理": "Finance",
    "健康管理": "Health",
    "智能家居控制": "Smart home",
    "娱乐消遣": "Entertainment",
    "账户管理": "Account",
    "学习科研相关": "Study and research",
    "工作相关": "Work",
    "钉钉": "DingTalk",
}

_FIELDS = ("description", "input_parameters", "output_parameters")
_ONE_ARGUMENT = r"(\w+): (\w+(?:\[\w+\])?)"
_SIGNATURE = re.compile(rf"\({_ONE_ARGUMENT}(?:, {_ONE_ARGUMENT})*\)")
_UTTERANCE = re.compile(r"^First Utter[ae]nce:[ \t]*(\S.*?)\s*$", re.MULTILINE)
_CALLS = re.compile(r"^[- ]*(?:GT )?API Calls?:\s*$(.*)\Z", re.MULTILINE | re.DOTALL)
_CALL = re.compile(r"^\s*([A-Za-z_]\w*)\(", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class DialogueSample:
    """What the user says, turn by turn, and the tools that are called, each once."""

    turns: tuple[str, ...]
    gold: tuple[str, ...]

    def query(self, query_id: str, level: str, view: QueryView, group: str = "") -> Query:
        """The sample as a query: all of the user's turns joined by a space, or the first alone."""
        turns = self.turns if view == "dialogue" else self.turns[:1]
        return Query(query_id, " ".join(turns), dict.fromkeys(self.gold, 1), "test", {"level": level}, group)


def table_tools(text: str, where: str) -> list[Tool]:
    """The tools of `all_apis.csv`, in its order.

    Raises:
        DataError: a column or value is missing, a category is new, or a definition is not literal.
    """
    rows = csv.DictReader(io.StringIO(text, newline=""))
    try:
        missing = [column for column in COLUMNS if column not in (rows.fieldnames or ())]
        if missing:
            raise DataError(f"{where} has no column {missing[0]!r}; it needs {', '.join(COLUMNS)}.")
        return [_table_tool(row, f"{where} line {rows.line_num}") for row in rows]
    except csv.Error as error:
        raise DataError(f"{where} line {rows.line_num} is not CSV: {error}.") from None


def _table_tool(row: Mapping[str, str | None], where: str) -> Tool:
    name, scene, signature, info = (row[column] for column in COLUMNS)
    if name is None or scene is None or signature is None or info is None:
        raise DataError(f"{where} has too few columns.")
    where = f"{where} ({name})"
    if scene not in CATEGORIES:
        raise DataError(f"{where} has the unknown category {scene!r}; name it in datasets/apibank/parsing.py.")
    if re.search(r"\w", info):
        fields = _fields(_assigned(_parse(info, where).body, where), where)
    else:
        # ImageCaption's definition is a lone full stop. What the row still tells are the words of the class
        # name and the signature, so these are its description.
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name)
        fields = {"description": f"{words} {signature}", "input_parameters": None, "output_parameters": None}
    return _tool(name, CATEGORIES[scene], fields, _signature(signature, where), where)


def source_tools(text: str, where: str) -> list[Tool]:
    """The tools that a Python file defines: its top-level subclasses of `API`, without upstream's helpers.

    Raises:
        DataError: the file does not parse, or a tool's three attributes are not literals.
    """
    tools = []
    for node in _parse(text, where).body:
        if isinstance(node, ast.ClassDef) and node.name not in HELPERS and any(map(_is_api, node.bases)):
            place = f"{where} (class {node.name})"
            # A scene is not named in the source, so the category stays unknown.
            tools.append(_tool(node.name, "", _fields(_assigned(node.body, place), place), {}, place))
    return tools


def _is_api(base: ast.expr) -> bool:
    return (base.attr if isinstance(base, ast.Attribute) else getattr(base, "id", "")) == "API"


def _tool(name: str, category: str, fields: Mapping[str, Any], signature: Mapping[str, str], where: str) -> Tool:
    description, inputs, outputs = (fields[field] for field in _FIELDS)
    if not name.isidentifier() or not isinstance(description, str) or not description.strip():
        raise DataError(f"{where} has no class name or no description.")
    parameters = [_parameter(key, value, where) for key, value in _mapping(inputs, where).items()]
    known = {parameter.name for parameter in parameters}
    # Upstream's literal leaves out some parameters of the signature, mostly the token.
    parameters += [Parameter(key, kind) for key, kind in signature.items() if key not in known]
    try:
        returns = json.dumps(_mapping(outputs, where), ensure_ascii=False) if outputs is not None else None
    except (TypeError, ValueError) as error:
        raise DataError(f"{where}: output_parameters cannot be written as JSON: {error}.") from None
    # API-Bank has no providers: the Python file is one for each tool, the column of kinds is about the effect
    # of a call. With the category as parent, or none, methods that reason about a provider would take a whole
    # scene for one. So every tool is its own parent.
    return Tool(name, name, description, category, name, tuple(parameters), returns)


def _parameter(name: object, value: object, where: str) -> Parameter:
    if not isinstance(name, str) or not isinstance(value, dict):
        raise DataError(f"{where}: the input parameter {name!r} is not a name with a dict.")
    kind, description, required = value.get("type", ""), value.get("description", ""), value.get("required", True)
    if not (isinstance(kind, str) and isinstance(description, str) and isinstance(required, bool)):
        raise DataError(f"{where}: type and description of {name!r} must be text, required a truth value.")
    return Parameter(name, kind, description, required)


def _mapping(value: object, where: str) -> dict[Any, Any]:
    # GetToday has the set {None}, ReceiveEmail has None: both mean that there are no parameters.
    if value is None or value == {None}:
        return {}
    if not isinstance(value, dict):
        raise DataError(f"{where}: parameters are {type(value).__name__}, not a dict.")
    return value


def _signature(text: str, where: str) -> dict[str, str]:
    """Name -> type of `(token: str, recipients: List[str])`; `None` and nothing are no parameters."""
    if text in {"", "None"}:
        return {}
    if not _SIGNATURE.fullmatch(text):
        raise DataError(f"{where}: {text[:60]!r} is not a signature like '(token: str)'.")
    return dict(re.findall(_ONE_ARGUMENT, text))


def _parse(text: str, where: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            # Doubtful escapes in upstream's source are not the user's business.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise DataError(f"{where} does not parse as Python: {error}.") from None


def _assigned(body: Iterable[ast.stmt], where: str) -> dict[str, Any]:
    """The values of `description = ...` and its two fellows; nothing is executed."""
    values = {}
    for node in body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in _FIELDS:
            try:
                values[node.targets[0].id] = ast.literal_eval(node.value)
            except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
                raise DataError(f"{where}: {node.targets[0].id} is not a Python literal.") from None
    return values


def _fields(values: dict[str, Any], where: str) -> dict[str, Any]:
    missing = [field for field in _FIELDS if field not in values]
    if missing:
        raise DataError(f"{where} does not assign {', '.join(missing)}.")
    return values


def dialogue(text: str, where: str) -> DialogueSample:
    """A dialogue of level 1 or 2: one JSON turn a line; gold = the distinct `api_name` of the API's turns.

    An empty file is a sample without turns: upstream has one.

    Raises:
        DataError: a line is not a turn of the user, the assistant (`AI`) or the API.
    """
    turns, calls = [], []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        turn = _json(line, f"{where} line {number}")
        match turn:
            case {"role": "User", "text": str(said)}:
                turns.append(said)
            case {"role": "API", "api_name": str(name)}:
                calls.append(name)
            case {"role": "AI"}:
                pass
            case _:
                raise DataError(f"{where} line {number} is not a turn of User (text), AI or API (api_name).")
    return DialogueSample(tuple(turns), _distinct(calls))


def script(text: str, where: str) -> DialogueSample:
    """A level-3 sample: a text with a first utterance and, after a heading, the calls that meet it.

    Upstream spells the headings "First Utterance", "First Utterence", "API Call", "API Calls", "GT API Call",
    with and without a leading dash.

    Raises:
        DataError: the utterance or the calls are not there.
    """
    said, calls = _UTTERANCE.search(text), _CALLS.search(text)
    names = _CALL.findall(calls[1]) if calls else []
    if said is None or not names:
        raise DataError(f"{where} has no {'first utterance' if said is None else 'API call'}.")
    return DialogueSample((said[1],), _distinct(names))


def scenes(text: str, where: str) -> list[DialogueSample]:
    """The scenes of `level-3.json`: a list of `{"requirement", "response", "apis": [{"api_name", ...}, ...]}`.

    The requirement is the query; blanks around it, which some have, are cut.

    Raises:
        DataError: a scene is not of that form.
    """
    records = _json(text, where)
    if not isinstance(records, list) or not records:
        raise DataError(f"{where} is not a list of scenes.")
    return [_scene(scene, f"{where} scene {number}") for number, scene in enumerate(records)]


def _scene(scene: object, where: str) -> DialogueSample:
    match scene:
        case {"requirement": str(said), "apis": list(calls)} if said.strip():
            names = [call.get("api_name") if isinstance(call, dict) else None for call in calls]
        case _:
            raise DataError(f"{where} has no requirement or no list of apis.")
    if not all(isinstance(name, str) for name in names):
        raise DataError(f"{where} has a call without an api_name.")
    return DialogueSample((said.strip(),), _distinct(str(name) for name in names))


def dialogue_queries(files: Files, view: QueryView) -> list[Query]:
    """Levels 1 and 2, numbered in the order of upstream's sorted paths.

    Upstream's file names name the gold tools and disagree with the folder on the level, so neither goes into
    the ids: the level is the folder's. A name such as `QueryStock-OpenBankAccount-level-2-1` is that of a script (the
    tools to be used, in order) and the number of a dialogue that was made from it; the script is the query's group.
    """
    queries = []
    for level, folder in (("1", LEVEL_1), ("2", LEVEL_2)):
        for number, name in enumerate(files.under(folder), 1):
            sample = dialogue(files.text(name), name)
            made_from = name.rpartition("/")[2].partition("-level-")[0]
            queries.append(sample.query(f"l{level}-{number:03}", level, view, made_from))
    return queries


def level_3_queries(samples: Iterable[DialogueSample]) -> list[Query]:
    """Level 3, in the order given; a scene has one utterance, so both views are the same."""
    return [sample.query(f"l3-{number:03}", "3", "dialogue") for number, sample in enumerate(samples, 1)]


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(names) if name != SEARCHER)


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{where} is not JSON: {error}.") from None
