"""Nearest neighbours of the query in the embedding space of a sentence encoder."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.models.encoders import EMBEDDED, Encoder
from bench.protocol import Context, History, Library, Method, Queries, Ranking
from bench.protocol.method import Similarity
from bench.search.dense import similarities
from bench.search.topk import top_k
from bench.specs.parameters import ParameterSet


class Dense(Method):
    """Exact nearest-neighbour search over the embeddings of tool texts."""

    class Parameters(ParameterSet):
        encoder: str = Field(
            EMBEDDED, description="`minilm` (embedded), a folder, a sentence-transformers model, or `openai:MODEL`"
        )
        similarity: Similarity = Field("cosine", description="similarity function")
        query_prompt: str = Field("", description="prefix of every query, for encoders trained with one")
        tool_prompt: str = Field("", description="prefix of every tool text")

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._tools = Encoder(parameters.encoder, prompt=parameters.tool_prompt, progress=context.progress)
        self._queries = Encoder(parameters.encoder, prompt=parameters.query_prompt, progress=context.progress)

    @property
    def similarity(self) -> Similarity:
        return self.parameters.similarity

    def revisions(self) -> dict[str, str]:
        return {self.parameters.encoder: self._tools.revision}

    def preflight(self, library: Library, history: History) -> None:
        self._tools.revision  # noqa: B018 - resolves the model's files, or says that they are missing

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
