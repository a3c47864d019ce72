"""Late interaction: every query token is matched with the most similar token of the tool's text."""

from __future__ import annotations

import string
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.parameters import ParameterSet
from bench.interface import Context, Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Contribution, Explanation, Reason, number
from bench.methods.late_interaction.tokenvectors import TokenEncoder, Tokens
from bench.models.encoders import EMBEDDED
from bench.search.topk import BLOCK, top_k

#: Texts to encode at once while their vectors are in single precision.
_TEXTS = 256
_PUNCTUATION = set(string.punctuation)


class LateInteraction(Method):
    """MaxSim (ColBERT, Khattab and Zaharia 2020): score = Σ over query tokens of max over tool tokens of their cosine.

    The vectors are those of a sentence encoder before pooling, and nothing is trained. ColBERT trains its encoder for
    this sum, with a projection to 128 dimensions, markers of queries and documents, and queries padded with [MASK]
    tokens; all of that is useless without the training and is left out, and so are the tokens [CLS] and [SEP].
    Punctuation in tools is left out, as in the paper. The vectors of the library are stored in half precision: two
    bytes per dimension and token.
    """

    class Parameters(ParameterSet):
        encoder: str = Field(EMBEDDED, description="`minilm` (embedded), a folder, or a sentence-transformers model")

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._encoder = self.include(TokenEncoder(parameters.encoder, progress=context.progress))

    def index(self, library: Library) -> None:
        self._tools = len(library)
        punctuation = [number for number, piece in self._encoder.pieces.items() if not set(piece) - _PUNCTUATION]
        self._ids: list[NDArray[np.int64]] = []
        self._vectors: list[NDArray[np.float16]] = []
        for start in range(0, len(library), _TEXTS):
            for tokens in self._encoder.encode(library.texts[start : start + _TEXTS]):
                words = ~np.isin(tokens.ids, punctuation)
                self._ids.append(tokens.ids[words])
                self._vectors.append(tokens.vectors[words].astype(np.float16))

    def score(self, queries: Queries) -> NDArray[np.float64]:
        """(queries, tools); -inf if the query or the tool has no token."""
        query_tokens = self._encoder.encode(queries.texts)
        scores = np.full((len(queries), self._tools), -np.inf)
        rows = [row for row, tokens in enumerate(query_tokens) if len(tokens)]
        if not rows:
            return scores
        vectors = np.concatenate([query_tokens[row].vectors for row in rows]).astype(np.float64)
        starts = np.cumsum([0, *(len(query_tokens[row]) for row in rows[:-1])])
        for tools in self._blocks(len(vectors)):
            cosines = max_similarities(vectors, [self._vectors[tool] for tool in tools])
            scores[np.ix_(rows, tools)] = np.add.reduceat(cosines, starts, axis=0)
        return scores

    def _blocks(self, rows: int) -> Iterator[list[int]]:
        """Tools that have tokens, in groups such that a matrix of `rows` by tokens stays near `BLOCK`."""
        block: list[int] = []
        columns = 0
        for tool, count in enumerate(map(len, self._vectors)):
            if not count:
                continue
            if block and rows * (columns + count) > BLOCK:
                yield block
                block, columns = [], 0
            block.append(tool)
            columns += count
        if block:
            yield block

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return top_k(self.score(queries), depth)

    def facts(self) -> dict[str, str | int | float | bool]:
        return {
            "tool_tokens": sum(map(len, self._vectors)),
            "texts_encoded": self._encoder.computed,
            "texts_from_cache": self._encoder.from_cache,
        }

    def explain(self, case: Case) -> Explanation:
        """For each query token the most similar token of the tool's text, with their cosine."""
        (query_tokens,) = self._encoder.encode([case.text])
        parts = {tool: self._matches(query_tokens, tool) for tool in case.tools}
        means = {
            tool: sum(match.value for match in pairs) / len(pairs) if pairs else None for tool, pairs in parts.items()
        }
        reasons = {}
        for tool, matches in parts.items():
            mean, rival, because = means[tool], case.rivals.get(tool), ""
            above = None if rival is None else means[rival]
            if rival is not None and mean is not None and above is not None:
                because = (
                    f"the {len(matches)} tokens of the query have a mean cosine of {number(mean)}, with "
                    f"{case.id_of(rival)} {number(above)}"
                )
            elif rival is not None:
                because = "its text has no token"
            total = sum(match.value for match in matches) if matches else None
            reasons[tool] = Reason(total, matches, (mean,), "", because)
        return Explanation("tokens of the query and the most similar ones of its text", ("mean cosine",), reasons)

    def _matches(self, query_tokens: Tokens, tool: int) -> tuple[Contribution, ...]:
        """The cosine of each query token with the most similar token of a tool, greatest first."""
        vectors = self._vectors[tool].astype(np.float64)
        if not len(query_tokens) or not len(vectors):
            return ()
        cosines = query_tokens.vectors.astype(np.float64) @ vectors.T
        pieces = self._encoder.pieces
        matches = [
            Contribution(_pair(pieces[int(token)], pieces[int(self._ids[tool][place])]), float(row[place]))
            for token, place, row in zip(query_tokens.ids, cosines.argmax(axis=1), cosines, strict=True)
        ]
        return tuple(sorted(matches, key=lambda match: -match.value))


def max_similarities(queries: NDArray[np.float64], tools: list[NDArray[np.float16]]) -> NDArray[np.float64]:
    """(query tokens, tools) the largest dot product of a query token with any token of a tool.

    Args:
        queries: (query tokens, dimensions).
        tools: for each tool (tokens, dimensions), at least one token.
    """
    starts = np.cumsum([0, *(len(tool) for tool in tools[:-1])])
    products = queries @ np.concatenate(tools).astype(np.float64).T
    largest: NDArray[np.float64] = np.maximum.reduceat(products, starts, axis=1)
    return largest


def _pair(piece: str, other: str) -> str:
    return piece if piece == other else f"{piece} ~ {other}"
