"""The Azure MCP Server: its end-to-end test prompts, over all of its tools or over its consolidated ones.

Which tools there are, their annotations and which consolidated tool stands for which are in the server's own table of
consolidated tools. Descriptions and options are those of the reference of its command line, where a command is a
tool's name with blanks for `_`: `azmcp storage account get` is storage_account_get.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field

from bench.base.errors import DataError
from bench.base.parameters import ParameterSet
from bench.data.card import Card
from bench.data.files import Files
from bench.data.tables import Parameter, Query, Tables, Tool

SERVER = "servers/Azure.Mcp.Server"
PROMPTS = f"{SERVER}/docs/e2eTestPrompts.md"
COMMANDS = f"{SERVER}/docs/azmcp-commands.md"
CONSOLIDATED = f"{SERVER}/src/Resources/consolidated-tools.json"

_HEAD = ("Tool Name", "Test Prompt")
_CELL = re.compile(r"(?<!\\)\|")
#: In a table and in a list of options: a first cell or item such as `--image`, and what is said of it.
_OPTION_ROW = re.compile(r"\|\s*`--([\w-]+)`[^|]*\|.*\|\s*(.+?)\s*\|")
_OPTION_ITEM = re.compile(r"-\s+`--([\w-]+)`: (.+)")
_OPTION = re.compile(r"--([\w-]+)|[\[\]()]")


class _Mark(BaseModel):
    value: bool


class _Metadata(BaseModel):
    model_config = ConfigDict(extra="forbid")

    destructive: _Mark
    idempotent: _Mark
    open_world: _Mark = Field(alias="openWorld")
    read_only: _Mark = Field(alias="readOnly")
    secret: _Mark
    local_required: _Mark = Field(alias="localRequired")

    def annotations(self) -> str:
        """As an MCP server gives them; the last two are of this server alone."""
        hints = {name: mark["value"] for name, mark in self.model_dump(by_alias=True).items()}
        return json.dumps({f"{name}Hint": value for name, value in hints.items()})


class _Consolidated(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(min_length=1)
    description: str = Field(min_length=1)
    metadata: _Metadata = Field(alias="toolMetadata")
    tools: list[str] = Field(alias="mappedToolList", min_length=1)


class _Table(BaseModel):
    tools: list[_Consolidated] = Field(alias="consolidated_tools", min_length=1)


@dataclass
class _Command:
    """What the reference says of a command: its options in each of the forms that it is written in."""

    description: str
    forms: list[dict[str, bool]] = field(default_factory=list)
    about: dict[str, str] = field(default_factory=dict)

    def parameters(self) -> tuple[Parameter, ...]:
        """Those of all forms; required is what every form has outside of brackets."""
        names = dict.fromkeys(name for form in self.forms for name in form)
        return tuple(
            Parameter(name, "", self.about.get(name, ""), all(form.get(name, False) for form in self.forms))
            for name in names
        )


@dataclass(frozen=True)
class _Prompt:
    tool: str
    text: str
    area: str
    interaction: str


def load(files: Files, options: ParameterSet, card: Card) -> Tables:
    """The tools that the prompts name, or the consolidated ones, and the prompts numbered in upstream's order.

    Raises:
        DataError: a file is not in upstream's format, or a prompt names a tool that the server does not have.
    """
    table = files.read_as(_Table, CONSOLIDATED).tools
    standing: defaultdict[str, list[_Consolidated]] = defaultdict(list)
    for entry in table:
        for name in entry.tools:
            standing[name].append(entry)
    prompts = list(_prompts(files.text(PROMPTS)))
    for prompt in prompts:
        if prompt.tool not in standing:
            raise DataError(f"{PROMPTS}: the tool {prompt.tool[:60]!r} is not in {CONSOLIDATED}.")
    consolidated = card.variant == "consolidated"
    queries = []
    for number, prompt in enumerate(prompts):
        right = [entry.name for entry in standing[prompt.tool]] if consolidated else [prompt.tool]
        queries.append(
            Query(
                query_id=f"{number:03}",
                text=prompt.text,
                group=prompt.tool.partition("_")[0],
                gold={right[0]: 1},
                any_of={right[0]: tuple(right[1:])} if len(right) > 1 else {},
                slices={"area": prompt.area} | ({"interaction": prompt.interaction} if prompt.interaction else {}),
            )
        )
    if consolidated:
        tools = [
            Tool(entry.name, entry.name, entry.description, annotations=entry.metadata.annotations()) for entry in table
        ]
        return Tables(tools, queries)
    commands = _commands(files.text(COMMANDS))
    nothing = _Command("")
    tools = []
    for name in sorted({prompt.tool for prompt in prompts}):
        command = commands.get(name.replace("-", "_"), nothing)
        tools.append(
            Tool(
                tool_id=name,
                name=name,
                description=command.description,
                parent=name.partition("_")[0],
                parameters=command.parameters(),
                annotations=standing[name][0].metadata.annotations(),
            )
        )
    return Tables(tools, queries)


def _prompts(text: str) -> Iterator[_Prompt]:
    """The rows of the tables, whose heading is the area; two tables lack the third column in their head or rows."""
    area = ""
    for number, line in enumerate(text.split("\n"), start=1):
        if line.startswith("#"):
            area = line.lstrip("#").strip()
        if not line.startswith("|"):
            continue
        cells = [cell.strip().replace("\\|", "|") for cell in _CELL.split(line)[1:-1]]
        if tuple(cells[:2]) == _HEAD or all(set(cell) <= {":", "-"} for cell in cells):
            continue
        if len(cells) not in (2, 3) or not all(cells[:2]):
            raise DataError(f"{PROMPTS}, line {number}: not a row of a tool, a prompt and an interaction.")
        yield _Prompt(cells[0], cells[1], area, cells[2] if len(cells) > 2 else "")


def _commands(text: str) -> dict[str, _Command]:
    """By name with `_` throughout.

    A command is described by the comment above it, in the same paragraph of a block of code; commands below one another
    share it. Tables and lists of options after a block are about its last command.
    """
    commands: dict[str, _Command] = {}
    fenced, said, last = False, list[str](), _Command("")
    # The command that goes on in the next line, and whether one has come since the last comment.
    pending: list[str] = []
    followed = False
    for line in [*text.split("\n"), "```"]:
        stripped = line.strip()
        goes_on = bool(pending) and fenced and stripped != "" and not stripped.startswith(("```", "azmcp "))
        if goes_on and (pending[-1].endswith("\\") or not stripped.startswith("#")):
            # A comment between two options is none on a command.
            pending.append("\\" if stripped.startswith("#") else stripped)
            continue
        if pending:
            last = _enter(" ".join(part.rstrip("\\") for part in pending), " ".join(said), commands)
            pending = []
        if stripped.startswith("```"):
            fenced, said, followed = not fenced, [], False
        elif not fenced:
            if row := _OPTION_ROW.match(stripped) or _OPTION_ITEM.match(stripped):
                last.about.setdefault(row[1], row[2])
        elif not stripped:
            said, followed = [], False
        elif stripped.startswith("azmcp "):
            pending, followed = [stripped], True
        elif stripped.startswith("#") and "Destructive |" not in stripped:
            said = [*([] if followed else said), stripped.lstrip("# ")]
            followed = False
    return commands


def _enter(line: str, description: str, commands: dict[str, _Command]) -> _Command:
    """Add a form of a command; its description is that of the first."""
    words = line.split()[1:]
    end = next((i for i, word in enumerate(words) if not re.match(r"[a-z]", word)), len(words))
    command = commands.setdefault("_".join(words[:end]).replace("-", "_"), _Command(description))
    form: dict[str, bool] = {}
    depth = 0
    for match in _OPTION.finditer(line):
        if match[1]:
            form.setdefault(match[1], depth == 0)
        else:
            depth += 1 if match[0] in "[(" else -1
    command.forms.append(form)
    return command
