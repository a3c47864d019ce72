"""Functional coverage by a classifier, learnt on past queries and used instead of a language model.

Of a past query it is known which tools serve it, but not which clause each of them serves. That is learning from bags
(Dietterich, Lathrop & Lozano-Pérez 1997, "Solving the multiple instance problem with axis-parallel rectangles"): the
clauses of a query are the bag of a tool, and a tool that serves the query serves at least one clause. As in mi-SVM's
bag form (Andrews, Tsochantaridis & Hofmann 2002), logistic regression and the choice of each tool's clause take turns.

Its probabilities take the place of the cosines of `bench.methods.ptr.rules`; the cut is learnt as there, on past
queries that neither the classifier nor the bundle retriever has seen.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.interface import History
from bench.methods.ptr.rules import Encode, HeldOut, clause_vectors
from bench.search.clauses import clauses
from bench.search.dense import normalize
from bench.search.topk import top_k
from bench.search.words import words

#: Features of a clause and a tool, in column order; those of the query are the same for all its clauses.
FEATURES = (
    "cosine of clause and tool",
    "the same, less the highest of the library",
    "share of the clause's words in the tool's text, by inverse document frequency",
    "cosine of query and tool",
    "the same, less the highest of the library",
    "cosine of the query and the nearest past query that used the tool",
    "share of the ten nearest past queries that used the tool",
    "inverse of the number of clauses",
)
_NEAREST = 10
#: Negatives of a past query: tools of its nearest past queries, and the tools most similar to it.
_WRONG_BUNDLES = 5
_WRONG_TOOLS = 10
#: More past queries do not improve eight weights, they only slow learning down.
_MOST_QUERIES = 2000
_PENALTY = 1e-3
_MOST_ROUNDS = 10

Matrix = NDArray[np.float64]


class Evidence:
    """Computes the features of clauses and tools from the library and past queries.

    Args:
        encode: returns vectors of texts.
        texts: the texts of the tools.
        tools: (tools, dimensions) their vectors, normalised.
        past: past queries with gold.
        unit: with `bundles`, past queries with the same gold tools as a query do not support them in training.
    """

    def __init__(self, encode: Encode, texts: Sequence[str], tools: Matrix, past: History, unit: HeldOut) -> None:
        from scipy.sparse import csr_matrix

        self.encode = encode
        self._tools = tools
        self._words = [frozenset(words(text)) for text in texts]
        documents: dict[str, int] = {}
        for tool_words in self._words:
            for word in tool_words:
                documents[word] = documents.get(word, 0) + 1
        self._idf = {word: math.log1p(len(texts) / count) for word, count in documents.items()}
        self._unknown = math.log1p(len(texts))
        self._past = normalize(encode(past.texts))
        used = past.gold.members()
        self._gold = [used.row(row) for row in range(len(past))]
        self._keys = [str(row.tolist()) for row in self._gold] if unit == "bundles" else list(past.texts)
        ones = np.ones(len(used.tools))
        self._uses = csr_matrix((ones, used.tools, used.starts), shape=(len(past), len(texts)))

    def learnt_from(self, rows: Sequence[int], past: History) -> tuple[list[Matrix], list[NDArray[np.bool_]]]:
        """For each tool of each of these past queries, its (clauses, features), and whether it serves the query."""
        split = [clauses(past.texts[row]) for row in rows]
        vectors = clause_vectors(split, self.encode)
        bags: list[Matrix] = []
        serves: list[NDArray[np.bool_]] = []
        for row, texts, by_clause in zip(rows, split, vectors, strict=True):
            if not texts:
                continue
            likeness = self._past @ self._past[row]
            # A query must not support itself, nor one with the same wording.
            likeness[[other for other, key in enumerate(self._keys) if key == self._keys[row]]] = -np.inf
            near = np.argsort(-likeness, kind="stable")[:_WRONG_BUNDLES]
            bundles = [tool for other in near if np.isfinite(likeness[other]) for tool in self._gold[other].tolist()]
            cosines = (self._tools @ self._past[row])[None]
            candidates = dict.fromkeys([*self._gold[row].tolist(), *bundles])
            candidates |= dict.fromkeys(top_k(cosines, _WRONG_TOOLS).tools[0].tolist())
            tools = np.array(list(candidates), dtype=np.int64)
            features = self._features(self._past[row], likeness, texts, by_clause, tools)
            bags += [features[:, column] for column in range(len(tools))]
            serves.append(np.isin(tools, self._gold[row]))
        return bags, serves

    def features(self, query: Matrix, texts: Sequence[str], vectors: Matrix, tools: Sequence[int]) -> Matrix:
        """(clauses, tools, features) of a new query; `query` and `vectors` are normalised."""
        return self._features(query, self._past @ query, texts, vectors, np.array(tools, dtype=np.int64))

    def _features(
        self, query: Matrix, likeness: Matrix, texts: Sequence[str], vectors: Matrix, tools: NDArray[np.int64]
    ) -> Matrix:
        by_clause = vectors @ self._tools.T
        by_query = self._tools @ query
        uses = self._uses[:, tools].tocoo()
        nearest = np.zeros(len(tools))
        np.maximum.at(nearest, uses.col, np.where(np.isfinite(likeness), likeness, 0.0)[uses.row])
        near = np.argsort(-likeness, kind="stable")[:_NEAREST]
        near = near[np.isfinite(likeness[near])]
        share = np.asarray(self._uses[near][:, tools].sum(axis=0)).ravel() / max(len(near), 1)
        features = np.empty((len(texts), len(tools), len(FEATURES)))
        features[:, :, 0] = by_clause[:, tools]
        features[:, :, 1] = by_clause[:, tools] - by_clause.max(axis=1, keepdims=True)
        features[:, :, 2] = [self._overlaps(text, tools) for text in texts]
        features[:, :, 3] = by_query[tools]
        features[:, :, 4] = by_query[tools] - by_query.max()
        features[:, :, 5] = nearest
        features[:, :, 6] = share
        features[:, :, 7] = 1 / len(texts)
        return features

    def _overlaps(self, text: str, tools: NDArray[np.int64]) -> list[float]:
        """The share of the words of a clause that each tool's text has; rare words weigh more."""
        weights = {word: self._idf.get(word, self._unknown) for word in set(words(text))}
        whole = math.fsum(weights.values()) or 1.0
        return [math.fsum(weights[word] for word in weights.keys() & self._words[tool]) / whole for tool in tools]


