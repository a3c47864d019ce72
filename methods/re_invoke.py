"""Re-Invoke: tools with generated queries, requests split into intents, and one ranking over all views.

Chen et al. 2024, "Re-Invoke: Tool Invocation Rewriting for Zero-Shot Tool Retrieval"
(https://arxiv.org/abs/2408.01875). The prompts are ours, and so is the reading of how ranks and similarities combine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.parameters import ParameterSet
from bench.interface import Context, Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Explanation, Reason, excerpt
from bench.methods.query_generation.prompts import query_prompt
from bench.models.encoders import EMBEDDED, Encoder
from bench.models.llm.local import ModelName
from bench.models.llm.replies import text_lines
from bench.models.llm.rules import RULES, RULES_MARK, language_model
from bench.search.clauses import clauses
from bench.search.dense import VectorIndex
from bench.search.generated_queries import write_queries

_MOST_TOKENS = 256


@dataclass(frozen=True)
class _Intents:
    """The intents of a request; the request itself if the reply has none (`usable` is false) or there is no reply."""

    texts: tuple[str, ...]
    usable: bool = True
    failed: bool = False


class ReInvoke(Method):
    """A model writes queries for each tool and splits each request into intents; intents find tools.

    A tool has one text per generated query: its own text followed by the query. The similarity of an intent and a tool
    is the highest cosine over these texts. Each intent ranks all tools. Tools are ordered by their best rank over the
    intents, so that the first tool of every intent comes first; among tools with the same best rank, the most similar
    comes first (multi-view similarity ranking). The order has no scores.

    With `llm=rules`, intents are the clauses of the request, and tools only have their own text. A tool without a
    usable reply has its own text; a request without a usable line is its own intent; a request without a reply fails.
    """

    class Parameters(ParameterSet):
        encoder: str = Field(
            EMBEDDED, description="`minilm` (embedded), a folder, a sentence-transformers model, or `openai:MODEL`"
        )
        llm: ModelName = Field(
            RULES,
            min_length=1,
            description="model behind an endpoint, or `local:FILE.gguf`, that writes queries and intents, or `rules`",
        )
        queries: int = Field(10, ge=1, le=50, description="number of queries that the model writes for a tool")
        intents: int = Field(5, ge=1, le=20, description="maximum number of intents of a request")

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._encoder = self.include(Encoder(parameters.encoder, progress=context.progress))
        self._model = (
            None if parameters.llm == RULES else self.include(language_model(parameters.llm, context.progress))
        )
        self._outcomes: dict[str, _Intents] = {}

    def marks(self) -> dict[str, str]:
        """The mark of this method in every table."""
        return {} if self._model else dict(RULES_MARK)

    def index(self, library: Library) -> None:
        written: Sequence[tuple[str, ...] | None] = [()] * len(library)
        if self._model is not None:
            written = write_queries(self._model, library.tools, self.parameters.queries)
        texts: list[str] = []
        starts: list[int] = []
        for text, queries in zip(library.texts, written, strict=True):
            starts.append(len(texts))
            texts.extend([f"{text}\n{query}" for query in queries or ()] or [text])
        self._starts = np.array(starts, dtype=np.int64)
        self._texts = len(texts)
        self._bare = sum(not queries for queries in written)
        self._index = VectorIndex(self._encoder.encode(texts), "cosine")

    def rank(self, queries: Queries, depth: int) -> Ranking:
        intents = self._intents(queries.texts)
        rows = [[] if each.failed else self._ordered(each.texts)[0][:depth].tolist() for each in intents]
        return Ranking.of_lists(rows, [each.failed for each in intents])

    def _ordered(self, intents: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
        """Tools in order; (intents, tools) the rank of each tool by each intent, from 0; its similarity."""
        cosines = self._index.score(self._encoder.encode(intents))
        # Single precision, as in `top_k`: scores that differ only by rounding tie, and the code decides.
        likeness = np.maximum.reduceat(cosines, self._starts, axis=1).astype(np.float32)
        by_intent = np.argsort(-likeness, axis=1, kind="stable")
        ranks = np.empty_like(by_intent)
        np.put_along_axis(ranks, by_intent, np.broadcast_to(np.arange(ranks.shape[1]), ranks.shape), axis=1)
        best = ranks.min(axis=0)
        most = np.where(ranks == best, likeness, -np.inf).max(axis=0)
        return np.lexsort((np.arange(len(best)), -most, best)), ranks, likeness

    def _intents(self, texts: Sequence[str]) -> list[_Intents]:
        distinct = [text for text in dict.fromkeys(texts) if text.strip()]
        most = self.parameters.intents
        intents: list[_Intents] = []
        if self._model is None:
            intents = [_Intents(tuple(clauses(text)[:most]) or (text,)) for text in distinct]
        else:
            from bench.models.llm.client import Failure, Message, Request

            requests = [
                Request((Message("user", query_prompt("intent", text, most)),), max_tokens=_MOST_TOKENS)
                for text in distinct
            ]
            for text, reply in zip(distinct, self._model.complete(requests), strict=True):
                lines = () if isinstance(reply, Failure) else tuple(dict.fromkeys(text_lines(reply.text, most)))
                intents.append(_Intents(lines or (text,), bool(lines), isinstance(reply, Failure)))
        answers = dict(zip(distinct, intents, strict=True))
        self._outcomes.update(answers)
        return [answers.get(text, _Intents((text,))) for text in texts]

    def facts(self) -> dict[str, str | int | float | bool]:
        outcomes = self._outcomes.values()
        return {
            "texts": self._texts,
            "tools_by_own_text": self._bare,
            "intents": sum(len(outcome.texts) for outcome in outcomes if outcome.usable),
            "replies_unusable": sum(not outcome.usable and not outcome.failed for outcome in outcomes),
        }

    def explain(self, case: Case) -> Explanation:
        """Which intent finds a tool, and at what rank."""
        (intents,) = self._intents(case.query.texts)
        if intents.failed:
            return Explanation(notes=("There is no reply for this query.",))
        order, ranks, likeness = self._ordered(intents.texts)
        reasons = {}
        for tool in case.tools:
            best = int(ranks[:, tool].argmin())
            because, rival = "", case.rivals.get(tool)
            if rival is not None:
                other = int(ranks[:, rival].argmin())
                because = f"its best rank is {ranks[best, tool] + 1}, by intent {best + 1}; {case.id_of(rival)} is at "
                because += f"{ranks[other, rival] + 1} by intent {other + 1}"
            cells = (best + 1, int(ranks[best, tool]) + 1, float(likeness[best, tool]))
            reasons[tool] = Reason(None, (), cells, "", because)
        quoted = tuple(f'Intent {place}: "{excerpt(text, 90)}".' for place, text in enumerate(intents.texts, start=1))
        columns = ("intent", "its rank", "similarity")
        return Explanation("", columns, reasons, order=case.in_order(order), notes=quoted)
