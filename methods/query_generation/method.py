"""Query generation: a language model writes the search queries.

Kachuee et al. 2024, "Improving Tool Retrieval by Leveraging Large Language Models for Query Generation".
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import Field

from bench.errors import UsageError
from bench.llm.replies import text_lines
from bench.methods.ptr.rules import clauses
from bench.models.causal import CausalModel, Sampling, causal_revision, load_causal
from bench.models.prompts import Prompt, query_prompt
from bench.protocol import Context, History, Library, Method, OracleMethod, Queries, Ranking
from bench.search.interleaving import round_robin
from bench.specs.parameters import MethodSpec, ParameterSet
from bench.specs.spec import Spec

RULES = "rules"
LOCAL = "local:"


@dataclass(frozen=True)
class _Written:
    """What was written for one utterance.

    Attributes:
        lines: the generated queries; empty where the reply has no usable line.
        failed: there is no reply.
    """

    lines: tuple[str, ...]
    failed: bool = False


class QueryGeneration(Method):
    """Searches with queries that a language model writes for the utterance, and with the utterance itself.

    `base` ranks the tools for each query, and finally for the utterance; the rankings are interleaved round robin. If a
    reply has no usable line, only the utterance is used. A query without a reply fails.
    """

    class Parameters(ParameterSet):
        base: MethodSpec = Field(Spec("dense"), description="method that searches with each query")
        llm: str = Field(
            RULES,
            min_length=1,
            description="model that writes the queries: a model behind an endpoint, `local:FOLDER` (or a Hub name) "
            "for a causal language model, or `rules`: the clauses of the utterance",
        )
        prompt: Literal["auto"] | Prompt = Field(
            "auto",
            description="`plain` asks for tool descriptions, `intent` for intents, `utterance` sends only the "
            "utterance; auto: the prompt a local model was trained with, otherwise plain",
        )
        queries: int = Field(5, ge=1, le=5, description="maximum number of generated queries")
        include_utterance: bool = Field(True, description="search with the utterance as the last query")
        temperature: float = Field(0.0, ge=0, le=2, description="sampling temperature; 0 is greedy decoding")
        top_p: float = Field(
            0.9, gt=0, le=1, description="nucleus sampling: cumulative probability of the tokens to sample from"
        )
        top_k: int = Field(10, ge=1, le=1000, description="local models: number of most likely tokens to sample from")
        most_tokens: int = Field(256, ge=8, description="maximum number of tokens in a reply")

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._base = context.build(parameters.base)
        if isinstance(self._base, OracleMethod):
            raise UsageError("query-generation cannot search with an oracle: the mark would be lost.")
        self._local = parameters.llm.removeprefix(LOCAL) if parameters.llm.startswith(LOCAL) else None
        if self._local == "":
            raise UsageError("llm=local: names no model; write the folder after it, as in llm=local:models/generator.")
        remote = self._local is None and parameters.llm != RULES
        self.needs_history = self._base.needs_history
        self.needs_llm = self._base.needs_llm or remote
        self._remote = None
        if remote:
            from bench.llm.client import LanguageModel

            self._remote = LanguageModel(parameters.llm, progress=context.progress)
        self._model: CausalModel | None = None
        self._outcomes: dict[str, _Written] = {}

    def revisions(self) -> dict[str, str]:
        found = dict(self._base.revisions())
        if self._local is not None:
            found[self._local] = causal_revision(self._local)
        if self._remote is not None:
            found["llm"] = self._remote.identity
        return found

    def marks(self) -> dict[str, str]:
        """What every table says on the row of this method."""
        ruled = self.parameters.llm == RULES
        return {"rules": "uses rules instead of a language model (llm=rules)"} if ruled else {}

    def preflight(self, library: Library, history: History) -> None:
        if self._local is not None:
            causal_revision(self._local)
        if self._remote is not None:
            self._remote.preflight()
        self._base.preflight(library, history)

    def fit(self, history: History) -> None:
        self._base.fit(history)

    def index(self, library: Library) -> None:
        self._tools = len(library)
        self._base.index(library)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        written = self._written(queries.texts)
        asked = [
            () if part.failed else self._asked(text, part.lines)
            for text, part in zip(queries.texts, written, strict=True)
        ]
        found, failed = round_robin(self._base, asked, queries.rows, self._tools, depth)
        return Ranking.of_lists(found, [one or part.failed for one, part in zip(failed, written, strict=True)])

    def _asked(self, utterance: str, lines: Sequence[str]) -> tuple[str, ...]:
        """What the base is asked: the lines, then the utterance; each once."""
        last = (utterance,) if self.parameters.include_utterance or not lines else ()
        return tuple(dict.fromkeys([*lines, *last]))

    def _written(self, texts: Sequence[str]) -> list[_Written]:
        """The queries written for each utterance; a blank one is answered without asking."""
        distinct = [text for text in dict.fromkeys(texts) if text.strip()]
        if self._remote is not None:
            answers = self._by_endpoint(distinct)
        elif self._local is not None:
            answers = [_Written(self._lines(reply)) for reply in self._by_local_model(distinct)]
        else:
            answers = [_Written(tuple(clauses(text)[: self.parameters.queries])) for text in distinct]
        found = dict(zip(distinct, answers, strict=True))
        self._outcomes.update(found)
        return [found.get(text, _Written(())) for text in texts]

    def _lines(self, reply: str) -> tuple[str, ...]:
        return tuple(text_lines(reply, self.parameters.queries))

    def _prompt(self, trained: Prompt | None = None) -> Prompt:
        chosen = self.parameters.prompt
        return (trained or "plain") if chosen == "auto" else chosen

    def _by_endpoint(self, texts: Sequence[str]) -> list[_Written]:
        from bench.llm.client import Failure, Message, Request

        assert self._remote is not None
        chosen = self.parameters
        requests = [
            Request(
                (Message("user", query_prompt(self._prompt(), text, chosen.queries)),),
                temperature=chosen.temperature,
                top_p=chosen.top_p,
                max_tokens=chosen.most_tokens,
            )
            for text in texts
        ]
        return [
            _Written((), failed=True) if isinstance(reply, Failure) else _Written(self._lines(reply.text))
            for reply in self._remote.complete(requests)
        ]

    def _by_local_model(self, texts: Sequence[str]) -> list[str]:
        assert self._local is not None
        chosen = self.parameters
        if self._model is None:
            with self.context.progress.stage(f"load {self._local}"):
                self._model = load_causal(self._local)
        prompt = self._prompt(self._model.trained_prompt)
        prompts = [
            self._model.prompt(lambda part: query_prompt(prompt, part, chosen.queries), text, chosen.most_tokens)
            for text in texts
        ]
        # By the text, so that a query is answered alike wherever it stands.
        seeds = [
            (int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8]),) for text in texts
        ]
        sampling = Sampling(chosen.temperature, chosen.top_p, chosen.top_k, chosen.most_tokens)
        return self._model.generate(prompts, seeds, sampling)

    def facts(self) -> dict[str, str | int | float | bool]:
        found: dict[str, str | int | float | bool] = {
            f"{self._base.name}.{name}": fact for name, fact in self._base.facts().items()
        }
        outcomes = self._outcomes.values()
        found["queries_generated"] = sum(len(outcome.lines) for outcome in outcomes)
        found["replies_unusable"] = sum(not outcome.lines and not outcome.failed for outcome in outcomes)
        if self._model is not None:
            found["prompt"] = self._prompt(self._model.trained_prompt)
        if self._remote is not None:
            usage = self._remote.usage
            found |= {"llm_calls": usage.calls, "llm_from_journal": usage.from_journal, "llm_failures": usage.failures}
            found |= {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
        return found
