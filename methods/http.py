"""A retriever at an HTTP address, in any language."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from bench.base.errors import UnavailableError, UsageError
from bench.base.parameters import ParameterSet
from bench.base.secrets import mask
from bench.base.strict_json import loads
from bench.base.text import one_line
from bench.interface import History, Library
from bench.interface.method import Context
from bench.remote.answers import Unusable
from bench.remote.asking import (
    Asking,
    RemoteMethod,
    RemoteReply,
    UnknownNames,
    catalogue,
    marks_of_remote,
)
from bench.remote.web import TokenVariable, Web, WebClient, check_url


class Http(RemoteMethod):
    """Asks a service for each query: `{"query": TEXT, "limit": DEPTH}` goes out, a list of tool ids comes back.

    The answer may be a list, or an object with a list under `tools`, `results`, `hits`, `matches`, `items` or `data`,
    of ids, names (also as gateways write them), or objects with one of these, and a score for each or none. A query
    without a usable answer fails and is counted. Ten consecutive failures end the run; its finished batches are kept.

    With `catalogue`, the tools are sent first, as `{"library": HASH, "tools": [...]}`, and each query names its
    library, so that a service can serve several. Without it the service has its own catalogue, and edited descriptions
    do not reach it: the row is marked.
    """

    class Parameters(ParameterSet):
        url: str = Field("", description="address of the search, such as http://localhost:8000/search")
        catalogue: str = Field("", description='address that gets the tools as a POST of {"tools": [...]} first')
        verb: Literal["post", "get"] = Field("post", description="how to ask: JSON by POST, or a GET's query string")
        query: str = Field("query", min_length=1, description="name of the field with the query")
        limit: str = Field("limit", description="name of the field with the number of tools; empty to send none")
        answer: str = Field("", description="JMESPath of the list of tools in the answer; empty for the usual shapes")
        unknown: UnknownNames = "fail"
        revision: str = Field("", description="version of the service, if you know it")
        version: str = Field("", description="address that says the version of the service, or address#HEADER")
        token: TokenVariable = Field("", description="environment variable with a bearer token")
        timeout: float = Field(30.0, gt=0, le=3600, description="seconds for one try")
        tries: int = Field(3, ge=1, le=10, description="requests for one query, if they fail in a way that may pass")
        concurrency: int = Field(1, ge=1, le=64, description="queries asked at once")
        rate: float = Field(0.0, ge=0, le=10_000, description="requests per second; 0 for no limit")

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        for url in filter(None, (parameters.url, parameters.catalogue, parameters.version)):
            check_url(url)
        self._revision: str | None = None
        self._client: WebClient | None = None
        self._asking = Asking(parameters.url, self._send, parameters.concurrency)

    def revisions(self) -> dict[str, str]:
        said = self._said()
        return {self.parameters.url: said} if said else {}

    def marks(self) -> dict[str, str]:
        options = self.parameters
        return marks_of_remote(options.url, version=self._said(), given=bool(options.catalogue)) if options.url else {}

    def preflight(self, library: Library, history: History) -> None:
        if not self.parameters.url:
            raise UsageError("the method http needs an address: http(url=http://localhost:8000/search).")
        super().preflight(library, history)
        self._web()

    def index(self, library: Library) -> None:
        super().index(library)
        self._library = library.content_hash
        if self.parameters.catalogue:
            try:
                body = {"library": library.content_hash, "tools": catalogue(library)}
                self._web().send("POST", self.parameters.catalogue, body)
            except Unusable as error:
                raise UnavailableError(f"{self.parameters.catalogue} did not take the tools: {error}.") from None

    def _send(self, text: str, depth: int) -> RemoteReply:
        fields: dict[str, str | int] = {self.parameters.query: text}
        if self.parameters.limit:
            fields[self.parameters.limit] = depth
        if self.parameters.catalogue:
            fields["library"] = self._library
        options = self.parameters
        return RemoteReply.of(self._web().send("POST" if options.verb == "post" else "GET", options.url, fields))

    def _web(self) -> WebClient:
        if self._client is None:
            options = self.parameters
            self._client = WebClient(Web(options.timeout, options.tries, options.rate, options.token))
        return self._client

    def _said(self) -> str:
        """The version of the service, as the user or the service says."""
        if self._revision is None:
            self._revision = self.parameters.revision
            if self.parameters.version:
                address, _, header = self.parameters.version.partition("#")
                try:
                    answer = self._web().answer("GET", address, {})
                except Unusable as error:
                    raise UnavailableError(f"{address} did not say its version: {error}.") from None
                said = answer.headers.get(header.lower(), "").encode("utf-8", "replace") if header else answer.body
                self._revision = _version(said)
                if not self._revision:
                    where = f"header {header!r}" if header else "body"
                    raise UnavailableError(f"{address} did not say its version: the {where} of its answer is empty.")
        return self._revision


def _version(said: bytes) -> str:
    """The version in an answer: `{"version": ...}`, a JSON string, or the text."""
    text = said[:2000].decode("utf-8", "replace").strip()
    try:
        value = loads(text)
    except (ValueError, RecursionError):
        value = text
    if isinstance(value, dict):
        value = value.get("version", text)
    return one_line(mask(str(value)), 200)
