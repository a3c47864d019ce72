"""Nearest neighbours of the query in the embedding space of a sentence encoder."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.parameters import ParameterSet
from bench.interface import Context, Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Explanation, Reason, excerpt, number
from bench.interface.method import Similarity
from bench.models.compiled import Backend
from bench.models.encoders import EMBEDDED, Encoder
from bench.search.dense import VectorIndex, similarities

#: Characters of a tool's text in a reason.
_MOST_TEXT = 200


class Dense(Method):
    """Exact nearest-neighbour search over the embeddings of tool texts."""

    class Parameters(ParameterSet):
        encoder: str = Field(
            EMBEDDED, description="`minilm` (embedded), a folder, a sentence-transformers model, or `openai:MODEL`"
        )
        similarity: Similarity = Field("cosine", description="similarity function")
        query_prompt: str = Field("", description="prefix of every query, for encoders trained with one")
        tool_prompt: str = Field("", description="prefix of every tool text")
        backend: Backend = Field(
            "torch",
            description="compute backend of the encoder; `openvino` and `openvino-bf16` need the package openvino",
        )

    #: Texts of similar length are encoded together, and the search is spread over several machines if there are any.
    batch_size: ClassVar[int] = 1024

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._tools, self._queries = (
            self.include(
                Encoder(parameters.encoder, prompt=prompt, backend=parameters.backend, progress=context.progress)
            )
            for prompt in (parameters.tool_prompt, parameters.query_prompt)
        )

    @property
    def similarity(self) -> Similarity:
        return self.parameters.similarity

    def index(self, library: Library) -> None:
        self._vectors = self._tools.encode(library.texts)
        self._index = VectorIndex(self._vectors, self.similarity)

    def tool_vectors(self) -> NDArray[np.float32]:
        return self._vectors

    def query_vectors(self, queries: Queries) -> NDArray[np.float32]:
        return self._queries.encode(queries.texts)

    def score(self, queries: Queries) -> NDArray[np.float64]:
        return self._index.score(self.query_vectors(queries))

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return self._index.rank(self.query_vectors(queries), depth)

    def facts(self) -> dict[str, str | int | float | bool]:
        encoders = (self._tools, self._queries)
        return {
            "texts_encoded": sum(encoder.computed for encoder in encoders),
            "texts_from_cache": sum(encoder.from_cache for encoder in encoders),
        }

    def explain(self, case: Case) -> Explanation:
        """The similarity of the query's vector with that of each tool's text, and how similar the tools are to gold.

        `like gold` is the cosine of a tool's vector with that of the most similar other gold tool: near 1, the tool
        reads like gold; far below, it matches the query for other reasons.
        """
        tools = np.array(case.tools, dtype=np.int64)
        scores = similarities(self.query_vectors(case.query), self._vectors[tools], self.similarity)[0]
        score = dict(zip(case.tools, scores.tolist(), strict=True))
        gold = np.array(sorted(case.gold), dtype=np.int64)
        likeness = np.zeros((len(tools), 0))
        if len(gold):
            likeness = similarities(self._vectors[tools], self._vectors[gold], "cosine")
        likeness[tools[:, None] == gold[None, :]] = -np.inf
        nearest = likeness.max(axis=1, initial=-np.inf)
        measure = "cosine" if self.similarity == "cosine" else f"{self.similarity} similarity"
        reasons = {}
        for i, tool in enumerate(case.tools):
            because, rival = "", case.rivals.get(tool)
            if rival is not None:
                between = similarities(self._vectors[[tool]], self._vectors[[rival]], "cosine")[0, 0]
                because = (
                    f"{measure} with the query {number(score[tool])}, {case.id_of(rival)} has {number(score[rival])}; "
                    f"the two texts: cosine {number(between)}"
                )
            like_gold = float(nearest[i]) if np.isfinite(nearest[i]) else None
            reasons[tool] = Reason(
                score[tool], (), (like_gold,), excerpt(case.library.texts[tool], _MOST_TEXT), because
            )
        notes = (
            f"Score: {measure} with the query. Like gold: cosine of its text with that of the most similar gold tool.",
        )
        return Explanation("how its text begins", ("like gold",), reasons, notes=notes)
