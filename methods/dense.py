"""Nearest neighbours in the vector space of a sentence encoder."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.models.encoders import EMBEDDED, Encoder
from bench.protocol import Context, Library, Method, Queries, Ranking
from bench.protocol.method import Similarity
from bench.search.dense import similarities
from bench.search.topk import top_k
from bench.specs.parameters import ParameterSet


class Dense(Method):
    """Exact search over embeddings of the tools' texts."""

    class Parameters(ParameterSet):
        encoder: str = Field(
            EMBEDDED, description="`minilm` (embedded), a folder, a sentence-transformers model, or `openai:MODEL`"
        )
        similarity: Similarity = Field("cosine", description="how vectors are compared")
        query_prompt: str = Field("", description="text put before every query, for encoders trained with one")
        tool_prompt: str = Field("", description="text put before every tool's text")

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._tools, self._queries = (
            self.include(Encoder(parameters.encoder, prompt=prompt, progress=context.progress))
            for prompt in (parameters.tool_prompt, parameters.query_prompt)
        )

    @property
    def similarity(self) -> Similarity:
        return self.parameters.similarity

    def index(self, library: Library) -> None:
        self._vectors = self._tools.encode(library.texts)

    def tool_vectors(self) -> NDArray[np.float32]:
        return self._vectors

    def query_vectors(self, queries: Queries) -> NDArray[np.float32]:
        return self._queries.encode(queries.texts)

    def score(self, queries: Queries) -> NDArray[np.float64]:
        return similarities(self.query_vectors(queries), self._vectors, self.similarity)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return top_k(self.score(queries), depth)

    def facts(self) -> dict[str, str | int | float | bool]:
        encoders = (self._tools, self._queries)
        return {
            "texts_encoded": sum(encoder.computed for encoder in encoders),
            "texts_from_cache": sum(encoder.from_cache for encoder in encoders),
        }
