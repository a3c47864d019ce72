"""The choice `llm=rules`: methods that ask a language model take rules in its place, and say so on every row."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.base.progress import Progress
    from bench.models.llm.client import LanguageModel

#: The value of the parameter `llm` that stands for rules.
RULES = "rules"
#: What every table says on the row of a method that uses them.
RULES_MARK = {"rules": "uses rules instead of a language model (llm=rules)"}


def language_model(name: str, progress: Progress) -> LanguageModel:
    """The model of that name; its client is imported only where one is asked."""
    from bench.models.llm.client import LanguageModel

    return LanguageModel(name, progress=progress)
