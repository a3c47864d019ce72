"""The Azure MCP Server: prompts, commands and annotations against upstream's files, and files in another form."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from kit.datasets import load_small, of_upstream

from bench.base.errors import DataError
from bench.data.dataset import Dataset
from bench.data.tables import Tables
from bench.datasets.azure_mcp import loader

FOLDER = "microsoft/mcp/557fca14350b3e3ca8dc503fb149e092bb12d2d9"
MARKS = {"❌": False, "✅": True}
#: Tools whose commands have no marks, or no command.
UNMARKED = {
    *("monitor_table_type_list", "sreagent_architecture_plan", "get_azure_bestpractices_ai_app"),
    *("sreagent_incidents_active_list", "sreagent_incidents_setup_pagerduty", "sreagent_incidents_setup_servicenow"),
    "sreagent_threads_send_message",
}


azure = of_upstream("azure-mcp")
consolidated = of_upstream("azure-mcp-consolidated")


def rows(mirror: Path) -> list[list[str]]:
    """The cells of each line of a table of prompts, by another reading than the loader's."""
    lines = (mirror / FOLDER / loader.PROMPTS).read_text("utf-8").splitlines()
    return [re.findall(r"[^|]+", line) for line in lines if re.match(r"\| [a-z]", line)]


def table(mirror: Path) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads((mirror / FOLDER / loader.CONSOLIDATED).read_text("utf-8"))[
        "consolidated_tools"
    ]
    return entries


def test_prompts_are_those_of_upstream(azure: Dataset, mirror: Path) -> None:
    listed = rows(mirror)
    assert len(listed) == 975
    for query, cells in zip(azure.queries, listed, strict=True):
        assert (query.text, query.gold) == (cells[1].strip(), {cells[0].strip(): 1})
        interaction = cells[2].strip() if len(cells) > 2 else ""
        assert query.slices.get("interaction", "") == interaction
    assert Counter(query.slices.get("interaction") for query in azure.queries) == {
        "none": 861,
        "clarification-required": 63,
        "context-required": 26,
        "investigation-required": 19,
        None: 6,
    }
    without = [query for query in azure.queries if "interaction" not in query.slices]
    assert {query.slices["area"] for query in without} == {"Azure IoT Hub"}
    first, last = azure.queries[0], azure.queries[-1]
    assert (first.slices["area"], last.slices["area"]) == ("Azure Advisor", "Microsoft Foundry Extensions")
    assert (first.group, last.group) == ("advisor", "foundryextensions")
    assert len({query.slices["area"] for query in azure.queries}) == 64


def test_every_tool_is_asked_for_and_is_one_of_the_server(azure: Dataset, mirror: Path) -> None:
    gold = {tool for query in azure.queries for tool in query.gold}
    mapped = {name for entry in table(mirror) for name in entry["mappedToolList"]}
    assert gold == azure.tool_codes.keys()
    assert mapped - gold == {
        *("monitor_webtests_get", "foundry_agents_connect", "foundry_agents_evaluate"),
        "foundry_agents_query-and-evaluate",
    }
    assert len(gold) == 349


def test_annotations_are_the_marks_of_the_reference(azure: Dataset, mirror: Path) -> None:
    """They are read from the table of consolidated tools; the reference has them again, but for seven tools."""
    names = {"Destructive": "destructiveHint", "Idempotent": "idempotentHint", "OpenWorld": "openWorldHint"}
    names |= {"ReadOnly": "readOnlyHint", "Secret": "secretHint", "LocalRequired": "localRequiredHint"}
    marked: dict[str, dict[str, bool]] = {}
    said: dict[str, bool] | None = None
    for line in (mirror / FOLDER / loader.COMMANDS).read_text("utf-8").splitlines():
        if "Destructive | " in line:
            said = {names[part.split()[1]]: MARKS[part.split()[0]] for part in line.lstrip("# ").split("|")}
        elif line.startswith("azmcp ") and said is not None:
            words = re.match(r"azmcp ((?:[a-z][\w-]* *)+)", line)
            assert words is not None
            marked.setdefault("_".join(words[1].split()).replace("-", "_"), said)
            said = None
    tools = {tool.tool_id: json.loads(tool.annotations or "") for tool in azure.tools}
    assert {name for name in tools if name.replace("-", "_") not in marked} == UNMARKED
    for name, hints in tools.items():
        assert hints == marked.get(name.replace("-", "_"), hints), name
    assert sum(hints["destructiveHint"] for hints in tools.values()) == 105
    assert sum(hints["readOnlyHint"] for hints in tools.values()) == 215
    assert not [name for name, hints in tools.items() if hints["destructiveHint"] and hints["readOnlyHint"]]


def test_descriptions_and_options_are_those_of_the_reference(azure: Dataset, mirror: Path) -> None:
    text = (mirror / FOLDER / loader.COMMANDS).read_text("utf-8")
    plain = " ".join(text.replace("\n#", "\n").split())
    for tool in azure.tools:
        assert tool.description in plain, tool.tool_id
        assert all(f"--{parameter.name}" in text for parameter in tool.parameters)
    assert [tool.tool_id for tool in azure.tools if not tool.description] == [
        *("monitor_table_type_list", "sreagent_architecture_plan")
    ]
    parameters = [parameter for tool in azure.tools for parameter in tool.parameters]
    assert (len(parameters), sum(bool(parameter.description) for parameter in parameters)) == (1655, 173)
    assert median(len(tool.description) for tool in azure.tools) == 54
    shared = Counter(tool.description for tool in azure.tools if tool.description)
    assert sum(count for count in shared.values() if count > 1) == 14
    assert all(tool.parent == tool.tool_id.split("_")[0] for tool in azure.tools)


