"""Why a method made of several searches ranked as it did: which of them found a tool, and where."""

from __future__ import annotations

import numpy as np

from bench.evidence.explain_methods import tell
from bench.evidence.explain_vocabulary import (
    Case,
    Explanation,
    Part,
    Place,
    Reason,
    Told,
    excerpt,
    listed,
    places_of,
)
from bench.methods.ptr.rules import clauses
from bench.methods.ptr.views import Views
from bench.models.encoders import Encoder
from bench.protocol import Method, Queries, RecommendingMethod
from bench.protocol.ranking import PAD, validate
from bench.search.interleaving import interleaved
from bench.specs.spec import Spec


def explain_fusion(method: Method, case: Case) -> Explanation:
    """rrf: what each method adds, 1 / (constant + rank), and why it put the tool there."""
    chosen = method.parameters
    told = tuple(tell(case.prepare(str(spec)), case) for spec in chosen.methods)
    reasons = {}
    for tool in case.tools:
        ranks = [part.places[tool].rank for part in told]
        parts = tuple(
            Part(f"{part.label} rank {rank}", 1 / (chosen.constant + rank))
            for part, rank in zip(told, ranks, strict=True)
            if rank is not None and rank <= chosen.pool
        )
        because = _fused(tool, case, told, parts) if tool in case.gold else ""
        reasons[tool] = Reason(sum(part.value for part in parts), parts, (), "", because)
    return Explanation("what each method adds", (), reasons, bases=told)


def _fused(tool: int, case: Case, told: tuple[Told, ...], parts: tuple[Part, ...]) -> str:
    has = listed(parts, len(parts)) or "no method has it in its pool"
    rival = case.rivals.get(tool)
    if rival is None:
        return has
    others = ", ".join(f"{part.label} rank {part.places[rival].rank or '-'}" for part in told)
    return f"{has}; {case.id_of(rival)}: {others}"


def explain_queries(method: Method, case: Case) -> Explanation:
    """query-generation by rules: the rank of a tool for each query that was written, and for the utterance."""
    chosen = method.parameters
    base = case.prepare(str(chosen.base))
    written = clauses(case.text)[: chosen.queries] if case.text.strip() else []
    last = [case.text] if chosen.include_utterance or not written else []
    asked = list(dict.fromkeys([*written, *last]))
    library = len(case.library)
    found: list[dict[int, Place]] = []
    lists = []
    for text in asked:
        # The number of the utterance, as the method gives it.
        ranking = validate(base.rank(Queries((text,), case.query.rows), library), 1, library, library)
        found.append(places_of(ranking, case.tools))
        lists.append([int(tool) for tool in ranking.tools[0] if tool != PAD])
    names = [f"q{i + 1}" if text != case.text else "whole" for i, text in enumerate(asked)]
    reasons = {}
    for tool in case.tools:
        ranks = [places[tool].rank for places in found]
        best = min((rank for rank in ranks if rank is not None), default=None)
        note = "found by none" if best is None else f"best by {names[ranks.index(best)]}"
        rival = case.rivals.get(tool)
        because = ""
        if rival is not None:
            others = [places[rival].rank for places in found]
            top = min((rank for rank in others if rank is not None), default=None)
            where = "by none" if top is None else f"at {top} by {names[others.index(top)]}"
            own = "no query finds it" if best is None else f"its best rank is {best}, by {names[ranks.index(best)]}"
            because = f"{own}; {case.id_of(rival)} is found {where}"
        reasons[tool] = Reason(None, (), tuple(ranks), note, because)
    place = {tool: i for i, tool in enumerate(interleaved(lists, library))}
    order = tuple(sorted(case.tools, key=lambda tool: place.get(tool, len(place))))
    quoted = [f'{name}: "{excerpt(text, 90)}".' for name, text in zip(names, asked, strict=True) if name != "whole"]
    notes = (f"Columns: the rank by {base.name} for each query; the rankings are taken in turn.", *quoted)
    title = "which query finds it first"
    return Explanation(title, tuple(names), reasons, order, notes)


def explain_recommendation(method: Method, case: Case) -> Explanation:
    """ptr by rules: whether a tool came with the past bundle, by a view of a clause, or after the set by similarity."""
    assert isinstance(method, RecommendingMethod)
    chosen = method.parameters
    bundle = _bundle(method, case)
    chosen_set = [int(tool) for tool in method.recommend(case.query).row(0)]
    finders = _finders(method, case) if chosen.coverage else {}
    reasons = {}
    for tool in case.tools:
        by = finders.get(tool, "")
        if tool in chosen_set and tool in bundle:
            origin, note = "bundle", "serves a clause" if chosen.coverage else ""
        elif tool in chosen_set:
            origin, note = "view", f"first for {by or 'a clause'}"
        elif tool in bundle:
            origin, note = "dropped", "in the past bundle, but serves no clause"
        else:
            origin, note = "similarity", ""
        because = ""
        if tool in case.rivals:
            because = note or "not in the past bundle, and no clause's views put it first" * (origin == "similarity")
        reasons[tool] = Reason(None, (), (origin,), note, because)
    names = ", ".join(case.id_of(tool) for tool in bundle) or "none"
    notes = [f"Past bundle: {names}."]
    if chosen.coverage:
        notes.append("Clauses: " + "; ".join(f'"{excerpt(text, 50)}"' for text in clauses(case.text)) + ".")
    return Explanation("how it came into the answer", ("from",), reasons, notes=tuple(notes))


def _bundle(method: Method, case: Case) -> list[int]:
    """The past bundle of stage 1; without a retriever there is none."""
    spec = method.parameters.retriever
    if not isinstance(spec, Spec):
        return []
    if spec.name == "random":
        retriever = case.prepare(str(Spec("random-bundle", spec.arguments)))
    else:
        built = method.context.build(spec)
        direct = isinstance(built, RecommendingMethod) and built.needs_history
        retriever = case.prepare(str(spec if direct else Spec.of("nearest-bundle", {"base": spec})))
    assert isinstance(retriever, RecommendingMethod)
    return [int(tool) for tool in retriever.recommend(case.query).row(0)]


def _finders(method: Method, case: Case) -> dict[int, str]:
    """Tool -> the clause whose merged views put it first, in quotes."""
    chosen = method.parameters
    encoder = Encoder(chosen.encoder, progress=method.context.progress)
    past = case.history.take(np.flatnonzero(case.history.gold.counts))
    vectors = encoder.encode(past.texts if "history" in chosen.views else ())
    views = Views(encoder.encode(case.library.texts), vectors, past.gold, chosen.views, chosen.view_size)
    texts = clauses(case.text)
    best = views.best(encoder.encode(texts)) if texts else []
    return {
        tool: f'"{excerpt(text, 50)}"'
        for tool, text in reversed(list(zip(best, texts, strict=True)))
        if tool is not None
    }
