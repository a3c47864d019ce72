"""Calls through a provider's package, with timeouts, retries and classified errors. Clients call it.

Retried, and finally `GaveUp`: 429, 408, 409, 5xx, a time-out, a refused or dropped connection, a malformed reply.
`Refused` at once: the content is refused or longer than the model accepts, so another try would not help, although
another request may. A `BenchError` at once: 401, 402, 403, 404, other 4xx, no credit left; no request would succeed.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar, TypeAlias, TypeVar

from bench.base.errors import BenchError, UnavailableError, UsageError, require
from bench.base.secrets import mask, mask_bytes, mask_json
from bench.base.text import one_line
from bench.models.llm.budget import Reservation, WorkStopped
from bench.models.llm.settings import EndpointSettings

T = TypeVar("T")
_Kind: TypeAlias = type[Exception]

#: Total tries; waits between them double from the first one, each shortened at random by up to a half.
TRIES = 6
FIRST_WAIT = 1.0
LONGEST_WAIT = 60.0
#: Maximum seconds to wait if an endpoint requests it.
LONGEST_ASKED = 300.0
#: Maximum bytes of a reply; a batch of embeddings has a few MiB.
_LARGEST_BODY = 32 << 20

_REFUSALS = frozenset({"content_filter", "content_policy_violation"})
#: Error texts of endpoints without a code (OpenAI, vLLM; llama.cpp; Anthropic; Gemini).
_TOO_LONG = re.compile("context (length|size)|prompt is too long|input token count", re.IGNORECASE)
_WRONG_KEY = "invalid_api_key"
#: Parameters that can be replaced or left out.
_CAN_DO_WITHOUT = frozenset({"max_tokens", "temperature"})
_AGAIN = frozenset({408, 409, 425, 429})


class GaveUp(Exception):
    """The last try has failed; the text says why."""


class Refused(Exception):
    """The endpoint will not answer this request; the text says why."""


class Unsupported(Exception):
    """The endpoint does not accept a parameter that can be left out; the text is its message.

    Attributes:
        name: the parameter, `max_tokens` or `temperature`.
    """

    def __init__(self, name: str, said: str) -> None:
        super().__init__(said)
        self.name = name


class Malformed(Exception):
    """A reply does not follow the protocol; raised by its parser."""


class _Again(Exception):
    """This try has failed, but another may succeed.

    Attributes:
        charged: whether the endpoint may have charged for it.
        wait: seconds that the endpoint requests to wait; None if it does not.
    """

    def __init__(self, reason: str, *, charged: bool, wait: float | None = None) -> None:
        super().__init__(reason)
        self.charged = charged
        self.wait = wait


class Transport:
    """An endpoint. The package is imported, and the connection made, with the first call; safe for several threads.

    This class describes the `openai` package; subclasses describe others.
    """

    #: The module that makes the calls.
    package: ClassVar[str] = "openai"
    #: The usual ending of its URLs, for users whose URL does not answer.
    url_ends: ClassVar[str] = ": most end in /v1"

    def __init__(self, settings: EndpointSettings) -> None:
        self._settings = settings
        self._connecting = threading.Lock()
        self._connected: Any = None
        self._resume = 0.0

    def call(
        self,
        send: Callable[[Any], AbstractContextManager[Any]],
        read: Callable[[Any], T],
        held: Reservation,
        stop: threading.Event,
    ) -> T:
        """Make one call, and retry where that may help.

        Args:
            send: begins the call on a client of the package, and returns its streamed response.
            read: parses the reply from JSON; raises `Malformed`.
            held: the money reserved for the call; lost tries are charged to it.
            stop: ends the waiting.

        Returns:
            The value of `read`.

        Raises:
            GaveUp: the last try has failed too.
            Refused: the endpoint will not answer this request.
            Unsupported: it does not accept a parameter.
            Stopped: `stop` was set while it waited.
            BenchError: no request would succeed: wrong key, unknown model, wrong address, limit reached.
        """
        for tries in range(1, TRIES + 1):
            self._wait_for(max(0.0, self._resume - time.monotonic()), stop)
            held.renew()
            try:
                return read(self._try(send))
            except Malformed as error:
                trouble = _Again(str(error), charged=True)
            except _Again as error:
                trouble = error
            except (BenchError, Refused, Unsupported):
                raise
            except BaseException:
                # Ctrl-C, or a bug: the request was sent, and may be charged for.
                held.lose()
                raise
            if trouble.charged:
                held.lose()
            if tries == TRIES or (trouble.wait or 0.0) > LONGEST_ASKED:
                break
            self._wait_for(self._pause(tries, trouble.wait), stop)
        remark = f", which asks for a wait of {trouble.wait:.0f} s" if (trouble.wait or 0.0) > LONGEST_ASKED else ""
        raise GaveUp(f"{trouble}{remark} (gave up after {tries} {'try' if tries == 1 else 'tries'})")

    def _pause(self, tries: int, requested: float | None) -> float:
        """Seconds until the next try."""
        if requested is None:
            return min(LONGEST_WAIT, FIRST_WAIT * 2.0 ** (tries - 1)) * random.uniform(0.5, 1.0)
        # This means all callers, so the others wait too, and do not all return at the same moment.
        self._resume = max(self._resume, time.monotonic() + requested)
        return requested + FIRST_WAIT * random.uniform(0.0, 0.5)

    @staticmethod
    def _wait_for(seconds: float, stop: threading.Event) -> None:
        if stop.wait(seconds) if seconds > 0 else stop.is_set():
            raise WorkStopped

    def _client(self) -> Any:
        with self._connecting:
            if self._connected is None:
                require(self.package, what="a call of a model's endpoint")
                import httpx2

                # The packages require a key; endpoints that need none ignore it.
                key = self._settings.key or "none"
                self._connected = self._connect(
                    key, httpx2.Client(transport=_bounded_transport(self._settings.timeout))
                )
            return self._connected

    def _connect(self, key: str, http: Any) -> Any:
        """The package's client, which sends by an `httpx2.Client` and never retries."""
        import openai

        return openai.OpenAI(api_key=key, base_url=self._settings.url, http_client=http, max_retries=0)

    def _kinds(self) -> tuple[_Kind, _Kind, _Kind]:
        """The package's errors: for an HTTP status, for a connection, for anything else."""
        import openai

        return openai.APIStatusError, openai.APIConnectionError, openai.OpenAIError

    def _told(self, error: Any) -> dict[str, Any]:
        """The body of an error in OpenAI's terms: `message`, `code`, `param`; and `wait`, in seconds."""
        return error.body if isinstance(error.body, dict) else {}

    def _try(self, send: Callable[[Any], AbstractContextManager[Any]]) -> Any:
        """Send once; the reply as JSON."""
        client = self._client()
        import httpx2

        from bench.base.http import BrokenOff, TooLong

        of_status, of_connection, of_any = self._kinds()

        settings = self._settings
        try:
            with send(client) as response:
                data = response.read()
        except of_status as error:
            raise self._of_status(error) from None
        except (of_connection, httpx2.HTTPError) as error:
            cause: BaseException | None = error
            while isinstance(cause, of_connection | httpx2.HTTPError):
                cause = cause.__cause__
            if isinstance(cause, TimeoutError):
                raise _Again(f"no whole reply within {settings.timeout:g} s", charged=True) from None
            if isinstance(cause, TooLong):
                raise Malformed(f"the reply is longer than {_LARGEST_BODY >> 20} MiB") from None
            if isinstance(cause, BrokenOff):
                raise _Again("the connection broke in the middle of the reply", charged=True) from None
            # A connection that was never established carried no request.
            made = "Connect" not in type(cause).__name__
            reason = "the connection broke" if made else f"cannot connect to {settings.url}"
            raise _Again(reason, charged=made) from None
        except of_any as error:
            raise UnavailableError(
                f"the package of {self.package} cannot ask {settings.url}: {self._quote_endpoint(str(error))}."
            ) from None
        try:
            return mask_json(json.loads(data))
        except (ValueError, RecursionError):
            raise Malformed("the reply is not JSON") from None

    def _of_status(self, error: Any) -> Exception:
        """The meaning of an HTTP status."""
        from bench.base.http import retry_after

        status, url = int(error.response.status_code), self._settings.url
        body = self._told(error)
        code, said = (
            str(body.get("code")),
            self._quote_endpoint(str(body.get("message") or body.get("detail") or "no reason given")),
        )
        parameter = body.get("param")
        if status == 400 and parameter in _CAN_DO_WITHOUT and code in {"unsupported_parameter", "unsupported_value"}:
            return Unsupported(parameter, said)
        if code in _REFUSALS:
            return Refused(f"the endpoint's filter refused the request: {said}")
        if code == "context_length_exceeded" or (status == 400 and _TOO_LONG.search(said)):
            return Refused(f"the request exceeds the context length of the model: {said}")
        if code == "insufficient_quota" or status == 402:
            return UnavailableError(f"{url} reports that no credit is left ({said}).")
        if status in _AGAIN or status >= 500:
            wait = retry_after(error.response.headers.get("retry-after") or body.get("wait"), time.time())
            return _Again(f"the endpoint answered {status}: {said}", charged=False, wait=wait)
        return self._refusal(status, said, code)

    def _refusal(self, status: int, said: str, code: str) -> BenchError:
        url, url_name, key_name = self._settings.url, self._settings.url_name, self._settings.key_name
        if status in {401, 403} or code == _WRONG_KEY:
            return UnavailableError(f"{url} refused the key with {status} ({said}); set {key_name}.")
        if status == 404:
            check = f"check the model's name, and {url_name}{self.url_ends}"
            return UsageError(f"{url} answered 404 ({said}); {check}.")
        return UsageError(f"{url} refused the request with {status} ({said}).")

    def _quote_endpoint(self, text: str) -> str:
        """The endpoint's message, fit for printing, without the key that it may repeat."""
        return one_line(mask(text).strip().removesuffix("."), 200)


def _bounded_transport(seconds: float) -> Any:
    """A transport of httpx2 with bounded reads for any status: `openai` itself reads errors in full."""
    import httpx
    import httpx2

    from bench.base.http import BrokenOff, Connections, TooLong

    exchange = Connections()

    class Bounded(httpx2.BaseTransport):
        def handle_request(self, request: httpx2.Request) -> httpx2.Response:
            try:
                answered = exchange.send(
                    request.method,
                    str(request.url),
                    headers=dict(request.headers),
                    content=request.read(),
                    seconds=seconds,
                    most=_LARGEST_BODY,
                )
            except (TimeoutError, TooLong, BrokenOff, httpx.HTTPError, OSError) as error:
                # Errors that the packages know; `_try` looks at the cause.
                raise httpx2.TransportError(str(error)) from error
            body = mask_bytes(answered.body)
            return httpx2.Response(answered.status, headers=dict(answered.headers), content=body, request=request)

    return Bounded()