def test_a_consolidated_tool_meets_what_its_tools_meet(azure: Dataset, consolidated: Dataset, mirror: Path) -> None:
    entries = {entry["name"]: entry for entry in table(mirror)}
    assert consolidated.tool_codes.keys() == entries.keys()
    for tool in consolidated.tools:
        metadata = entries[tool.name]["toolMetadata"]
        assert tool.description == entries[tool.name]["description"]
        assert json.loads(tool.annotations or "") == {f"{key}Hint": mark["value"] for key, mark in metadata.items()}
    standing: defaultdict[str, set[str]] = defaultdict(set)
    for name, entry in entries.items():
        for mapped in entry["mappedToolList"]:
            standing[mapped].add(name)
    several = 0
    for query, single in zip(consolidated.queries, azure.queries, strict=True):
        (asked,) = single.gold
        assert (query.text, query.slices, query.group) == (single.text, single.slices, single.group)
        assert set(query.meeting) == standing[asked]
        several += len(standing[asked]) > 1
    assert several == 1
    assert consolidated.source == azure.source


PROMPTS = """
# Prompts

## Drawing

| Tool Name | Test Prompt | Interaction |
|:----------|:------------|:------------|
| draw_line | Draw a line from a \\| to b | none |
| draw_shape_fill-in | Fill it | context-required |

## Other

| Tool Name | Test Prompt |
|:--|:--|
| erase | Erase all |
"""

COMMANDS = """
### Drawing

```bash
# Draws a line
# between two points.
# ❌ Destructive | ✅ Idempotent | ❌ OpenWorld | ❌ ReadOnly | ❌ Secret | ❌ LocalRequired
tool not-ours
azmcp draw line --from <point> \\
                # --- how ---
                [--width <n[,m]> | --thin] \\
                --to <point>
azmcp draw shape fill-in --color <color>

Fills the page.
```

| Parameter | Required | Description |
|---|---|---|
| `--color`, `-c` | Yes | The color. |
| `--from` | Yes | Of another command. |

```bash
# Draws a thin line
azmcp draw line --from "a" --to "b" --thin
    --fast

# Erases
azmcp erase
```

-   `--width`: of no option of this command
"""


def load(folder: Path, prompts: str = PROMPTS, commands: str = COMMANDS, **changed: Any) -> Tables:
    marks = ("destructive", "idempotent", "openWorld", "readOnly", "secret", "localRequired")
    entry = {
        "name": "draw_all",
        "description": "Draws and erases.",
        "toolMetadata": {name: {"value": name == "destructive", "description": "."} for name in marks},
        "mappedToolList": ["draw_line", "draw_shape_fill-in", "erase"],
    }
    content = {
        loader.PROMPTS: prompts,
        loader.COMMANDS: commands,
        loader.CONSOLIDATED: {"consolidated_tools": [entry | changed]},
    }
    return load_small(loader, folder, "azure-mcp", content)


def test_commands_are_read_in_all_their_forms(tmp_path: Path) -> None:
    tables = load(tmp_path)
    line, fill, erase = tables.tools
    assert (line.tool_id, fill.tool_id, erase.tool_id) == ("draw_line", "draw_shape_fill-in", "erase")
    assert line.description == "Draws a line between two points."
    assert {parameter.name: parameter.required for parameter in line.parameters} == {
        "from": True,
        "width": False,
        "thin": False,
        "to": True,
        "fast": False,
    }
    # Under one comment with the command above it.
    assert fill.description == line.description
    assert [(parameter.name, parameter.description) for parameter in fill.parameters] == [("color", "The color.")]
    assert (erase.description, erase.parameters) == ("Erases", ())
    assert [query.text for query in tables.queries] == ["Draw a line from a | to b", "Fill it", "Erase all"]
    assert [dict(query.slices) for query in tables.queries] == [
        {"area": "Drawing", "interaction": "none"},
        {"area": "Drawing", "interaction": "context-required"},
        {"area": "Other"},
    ]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"prompts": PROMPTS + "| erase | |\n"}, r"e2eTestPrompts\.md, line 16: not a row of a tool, a prompt"),
        ({"prompts": PROMPTS + "| erase | a | none | more |\n"}, r"line 16: not a row of a tool, a prompt"),
        ({"prompts": PROMPTS + "| paint | Paint it |\n"}, r"the tool 'paint' is not in .*consolidated-tools\.json"),
        ({"toolMetadata": {}}, r"consolidated-tools\.json, record consolidated_tools, field 0: .*"),
        ({"mappedToolList": []}, r"consolidated-tools\.json, record consolidated_tools, field 0: .*"),
    ],
)
def test_files_in_another_form_are_refused(tmp_path: Path, given: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        load(tmp_path, **given)
