"""One HTTP request, bounded in time and size from the first byte to the last: endpoints and services are asked by it.

A blocking client has a time limit for each piece only, so that a server which sends a byte now and then holds it for
ever, and it reads an error's body to the end before anybody can look at it. Here the requests of all threads run in one
event loop, where a request can be given a deadline, and no more is kept of a body than was asked for.
"""

from __future__ import annotations

import asyncio
import email.utils
import ipaddress
import os
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass

import httpx

from bench.base.config import current_session
from bench.base.errors import UnavailableError

#: Bytes that are read of the body of an error: it is only shown.
ERROR_BYTES = 1 << 16


class TooLong(Exception):
    """The body of a successful answer has more bytes than were allowed."""


class BrokenOff(Exception):
    """The connection broke after the answer had begun."""


@dataclass(frozen=True)
class Answered:
    """What came back.

    Attributes:
        status: of HTTP.
        headers: names in lower case. None says how the body is packed or how long it is.
        body: as it was sent, never unpacked: a few packed bytes can be gigabytes. Of an error, its beginning.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


def is_loopback(url: str) -> bool:
    """Whether a URL is of this machine's loopback."""
    try:
        host = httpx.URL(url).host
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except (httpx.InvalidURL, ValueError):
        return False


def retry_after(header: str | None, now: float) -> float | None:
    """Seconds that a Retry-After header asks for: a number, or an HTTP date; None where it says neither.

    Args:
        header: its value.
        now: seconds since 1970.
    """
    if header is None:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(header).timestamp() - now
        except (ValueError, TypeError, OverflowError, OSError):
            return None
    return max(0.0, seconds) if seconds == seconds else None


class Connections:
    """Connections to any number of services, kept open between requests; safe for several threads.

    A service of this machine is asked without a proxy, whatever the environment says, and offline no other is asked.
    """

    def __init__(self) -> None:
        # Other threads do not see the session of the run.
        self._offline = current_session().offline
        self._clients: dict[bool, httpx.AsyncClient] = {}

    def _client(self, here: bool) -> httpx.AsyncClient:
        """The client for services of this machine, or for others."""
        if here not in self._clients:
            # No redirects: a key would go along. No time limit of a single step: the whole request has one.
            client = self._clients[here] = httpx.AsyncClient(timeout=None, follow_redirects=False, trust_env=not here)
            weakref.finalize(self, _close, client).atexit = False
        return self._clients[here]

    def send(
        self,
        verb: str,
        url: str,
        *,
        headers: Mapping[str, str],
        seconds: float,
        most: int,
        params: Mapping[str, str] | None = None,
        content: bytes | None = None,
    ) -> Answered:
        """Send one request.

        Args:
            verb: `GET` or `POST`.
            headers: of the request; an encoding other than identity is never accepted.
            seconds: for the whole of it, from connecting to the last byte.
            most: bytes of the body of an answer with status 200.
            params: the query string.
            content: the body.

        Raises:
            TimeoutError: the last byte did not come in time.
            TooLong: of an answer with status 200.
            BrokenOff: in the middle of the answer.
            httpx.HTTPError, httpx.InvalidURL, OSError: there was no answer.
            UnavailableError: bench is offline, and the service is not one of this machine.
        """
        here = is_loopback(url)
        if self._offline and not here:
            raise UnavailableError(f"{url} cannot be asked offline: only services of this machine can.")
        client = self._client(here)
        request = client.build_request(
            verb, url, headers={**headers, "Accept-Encoding": "identity"}, params=params, content=content
        )
        waiting = asyncio.run_coroutine_threadsafe(_answer(client, request, seconds, most), _loop())
        try:
            return waiting.result()
        except BaseException:
            # Ctrl-C: the request ends with the one who asked.
            waiting.cancel()
            raise


async def _answer(client: httpx.AsyncClient, request: httpx.Request, seconds: float, most: int) -> Answered:
    async with asyncio.timeout(seconds):
        response = await client.send(request, stream=True)
        try:
            body = await _body(response, most)
        finally:
            await response.aclose()
    # They are true of the bytes on the wire only.
    left_out = {"content-encoding", "content-length", "transfer-encoding"}
    headers = {name.lower(): value for name, value in response.headers.items() if name.lower() not in left_out}
    return Answered(response.status_code, headers, body)


async def _body(response: httpx.Response, most: int) -> bytes:
    good = response.status_code == 200
    most = most if good else ERROR_BYTES
    content = bytearray()
    try:
        async for part in response.aiter_raw():
            content += part
            if len(content) > most and good:
                raise TooLong(f"{most} bytes")
            if len(content) > most:
                break
    except httpx.HTTPError as error:
        raise BrokenOff(str(error) or type(error).__name__) from None
    return bytes(content[:most])


_starting = threading.Lock()
_running: dict[int, asyncio.AbstractEventLoop] = {}


def _loop() -> asyncio.AbstractEventLoop:
    """The loop of this process, in a thread that ends with it: what is under way at Ctrl-C is not waited for."""
    with _starting:
        loop = _running.get(os.getpid())
        if loop is None:
            loop = _running[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="bench-exchange", daemon=True).start()
    return loop


def _close(client: httpx.AsyncClient) -> None:
    loop = _running.get(os.getpid())
    if loop is not None:
        asyncio.run_coroutine_threadsafe(client.aclose(), loop)
