"""Ask an MCP server, over the pipes of a process or over HTTP, with limits on time, size and failures.

The official SDK speaks the protocol. Only the bytes are read here, because the SDK's own reader of a process limits
neither a line nor an answer, and prints what it cannot parse. Methods and imports call it.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import logging
import math
import os
import re
import signal
import subprocess
import threading
import time
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import httpx
from anyio import (
    CancelScope,
    ClosedResourceError,
    EndOfStream,
    Event,
    create_memory_object_stream,
    create_task_group,
    current_time,
    fail_after,
    move_on_after,
    open_process,
    sleep,
    sleep_forever,
)
from anyio.abc import ByteReceiveStream, ByteSendStream, Process, TaskStatus
from anyio.from_thread import start_blocking_portal
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

import bench
from bench.base.config import current_session
from bench.base.errors import UnavailableError, require
from bench.base.http import is_loopback
from bench.base.secrets import mask, mask_json
from bench.base.strict_json import RepeatedKey, loads
from bench.base.text import one_line
from bench.importing.reading import MOST_BYTES, pointer
from bench.remote.answers import KEPT, Unusable, last_words
from bench.remote.servers import SSE, Server
from bench.show.numbers import several

if TYPE_CHECKING:
    import httpx2
    from mcp import Client
    from mcp.shared.message import SessionMessage
    from mcp.types import CallToolResult

T = TypeVar("T")

#: Maximum bytes of one answer.
LARGEST = 8 << 20
_TOO_LARGE = f"an answer of more than {LARGEST >> 20} MiB"
#: Seconds from the start to the first answer: a launcher such as npx may have to download the server.
START = 60.0
#: Seconds within which a started server must have listed all its tools.
LISTING = 120.0
#: Maximum pages of one list, and maximum consecutive pages without a new tool. The largest published list has 2 MB.
MOST_PAGES, MOST_IDLE_PAGES = 1000, 20
#: How often one client restarts a process that has ended.
RESTARTS = 3
#: Seconds for a process to exit once its input is closed.
_GRACE = 1.0
#: Seconds within which an HTTP+SSE server must have named its endpoint.
_SSE_PATIENCE = 5.0
#: Without a handler, the SDK's logger prints what a server sends; a program's own handlers still receive it.
_QUIET = logging.NullHandler()


@dataclass(frozen=True)
class Listing:
    """What a server lists.

    Attributes:
        tools: as in `tools/list`, unchecked.
        remark: anything unusual about the list, as the end of a sentence; empty if there is nothing.
    """

    tools: list[Any]
    remark: str = ""


class McpClient:
    """A session with a server, opened with the first question and again if it ends; safe for several threads.

    A process inherits this process's environment, as from a shell, and ends with its client.

    Args:
        server: the server.
        what: the caller, as the subject of a sentence.

    Raises:
        UnavailableError: the SDK is not installed.
    """

    def __init__(self, server: Server, what: str) -> None:
        require("mcp", "httpx2", what=what)
        logging.getLogger("mcp").addHandler(_QUIET)
        self._server = server
        # Other threads do not see the run's session.
        self._offline = current_session().offline
        open_until = ExitStack()
        self._loop = open_until.enter_context(start_blocking_portal())
        # Sessions are tasks of the loop: cancelling them ends their processes.
        open_until.callback(self._loop.call, self._loop.stop, True)
        self._finalizer = weakref.finalize(self, open_until.close)
        self._turn = threading.Lock()
        self._session: _Session | None = None
        self._started = 0

    def close(self) -> None:
        """End the session, and its process."""
        self._finalizer()

    def info(self) -> tuple[str, str]:
        """Name and version that the server reports; empty if it reports none.

        Raises:
            Unusable: it did not answer, or not in MCP.
            UnavailableError: it cannot be started, has ended too often, or is remote while bench is offline.
        """
        info = self._ensure_open().client.server_info
        return (mask(info.name), mask(info.version)) if info else ("", "")

    def tools(self) -> Listing:
        """All tools that the server lists, page by page; raises as `info` does.

        A cursor may be any text, even empty. The list ends without a cursor, at a repeated cursor, and after
        `MOST_IDLE_PAGES` consecutive pages without new tools.
        """
        until = time.monotonic() + LISTING
        tools: list[Any] = []
        listed: set[str] = set()
        asked: set[str | None] = set()
        size, idle = 0, 0
        cursor: str | None = None
        while len(asked) < MOST_PAGES:
            asked.add(cursor)
            try:
                page, after = self._ask(partial(_page, cursor), max(0.1, until - time.monotonic()), LISTING)
            except Unusable as error:
                if cursor is None:
                    raise
                if cursor != "":
                    raise Unusable(
                        f"{error}, after {several(len(tools), 'tool')} on {several(len(asked) - 1, 'page')}"
                    ) from None
                # Before revision 2026-07-28, some servers wrote an empty cursor for none.
                return Listing(tools, f"after an empty cursor there was {error}; the list ends before it")
            texts = [json.dumps(tool, sort_keys=True) for tool in page]
            size += sum(map(len, texts))
            if size > MOST_BYTES:
                raise Unusable(f"a list of tools of more than {MOST_BYTES >> 20} MiB")
            is_new = not listed.issuperset(texts)
            if is_new:
                listed.update(texts)
                tools += mask_json(page)
            idle = 0 if is_new else idle + 1
            if after is None:
                return Listing(tools)
            if after in asked:
                # An empty cursor that led to the same page meant that there is no other page.
                ended = after == "" and not is_new
                return Listing(
                    tools, "" if ended else f"its cursor {one_line(after, 60)!r} repeats; the list ends there"
                )
            if idle == MOST_IDLE_PAGES:
                return Listing(tools, f"{idle} pages in a row bring no further tool; the list ends there")
            cursor = after
        raise Unusable(
            f"an endless list of tools: {several(len(tools), 'tool')} on {MOST_PAGES} pages, and a cursor to more"
        )

    def call(self, tool: str, arguments: dict[str, Any], seconds: float) -> CallToolResult:
        """The result of calling a tool, which may be an error; raises as `info` does."""
        return self._ask(partial(_call_tool, tool, arguments), seconds)

    def _ask(self, question: Callable[[Client], Awaitable[T]], seconds: float, named: float | None = None) -> T:
        """Ask with a time limit; `named` is the limit to name in the message, if it covers several questions."""
        session = self._ensure_open()
        session.talk.left = LARGEST
        try:
            return self._loop.call(_within, seconds, question, session.client)
        except TimeoutError:
            why = f"no answer within {named or seconds:g} seconds"
            raise Unusable(f"{why}{session.talk.last_message()}") from None
        except concurrent.futures.CancelledError:
            why = "no answer"
        except Exception as error:
            why, over = _reason(error)
            if not over and not session.talk.fault:
                raise Unusable(why) from None
        self._drop(session)
        raise Unusable(f"{session.talk.end_reason() or why}{session.talk.last_message()}")

    def _ensure_open(self) -> _Session:
        with self._turn:
            if self._session is None:
                self._session = self._open()
            return self._session

    def _open(self) -> _Session:
        server = self._server
        if server.url and self._offline and not is_loopback(server.url):
            raise UnavailableError(f"{server.words} cannot be asked offline: only servers on this machine can.")
        if server.command and self._started > RESTARTS:
            raise UnavailableError(
                f"{server.words} ended {self._started} times; the answers so far are kept, and the same run goes on "
                "with the next query when it works."
            )
        self._started += 1
        talk = _Talk()
        try:
            future, (client, scope) = self._loop.start_task(_hold_session, server, talk)
        except TimeoutError:
            raise Unusable(f"no answer within {START:g} seconds{talk.last_message()}") from None
        except (Exception, concurrent.futures.CancelledError) as error:
            first = _first(error)
            if isinstance(first, FileNotFoundError | PermissionError | NotADirectoryError | ValueError) and (
                server.command and not talk.began
            ):
                reason = getattr(first, "strerror", None) or str(first)
                raise UnavailableError(f"cannot start {server.words} ({reason}).") from None
            if server.url and _speaks_sse(server):
                raise UnavailableError(f"{server.words}: {SSE}.") from None
            raise Unusable(f"{talk.end_reason() or _reason(error)[0]}{talk.last_message()}") from None
        return _Session(client, scope, future, talk)

    def _drop(self, session: _Session) -> None:
        """End an unusable session; the next question opens another."""
        with self._turn:
            if self._session is session:
                self._session = None
        with contextlib.suppress(RuntimeError):
            self._loop.call(session.scope.cancel)
        concurrent.futures.wait([session.task], timeout=10 * _GRACE)


@dataclass
class _Talk:
    """What was received in one session.

    Attributes:
        left: bytes that the server may still send in reply to the open question.
        began: whether the process was started.
        fault: what is wrong with its output, after which nothing more is read; empty if nothing is.
        code: exit code of the process if it ended by itself, else None.
        errors: the end of its error output.
        noise: the first line of its output that is not a message.
    """

    left: int = LARGEST
    began: bool = False
    fault: str = ""
    code: int | None = None
    errors: bytearray = field(default_factory=bytearray)
    noise: str = ""

    def take(self, count: int) -> bool:
        """Count received bytes; return whether they are within the limit."""
        self.left -= count
        if self.left < 0:
            self.fault = _TOO_LARGE
        return not self.fault

    def check(self, message: bytes | bytearray) -> bool:
        """Check that no object of a message repeats a key; invalid JSON is reported elsewhere."""
        with contextlib.suppress(ValueError, RecursionError):
            try:
                loads(bytes(message))
            except RepeatedKey as error:
                self.fault = f"an answer in which {mask(str(error))}"
        return not self.fault

    def end_reason(self) -> str:
        """Why the session ended; empty if unknown."""
        return self.fault or ("" if self.code is None else f"no answer: the process ended with {self.code}")

    def last_message(self) -> str:
        """What the server wrote besides messages, as the end of a sentence."""
        text = last_words(bytes(self.errors))
        noise = f"; it wrote {self.noise!r}, which is not an MCP message" if self.noise else ""
        return noise + (f"; it said {text!r}" if text else "")


@dataclass(frozen=True)
class _Session:
    """An open session; cancelling its scope ends the task that holds it."""

    client: Client
    scope: CancelScope
    task: concurrent.futures.Future[None]
    talk: _Talk


async def _hold_session(server: Server, talk: _Talk, *, task_status: TaskStatus[tuple[Client, CancelScope]]) -> None:
    """Open a session and keep it open until it is cancelled.

    Raises:
        TimeoutError: it could not be opened in time.
    """
    with CancelScope(deadline=current_time() + START) as scope:
        async with _client(server, talk) as client:
            scope.deadline = math.inf
            task_status.started((client, scope))
            await sleep_forever()
    if scope.deadline != math.inf:
        raise TimeoutError


def _client(server: Server, talk: _Talk) -> Client:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client
    from mcp.types import Implementation

    @asynccontextmanager
    async def web() -> AsyncIterator[Any]:
        headers = {"Accept-Encoding": "identity", **server.headers}
        hooks: dict[str, list[Callable[..., Any]]] = {"response": [partial(_bound_response, talk)]}
        # As in `bench.base.http`: no proxy for this machine. Time limits apply to whole questions, not to single steps.
        environment = not is_loopback(server.url)
        async with (
            httpx2.AsyncClient(headers=headers, timeout=None, event_hooks=hooks, trust_env=environment) as http,
            streamable_http_client(server.url, http_client=http, max_sse_event_size=LARGEST) as (incoming, outgoing),
        ):
            yield _Incoming(incoming), outgoing

    transport: AbstractAsyncContextManager[Any] = web() if server.url else _pipe_streams(server, talk)
    # The SDK's cache would answer a second listing without asking the server.
    return Client(transport, cache=None, client_info=Implementation(name="bench", version=bench.__version__))


#: The key of a page's tools as the server sent them.
_LISTED = "bench/tools"


class _Incoming:
    """The messages of a server for the SDK, without the tools of a list that the SDK would refuse.

    It refuses a whole list for one tool without a name or with a schema without a type. The original tools are beside
    it.
    """

    def __init__(self, messages: Any) -> None:
        self._messages = messages

    def __getattr__(self, name: str) -> Any:
        return getattr(self._messages, name)

    async def __aenter__(self) -> _Incoming:
        await self._messages.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._messages.__aexit__(*error)

    def __aiter__(self) -> _Incoming:
        return self

    async def __anext__(self) -> Any:
        return _mend(await self._messages.__anext__())

    async def receive(self) -> Any:
        return _mend(await self._messages.receive())


def _mend(item: Any) -> Any:
    response: Any = getattr(item, "message", None)
    result = getattr(response, "result", None)
    if isinstance(result, dict) and isinstance(result.get("tools"), list):
        meta = result.get("_meta")
        response.result = {
            **result,
            "tools": list(_well_formed(result["tools"])),
            "_meta": {**(meta if isinstance(meta, dict) else {}), _LISTED: result["tools"]},
        }
    return item


def _well_formed(tools: list[Any]) -> Iterator[Any]:
    from mcp.types import Tool
    from pydantic import ValidationError

    for tool in tools:
        with contextlib.suppress(ValidationError):
            Tool.model_validate(tool, by_name=False)
            if tool["inputSchema"].get("type") == "object":
                yield tool


async def _within(seconds: float, question: Callable[[Client], Awaitable[T]], client: Client) -> T:
    with fail_after(seconds):
        return await question(client)


async def _page(cursor: str | None, client: Client) -> tuple[list[Any], str | None]:
    page = await client.list_tools(cursor=cursor)
    return dict(page.meta or {})[_LISTED], page.next_cursor


async def _call_tool(tool: str, arguments: dict[str, Any], client: Client) -> CallToolResult:
    from mcp.types import CallToolRequest, CallToolRequestParams, CallToolResult

    request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=arguments))
    # Not `Client.call_tool`: it checks the answer against the server's schema, which does not matter here.
    answer: CallToolResult = await client.session.send_request(request, CallToolResult)
    return answer


# Reasons ------------------------------------------------------------------------------------------------------------


def _first(error: BaseException) -> BaseException:
    """The first error of a group; task groups raise groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _reason(error: BaseException) -> tuple[str, bool]:
    """An error as a phrase for what came instead of an answer, and whether the session is over."""
    import httpx2
    from mcp import MCPError
    from mcp.types import CONNECTION_CLOSED, PARSE_ERROR
    from pydantic import ValidationError

    first = _first(error)
    text = one_line(mask(str(first)), 120)
    if isinstance(first, MCPError):
        if first.error.code == CONNECTION_CLOSED:
            return f"no answer ({text})", True
        if first.error.code == PARSE_ERROR:  # the SDK's own error, with the whole answer in its text
            return "an answer that is not MCP", False
        return f"the error {first.error.code} ({one_line(mask(first.error.message), 80)!r})", False
    if isinstance(first, ValidationError):
        about = first.errors(include_url=False, include_context=False)[0]
        return f"an answer that is not MCP: {pointer(*about['loc'])}: {one_line(about['msg'].lower(), 80)}", False
    if isinstance(first, httpx2.HTTPError | OSError | ClosedResourceError | EndOfStream):
        return f"no answer ({text or type(first).__name__})", True
    if isinstance(first, RuntimeError):  # from the SDK: an unknown version of the protocol
        return f"no answer ({text})", True
    raise error


