"""RoTBench: a request and a list of tools in each record, whose names and parameters get noisier from file to file.

Upstream shows each request its own list, which is its scope here. The tools of a record are those of the clean record
of the same request, in the same order. A tool has the id of the clean one in every view, and the same tools are right,
so that results of two views compare across catalogues.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from bench.base.errors import DataError, UsageError
from bench.base.parameters import ParameterSet
from bench.base.records import first_fault
from bench.data.card import Card
from bench.data.files import Files
from bench.data.tables import Query, Tables, Tool
from bench.importing.tools.schemas import parameters_of

FOLDER = "Data/First_Turn"
_BEGIN = "\nBegin!\n"
_LIST = re.compile(r"following tools:\n(\[.*\])\n\nLet's Begin!", re.DOTALL)
_ACTION = re.compile(r"\nAction: (\S+)\nAction Input: ")
#: What is noisy in the first and in the second half of a file that has each request twice.
HALVES = ("names", "parameters")


class Options(ParameterSet):
    """How noisy the tools are."""

    noise: Literal["clean", "slight", "medium", "heavy", "union"] = Field(
        "clean",
        description="tools as they are (clean); characters added, left out or replaced (slight); words reversed or "
        "without sense (medium); names exchanged and parameters added (heavy); all of it (union)",
    )
    half: Literal["both", "names", "parameters"] = Field(
        "both",
        description="of slight, medium and heavy, which have each request twice: with noisy names, with noisy "
        "parameters, or both",
    )


class _Tool(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1)
    description: str
    parameters: dict[str, Any]


class _Turn(BaseModel):
    model_config = ConfigDict(extra="forbid")

    speaker: Literal["system", "user", "assistant"] = Field(alias="from")
    value: str | list[str]


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str
    conversations: tuple[_Turn, _Turn, _Turn]
    scenario: str


@dataclass(frozen=True)
class _Request:
    """What a record asks: the tools that it shows, and the names of those that a right answer may call."""

    where: str
    text: str
    tools: list[_Tool]
    right: set[str]
    scenario: str


def load(files: Files, options: Options, card: Card) -> Tables:
    """The tools of each record, and its request, numbered as in the clean file; of both halves, the second has `p`.

    Each action of the reference is a right answer by itself. Where two tools of a list have one name, the union tells
    which is meant. Requests with the same clean list of tools are a group.

    Raises:
        UsageError: a half of a file that has no halves.
        DataError: a file is not in upstream's format, or a noisy record has another request or other tools.
    """
    clean, union = _requests(files, "clean"), _requests(files, "union")
    rows = {"clean": clean, "union": union}.get(options.noise) or _requests(files, options.noise)
    halved = len(rows) > len(clean)
    if options.half != "both" and not halved:
        raise UsageError(f"rotbench(noise={options.noise}) has each request once: leave out half={options.half}.")
    groups: dict[tuple[str, ...], str] = {}
    tools: list[Tool] = []
    queries: list[Query] = []
    for number, request in enumerate(rows):
        half, row = divmod(number, len(clean))
        if options.half not in ("both", HALVES[half]):
            continue
        original = clean[row]
        described, expected = ([tool.description for tool in each.tools] for each in (request, original))
        if (request.text, described) != (original.text, expected):
            raise DataError(f"{request.where}: the request or its tools are not those of {original.where}.")
        identifier = f"{row:03}" + ("p" if half and options.half == "both" else "")
        names = [tool.name for tool in original.tools]
        # Two tools of a list may have one name.
        scope = [
            f"{identifier}/{name}" + (f"-{names[:place].count(name) + 1}" if name in names[:place] else "")
            for place, name in enumerate(names)
        ]
        tools += [_tool(tool, tool_id) for tool, tool_id in zip(request.tools, scope, strict=True)]
        right = [
            place
            for place, (tool, noisy) in enumerate(zip(original.tools, union[row].tools, strict=True))
            if tool.name in original.right and noisy.name in union[row].right
        ]
        if not right or not {request.tools[place].name for place in right} <= request.right:
            raise DataError(f"{request.where}: the answers call other tools than those of {original.where}.")
        first, *others = (scope[place] for place in right)
        queries.append(
            Query(
                query_id=identifier,
                text=request.text,
                gold={first: 1},
                any_of={first: tuple(others)} if others else {},
                scope=tuple(scope),
                group=groups.setdefault(tuple(names), identifier),
                slices={"scenario": request.scenario} | ({"noise": HALVES[half]} if halved else {}),
            )
        )
    return Tables(tools, queries)


def _tool(tool: _Tool, tool_id: str) -> Tool:
    return Tool(
        tool_id=tool_id,
        name=tool.name,
        description=tool.description,
        # One parent for all: with several, the copies of a tool in other lists would count as alternatives of it.
        parent="RoTBench",
        parameters=parameters_of(tool.parameters),
        input_schema=json.dumps(tool.parameters, ensure_ascii=False),
    )


def _requests(files: Files, noise: str) -> list[_Request]:
    name = f"{FOLDER}/{noise}.json"
    rows = files.read_as(list[_Record], name)
    return [_request(record, f"{name}, record {number}") for number, record in enumerate(rows)]


def _request(record: _Record, where: str) -> _Request:
    """The parts of a record, which upstream has in the texts of a conversation."""
    system, user, assistant = (turn.value for turn in record.conversations)
    if not (isinstance(system, str) and isinstance(user, str) and isinstance(assistant, list) and assistant):
        raise DataError(f"{where}: expected a text of the system, one of the user, and a list of answers.")
    shown = _LIST.search(system)
    if shown is None or not user.endswith(_BEGIN):
        raise DataError(f"{where}: no list of tools before `Let's Begin!`, or no request before `Begin!`.")
    try:
        tools = TypeAdapter(list[_Tool]).validate_json(shown[1], strict=True)
    except ValidationError as error:
        raise DataError(f"{where}, the list of tools: {first_fault(error, '')}.") from None
    actions = [_ACTION.search(answer) for answer in assistant]
    right = {action[1] for action in actions if action}
    if not all(actions) or not right <= {tool.name for tool in tools}:
        raise DataError(f"{where}: an answer calls no tool of the list.")
    return _Request(where, user.removesuffix(_BEGIN), tools, right, record.scenario)
