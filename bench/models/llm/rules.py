"""The setting `llm=rules`: methods use rules in place of a language model, and say so on every row."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.base.progress import Progress
    from bench.models.llm.client import LanguageModel

#: The value of the parameter `llm` that selects rules.
RULES = "rules"
#: The mark on the row of a method that uses them.
RULES_MARK = {"rules": "uses rules instead of a language model (llm=rules)"}


def language_model(name: str, progress: Progress) -> LanguageModel:
    """The model with that name; its client is only imported if needed."""
    from bench.models.llm.client import LanguageModel

    return LanguageModel(name, progress=progress)
