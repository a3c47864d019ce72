"""PTR: starts from a past bundle, drops tools that do not serve the query, adds tools for unsolved problems.

Gao and Zhang, "PTR: Precision-Driven Tool Recommendation for Large Language Models".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field, field_validator

from bench.base.errors import UsageError
from bench.base.parameters import MethodSpec, ParameterSet, check_parameters
from bench.base.spec import Spec
from bench.data.gold import Gold
from bench.interface import (
    Context,
    History,
    Library,
    Method,
    Queries,
    Ranking,
    RecommendingMethod,
    ToolSets,
)
from bench.interface.explanation import Case, Explanation
from bench.interface.parts import is_oracle, needs_history, needs_llm
from bench.methods.nearest_bundle import NearestBundle
from bench.methods.ptr.coverage import ASSESSMENTS, BundleCoverage, Mapping, Recommendation
from bench.methods.ptr.rules import (
    KEEP_ALL,
    CosineJudge,
    HeldOut,
    Judge,
    Judgements,
    Rules,
    Threshold,
    held_out,
    learn_threshold,
)
from bench.methods.ptr.trained import Classifier, Evidence, learnt_weights_of
from bench.methods.ptr.views import VIEWS, View, Views
from bench.methods.random_bundle import RandomBundle
from bench.models.encoders import EMBEDDED, Encoder
from bench.models.llm.local import ModelName
from bench.models.llm.rules import RULES, RULES_MARK
from bench.search.clauses import clauses
from bench.search.dense import normalize
from bench.search.topk import top_k

if TYPE_CHECKING:
    from bench.models.llm.client import LanguageModel


#: The value of `llm` that selects a classifier learnt on past queries.
TRAINED = "trained"
TRAINED_MARK = {"trained": "uses a classifier learnt on past queries instead of a language model (llm=trained)"}


class PrecisionDrivenToolRecommendation(Method):
    """Recommends a tool set in three stages.

    1. Bundle acquisition: the most relevant past bundle, found by `retriever`. 2. Functional coverage mapping: the
    query's functionalities, the tools of the bundle that serve them, and the unsolved problems, found by a language
    model, or by rules or a learnt classifier in its place. Tools that serve nothing are dropped. 3. Multi-view
    re-ranking: for each unsolved problem, the first tool of the merged views joins the set.

    The ranking starts with the set, in the order in which its tools were found: tools of the bundle by the
    functionality they serve (an unchanged bundle: by tool id), then one per problem. With `order=continued`, all
    other tools follow by the similarity of their text to the query.
    """

    class Parameters(ParameterSet):
        retriever: Annotated[Literal["none"] | MethodSpec, Field(union_mode="left_to_right")] = Field(
            Spec("dense"),
            description="method that finds the past bundle: `random`, `none` (no bundle acquisition), a method that "
            "scores texts, or one that recommends past bundles",
        )
        llm: ModelName = Field(
            RULES,
            min_length=1,
            description="language model of stage 2 (behind an endpoint, or `local:FILE.gguf`), `rules`, or `trained`: "
            "a classifier learnt on past queries",
        )
        held_out: HeldOut = Field(
            "queries",
            description="llm=rules, trained: holdout for learning the cut, past `queries` or whole past `bundles`; "
            "choose `bundles` if future queries need bundles that are not in the history",
        )
        coverage: bool = Field(True, description="run stages 2 and 3; false: return the bundle unchanged")
        views: tuple[View, ...] = Field(VIEWS, description="views of stage 3; if empty, no tools are added")
        view_size: int = Field(7, ge=1, description="number of tools (history: past queries) per view")
        encoder: str = Field(
            EMBEDDED,
            description="encoder for views, rules and the rest of the ranking: `minilm`, a folder, a "
            "sentence-transformers model, or `openai:MODEL`",
        )
        variant: Literal["repaired", "released"] = Field(
            "repaired",
            description="how a language model is asked and read: `repaired` keeps the tools that serve; `released`, as "
            "the published code, keeps no tool of the bundle, whatever the model says",
        )
        order: Literal["continued", "set"] = Field(
            "continued", description="continue the ranking after the set, or return only the set (as in the paper)"
        )

        @field_validator("retriever", mode="before")
        @classmethod
        def _names_a_method(cls, value: object) -> object:
            if not isinstance(value, str | Spec):
                raise ValueError("must name a method, as in retriever=bm25, or be none")
            return value

    parameters: Parameters
    needs_history = True

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        if parameters.retriever == "none" and not parameters.coverage:
            raise UsageError("ptr with retriever=none and coverage=false has no stage left; leave one of them out.")
        self._retriever = self._bundle_retriever()
        if self._retriever is not None:
            self.include(self._retriever)
        self._encoder = self.include(Encoder(parameters.encoder, progress=context.progress))
        self._trained = parameters.coverage and parameters.llm == TRAINED
        if self._trained and self._retriever is None:
            raise UsageError("ptr with llm=trained needs a retriever: it judges the tools of a past bundle.")
        self._ruled = parameters.coverage and parameters.llm in (RULES, TRAINED)
        self.needs_history = parameters.coverage and "history" in parameters.views
        self._model: LanguageModel | None = None
        if parameters.coverage and not self._ruled:
            from bench.models.llm.client import LanguageModel

            self._model = self.include(LanguageModel(parameters.llm, progress=context.progress))
        if self._model is None and parameters.variant == "released":
            raise UsageError("ptr with variant=released needs a language model (llm=NAME) and coverage=true.")
        self._history: History | None = None

    def _bundle_retriever(self) -> Method | None:
        """A fresh retriever of past bundles, or None."""
        spec = self.parameters.retriever
        if not isinstance(spec, Spec):
            return None
        if spec.name == "random":
            drawn = RandomBundle(check_parameters(RandomBundle.Parameters, spec, "method"), Context(self.context.build))
            drawn.name = "random-bundle"
            return drawn
        built: Method = self.context.build(spec)
        if is_oracle(built) or needs_llm(built):
            raise UsageError(f"ptr cannot use retriever={spec}: it must find past bundles by query text only.")
        if isinstance(built, RecommendingMethod) and needs_history(built):
            return built
        nearest = NearestBundle(NearestBundle.Parameters(base=spec), Context(lambda _: built, self.context.progress))
        nearest.name = "nearest-bundle"
        return nearest

    def marks(self) -> dict[str, str]:
        """The mark of this method in every table."""
        if self._trained:
            return dict(TRAINED_MARK)
        return dict(RULES_MARK) if self._ruled else {}

    def fit(self, history: History) -> None:
        # Past queries without gold have no bundle to give.
        self._history = history.take(np.flatnonzero(history.gold.counts))
        if self._retriever is not None:
            self._retriever.fit(history)

    def index(self, library: Library) -> None:
        history, self._history = self._history, None
        self._vectors = self._encoder.encode(library.texts)
        self._scaled = normalize(self._vectors)
        if self._retriever is not None:
            self._retriever.index(library)
        self._threshold: Threshold | None = None
        self._classifier: Classifier | None = None
        if self.parameters.coverage:
            self._prepare(library, history)
        self._last: tuple[tuple[str, ...], list[Recommendation]] | None = None
        self._outcomes: dict[str, Recommendation] = {}

    def _prepare(self, library: Library, history: History | None) -> None:
        """The views, and the mapping of stage 2."""
        self._views = self._views_of(history)
        if not self._ruled:
            from bench.methods.ptr.dialogue import Dialogue
            from bench.methods.ptr.released import ReleasedDialogue

            assert self._model is not None
            asks = ReleasedDialogue if self.parameters.variant == "released" else Dialogue
            self._mapping: Mapping = asks(self._model, library.tools)
            return
        judge: Judge = CosineJudge(self._encoder.encode, self._scaled)
        if history is not None and self._retriever is not None:
            what = "the classifier" if self._trained else "the cut of the rules"
            with self.context.progress.stage(f"learn {what}"):
                self._threshold = self._learnt_threshold(library, history)
            if self._classifier is not None:
                # Keep the learnt weights and cut; more past queries can support a tool.
                judge = self._classifier = Classifier(self._evidence(library, history), self._classifier.weights)
        threshold = KEEP_ALL if self._threshold is None else self._threshold.value
        self._mapping = Rules(judge, threshold)

    def _evidence(self, library: Library, past: History) -> Evidence:
        return Evidence(self._encoder.encode, library.texts, self._scaled, past, self.parameters.held_out)

    def _views_of(self, history: History | None) -> Views:
        """The views over a history; without one the historical view is empty."""
        chosen = self.parameters
        texts, gold = ((), Gold.of([])) if history is None else (history.texts, history.gold)
        past = self._encoder.encode(texts if "history" in chosen.views else ())
        return Views(self._vectors, past, gold, chosen.views, chosen.view_size)

    def _learnt_threshold(self, library: Library, history: History) -> Threshold:
        """The cut, from a retriever, views and a classifier that have not seen the past queries it is learnt on."""
        seen, held = held_out(history, self.parameters.held_out)
        retriever = self._bundle_retriever()
        if not len(seen) or not len(held) or retriever is None:
            return Threshold(KEEP_ALL, 0)
        past, held_history = history.take(seen), history.take(held)
        retriever.fit(past)
        retriever.index(library)
        judge: Judge = CosineJudge(self._encoder.encode, self._scaled)
        if self._trained:
            evidence = self._evidence(library, past)
            weights = learnt_weights_of(evidence, past)
            if weights is not None:
                judge = self._classifier = Classifier(evidence, weights)
        bundles = _bundles(retriever, Queries(held_history.texts, np.arange(len(held))))
        judged = Judgements.of(held_history.texts, bundles, judge)
        best = self._best(self._views_of(past), [text for part in judged.clauses for text in part])
        return learn_threshold(judged, held_history, [[best[text] for text in part] for part in judged.clauses])

    def _best(self, views: Views, problems: Iterable[str]) -> dict[str, int | None]:
        """The tool that re-ranking puts first for each problem."""
        distinct = list(dict.fromkeys(problems))
        return dict(zip(distinct, views.best(self._encoder.encode(distinct)), strict=True))

    def _answers(self, queries: Queries) -> list[Recommendation]:
        """The answer to each query, cached because the runner asks for ranking and set of the same batch in turn."""
        if self._last is None or self._last[0] != queries.texts:
            texts = list(dict.fromkeys(queries.texts))
            by_text = dict(zip(texts, self._recommended(texts), strict=True))
            self._outcomes.update(by_text)
            self._last = (queries.texts, [by_text[text] for text in queries.texts])
        return self._last[1]

    def _recommended(self, texts: Sequence[str]) -> list[Recommendation]:
        bundles = None
        if self._retriever is not None:
            bundles = _bundles(self._retriever, Queries(tuple(texts), np.arange(len(texts))))
        if not self.parameters.coverage:
            assert bundles is not None
            return [Recommendation(bundle, BundleCoverage(bundle, ())) for bundle in bundles]
        coverages = self._mapping.cover(texts, bundles)
        best = self._best(self._views, (problem for coverage in coverages for problem in coverage.unsolved))
        answers = []
        for row, coverage in enumerate(coverages):
            first_tools = ((problem, best[problem]) for problem in coverage.unsolved)
            added = tuple((problem, tool) for problem, tool in first_tools if tool is not None)
            answers.append(Recommendation(() if bundles is None else bundles[row], coverage, added))
        return answers

    def recommend(self, queries: Queries) -> ToolSets:
        return ToolSets.of([answer.tools for answer in self._answers(queries)])

    def rank(self, queries: Queries, depth: int) -> Ranking:
        answers = self._answers(queries)
        rows = [list(answer.tools[:depth]) for answer in answers]
        if self.parameters.order == "continued":
            longest = max((len(answer.tools) for answer in answers), default=0)
            scores = normalize(self._encoder.encode(queries.texts)) @ self._scaled.T
            others = top_k(scores, depth + longest).tools.tolist()
            rows = [
                list(dict.fromkeys([*answer.tools, *rest]))[:depth]
                for answer, rest in zip(answers, others, strict=True)
            ]
        return Ranking.of_lists(rows, [answer.coverage.failed for answer in answers])

    def facts(self) -> dict[str, str | int | float | bool]:
        facts: dict[str, str | int | float | bool] = {
            "texts_encoded": self._encoder.computed,
            "texts_from_cache": self._encoder.from_cache,
        }
        if not self.parameters.coverage:
            return facts
        answers = self._outcomes.values()
        assessed = Counter(answer.coverage.assessment for answer in answers)
        facts |= {f"assessed_{name}": assessed[name] for name in ASSESSMENTS}
        facts["unsolved_problems"] = sum(len(answer.coverage.unsolved) for answer in answers)
        facts["tools_dropped"] = sum(len(set(answer.bundle) - set(answer.coverage.kept)) for answer in answers)
        facts["tools_added"] = sum(len(set(answer.tools) - set(answer.coverage.kept)) for answer in answers)
        if self._threshold is not None:
            facts |= {"cut": self._threshold.value, "cut_learnt_on": self._threshold.queries}
        if self._classifier is not None:
            facts["pairs_learnt_from"] = self._classifier.weights.pairs
        if self._model is not None:
            facts["replies_unparsed"] = sum(answer.coverage.unparsed for answer in answers)
        return facts

    def explain(self, case: Case) -> Explanation:
        from bench.methods.ptr.explain import explain_recommendation

        named = clauses(case.text) if self._ruled else ()
        return explain_recommendation(case, self._answers(case.query)[0], self.parameters.coverage, named)


def _bundles(retriever: Method, queries: Queries) -> list[tuple[int, ...]]:
    """The past bundle that a retriever finds for each query."""
    assert isinstance(retriever, RecommendingMethod)
    sets = retriever.recommend(queries)
    return [tuple(sets.row(i).tolist()) for i in range(len(sets))]
