"""Query generation: a language model writes the search queries.

Kachuee et al. 2024, "Improving Tool Retrieval by Leveraging Large Language Models for Query Generation".
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from bench.base.config import repeat_seed
from bench.base.errors import UsageError
from bench.base.parameters import MethodSpec, ParameterSet
from bench.base.progress import Progress
from bench.base.spec import Spec
from bench.interface import Context, History, Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Explanation
from bench.methods.query_generation.interleaving import Interleaving, round_robin, search
from bench.methods.query_generation.prompts import Prompt, query_prompt, trained_prompt
from bench.models.causal import CausalModel, Sampling, causal_revision, load_causal
from bench.models.llm.local import ModelName, is_file_model
from bench.models.llm.replies import text_lines
from bench.models.llm.rules import RULES, RULES_MARK
from bench.search.clauses import clauses

if TYPE_CHECKING:
    from bench.models.llm.client import LanguageModel

LOCAL = "local:"


@dataclass(frozen=True)
class _Written:
    """The queries for one utterance.

    Attributes:
        lines: the generated queries; empty if the reply has no usable line.
        failed: there is no reply.
    """

    lines: tuple[str, ...]
    failed: bool = False


class _CausalWriter:
    """A causal model of transformers, loaded when it first writes."""

    def __init__(self, name: str, progress: Progress) -> None:
        self.name = name
        self._progress = progress

    def revisions(self) -> dict[str, str]:
        return {self.name: causal_revision(self.name)}

    def preflight(self) -> None:
        causal_revision(self.name)

    @cached_property
    def model(self) -> CausalModel:
        """The model; raises `UnavailableError` if it cannot be loaded."""
        with self._progress.stage(f"load {self.name}"):
            return load_causal(self.name)

    @property
    def loaded(self) -> bool:
        return "model" in vars(self)


class QueryGeneration(Method):
    """Searches with queries that a language model writes for the utterance, and with the utterance itself.

    `base` ranks the tools for each query, and finally for the utterance; the rankings are interleaved round robin. If a
    reply has no usable line, only the utterance is used. A query without a reply fails.
    """

    class Parameters(ParameterSet):
        base: MethodSpec = Field(Spec("dense"), description="method that searches with each query")
        llm: ModelName = Field(
            RULES,
            min_length=1,
            description="model that writes the queries: a model behind an endpoint, `local:FILE.gguf`, `local:FOLDER` "
            "(or a Hub name) for a causal language model, or `rules`: the clauses of the utterance",
        )
        prompt: Literal["auto"] | Prompt = Field(
            "auto",
            description="`plain` asks for tool descriptions, `intent` for intents, `paper` and `paper-intent` do so in "
            "the paper's words, `utterance` sends only the utterance; auto: the prompt a local model was trained with, "
            "otherwise plain",
        )
        queries: int = Field(5, ge=1, le=5, description="maximum number of generated queries")
        include_utterance: bool = Field(True, description="search with the utterance as the last query")
        interleaving: Interleaving = Field(
            "by-rank",
            description="what a ranking does whose next tool another one gave: `by-rank` passes its turn, `next-new` "
            "gives its next new tool",
        )
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
        if parameters.llm == LOCAL:
            raise UsageError("llm=local: names no model; write the folder after it, as in llm=local:models/generator.")
        self._local: _CausalWriter | None = None
        self._remote: LanguageModel | None = None
        if parameters.llm.startswith(LOCAL) and not is_file_model(parameters.llm):
            self._local = self.include(_CausalWriter(parameters.llm.removeprefix(LOCAL), context.progress))
            # Greedy decoding on one machine draws nothing.
            self.has_chance = parameters.temperature > 0
        elif parameters.llm != RULES:
            from bench.models.llm.client import LanguageModel

            self._remote = self.include(LanguageModel(parameters.llm, progress=context.progress))
        self._outcomes: dict[str, _Written] = {}

    def marks(self) -> dict[str, str]:
        """The mark of this method in every table."""
        ruled = self.parameters.llm == RULES
        return dict(RULES_MARK) if ruled else {}

    def fit(self, history: History) -> None:
        self._base.fit(history)

    def index(self, library: Library) -> None:
        self._tools = len(library)
        # Empty in the first repeat: its draws are those of a run without repeats.
        self._repeat = repeat_seed(0)[1:]
        self._base.index(library)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        written = self._written(queries.texts)
        row_queries = [
            () if part.failed else self._asked(text, part.lines)
            for text, part in zip(queries.texts, written, strict=True)
        ]
        rows, failed = round_robin(self._base, row_queries, queries, self._tools, depth, self.parameters.interleaving)
        return Ranking.of_lists(rows, [one or part.failed for one, part in zip(failed, written, strict=True)])

    def _asked(self, utterance: str, lines: Sequence[str]) -> tuple[str, ...]:
        """The search texts: the lines, then the utterance; each once."""
        last = (utterance,) if self.parameters.include_utterance or not lines else ()
        return tuple(dict.fromkeys([*lines, *last]))

    def _written(self, texts: Sequence[str]) -> list[_Written]:
        """The queries written for each utterance; a blank one is answered without a call."""
        distinct = [text for text in dict.fromkeys(texts) if text.strip()]
        if self._remote is not None:
            answers = self._by_endpoint(distinct)
        elif self._local is not None:
            answers = [_Written(self._lines(reply)) for reply in self._by_local_model(distinct)]
        else:
            answers = [_Written(tuple(clauses(text)[: self.parameters.queries])) for text in distinct]
        by_text = dict(zip(distinct, answers, strict=True))
        self._outcomes.update(by_text)
        return [by_text.get(text, _Written(())) for text in texts]

    def _lines(self, reply: str) -> tuple[str, ...]:
        return tuple(text_lines(reply, self.parameters.queries))

    def _prompt(self, trained: str | None = None) -> Prompt:
        chosen = self.parameters.prompt
        return trained_prompt(trained) or "plain" if chosen == "auto" else chosen

    def _by_endpoint(self, texts: Sequence[str]) -> list[_Written]:
        from bench.models.llm.client import Failure, Message, Request

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
        chosen, model = self.parameters, self._local.model
        prompt = self._prompt(model.trained_prompt)
        prompts = [
            model.prompt(lambda part: query_prompt(prompt, part, chosen.queries), text, chosen.most_tokens)
            for text in texts
        ]
        # From the text, so that a query's answer does not depend on its position.
        seeds = [
            (int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:8]), *self._repeat)
            for text in texts
        ]
        sampling = Sampling(chosen.temperature, chosen.top_p, chosen.top_k, chosen.most_tokens)
        return model.generate(prompts, seeds, sampling)

    def facts(self) -> dict[str, str | int | float | bool]:
        outcomes = self._outcomes.values()
        facts: dict[str, str | int | float | bool] = {
            "queries_generated": sum(len(outcome.lines) for outcome in outcomes),
            "replies_unusable": sum(not outcome.lines and not outcome.failed for outcome in outcomes),
        }
        if self._remote is not None:
            facts["prompt"] = self._prompt()
        elif self._local is not None and self._local.loaded:
            facts["prompt"] = self._prompt(self._local.model.trained_prompt)
        return facts

    def explain(self, case: Case) -> Explanation:
        from bench.methods.query_generation.explain import explain_queries

        (written,) = self._written(case.query.texts)
        searched = () if written.failed else self._asked(case.text, written.lines)
        (lists,), _ = search(self._base, [searched], case.query, self._tools, self._tools)
        return explain_queries(case, searched, lists, self._base.name, self.parameters.interleaving)
