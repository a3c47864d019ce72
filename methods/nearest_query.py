"""The most similar past queries vote for their gold tools."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.parameters import ParameterSet
from bench.interface import Context, History, Library, Method, Queries, Ranking, ToolSets
from bench.interface.explanation import Case, Contribution, Explanation, Reason, excerpt, number
from bench.models.encoders import EMBEDDED, Encoder
from bench.search.dense import VectorIndex
from bench.search.topk import top_k

#: A past query with an opposite vector still votes, but with almost nothing.
_LEAST_VOTE = 1e-6


class NearestQuery(Method):
    """k-nearest neighbours over the history: the score of a tool is the sum of the similarities of past queries that
    used it.

    The recommended set is the gold set of the nearest past query. The method reads no tool text, so its score shows
    how much of a dataset can be answered from similar past queries alone.
    """

    class Parameters(ParameterSet):
        encoder: str = Field(
            EMBEDDED, description="`minilm` (embedded), a folder, a sentence-transformers model, or `openai:MODEL`"
        )
        neighbours: int = Field(10, ge=1, description="number of past queries that vote (k)")

    parameters: Parameters
    needs_history = True

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._encoder = self.include(Encoder(parameters.encoder, progress=context.progress))

    def fit(self, history: History) -> None:
        import scipy.sparse as sp

        past = np.flatnonzero(history.gold.counts)
        self._gold = history.gold.take(past)
        self._past = VectorIndex(self._encoder.encode([history.texts[i] for i in past]), "cosine")
        shape = (len(past), len(history.library))
        self._used = sp.csr_matrix((np.ones(len(self._gold.tools)), self._gold.tools, self._gold.starts), shape=shape)

    def index(self, library: Library) -> None:
        return None

    def _neighbours(self, queries: Queries, count: int) -> Ranking:
        return self._past.rank(self._encoder.encode(queries.texts), count)

    def score(self, queries: Queries) -> NDArray[np.float64]:
        import scipy.sparse as sp

        neighbours = self._neighbours(queries, self.parameters.neighbours)
        assert neighbours.scores is not None
        rows = np.repeat(np.arange(len(queries)), neighbours.tools.shape[1])
        weights = np.maximum(neighbours.scores.ravel().astype(np.float64), _LEAST_VOTE)
        votes = sp.csr_matrix((weights, (rows, neighbours.tools.ravel())), shape=(len(queries), self._used.shape[0]))
        scores: NDArray[np.float64] = (votes @ self._used).toarray()
        return scores

    def rank(self, queries: Queries, depth: int) -> Ranking:
        scores = self.score(queries)
        scores[scores == 0] = -np.inf
        return top_k(scores, depth)

    def recommend(self, queries: Queries) -> ToolSets:
        nearest = self._neighbours(queries, 1).tools[:, 0]
        return ToolSets.of([self._gold.row(int(past)) for past in nearest])

    def facts(self) -> dict[str, str | int | float | bool]:
        return {
            "past_queries": len(self._gold),
            "texts_encoded": self._encoder.computed,
            "texts_from_cache": self._encoder.from_cache,
        }

    def explain(self, case: Case) -> Explanation:
        """The past queries that vote for a tool, each with its similarity; a score is their sum."""
        neighbours = self._neighbours(case.query, len(self._gold))
        assert neighbours.scores is not None
        texts = [case.history.texts[row] for row in np.flatnonzero(case.history.gold.counts)]
        nearest = [
            _PastQuery(texts[past], float(cosine), frozenset(self._gold.row(int(past)).tolist()))
            for past, cosine in zip(neighbours.tools[0], neighbours.scores[0], strict=True)
        ]
        voting = min(self.parameters.neighbours, len(nearest))
        reasons = {}
        for tool in case.tools:
            users = [place for place, past in enumerate(nearest) if tool in past.used]
            voters = [nearest[place] for place in users if place < voting]
            parts = tuple(Contribution(past.quoted(40), max(past.cosine, _LEAST_VOTE)) for past in voters)
            because = _votes_in_words(tool, case, nearest, users, voting) if tool in case.gold else ""
            reasons[tool] = Reason(sum(part.value for part in parts), parts, (len(users),), "", because)
        return Explanation(f"which of the {voting} nearest past queries used it, and their votes", ("used",), reasons)


@dataclass(frozen=True)
class _PastQuery:
    """A past query: its text, its cosine with the query in single precision, and the tools that it used."""

    text: str
    cosine: float
    used: frozenset[int]

    def quoted(self, most: int) -> str:
        return f'"{excerpt(self.text, most)}"'


def _votes_in_words(tool: int, case: Case, nearest: list[_PastQuery], users: list[int], voting: int) -> str:
    """Why a gold tool does not rank higher.

    Args:
        tool: the gold tool.
        case: the query and the displayed tools.
        nearest: the past queries, nearest first.
        users: positions among them of those that used the tool.
        voting: number of them that vote.
    """
    if not users:
        return "no past query used it, so nothing can vote for it"
    first = users[0]
    if first >= voting:
        return (
            f"only the {voting} nearest past queries vote, and the first that used it is number {first + 1} "
            f"({number(nearest[first].cosine)}): {nearest[first].quoted(70)}"
        )
    rival = case.rivals.get(tool)
    if rival is None:
        return ""
    votes, others = (sum(code in past.used for past in nearest[:voting]) for code in (tool, rival))
    return f"{votes} of the {voting} nearest past queries used it, {others} used {case.id_of(rival)}"
