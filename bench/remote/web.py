"""Ask a retriever over HTTP, with limits on time, size, rate and failures. Methods call it."""

from __future__ import annotations

import json
import os
import random
import re
import threading
import time
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import httpx
from pydantic import AfterValidator

from bench.base.errors import UsageError
from bench.base.http import Answered, BrokenOff, Connections, TooLong, retry_after
from bench.base.keys import keep_variable
from bench.base.secrets import keep, mask, mask_bytes
from bench.base.text import one_line
from bench.remote.answers import Unusable

#: Maximum bytes of an answer.
LARGEST = 8 << 20
FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
_AGAIN = frozenset({408, 425, 429, 500, 502, 503, 504})
#: Query parameters of a URL whose values are keys; `keyword` and `sort_by` do not count. Narrower than the masking of
#: server configurations, because a match refuses the address.
_KEY = re.compile(
    r"(?<![a-z])((api|access)[-_]?key|key|token|secret|passw(or)?d|auth|authorization|signature|sig|credential)s?(?![a-z])",
    re.IGNORECASE,
)
_NEXT_WORD = re.compile(r"(?<=[a-z])(?=[A-Z])")
#: A parameter that names the environment variable with a token.
TokenVariable = Annotated[str, AfterValidator(keep_variable)]


@dataclass(frozen=True)
class Web:
    """A service and how to call it.

    Attributes:
        timeout: maximum seconds of one try, from connecting to the last byte.
        tries: maximum number of tries per request, after a temporary status, a time-out or a broken connection.
        rate: maximum requests per second, 0 for no limit.
        token: the environment variable with the bearer token; empty for none.
    """

    timeout: float
    tries: int
    rate: float
    token: str


def bearer(variable: str, what: str) -> dict[str, str]:
    """The header with a bearer token; empty if no variable is named.

    Args:
        variable: environment variable with the token.
        what: `service` or `server`, for the message.

    Raises:
        UsageError: the variable is not set.
    """
    secret = os.environ.get(variable, "").strip()
    if variable and not secret:
        raise UsageError(f"the environment variable {variable} with the {what}'s token is not set.")
    keep(secret)
    return {"Authorization": f"Bearer {secret}"} if secret else {}


class WebClient:
    """Sends JSON and returns the bytes of the answer, without the token; safe for several threads.

    Raises:
        UsageError: the variable with the token is not set.
    """

    def __init__(self, web: Web) -> None:
        self._web = web
        self._headers = {"Accept": "application/json"}
        self._headers |= bearer(web.token, "service")
        self._exchange = Connections()
        self._turn = threading.Lock()
        self._next = 0.0

    def send(self, verb: Literal["POST", "GET"], url: str, body: Any) -> bytes:
        """The body of a successful answer; arguments and errors as in `answer`."""
        return self.answer(verb, url, body).body

    def answer(self, verb: Literal["POST", "GET"], url: str, body: Any) -> Answered:
        """A successful answer, with its original headers.

        Args:
            url: of the service.
            body: JSON of a POST; the query string of a GET.

        Raises:
            Unusable: the last try failed, or another would not help.
            UnavailableError: bench is offline, and the service is not on this machine.
        """
        wait = FIRST_WAIT
        for left in reversed(range(self._web.tries)):
            self._wait_for_turn()
            requested: float | None = None
            try:
                answer = self._ask(verb, url, body)
            except TimeoutError:
                reason = f"no answer within {self._web.timeout:g} seconds"
            except TooLong:
                raise Unusable(f"an answer of more than {LARGEST >> 20} MiB") from None
            except (httpx.HTTPError, httpx.InvalidURL, BrokenOff, OSError) as error:
                reason = f"no answer ({one_line(mask(str(error) or type(error).__name__), 120)})"
            else:
                # A service may send the token back, and its output is stored with the result.
                content = mask_bytes(answer.body)
                if answer.status == 200:
                    return replace(answer, body=content)
                said = one_line(content[:400].decode("utf-8", "replace"), 80)
                reason = f"the status {answer.status}" + (f" ({said!r})" if said else "")
                if answer.status not in _AGAIN:
                    raise Unusable(reason)
                requested = retry_after(answer.headers.get("retry-after"), time.time())
            if left:
                time.sleep(min(LONGEST_WAIT, requested if requested is not None else wait * random.uniform(0.5, 1.0)))
                wait *= 2
        raise Unusable(reason)

    def _ask(self, verb: str, url: str, body: Any) -> Answered:
        seconds = self._web.timeout
        if verb == "GET":
            return self._exchange.send(verb, url, headers=self._headers, seconds=seconds, most=LARGEST, params=body)
        headers = {**self._headers, "Content-Type": "application/json"}
        content = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        return self._exchange.send(verb, url, headers=headers, seconds=seconds, most=LARGEST, content=content)

    def _wait_for_turn(self) -> None:
        if not self._web.rate:
            return
        with self._turn:
            now = time.monotonic()
            start = max(now, self._next)
            self._next = start + 1 / self._web.rate
        time.sleep(start - now)


def check_url(url: str, *, stored: bool = True) -> str:
    """The URL, if it is HTTP without a password.

    Args:
        url: URL of a service.
        stored: whether it becomes part of a result and its site: then it must not contain a key either. Otherwise
            its keys are masked from now on.

    Raises:
        UsageError: it is not valid.
    """
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        raise UsageError(f"{one_line(url, 120)!r} is not a URL.") from None
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise UsageError(f"{one_line(url, 120)!r} is not a URL of HTTP, such as http://localhost:8000/search.")
    if parsed.userinfo:
        raise UsageError("a URL with a user name or password would be stored with the result; give token=VARIABLE.")
    for name, value in (*parsed.params.multi_items(), *httpx.QueryParams(parsed.fragment).multi_items()):
        if value and _KEY.search(_NEXT_WORD.sub("_", name)):
            if stored:
                raise UsageError(
                    f"the value of {one_line(name, 40)!r} in a URL would be stored with the result; give "
                    "token=VARIABLE, the name of an environment variable that holds it."
                )
            keep(value)
    return url
