"""HTTP requests to endpoints and services, with limits on total time and size.

A blocking client times out per read, not per request, so a server that sends a byte now and then blocks it forever; it
also reads the whole body of an error. Here, the requests of all threads run in one event loop, where each request has a
deadline and stores no more of the body than its limit.
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

#: Maximum bytes read from the body of an error, which is only shown.
ERROR_BYTES = 1 << 16


class TooLong(Exception):
    """The body of a successful response exceeds its limit."""


class BrokenOff(Exception):
    """The connection broke during the response."""


@dataclass(frozen=True)
class Answered:
    """A response.

    Attributes:
        status: the HTTP status.
        headers: with names in lower case, without the encoding and length of the body.
        body: as sent, never decompressed: a few compressed bytes can be gigabytes. For errors, only the beginning.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes


def is_loopback(url: str) -> bool:
    """Whether the host of a URL is this machine's loopback."""
    try:
        host = httpx.URL(url).host
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except (httpx.InvalidURL, ValueError):
        return False


def retry_after(header: str | None, now: float) -> float | None:
    """Seconds requested by a Retry-After header (a number or an HTTP date); None if it is neither.

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
    """Thread-safe connections to any number of services, kept open between requests.

    Requests to this machine ignore proxies of the environment. Offline, all other requests are refused.
    """

    def __init__(self) -> None:
        # Other threads do not see the session of the run.
        self._offline = current_session().offline
        self._clients: dict[bool, httpx.AsyncClient] = {}

    def _client(self, here: bool) -> httpx.AsyncClient:
        """The client for services of this machine, or for others."""
        if here not in self._clients:
            # No redirects, which would forward a key. No timeout per read: the whole request has one.
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
            headers: headers of the request; only the identity encoding is accepted.
            seconds: time limit from connecting to the last byte.
            most: maximum bytes of the body of a response with status 200.
            params: the query string.
            content: the body.

        Raises:
            TimeoutError: the last byte did not arrive in time.
            TooLong: the body of a response with status 200 exceeds the limit.
            BrokenOff: the connection broke during the response.
            httpx.HTTPError, httpx.InvalidURL, OSError: there was no response.
            UnavailableError: bench is offline, and the service is not on this machine.
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
            # Ctrl-C: cancel the request with its caller.
            waiting.cancel()
            raise


async def _answer(client: httpx.AsyncClient, request: httpx.Request, seconds: float, most: int) -> Answered:
    async with asyncio.timeout(seconds):
        response = await client.send(request, stream=True)
        try:
            body = await _body(response, most)
        finally:
            await response.aclose()
    # These describe only the bytes on the wire.
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
    """The event loop of this process, in a daemon thread: Ctrl-C does not wait for running requests."""
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
