"""Why a method that learns from past queries ranked as it did: which of them brought a tool."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.data.tables import Tool
from bench.evidence.explain_vocabulary import Case, Explanation, Part, Reason, excerpt, number
from bench.models.encoders import Encoder
from bench.protocol import Library, Method, ScoringMethod
from bench.search.dense import similarities
from bench.search.topk import top_k

#: A past query on the other side of the space votes with this (see the method).
_LEAST_VOTE = 1e-6


@dataclass(frozen=True)
class _Past:
    """Past queries by similarity, the nearest first: their texts, cosines in single precision, and tools used."""

    texts: tuple[str, ...]
    cosines: tuple[float, ...]
    used: tuple[frozenset[int], ...]

    @staticmethod
    def nearest(encoder: Encoder, case: Case) -> _Past:
        past = np.flatnonzero(case.history.gold.counts)
        texts = [case.history.texts[i] for i in past]
        ranking = top_k(similarities(encoder.encode(case.query.texts), encoder.encode(texts), "cosine"), len(past))
        assert ranking.scores is not None
        order = ranking.tools[0]
        used = (frozenset(case.history.gold.row(int(past[i])).tolist()) for i in order)
        return _Past(tuple(texts[i] for i in order), tuple(map(float, ranking.scores[0])), tuple(used))

    def quoted(self, place: int, most: int) -> str:
        return f'"{excerpt(self.texts[place], most)}"'


def explain_votes(method: Method, case: Case) -> Explanation:
    """nearest-query: the past queries that vote for a tool, each with its similarity; a score is their sum."""
    past = _Past.nearest(Encoder(method.parameters.encoder, progress=method.context.progress), case)
    voting = min(method.parameters.neighbours, len(past.texts))
    reasons = {}
    for tool in case.tools:
        users = [place for place, used in enumerate(past.used) if tool in used]
        voters = [place for place in users if place < voting]
        parts = tuple(Part(past.quoted(place, 40), max(past.cosines[place], _LEAST_VOTE)) for place in voters)
        because = _votes_in_words(tool, case, past, users, voting) if tool in case.gold else ""
        reasons[tool] = Reason(sum(part.value for part in parts), parts, (len(users),), "", because)
    return Explanation(f"which of the {voting} nearest past queries used it, and their votes", ("used",), reasons)


def _votes_in_words(tool: int, case: Case, past: _Past, users: list[int], voting: int) -> str:
    if not users:
        return "no past query used it, so nothing can vote for it"
    first = users[0]
    if first >= voting:
        return (
            f"only the {voting} nearest past queries vote, and the first that used it is number {first + 1} "
            f"({number(past.cosines[first])}): {past.quoted(first, 70)}"
        )
    rival = case.rivals.get(tool)
    if rival is None:
        return ""
    votes, others = (sum(code in used for used in past.used[:voting]) for code in (tool, rival))
    return f"{votes} of the {voting} nearest past queries used it, {others} used {case.id_of(rival)}"


def explain_bundles(method: Method, case: Case) -> Explanation:
    """nearest-bundle: the past bundle whose text is most like the query, among those that hold the tool."""
    gold = case.history.gold
    bundles = sorted({tuple(gold.row(i).tolist()) for i in range(len(gold))} - {()})
    texts = tuple("\n".join(case.library.tools[tool].text("name_description") for tool in row) for row in bundles)
    width = len(str(len(texts)))
    rows = tuple(Tool(f"{i:0{width}}", "", text) for i, text in enumerate(texts))
    base = method.context.build(method.parameters.base)
    base.index(Library(rows, texts, "description", np.empty((0, 2), dtype=np.int32)))
    assert isinstance(base, ScoringMethod)
    scores = base.score(case.query)[0]
    ranks = np.empty(len(scores), dtype=np.int64)
    ranks[np.lexsort((np.arange(len(scores)), -scores))] = np.arange(1, len(scores) + 1)
    reasons = {}
    for tool in case.tools:
        holding = [i for i, bundle in enumerate(bundles) if tool in bundle]
        if not holding:
            because = "it is in no past bundle" if tool in case.gold else ""
            reasons[tool] = Reason(None, (), (None,), "in no past bundle", because)
            continue
        best = max(holding, key=lambda i: (scores[i], -i))
        names = ", ".join(case.id_of(other) for other in bundles[best])
        because = ""
        if tool in case.rivals:
            others = len(bundles[best]) - 1
            beside = f", with {others} other tool{'s' * (others != 1)}" if others else ""
            because = f"the best past bundle that holds it is number {ranks[best]} of {len(bundles)}{beside}"
        reasons[tool] = Reason(float(scores[best]), (), (int(ranks[best]),), names, because)
    return Explanation("the best past bundle that holds it", ("bundle",), reasons)


def explain_popularity(method: Method, case: Case) -> Explanation:
    """popularity: how many past queries used a tool, whatever is asked."""
    counts = np.bincount(case.history.gold.tools, minlength=len(case.library))
    return Explanation(
        "the score is the number of past queries that used it",
        (),
        {
            tool: Reason(float(counts[tool]), because=f"{counts[tool]} past queries used it" * (tool in case.gold))
            for tool in case.tools
        },
    )
