"""Which explainer knows which method, and the recursion into the methods that a method is built on."""

from __future__ import annotations

import importlib

from bench.evidence.explain_vocabulary import Case, Explainer, Explanation, Place, Told, places_of
from bench.protocol import Method
from bench.protocol.ranking import validate
from bench.run.guard import method_errors

#: Method -> module and function of its explainer, imported when it is asked for. A method without one is shown by
#: ranks and scores.
_EXPLAINERS = {
    "bm25": "explain_words:explain_words",
    "bm25-okapi": "explain_words:explain_words",
    "tfidf": "explain_words:explain_words",
    "dense": "explain_vectors:explain_dense",
    "tgr": "explain_vectors:explain_graph",
    "nearest-query": "explain_history:explain_votes",
    "nearest-bundle": "explain_history:explain_bundles",
    "popularity": "explain_history:explain_popularity",
    "ptr": "explain_mixtures:explain_recommendation",
    "query-generation": "explain_mixtures:explain_queries",
    "rrf": "explain_mixtures:explain_fusion",
    "rerank": "explain_rerank:explain_rerank",
    "toolrerank": "explain_rerank:explain_hierarchy",
    "toolrerank-oracle": "explain_rerank:explain_hierarchy",
}
#: Stored scores went through single precision, and embeddings differ in their last bits from batch to batch.
_TOLERANCE = 1e-5


def tell(method: Method, case: Case) -> Told:
    """A method's answer to a case, and why.

    Args:
        method: ready to rank.
        case: the query and the tools shown.

    Raises:
        MethodError: the method fails, or what it answers breaks the protocol.
    """
    library = len(case.library)
    with method_errors(method, "ranking the query that is explained"):
        ranking = validate(method.rank(case.query, library), 1, library, library)
        places = places_of(ranking, case.tools)
        explainer = _explainer(method.name)
        if explainer is None:
            note = f"How {method.name} ranks is not taken apart here: ranks and scores alone."
            return Told(str(method.spec), places, Explanation(notes=(note,)))
        explanation = explainer(method, case)
    if not _adds_up(places, explanation):
        note = f"What is known of how {method.name} scores does not add up to its scores: ranks and scores alone."
        explanation = Explanation(notes=(note,), bases=explanation.bases)
    return Told(str(method.spec), places, explanation)


def _explainer(name: str) -> Explainer | None:
    if name not in _EXPLAINERS:
        return None
    module, _, function = _EXPLAINERS[name].partition(":")
    found: Explainer = getattr(importlib.import_module(f"bench.evidence.{module}"), function)
    return found


def _adds_up(places: dict[int, Place], explanation: Explanation) -> bool:
    """Whether an explanation makes the scores, and the order, that the method gives."""
    if explanation.order is not None:
        ranked = [tool for tool in explanation.order if places[tool].rank is not None]
        ranks = [places[tool].rank or 0 for tool in ranked]
        if ranks != sorted(ranks):
            return False
    return all(close(places[tool], reason.score) for tool, reason in explanation.reasons.items())


def close(place: Place, score: float | None) -> bool:
    """Whether a score is the place's, up to rounding; what is not known on either side is no disagreement."""
    if place.score is None or score is None:
        return True
    return abs(place.score - score) <= _TOLERANCE * max(1.0, abs(place.score))
