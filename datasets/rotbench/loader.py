"""RoTBench: a request and a list of tools in each record, whose names and parameters get noisier from file to file.

Upstream shows each request its own list, which is its scope here. The tools of a record are those of the clean record
of the same request, in the same order. A tool has the id of the clean one in every view, and the same tools are right,
so that results of two views compare across catalogues.
"""

from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from bench.base.errors import DataError, UsageError
from bench.base.parameters import ParameterSet
from bench.base.records import Record
from bench.data.card import Card
from bench.data.files import Files
from bench.data.tables import Query, Tables, Tool
from bench.importing.tools.schemas import parameters_of

FOLDER = "Data/First_Turn"
#: What is noisy in the first and in the second half of a file that has each request twice.
HALVES = ("names", "parameters")

_LIST = re.compile(r"following tools:\n(\[.*\])\n\nLet's Begin!", re.DOTALL)
_REQUEST = re.compile(r"(.+)\nBegin!\n", re.DOTALL)
_ACTION = re.compile(r"\nAction: (\S+)\nAction Input: ")


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


def _find(what: str, pattern: re.Pattern[str], text: Any) -> str:
    if isinstance(text, str) and (match := pattern.search(text)):
        return match[1]
    raise ValueError(f"there is no {what} in its text")


class _Tool(Record):
    name: str = Field(min_length=1)
    description: str
    parameters: dict[str, Any]


class _System(BaseModel):
    value: Annotated[list[_Tool], BeforeValidator(lambda text: json.loads(_find("list of tools", _LIST, text)))]


class _User(BaseModel):
    value: Annotated[str, AfterValidator(lambda text: _find("request", _REQUEST, text))]


class _Assistant(BaseModel):
    value: list[Annotated[str, AfterValidator(lambda text: _find("action", _ACTION, text))]]


class _Record(Record):
    id: str
    conversations: tuple[_System, _User, _Assistant]
    scenario: str

    @property
    def parts(self) -> tuple[list[_Tool], str, set[str]]:
        """The tools that are shown, the request, and the names of those that a right answer may call."""
        system, user, assistant = self.conversations
        return system.value, user.value, set(assistant.value)


def load(files: Files, options: Options, card: Card) -> Tables:
    """The tools of each record, and its request, numbered as in the clean file; of both halves, the second has `p`.

    Each action of the reference is a right answer by itself. Where two tools of a list have one name, the union tells
    which is meant. Requests with the same clean list of tools are a group.

    Raises:
        UsageError: a half of a file that has no halves.
        DataError: a file is not in upstream's format, or a noisy record has another request or other tools.
    """
    clean, union, rows = (
        files.read_as(list[_Record], f"{FOLDER}/{noise}.json") for noise in ("clean", "union", options.noise)
    )
    halved = len(rows) > len(clean)
    if options.half != "both" and not halved:
        raise UsageError(f"rotbench(noise={options.noise}) has each request once: leave out half={options.half}.")
    groups: dict[tuple[str, ...], str] = {}
    tools: list[Tool] = []
    queries: list[Query] = []
    for number, record in enumerate(rows):
        half, row = divmod(number, len(clean))
        if options.half not in ("both", HALVES[half]):
            continue
        shown, text, actions = record.parts
        plain, expected, right = clean[row].parts
        where = f"{FOLDER}/{options.noise}.json, record {number}"
        if (text, [tool.description for tool in shown]) != (expected, [tool.description for tool in plain]):
            raise DataError(f"{where}: the request or its tools are not those of the clean record {row}.")
        identifier = f"{row:03}" + ("p" if half and options.half == "both" else "")
        names = [tool.name for tool in plain]
        # Two tools of a list may have one name.
        scope = [
            f"{identifier}/{name}" + (f"-{names[:place].count(name) + 1}" if name in names[:place] else "")
            for place, name in enumerate(names)
        ]
        # One parent for all: with several, the copies of a tool in other lists would count as alternatives of it.
        tools += [
            Tool(
                tool_id=tool_id,
                name=tool.name,
                description=tool.description,
                parent="RoTBench",
                parameters=parameters_of(tool.parameters),
                input_schema=json.dumps(tool.parameters, ensure_ascii=False),
            )
            for tool, tool_id in zip(shown, scope, strict=True)
        ]
        noisy, _, called = union[row].parts
        places = [place for place, name in enumerate(names) if name in right and noisy[place].name in called]
        if not places or not {shown[place].name for place in places} <= actions:
            raise DataError(f"{where}: the answers call other tools than those of the clean record {row}.")
        first, *others = (scope[place] for place in places)
        queries.append(
            Query(
                query_id=identifier,
                text=text,
                gold={first: 1},
                any_of={first: tuple(others)} if others else {},
                scope=tuple(scope),
                group=groups.setdefault(tuple(names), identifier),
                slices={"scenario": record.scenario} | ({"noise": HALVES[half]} if halved else {}),
            )
        )
    return Tables(tools, queries)
