"""The page of the metrics: formulas, definitions, edge cases and sources."""

from __future__ import annotations

from typing import Any

from markupsafe import Markup, escape

from bench.leaderboard.pages.registry import Page, SiteData
from bench.metrics import measures

_FORMS = {"k": "@k", "gold": "@gold", "none": "bare"}


def mathml(formula: str) -> str:
    """LaTeX as MathML, which needs no script and no extra font; empty for an empty formula."""
    from latex2mathml.converter import convert

    try:
        return convert(formula, display="block") if formula else ""
    except Exception:  # a plug-in's formula may be invalid LaTeX; the converter raises many kinds of errors
        return f"<code>{escape(formula)}</code>"


def _values(content: SiteData) -> dict[str, Any]:
    metrics = [
        {
            "measure": measure,
            "forms": ", ".join(text for form, text in _FORMS.items() if form in measure.cutoffs),
            "formula": Markup(mathml(measure.formula)),
        }
        for measure in measures().values()
    ]
    return {"metrics": metrics}


PAGE = Page("metrics", "metrics.html", values=_values, entry="Metrics", order=5)
