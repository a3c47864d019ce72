"""A linear map of query vectors, learnt on past queries, over the frozen vectors of another method."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.errors import UsageError
from bench.base.parameters import MethodSpec, ParameterSet
from bench.base.spec import Spec
from bench.data.gold import Gold
from bench.interface import Context, History, Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Explanation, Reason, excerpt, number
from bench.interface.method import Similarity
from bench.interface.parts import learns, methods_of
from bench.methods.hybrid import ndcg_at_10
from bench.search.dense import VectorIndex, normalize, similarities
from bench.search.holdout import hold_out, past_vectors, sample
from bench.search.scoring import EmbeddingMethod

#: More past queries do not improve the choice of the penalty, they only slow it down.
_MOST_HELD_OUT = 300
#: The penalties to try, strongest first: each solution is the start of the next.
_PENALTIES = (0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)
_MOST_ITERATIONS = 50
#: Characters of a tool's text in a reason.
_MOST_TEXT = 200

Matrix = NDArray[np.float64]


class LinearAdapter(Method):
    """score = cosine(Wᵀq, t), with the base's vectors q of the query and t of the tool.

    W minimises the listwise softmax loss over past queries (`listwise_loss`) plus penalty / 2 · ‖W - I‖². The form qᵀWt
    with a W near the identity is Supervised Semantic Indexing (Bai et al. 2009), which learns a change of low rank by a
    pairwise margin loss and stochastic gradients. One matrix is enough: maps A of queries and B of tools give qᵀAᵀBt,
    which is another W. The problem is convex, so it needs neither a seed nor a learning rate; the vectors of tools are
    fixed. L-BFGS stops after 50 iterations.

    Only tools that past queries use count as wrong answers, because others would be learnt as wrong for being new. The
    penalty is chosen by the mean NDCG@10 on at most 300 dev queries, or as many from a fifth of the train queries: from
    strong to weak, starting with W = I, until one is worse than the best so far. Then W is learnt on all past queries,
    at most `queries` of them, chosen by the hash of their text.
    """

    class Parameters(ParameterSet):
        base: MethodSpec = Field(Spec("dense"), description="method that compares vectors by cosine")
        temperature: float = Field(0.05, gt=0, description="softmax temperature of the loss")
        queries: int = Field(4000, ge=1, description="maximum number of past queries to learn from")

    parameters: Parameters
    needs_history = True
    learns = True
    similarity: Similarity = "cosine"

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        base = context.build(parameters.base)
        if not isinstance(base, EmbeddingMethod) or base.similarity != "cosine":
            raise UsageError(
                f"linear-adapter cannot use base={parameters.base}: it maps vectors that are compared by cosine."
            )
        if any(learns(type(method)) for method in methods_of(base)):
            raise UsageError(
                f"linear-adapter cannot use base={parameters.base}: the base learns from the same past queries."
            )
        self._base = base

    def fit(self, history: History) -> None:
        self._history: History | None = history
        self._base.fit(history)

    def index(self, library: Library) -> None:
        self._base.index(library)
        assert self._history is not None
        self._vectors = self._base.tool_vectors()
        self._index = VectorIndex(self._vectors, "cosine")
        self._learn(self._history)
        self._history = None

    def _learn(self, history: History) -> None:
        seen, held = hold_out(history, _MOST_HELD_OUT)
        seen = sample(history, seen, self.parameters.queries)
        tools = normalize(self._vectors)
        identity = np.eye(tools.shape[1])
        self._map, self._penalty = identity, float("inf")
        self._identity = self._best = 0.0
        self._learnt_from = 0
        if not len(seen) or not len(held):
            return
        gold = history.gold.members()
        queries, held_vectors = past_vectors(self._base, history, seen), past_vectors(self._base, history, held)
        right, wanted = gold.take(seen), history.gold.take(held)
        self._identity = self._best = float(ndcg_at_10(held_vectors @ tools.T, wanted).mean())
        candidate = identity
        with self.context.progress.stage("learn the map", len(_PENALTIES) + 1) as stage:
            for penalty in _PENALTIES:
                candidate = learnt_map(queries, tools, right, penalty, self.parameters.temperature, candidate)
                value = float(ndcg_at_10(held_vectors @ candidate @ tools.T, wanted).mean())
                stage.advance()
                # Means that differ only by rounding are equal; of equals take the strongest penalty.
                if value < self._best - 1e-9:
                    break
                if value > self._best + 1e-9:
                    self._best, self._penalty, self._map = value, penalty, candidate
            if np.isfinite(self._penalty):
                every = sample(history, np.flatnonzero(history.gold.counts), self.parameters.queries)
                queries, right = past_vectors(self._base, history, every), gold.take(every)
                self._map = learnt_map(queries, tools, right, self._penalty, self.parameters.temperature, self._map)
                self._learnt_from = len(every)
            stage.advance()

    def tool_vectors(self) -> NDArray[np.float32]:
        return self._vectors

    def query_vectors(self, queries: Queries) -> NDArray[np.float32]:
        mapped: Matrix = normalize(self._base.query_vectors(queries)) @ self._map
        return mapped.astype(np.float32)

    def score(self, queries: Queries) -> Matrix:
        return self._index.score(self.query_vectors(queries))

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return self._index.rank(self.query_vectors(queries), depth)

    def facts(self) -> dict[str, str | int | float | bool]:
        learnt = {"penalty": self._penalty} if np.isfinite(self._penalty) else {}
        return {
            **learnt,
            "past_queries_learnt_from": self._learnt_from,
            "held_out_ndcg_before": round(self._identity, 4),
            "held_out_ndcg": round(self._best, 4),
        }

    def explain(self, case: Case) -> Explanation:
        """The cosine of a tool with the mapped query, and with the base's query vector."""
        tools = np.array(case.tools, dtype=np.int64)
        answer = case.answer(self._base)
        scores = similarities(self.query_vectors(case.query), self._vectors[tools], "cosine")[0]
        before = similarities(self._base.query_vectors(case.query), self._vectors[tools], "cosine")[0]
        cosines = {
            tool: (float(score), float(plain)) for tool, score, plain in zip(case.tools, scores, before, strict=True)
        }
        reasons = {}
        for tool, (score, plain) in cosines.items():
            rival, because = case.rivals.get(tool), ""
            if rival is not None:
                above = cosines[rival]
                because = (
                    f"the map takes its cosine from {number(plain)} to {number(score)}, and that of "
                    f"{case.id_of(rival)} from {number(above[1])} to {number(above[0])}"
                )
            text = excerpt(case.library.texts[tool], _MOST_TEXT)
            reasons[tool] = Reason(score, (), (plain, answer.positions[tool].rank), text, because)
        if self._learnt_from:
            learnt = f"learnt from {self._learnt_from} past queries with penalty {self._penalty:g}"
        else:
            learnt = "the identity: no map was better on the past queries that were held out"
        notes = (f"Score: cosine with the mapped query. The map is {learnt}.",)
        columns = ("cosine before", f"{self._base.name} rank")
        return Explanation("how its text begins", columns, reasons, notes=notes, bases=(answer,))