# HTTP ---------------------------------------------------------------------------------------------------------------


def _speaks_sse(server: Server) -> bool:
    """Whether a server that did not answer a streamable-HTTP greeting speaks HTTP+SSE: its first event names an
    endpoint.
    """
    headers = {**server.headers, "Accept": "text/event-stream", "Accept-Encoding": "identity"}
    heard, until = b"", time.monotonic() + _SSE_PATIENCE
    with contextlib.suppress(httpx.HTTPError), httpx.Client(trust_env=not is_loopback(server.url)) as client:  # noqa: SIM117
        with client.stream("GET", server.url, headers=headers, timeout=_SSE_PATIENCE) as response:
            if response.headers.get("Content-Type", "").startswith("text/event-stream"):
                for part in response.iter_raw():
                    heard += part
                    if b"endpoint" in heard or len(heard) > KEPT or time.monotonic() > until:
                        break
    return re.search(rb"^event: ?endpoint", heard, re.MULTILINE) is not None


async def _bound_response(talk: _Talk, response: httpx2.Response) -> None:
    """Count and check a response; an encoded one is refused, because it is larger than what is counted."""
    import httpx2

    class Checked(httpx2.AsyncByteStream):
        def __init__(self, stream: httpx2.AsyncByteStream) -> None:
            self._stream = stream

        async def __aiter__(self) -> AsyncIterator[bytes]:
            pending = b""
            async for part in self._stream:
                talk.take(len(part))
                # In a stream of events, each line with data is a message.
                *lines, pending = (pending + part).split(b"\n") if events else [pending + part]
                if not all(talk.check(line[5:]) for line in lines if line.startswith(b"data:")) or talk.fault:
                    raise httpx2.StreamError(talk.fault)
                yield part
            if not talk.check(pending):
                raise httpx2.StreamError(talk.fault)

        async def aclose(self) -> None:
            await self._stream.aclose()

    events = response.headers.get("Content-Type", "").startswith("text/event-stream")
    encoding = response.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise httpx2.DecodingError(f"an answer in the encoding {encoding}, which was not asked for")
    if isinstance(response.stream, httpx2.AsyncByteStream):
        response.stream = Checked(response.stream)