@dataclass(frozen=True)
class Weights:
    """Logistic regression over standardised features.

    Attributes:
        centre, scale: (features,) the offset and the divisor of each feature.
        slopes: (features,) weights of the standardised features.
        bias: the intercept.
        pairs: number of pairs of past query and tool it was learnt on; with 0 nothing was learnt.
    """

    centre: Matrix
    scale: Matrix
    slopes: Matrix
    bias: float
    pairs: int

    def log_odds(self, features: Matrix) -> Matrix:
        """The log-odds that the tool serves the clause, of (..., features)."""
        odds: Matrix = (features - self.centre) / self.scale @ self.slopes + self.bias
        return odds


def learnt_weights(bags: Sequence[Matrix], serves: NDArray[np.bool_]) -> Weights:
    """Logistic regression on each bag's best clause, repeated until the best clauses no longer change.

    Args:
        bags: (clauses, features) of each pair of query and tool.
        serves: (pairs,) whether the tool serves the query.
    """
    every = np.concatenate(bags)
    centre, scale = every.mean(axis=0), every.std(axis=0)
    scale[scale < 1e-9] = 1.0
    starts = np.concatenate([[0], np.cumsum([len(bag) for bag in bags])[:-1]])
    scaled = (every - centre) / scale
    owner = np.repeat(np.arange(len(bags)), [len(bag) for bag in bags])
    odds = every[:, 0]
    chosen = np.full(len(bags), -1)
    solution = np.zeros(scaled.shape[1] + 1)
    for _ in range(_MOST_ROUNDS):
        # The first of the clauses with a bag's highest value.
        order = np.lexsort((np.arange(len(odds)), -odds, owner))
        best = order[starts]
        if (best == chosen).all():
            break
        chosen = best
        solution = _logistic_regression(scaled[best], serves, solution)
        odds = scaled @ solution[:-1]
    return Weights(centre, scale, solution[:-1], float(solution[-1]), len(bags))


def _logistic_regression(features: Matrix, serves: NDArray[np.bool_], start: Matrix) -> Matrix:
    """The slopes, and the bias last, with the least mean log loss plus penalty / 2 · ‖slopes‖²."""
    from scipy.optimize import minimize
    from scipy.special import expit

    sign = np.where(serves, 1.0, -1.0)

    def loss(weights: Matrix) -> tuple[float, Matrix]:
        margins = sign * (features @ weights[:-1] + weights[-1])
        error = -sign * expit(-margins) / len(sign)
        value = np.logaddexp(0, -margins).mean() + _PENALTY / 2 * weights[:-1] @ weights[:-1]
        return float(value), np.append(features.T @ error + _PENALTY * weights[:-1], error.sum())

    solution: Matrix = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 200}).x
    return solution


class Classifier:
    """Judges clauses and tools by learnt weights, as `bench.methods.ptr.rules.CosineJudge` does by cosine.

    Args:
        evidence: computes the features, with the past queries that others are compared with.
        weights: of the features.
    """

    def __init__(self, evidence: Evidence, weights: Weights) -> None:
        self._evidence = evidence
        self.weights = weights

    def values(
        self, queries: Sequence[str], split: Sequence[Sequence[str]], bundles: Sequence[Sequence[int]]
    ) -> list[Matrix]:
        """(clauses, tools) probability that the tool serves the clause, for each query and its bundle."""
        from scipy.special import expit

        query_vectors = normalize(self._evidence.encode(queries))
        vectors = clause_vectors(split, self._evidence.encode)
        probabilities = []
        for query, texts, rows, bundle in zip(query_vectors, split, vectors, bundles, strict=True):
            if not texts or not bundle:
                probabilities.append(np.zeros((len(texts), len(bundle))))
                continue
            values = expit(self.weights.log_odds(self._evidence.features(query, texts, rows, bundle)))
            probabilities.append(values.astype(np.float32).astype(np.float64))
        return probabilities


def learnt_weights_of(evidence: Evidence, past: History) -> Weights | None:
    """Weights learnt on past queries; None unless both positive and negative tools are known.

    At most 2,000 past queries are used, chosen by the hash of their text. Positives are the tools that serve a query;
    negatives are those of its five nearest other past queries, as stage 1 finds bundles, and the ten tools most similar
    to its text.

    Args:
        evidence: over the same past queries.
        past: past queries with gold.
    """
    rows = sorted(range(len(past)), key=lambda row: (_hash(past.texts[row]), row))[:_MOST_QUERIES]
    bags, parts = evidence.learnt_from(sorted(rows), past)
    serves = np.concatenate(parts) if parts else np.zeros(0, dtype=np.bool_)
    if not serves.any() or serves.all():
        return None
    return learnt_weights(bags, serves)


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
