"""Asking a retriever over HTTP, within limits of time, size, rate and patience."""

from __future__ import annotations

import email.utils
import ipaddress
import os
import random
import threading
import time
import weakref
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal

import httpx
from anyio import fail_after
from anyio.from_thread import start_blocking_portal

from bench.errors import UnavailableError, UsageError
from bench.remote.answers import Unusable
from bench.session import current_session
from bench.text import one_line

#: The largest answer that is read, in bytes.
LARGEST = 8 << 20
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
_LONGEST_HEADER = 60.0
_SHOWN = 4000


@dataclass(frozen=True)
class Web:
    """One service and how it is asked.

    Attributes:
        timeout: seconds that one try may take in all, from connecting to the last byte.
        tries: how often one request is sent at most; after a status that may pass, a time-out or a broken connection.
        rate: requests a second, 0 for no limit.
        token: the environment variable with the bearer token; empty for none.
    """

    timeout: float
    tries: int
    rate: float
    token: str


class WebClient:
    """Sends JSON and gives the bytes of the answer; safe for several threads.

    Requests run in an event loop of their own, because only there can a request be given a deadline: a service that
    sends a byte now and then keeps each single read of a blocking client within its time limit for ever.

    Raises:
        UsageError: the variable with the token is not set.
    """

    def __init__(self, web: Web) -> None:
        self._web = web
        headers = {"Accept": "application/json", "Accept-Encoding": "identity"}
        secret = ""
        if web.token:
            secret = os.environ.get(web.token, "")
            if not secret:
                raise UsageError(f"the environment variable {web.token} with the service's token is not set.")
            headers["Authorization"] = f"Bearer {secret}"
        self._secret = secret.encode()
        # Other threads do not see the session of the run.
        self._offline = current_session().offline
        # No redirects: the token would go along. No time limit of a single step: the whole try has one.
        self._client = httpx.AsyncClient(headers=headers, timeout=None, follow_redirects=False)
        open_until = ExitStack()
        self._loop = open_until.enter_context(start_blocking_portal())
        self._finalizer = weakref.finalize(self, open_until.close)
        self._turn = threading.Lock()
        self._next = 0.0

    def send(self, verb: Literal["POST", "GET"], url: str, body: Any) -> bytes:
        """The body of a successful answer.

        Args:
            url: of the service.
            body: JSON of a POST; the query string of a GET.

        Raises:
            Unusable: the last try failed too, or another would not help.
            UnavailableError: bench is offline, and the service is not one of this machine.
        """
        if self._offline and not local(url):
            raise UnavailableError(f"{url} cannot be asked offline: only services of this machine can.")
        wait = FIRST_WAIT
        for left in reversed(range(self._web.tries)):
            self._wait_for_turn()
            asked: float | None = None
            content: bytes
            try:
                status, content, asked = self._loop.call(self._try, verb, url, body)
            except TimeoutError:
                reason = f"no answer within {self._web.timeout:g} seconds"
            except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
                reason = f"no answer ({one_line(str(error) or type(error).__name__, 120)})"
            else:
                if status == 200:
                    return content
                said = one_line(content[:400].decode("utf-8", "replace"), 80)
                reason = f"the status {status}" + (f" ({said!r})" if said else "")
                if status not in _AGAIN:
                    raise Unusable(reason)
            if left:
                time.sleep(min(LONGEST_WAIT, asked if asked is not None else wait * random.uniform(0.5, 1.0)))
                wait *= 2
        raise Unusable(reason)

    async def _try(self, verb: str, url: str, body: Any) -> tuple[int, bytes, float | None]:
        """Status, content and the wait asked for.

        Raises:
            TimeoutError: the last byte did not come in time.
        """
        more: Mapping[str, Any] = {"json": body} if verb == "POST" else {"params": body}
        with fail_after(self._web.timeout):
            async with self._client.stream(verb, url, **more) as response:
                # An error's text is only shown, so little of it is read.
                most = LARGEST if response.status_code == 200 else _SHOWN
                content = bytearray()
                async for part in response.aiter_raw():
                    content += part
                    if len(content) > most:
                        break
                if len(content) > most and response.status_code == 200:
                    raise Unusable(f"an answer of more than {LARGEST >> 20} MiB")
                if self._secret:
                    # A service may send the token back, and what it says is stored with the result.
                    content = content.replace(self._secret, b"***")
                return response.status_code, bytes(content), _retry_after(response.headers.get("Retry-After", ""))

    def _wait_for_turn(self) -> None:
        if not self._web.rate:
            return
        with self._turn:
            now = time.monotonic()
            start = max(now, self._next)
            self._next = start + 1 / self._web.rate
        time.sleep(start - now)


def local(url: str) -> bool:
    """Whether a URL is of this machine's loopback."""
    try:
        host = httpx.URL(url).host
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except (httpx.InvalidURL, ValueError):
        return False


def checked_url(url: str) -> str:
    """The URL, if it is one of HTTP without a password in it.

    Raises:
        UsageError: it is not.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        raise UsageError(f"{one_line(url, 120)!r} is not a URL.") from None
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise UsageError(f"{one_line(url, 120)!r} is not a URL of HTTP, such as http://localhost:8000/search.")
    if parsed.userinfo:
        raise UsageError("a URL with a user name or password would be stored with the result; give token=VARIABLE.")
    return url


def _retry_after(text: str) -> float | None:
    """Seconds of a `Retry-After` header, which has a number or a date; None without one that can be read."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - time.time()
        except (ValueError, TypeError, OverflowError):
            return None
    return min(max(seconds, 0.0), _LONGEST_HEADER) if seconds == seconds else None
