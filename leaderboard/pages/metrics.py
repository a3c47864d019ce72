"""The page of the metrics: formulas, definitions, edge cases and sources."""

from __future__ import annotations

from markupsafe import Markup, escape

from bench.leaderboard.pages.registry import Content, Page
from bench.leaderboard.pages.rendering import render
from bench.leaderboard.writer import Writer
from bench.metrics import measures

_FORMS = {"k": "@k", "gold": "@gold", "none": "bare"}


def mathml(formula: str) -> str:
    """LaTeX as MathML, which needs no script and no font of ours; empty for nothing."""
    from latex2mathml.converter import convert

    try:
        return convert(formula, display="block") if formula else ""
    except Exception:  # a plug-in's formula may be no LaTeX; the converter has errors of many kinds
        return f"<code>{escape(formula)}</code>"


def _write(content: Content, writer: Writer) -> None:
    metrics = [
        {
            "measure": measure,
            "forms": ", ".join(text for form, text in _FORMS.items() if form in measure.cutoffs),
            "formula": Markup(mathml(measure.formula)),
        }
        for measure in measures().values()
    ]
    writer.put("metrics.html", render("metrics", "", "metrics.html", metrics=metrics))


PAGE = Page("metrics", "metrics.html", _write, entry="Metrics", place=5)