# A process ----------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def _pipe_streams(server: Server, talk: _Talk) -> AsyncIterator[Any]:
    """The streams of messages from and to a process, which is started here and always ended."""
    pipe = subprocess.PIPE
    # In its own session, so that its children are stopped with it.
    process = await open_process(
        server.command,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        env={**os.environ, **server.environment},
        cwd=server.folder or None,
        start_new_session=True,
    )
    talk.began = True
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        received, incoming = create_memory_object_stream[Any](0)
        outgoing, sent = create_memory_object_stream[Any](0)
        hearing, heard = CancelScope(shield=True), Event()
        with received, incoming, outgoing, sent:
            async with create_task_group() as tasks:
                tasks.start_soon(_read, process.stdout, received, talk)
                tasks.start_soon(_write, process.stdin, sent, received)
                tasks.start_soon(_hear, process.stderr, talk, hearing, heard)
                try:
                    yield _Incoming(incoming), outgoing
                finally:
                    with CancelScope(shield=True):
                        await _end(process, process.stdin, talk)
                        with move_on_after(_GRACE / 2):
                            await heard.wait()
                    hearing.cancel()
                    tasks.cancel_scope.cancel()
    finally:
        _kill(process)
        with CancelScope(shield=True), move_on_after(_GRACE):
            await process.aclose()