def learnt_map(queries: Matrix, tools: Matrix, gold: Gold, penalty: float, temperature: float, start: Matrix) -> Matrix:
    """The (dimensions, dimensions) W that minimises `listwise_loss` + penalty / 2 · ‖W - I‖², by L-BFGS.

    Args:
        queries: (queries, dimensions).
        tools: (tools, dimensions) of the whole library; those that are gold for a query count.
        gold: row i is that of query i, with at least one tool.
        penalty: above 0.
        temperature: above 0.
        start: (dimensions, dimensions), the initial W; only affects the time.
    """
    from scipy.optimize import minimize

    used = np.unique(gold.tools)
    vectors = tools[used]
    row = np.repeat(np.arange(len(gold)), gold.counts)
    column = np.searchsorted(used, gold.tools)
    wanted = np.zeros((len(gold), len(used)))
    wanted[row, column] = 1 / gold.counts[row]
    identity = np.eye(queries.shape[1])

    def objective(flat: Matrix) -> tuple[float, Matrix]:
        change = flat.reshape(identity.shape)
        loss, gradient = listwise_loss(queries, vectors, wanted, identity + change, temperature)
        total = loss + penalty / 2 * float((change**2).sum())
        return total, (gradient + penalty * change).ravel()

    solution = minimize(
        objective,
        (start - identity).ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _MOST_ITERATIONS, "ftol": 1e-7},
    )
    return identity + np.asarray(solution.x, dtype=np.float64).reshape(identity.shape)


def listwise_loss(
    queries: Matrix, tools: Matrix, wanted: Matrix, mapping: Matrix, temperature: float
) -> tuple[float, Matrix]:
    """The mean over queries of -Σ_t y_t log p_t with p = softmax(qᵀWt / temperature), and its gradient by W.

    y is 1 / |gold| for gold tools: ListNet's top-one loss (Cao et al. 2007) with grades of 0 and 1.

    Args:
        queries: (queries, dimensions).
        tools: (tools, dimensions).
        wanted: (queries, tools), y; rows sum to 1.
        mapping: (dimensions, dimensions), W.
        temperature: above 0.
    """
    scores = queries @ mapping @ tools.T / temperature
    scores -= scores.max(axis=1, keepdims=True)
    log_p = scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
    loss = -float((wanted * log_p).sum()) / len(queries)
    return loss, queries.T @ ((np.exp(log_p) - wanted) @ tools) / (temperature * len(queries))
