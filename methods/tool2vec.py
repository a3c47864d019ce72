"""Tool2Vec: a tool is the mean of the embeddings of the queries that used it.

Moon et al. 2024, "Efficient and Scalable Estimation of Tool Representations in Vector Space".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.parameters import ParameterSet
from bench.interface import Context, History, Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Explanation, Reason, excerpt, number
from bench.interface.method import Similarity
from bench.models.encoders import EMBEDDED, Encoder
from bench.models.llm.local import ModelName
from bench.search.dense import VectorIndex, similarities
from bench.search.generated_queries import write_queries

if TYPE_CHECKING:
    import scipy.sparse as sp

    from bench.models.llm.client import LanguageModel

#: Origins of the vector of a tool.
PAST, WRITTEN, TEXT = "past queries", "written queries", "its text"


class Tool2Vec(Method):
    """The vector of a tool is the mean of the embeddings of the past queries that it is gold for (section 3.1).

    The score is the similarity of that vector with the query's. Past queries are those of the train and dev splits. In
    the paper each tool has queries. Here, a tool without any has the vector of its text. With `llm=MODEL`, a model
    writes `written` queries for such a tool and their mean is its vector, so the method needs no past queries; a tool
    without written queries falls back to its text.
    """

    class Parameters(ParameterSet):
        encoder: str = Field(
            EMBEDDED, description="`minilm` (embedded), a folder, a sentence-transformers model, or `openai:MODEL`"
        )
        similarity: Similarity = Field("cosine", description="similarity function")
        llm: ModelName = Field(
            "",
            description="model behind an endpoint, or `local:FILE.gguf`, that writes queries for tools without past "
            "ones",
        )
        written: int = Field(10, ge=1, le=50, description="number of queries that the model writes for a tool")

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        import scipy.sparse as sp

        super().__init__(parameters, context)
        self._encoder = self.include(Encoder(parameters.encoder, progress=context.progress))
        self._model: LanguageModel | None = None
        if parameters.llm:
            from bench.models.llm.client import LanguageModel

            self._model = self.include(LanguageModel(parameters.llm, progress=context.progress))
        self.needs_history = self._model is None
        self._texts: tuple[str, ...] = ()
        self._used = sp.csr_matrix((0, 0))
        self._unanswered = 0

    def fit(self, history: History) -> None:
        import scipy.sparse as sp

        past = np.flatnonzero(history.gold.counts)
        gold = history.gold.take(past)
        self._texts = tuple(history.texts[row] for row in past)
        shape = (len(past), len(history.library))
        self._used = sp.csr_matrix((np.ones(len(gold.tools)), gold.tools, gold.starts), shape=shape)

    def index(self, library: Library) -> None:
        import scipy.sparse as sp

        texts, used = self._texts, self._used if len(self._texts) else sp.csr_matrix((0, len(library)))
        counts = np.asarray(used.sum(axis=0)).ravel()
        self._origin = [PAST if count else TEXT for count in counts]
        if self._model is not None:
            texts, used = self._with_written(library, counts)
            counts = np.asarray(used.sum(axis=0)).ravel()
        self._counts = counts.astype(np.int64)
        bare = np.flatnonzero(counts == 0)
        encoded = self._encoder.encode([*texts, *(library.texts[code] for code in bare)]).astype(np.float64)
        self._vectors = np.asarray(used.T @ encoded[: len(texts)]) / np.maximum(counts, 1)[:, None]
        self._vectors[bare] = encoded[len(texts) :]
        self._index = VectorIndex(self._vectors, self.similarity)

    def _with_written(self, library: Library, counts: NDArray[np.float64]) -> tuple[tuple[str, ...], sp.csr_matrix]:
        """Past queries and written ones; (queries, tools) which queries used which tools."""
        import scipy.sparse as sp

        assert self._model is not None
        bare = np.flatnonzero(counts == 0)
        replies = write_queries(self._model, [library.tools[code] for code in bare], self.parameters.written)
        self._unanswered = sum(queries is None for queries in replies)
        texts: list[str] = []
        rows: list[int] = []
        for code, queries in zip(bare, replies, strict=True):
            texts.extend(queries or ())
            rows.extend([int(code)] * len(queries or ()))
            if queries:
                self._origin[code] = WRITTEN
        shape = (len(texts), len(library))
        written = sp.csr_matrix((np.ones(len(texts)), rows, np.arange(len(texts) + 1)), shape=shape)
        past = self._used if len(self._texts) else sp.csr_matrix((0, len(library)))
        return (*self._texts, *texts), sp.csr_matrix(sp.vstack([past, written]))

    def tool_vectors(self) -> NDArray[np.float32]:
        return self._vectors.astype(np.float32)

    def query_vectors(self, queries: Queries) -> NDArray[np.float32]:
        return self._encoder.encode(queries.texts)

    @property
    def similarity(self) -> Similarity:
        return self.parameters.similarity

    def score(self, queries: Queries) -> NDArray[np.float64]:
        return self._index.score(self.query_vectors(queries))

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return self._index.rank(self.query_vectors(queries), depth)

    def facts(self) -> dict[str, str | int | float | bool]:
        facts: dict[str, str | int | float | bool] = {
            "past_queries": len(self._texts),
            "tools_by_past_queries": self._origin.count(PAST),
            "tools_by_text": self._origin.count(TEXT),
        }
        if self._model is not None:
            facts["tools_by_written_queries"] = self._origin.count(WRITTEN)
            facts["tools_without_reply"] = self._unanswered
        return facts

    def explain(self, case: Case) -> Explanation:
        """The similarity with the mean of a tool's queries, and the nearest of its past queries."""
        tools = np.array(case.tools, dtype=np.int64)
        query = self.query_vectors(case.query)
        scores = similarities(query, self._vectors[tools], self.similarity)[0]
        past = self._used.tocsc() if len(self._texts) else None
        reasons = {}
        for place, tool in enumerate(case.tools):
            note, best = f"the vector is that of {self._origin[tool]}", None
            if self._origin[tool] == PAST and past is not None:
                rows = past.indices[past.indptr[tool] : past.indptr[tool + 1]]
                near = similarities(query, self._encoder.encode([self._texts[row] for row in rows]), self.similarity)[0]
                best = float(near.max())
                note = f'its nearest past query: "{excerpt(self._texts[rows[int(near.argmax())]], 90)}"'
            because, rival = "", case.rivals.get(tool)
            if rival is not None:
                other = float(scores[case.tools.index(rival)]) if rival in case.tools else None
                because = f"its vector is that of {self._origin[tool]}: {number(float(scores[place]))}"
                because += f"; {case.id_of(rival)} ({self._origin[rival]})" + (
                    "" if other is None else f" has {number(other)}"
                )
            reasons[tool] = Reason(float(scores[place]), (), (int(self._counts[tool]), best), note, because)
        return Explanation("which queries it stands for", ("queries", "nearest"), reasons)
