"""Why PTR ranked as it did: by the past bundle, by a problem that the bundle leaves, or by similarity after the set."""

from __future__ import annotations

from collections.abc import Sequence

from bench.interface import Case, Explanation, Reason
from bench.interface.explanation import excerpt
from bench.methods.ptr.coverage import Recommendation


def explain_recommendation(
    case: Case, recommendation: Recommendation, coverage: bool, clauses: Sequence[str]
) -> Explanation:
    """Whether a tool is in the past bundle, was added for a problem, or follows the set by similarity.

    Args:
        case: the query and the displayed tools.
        recommendation: the method's recommendation.
        coverage: whether stages 2 and 3 are used.
        clauses: the functionalities by rules; empty if a language model names them.
    """
    # If a tool is first for several problems, the first problem added it.
    problems = {tool: problem for problem, tool in reversed(recommendation.added)}
    reasons = {}
    for tool in case.tools:
        because = ""
        if tool in recommendation.coverage.kept:
            origin, note = "bundle", "serves a clause" if coverage else ""
        elif tool in problems:
            origin, note = "view", f'first for "{excerpt(problems[tool], 50)}"'
        elif tool in recommendation.bundle:
            origin, note = "dropped", "in the past bundle, and dropped from it"
        else:
            origin, note = "similarity", ""
            because = "not in the past bundle, and the views put it first for no clause that is left"
        reasons[tool] = Reason(None, (), (origin,), note, (note or because) if tool in case.rivals else "")
    names = ", ".join(case.id_of(tool) for tool in recommendation.bundle) or "none"
    notes = [f"Past bundle: {names}."]
    if clauses:
        notes.append("Clauses: " + "; ".join(f'"{excerpt(text, 50)}"' for text in clauses) + ".")
    return Explanation("how it came into the answer", ("from",), reasons, notes=tuple(notes))
