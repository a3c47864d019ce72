"""Embeddings from an endpoint with the OpenAI embeddings API. `encoders` calls it."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.base.config import bound_session
from bench.base.errors import UnavailableError, require
from bench.models.llm.budget import Reservation
from bench.models.llm.journal import JournalLine, journal_at
from bench.models.llm.messages import clean_text
from bench.models.llm.settings import OFFLINE, EndpointSettings, embedding_settings
from bench.models.llm.transport import GaveUp, Malformed, Refused, Transport

#: Prefix of encoders behind an endpoint: `openai:text-embedding-3-small`.
PREFIX = "openai:"

#: Maximum bytes of texts per call; endpoints limit the tokens.
_MOST_BYTES = 200_000
#: Maximum tokens that a tokeniser may add around a text.
_AROUND = 8
_LARGEST = float(np.finfo(np.float32).max)


class EndpointModel:
    """An embedding model behind an endpoint.

    Args:
        model: its name at the endpoint.
    """

    paid = True
    loaded = False
    #: A crash loses little: paid vectors are stored.
    at_once = 64

    def __init__(self, model: str) -> None:
        self._name = model
        self._session = bound_session()
        if not model:
            raise UnavailableError(f"encoder={PREFIX} names no model; write {PREFIX}MODEL.")

    @cached_property
    def _settings(self) -> EndpointSettings:
        return embedding_settings()

    @cached_property
    def _transport(self) -> Transport:
        return Transport(self._settings)

    @property
    def folder(self) -> Path:
        raise UnavailableError(f"{PREFIX}{self._name} has no files here: its vectors come from an endpoint.")

    @property
    def revision(self) -> str:
        """Model and endpoint; what is behind them is unknown.

        Raises:
            UnavailableError: the endpoint may be called, and the package that calls it is not installed.
        """
        if self._settings.named and not self._session().offline:
            require("openai", what=f"{PREFIX}{self._name}")
        return f"{self._name} at {self._settings.url}"

    def identity(self, prompt: str) -> str:
        return json.dumps({"model": self._name, "endpoint": self._settings.url, "prompt": prompt})

    def prepare(self, missing: int) -> None:
        settings = self._settings
        offline = self._session().offline
        if offline or not settings.named:
            name = f"no endpoint is named; name it in {settings.url_name}, its key in {settings.key_name}."
            why = f"{OFFLINE}; go online to ask for them." if offline else name
            raise UnavailableError(f"the cache lacks {missing} vectors of {self.revision}, and {why}")

    def encode(self, texts: Sequence[str]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """(texts, dimensions) vectors of all texts, with their positions.

        Raises:
            UnavailableError: the endpoint cannot be reached, refuses, or returns no vectors on the last try.
        """
        vectors = [self._ask(part) for part in _parts([clean_text(text) or " " for text in texts])]
        if len({part.shape[1] for part in vectors}) > 1:
            raise UnavailableError(f"{self.revision} gave vectors of different lengths.")
        yield np.arange(len(texts)), np.concatenate(vectors)

    def _ask(self, texts: list[str]) -> NDArray[np.float32]:
        """Vectors of a few texts by one call."""
        settings, price = self._settings, self._settings.price
        # Every tokeniser in use needs at least one byte per token.
        most = sum(len(text.encode()) + _AROUND for text in texts)
        bound = 0.0 if price is None else price.of(most, 0)

        def send(client: Any) -> Any:
            # As numbers: by default the package requests base64, which not every endpoint supports.
            call = client.embeddings.with_streaming_response.create
            return call(model=self._name, input=texts, encoding_format="float")

        never = threading.Event()
        with journal_at(settings.journal).budget.holding(bound, settings.limit, never) as held:
            try:
                vectors, tokens = self._transport.call(send, lambda body: _read(body, len(texts)), held, never)
            except (GaveUp, Refused) as error:
                self._record(held, 0, estimated=True)
                raise UnavailableError(f"{self.revision} gave no vectors: {error}.") from None
            except BaseException:
                # No room for another try, a refused key, Ctrl-C: failed tries are paid all the same.
                if held.lost:
                    self._record(held, 0, estimated=True)
                raise
            self._record(held, most if tokens is None else tokens, estimated=tokens is None)
        return vectors

    def _record(self, held: Reservation, tokens: int, *, estimated: bool) -> None:
        """Record the cost of a call together with those of replies: one limit covers both."""
        price = self._settings.price
        if price is None:
            return
        line = JournalLine(
            kind="embeddings",
            model=self._name,
            endpoint=self._settings.url,
            input_tokens=tokens,
            estimated=estimated,
            cost=price.of(tokens, 0) + held.lost,
        )
        journal_at(self._settings.journal).append(line)
        held.recorded = True


def _parts(texts: Sequence[str]) -> Iterator[list[str]]:
    """Texts in parts for one call each; a text that exceeds any call is a part of its own."""
    part: list[str] = []
    size = 0
    for text in texts:
        length = len(text.encode())
        if part and size + length > _MOST_BYTES:
            yield part
            part, size = [], 0
        part.append(text)
        size += length
    if part:
        yield part


def _read(body: Any, count: int) -> tuple[NDArray[np.float32], int | None]:
    """The vectors of a reply in the order of the texts, and its token count; None if it has none.

    Raises:
        Malformed: it does not follow the protocol.
    """
    rows = body.get("data") if isinstance(body, dict) else None
    if not isinstance(rows, list) or len(rows) != count:
        raise Malformed(f"the reply does not have {count} vectors")
    by_index: dict[int, list[float]] = {}
    for row in rows:
        index, vector = (row.get("index"), row.get("embedding")) if isinstance(row, dict) else (None, None)
        if type(index) is not int or not isinstance(vector, list) or not all(map(_is_number, vector)):
            raise Malformed("a vector in the reply is not a list of numbers")
        by_index[index] = vector
    lengths = set(map(len, by_index.values()))
    if sorted(by_index) != list(range(count)) or len(lengths) != 1 or 0 in lengths:
        raise Malformed("the vectors of the reply do not fit the texts, or each other")
    usage = body.get("usage")
    tokens = usage.get("prompt_tokens") if isinstance(usage, dict) else None
    vectors = np.array([by_index[i] for i in range(count)], dtype=np.float32)
    return vectors, tokens if type(tokens) is int and 0 < tokens < 10**9 else None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= _LARGEST
