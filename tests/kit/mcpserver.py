"""An MCP server that a test starts, and makes misbehave: `python mcpserver.py NAME [OPTIONS]`.

On its pipes it speaks by itself, and so starts at once; with `--sdk`, and over HTTP, the official SDK speaks for it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp.server import Server

Json = dict[str, Any]

#: The output as messages use it: the SDK points the descriptor 1 elsewhere.
WIRE = os.dup(1)


def flood(size: int) -> None:
    while size > 0:
        size -= os.write(WIRE, b"y" * 65536)


class Offer:
    """What the server has: a search that ranks tools by shared words, as docs/examples/search.py does, and its faults.

    Each method gives the result of a question as MCP words it; None for one that is never answered.
    """

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        lines = Path(given.search).read_text("utf-8").splitlines() if given.search else []
        self.words = {tool["id"]: set(tool["text"].lower().split()) for tool in map(json.loads, lines)}
        self.names = given.tools.split(",") if given.tools else ["search"]
        self.calls = 0

    def listing(self, cursor: str | None) -> Json | None:
        """One page of `tools/list`."""
        if self.given.fault == "hang-listing":
            return None
        if self.given.fault == "die-listing":
            sys.stderr.write("the key is not \x1b[31mset\n")
            sys.stderr.flush()
            os._exit(3)
        if self.given.fault == "bare":
            return {"tools": []}
        at = int(cursor or 0)
        after = at + self.given.page
        last = after >= len(self.names) and self.given.fault != "endless"
        schema = {"type": "object", "properties": {"place": {"type": "string", "default": None}}}
        if self.given.fault == "shuffled":  # as a server whose maps have no order
            schema = dict(random.sample(sorted(schema.items(), key=str), 2))
            random.shuffle(self.names)
        page = [
            {"name": name, "description": f"It does {name}.", "inputSchema": schema}
            for name in self.names[at % len(self.names) : after]
        ]
        return {"tools": page, **({} if last else {"nextCursor": str(after)})}

    def called(self, requests: Json) -> Json | None:
        """The result of `tools/call` for the tool `search`; every third one is what `--fault` says."""
        self.calls += 1
        words = set(requests["query"].lower().split())
        result = sorted(self.words, key=lambda tool: (-len(words & self.words[tool]), tool))[: requests["limit"]]
        fault = self.given.fault if self.calls % 3 == 2 else ""
        if fault == "hang":
            return None
        if fault == "die":
            os._exit(5)
        if fault == "error":
            return {**texts("the index is gone"), "isError": True}
        if fault == "garbage":
            return texts("Here is what I found!")
        if fault == "flood":
            flood(12 << 20)
        elif fault == "huge":
            return texts("[" + " " * (12 << 20) + "]")
        if self.given.answer == "text":
            return texts(json.dumps(result))
        structured = {"result": result} if self.given.answer == "wrapped" else {"tools": result}
        told = ["word " * 50] * 2 if self.given.answer == "told" else []
        return {**texts(*told), "structuredContent": structured}


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def texts(*content: str) -> Json:
    return {"content": [{"type": "text", "text": text} for text in content]}


def speak(name: str, version: str, offer: Offer) -> None:
    """Answer on the pipes, line by line."""
    for line in sys.stdin:
        report = json.loads(line)
        if "id" not in report:
            continue
        about = report.get("params") or {}
        result, error = None, None
        if report["method"] == "initialize":
            result = {"capabilities": {"tools": {}}, "serverInfo": {"name": name, "version": version}}
            result["protocolVersion"] = about["protocolVersion"]
        elif report["method"] == "tools/list":
            result = offer.listing(about.get("cursor"))
        elif report["method"] == "tools/call" and about["name"] == "search":
            result = offer.called(about["arguments"])
        else:
            error = {"code": -32601, "message": f"no {about.get('name', report['method'])}"}
        if result is not None or error is not None:
            answer = {"error": error} if error else {"result": result}
            said = json.dumps({"jsonrpc": "2.0", "id": report["id"], **answer})
            say(said.replace('{"tools": [', '{"tools": [], "tools": [') if offer.given.fault == "repeat" else said)


def made_by_sdk(name: str, version: str, offer: Offer) -> Server[Any]:
    """The same server, made with the official SDK."""
    import asyncio

    from mcp.server import Server
    from mcp.shared.exceptions import MCPError
    from mcp.types import CallToolResult, ListToolsResult

    async def listed(context: object, params: Any) -> ListToolsResult:
        page = offer.listing(params.cursor if params is not None else None)
        while page is None:
            await asyncio.sleep(60)
        return ListToolsResult.model_validate(page)

    async def called(context: object, params: Any) -> CallToolResult:
        if params.name != "search":
            raise MCPError(-32602, f"no tool {params.name}")
        result = offer.called(params.arguments or {})
        while result is None:
            await asyncio.sleep(60)
        return CallToolResult.model_validate(result)

    return Server(name, version=version, on_list_tools=listed, on_call_tool=called)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--version", default="")
    parser.add_argument("--tools", default="")
    parser.add_argument("--page", type=int, default=100)
    parser.add_argument("--search", default="")
    parser.add_argument("--answer", default="tools")
    parser.add_argument("--fault", default="")
    parser.add_argument("--sdk", action="store_true")
    parser.add_argument("--port", type=int)
    parser.add_argument("--pid", default="", help="file that gets the process's id")
    given = parser.parse_args()
    if given.pid:
        Path(given.pid).write_text(str(os.getpid()))
    if given.fault == "hang-start":
        time.sleep(60)
    if given.fault == "flood-start":
        flood(1 << 40)
    offer = Offer(given)
    if given.port is not None:
        import uvicorn

        app = made_by_sdk(given.name, given.version, offer).streamable_http_app()
        uvicorn.run(app, port=given.port, log_level="error")
        return
    if given.fault == "noise":
        say("Welcome to the server!")
    if not given.sdk:
        speak(given.name, given.version, offer)
        return
    import asyncio

    from mcp.server.stdio import stdio_server

    async def serve() -> None:
        made = made_by_sdk(given.name, given.version, offer)
        async with stdio_server() as (incoming, outgoing):
            await made.run(incoming, outgoing, made.create_initialization_options())

    asyncio.run(serve())


if __name__ == "__main__":
    main()