async def _read(stdout: ByteReceiveStream, received: MemoryObjectSendStream[Any], talk: _Talk) -> None:
    """Pass messages on until the process ends or sends too much; other lines are skipped."""
    buffer = bytearray()
    with received, contextlib.suppress(ClosedResourceError, OSError):
        async for part in stdout:
            buffer += part
            if not talk.take(len(part)) or len(buffer) > LARGEST:
                talk.fault = talk.fault or _TOO_LARGE
                return
            if b"\n" not in part:
                continue
            *lines, buffer = buffer.split(b"\n")
            for line in lines:
                if not talk.check(line):
                    return
                if (message := _message(line)) is not None:
                    await received.send(message)
                elif line.strip():
                    talk.noise = talk.noise or one_line(mask(line[:KEPT].decode("utf-8", "replace")), 80)


def _message(line: bytes | bytearray) -> SessionMessage | None:
    from mcp.shared.message import SessionMessage
    from mcp.types import jsonrpc_message_adapter

    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(bytes(line), by_name=False))
    except ValueError:
        return None


async def _write(
    stdin: ByteSendStream, sent: MemoryObjectReceiveStream[Any], received: MemoryObjectSendStream[Any]
) -> None:
    try:
        async for message in sent:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            await stdin.send(text.encode() + b"\n")
    except (ClosedResourceError, OSError):
        received.close()  # nobody reads: whoever waits for an answer learns that none will come


async def _hear(stderr: ByteReceiveStream, talk: _Talk, hearing: CancelScope, heard: Event) -> None:
    with hearing, contextlib.suppress(ClosedResourceError, OSError):
        async for part in stderr:
            talk.errors += part
            del talk.errors[:-KEPT]
    heard.set()


async def _end(process: Process, stdin: ByteSendStream, talk: _Talk) -> None:
    """Close the input of a process, let it exit, and kill it and its children."""
    with contextlib.suppress(ClosedResourceError, OSError):
        await stdin.aclose()
    with move_on_after(0 if talk.fault else _GRACE):
        # Not `Process.wait`, which also waits for the pipes, which a child may keep open.
        while process.returncode is None:
            await sleep(0.01)
    talk.code = process.returncode
    _kill(process)


def _kill(process: Process) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
