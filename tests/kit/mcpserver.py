"""An MCP server of the official SDK that a test starts, and makes misbehave: `python mcpserver.py NAME [OPTIONS]`."""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp.types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
)

#: The output as messages use it: the SDK points the descriptor 1 elsewhere.
WIRE = os.dup(1)


def flood(size: int) -> None:
    while size > 0:
        size -= os.write(WIRE, b"y" * 65536)


def described(name: str) -> Tool:
    schema = {"type": "object", "properties": {"place": {"type": "string", "default": None}}}
    return Tool(name=name, description=f"It does {name}.", input_schema=schema)


class Search:
    """Ranks tools by shared words, as docs/examples/search.py does, and counts the calls."""

    def __init__(self, file: str) -> None:
        tools = [json.loads(line) for line in Path(file).read_text("utf-8").splitlines()] if file else []
        self.words = {tool["id"]: set(tool["text"].lower().split()) for tool in tools}
        self.calls = 0

    def __call__(self, query: str, limit: int) -> list[str]:
        self.calls += 1
        asked = set(query.lower().split())
        return sorted(self.words, key=lambda tool: (-len(asked & self.words[tool]), tool))[:limit]


def server(given: argparse.Namespace) -> Server[Any]:
    search = Search(given.search)
    names = given.tools.split(",") if given.tools else ["search"]

    async def listed(context: ServerRequestContext[Any], params: PaginatedRequestParams | None) -> ListToolsResult:
        if given.fault == "hang-listing":
            await asyncio.sleep(60)
        if given.fault == "die-listing":
            sys.stderr.write("the key is not \x1b[31mset\n")
            sys.stderr.flush()
            os._exit(3)
        at = int(params.cursor) if params is not None and params.cursor else 0
        after = at + given.page
        last = after >= len(names) and given.fault != "endless"
        page = [described(name) for name in names[at % len(names) : after]]
        return ListToolsResult(tools=page, next_cursor=None if last else str(after))

    async def called(context: ServerRequestContext[Any], params: CallToolRequestParams) -> CallToolResult:
        if params.name != "search":
            raise MCPError(-32602, f"no tool {params.name}")
        asked = params.arguments or {}
        found = search(asked["query"], asked["limit"])
        fault = given.fault if search.calls % 3 == 2 else ""
        if fault == "hang":
            await asyncio.sleep(60)
        elif fault == "die":
            os._exit(5)
        elif fault == "error":
            return CallToolResult(content=[TextContent(text="the index is gone")], is_error=True)
        elif fault == "garbage":
            return CallToolResult(content=[TextContent(text="Here is what I found!")])
        elif fault == "flood":
            flood(12 << 20)
        elif fault == "huge":
            return CallToolResult(content=[TextContent(text="[" + " " * (12 << 20) + "]")])
        if given.answer == "text":
            return CallToolResult(content=[TextContent(text=json.dumps(found))])
        if given.answer == "told":
            texts = [TextContent(text="word " * 50), TextContent(text="word " * 50)]
            return CallToolResult(content=texts, structured_content={"tools": found})
        content = {"result": found} if given.answer == "wrapped" else {"tools": found}
        return CallToolResult(content=[], structured_content=content)

    return Server(given.name, version=given.version, on_list_tools=listed, on_call_tool=called)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--version", default="")
    parser.add_argument("--tools", default="")
    parser.add_argument("--page", type=int, default=100)
    parser.add_argument("--search", default="")
    parser.add_argument("--answer", default="tools")
    parser.add_argument("--fault", default="")
    parser.add_argument("--port", type=int)
    parser.add_argument("--pid", default="", help="file that gets the process's id")
    given = parser.parse_args()
    if given.pid:
        Path(given.pid).write_text(str(os.getpid()))
    if given.fault == "hang-start":
        time.sleep(60)
    if given.fault == "flood-start":
        flood(1 << 40)
    made = server(given)
    if given.port is None:
        if given.fault == "noise":
            sys.stdout.write("Welcome to the server!\n")
            sys.stdout.flush()

        async def serve() -> None:
            async with stdio_server() as (incoming, outgoing):
                await made.run(incoming, outgoing, made.create_initialization_options())

        asyncio.run(serve())
        return
    import uvicorn

    uvicorn.run(made.streamable_http_app(), port=given.port, log_level="error")


if __name__ == "__main__":
    main()
