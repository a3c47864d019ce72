"""A search tool of an MCP server."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pydantic import Field

from bench.base.errors import UnavailableError, UsageError
from bench.base.parameters import ParameterSet
from bench.base.secrets import mask, mask_json
from bench.base.text import one_line
from bench.interface import History, Library
from bench.interface.method import Context
from bench.remote.answers import Unusable
from bench.remote.asking import Asking, RemoteMethod, RemoteReply, UnknownNames, marks_of_remote
from bench.remote.mcp import McpClient
from bench.remote.servers import server_at
from bench.remote.web import TokenVariable, bearer

if TYPE_CHECKING:
    from mcp.types import CallToolResult


class Mcp(RemoteMethod):
    """Calls a tool of an MCP server for each query, which answers with a list of tool ids.

    The server is a command that is started once and restarted if it ends, or the URL of a server over streamable HTTP.
    The answer is the structured content of the result, or else the JSON in its first text, and is read like that of the
    method `http`. A query without a usable answer fails and is counted. Ten consecutive failures end the run; its
    finished batches are kept. The dataset's tools are not sent to the server, so edited descriptions do not reach it:
    the row is marked. A command runs with your rights.
    """

    class Parameters(ParameterSet):
        server: str = Field("", description='command, such as "node server.js" (no shell), or URL of the server')
        tool: str = Field("", description="name of the tool that searches")
        query: str = Field("query", min_length=1, description="name of the argument with the query")
        limit: str = Field("limit", description="name of the argument with the number of tools; empty to send none")
        answer: str = Field("", description="JMESPath of the list of tools in the answer; empty for the usual shapes")
        unknown: UnknownNames = "fail"
        revision: str = Field("", description="version of the server, if you know it better than the server reports it")
        token: TokenVariable = Field("", description="environment variable with a bearer token, for a URL")
        timeout: float = Field(30.0, gt=0, le=3600, description="seconds for one answer")
        concurrency: int = Field(1, ge=1, le=64, description="queries asked at once")

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        #: Whether asking for the version starts a program.
        self.starts_program = bool(parameters.server and server_at(parameters.server).command)
        self._revision: str | None = None
        self._opened: McpClient | None = None
        self._asking = Asking(f"the MCP server {parameters.server!r}", self._send, parameters.concurrency)

    def revisions(self) -> dict[str, str]:
        said = self._said()
        return {self.parameters.server: said} if said else {}

    def marks(self) -> dict[str, str]:
        server = self.parameters.server
        # Servers keep their version while their search and its catalogue change.
        return marks_of_remote(f"the MCP server {server!r}", version=self.parameters.revision) if server else {}

    def preflight(self, library: Library, history: History) -> None:
        options = self.parameters
        if not options.server or not options.tool:
            raise UsageError('the method mcp needs a server and a tool: mcp(server="node server.js", tool=search).')
        super().preflight(library, history)
        try:
            names = [str(tool.get("name")) for tool in self._client().tools().tools if isinstance(tool, dict)]
        except Unusable as error:
            raise UnavailableError(f"the MCP server {options.server!r} did not list its tools: {error}.") from None
        if options.tool not in names:
            listed = one_line(", ".join(names), 200) or "none"
            raise UsageError(f"the MCP server {options.server!r} has no tool {options.tool!r}; its tools are {listed}.")

    def index(self, library: Library) -> None:
        super().index(library)
        self._client()

    def _send(self, text: str, depth: int) -> RemoteReply:
        options = self.parameters
        arguments: dict[str, str | int] = {options.query: text}
        if options.limit:
            arguments[options.limit] = depth
        return _reply(self._client().call(options.tool, arguments, options.timeout))

    def _client(self) -> McpClient:
        if self._opened is None:
            headers = bearer(self.parameters.token, "server")
            self._opened = McpClient(server_at(self.parameters.server, headers=headers), "the method mcp")
        return self._opened

    def _said(self) -> str:
        """The version of the server, as given by the user or reported by the server."""
        if self._revision is None:
            self._revision = self.parameters.revision
            if not self._revision and self.parameters.server:
                try:
                    name, version = self._client().info()
                except Unusable as error:
                    raise UnavailableError(
                        f"the MCP server {self.parameters.server!r} did not answer: {error}."
                    ) from None
                self._revision = one_line(f"{name} {version}", 200) if version else ""
        return self._revision


def _reply(result: CallToolResult) -> RemoteReply:
    """The JSON of a result, its structured content or its first text, and the text that an agent sees.

    An agent sees the texts of a result, in which servers repeat structured content, or the structured content itself if
    there is no text.

    Raises:
        Unusable: the result is an error of the tool, or has neither.
    """
    texts = [mask(block.text) for block in result.content if block.type == "text"]
    if result.is_error:
        raise Unusable(f"an error of the tool ({one_line(texts[0] if texts else '', 80)!r})")
    whole: Any = mask_json(result.structured_content)
    shown = "\n".join(texts) if texts else json.dumps(whole, ensure_ascii=False)
    # SDKs wrap values that are not objects, and return a text also as a text.
    content = whole["result"] if isinstance(whole, dict) and list(whole) == ["result"] else whole
    if content is not None and not isinstance(content, str):
        return RemoteReply(json.dumps(content).encode(), shown)
    if not texts:
        raise Unusable("a result without structured content or text")
    return RemoteReply(texts[0].encode("utf-8", "replace"), shown)
