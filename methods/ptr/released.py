"""Functional coverage as in PTR's released code: replies are read line by line, and only lines with "Tool" count.

The code (GHupppp/PTR, `promptE.py` and `PTR.py`) asks one question for each functionality. A line of the reply names a
tool only if it begins with "Tool", and names that begin with "tool" are dropped again before stage 3. So no tool of the
bundle is ever kept, whichever retriever found it, and what is recommended are the first tools of stage 3, one for each
functionality whose reply has no such line. `bench.methods.ptr.dialogue` is the repaired reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from bench.data.tables import Tool
from bench.methods.ptr.coverage import FAILED, BundleCoverage
from bench.methods.ptr.dialogue import listed
from bench.methods.ptr.replies import nonblank_lines, released_match

if TYPE_CHECKING:
    from bench.models.llm.client import LanguageModel, Request


def ask_requirements(query: str) -> str:
    """The prompt of the first question."""
    return (
        "List what has to be done for a request, one item on each line after a dash.\n\n"
        'Request:\n"Book a table for two in Lisbon and tell me how to dress for the evening."\n\n'
        "Items:\n- Book a table for two in Lisbon\n- Find out how warm the evening will be\n\n"
        f'Request:\n"{query}"\n\nItems:\n'
    )


def ask_tools(requirement: str, tools: Sequence[Tool]) -> str:
    """The prompt of the second question, one for each requirement."""
    return (
        "List the tools that can do a task, one on each line after a dash. A description has to fit the task roughly; "
        "proper names do not matter.\n\n"
        f"Tools at hand:\n{listed(tools)}\n\n"
        "Task:\nTell me who won the match last night\n\nTools:\n- SportsTool: Gives results of matches.\n\n"
        f"Task:\n{requirement}\n\nTools:\n"
    )


def _request(prompt: str) -> Request:
    """A prompt without a system message, as the released code sends it."""
    from bench.models.llm.client import Message, Request

    return Request((Message("user", prompt),))


class ReleasedDialogue:
    """Asks a language model about all queries of a batch at once: the requirements, then the tools for each of them.

    Args:
        model: answers with a reply or a failure for each request.
        library: the tools that bundles refer to, by code.
    """

    def __init__(self, model: LanguageModel, library: Sequence[Tool]) -> None:
        self._model = model
        self._library = library

    def cover(self, queries: Sequence[str], bundles: Sequence[Sequence[int]] | None) -> list[BundleCoverage]:
        """The coverage of each query, which keeps nothing; without bundles all its requirements are unsolved."""
        from bench.models.llm.client import Failure

        replies = self._model.complete([_request(ask_requirements(query)) for query in queries]) if queries else []
        requirements = [
            None if isinstance(reply, Failure) else tuple(dict.fromkeys(nonblank_lines(reply.text)))
            for reply in replies
        ]
        if bundles is None:
            return [FAILED if texts is None else BundleCoverage((), texts) for texts in requirements]
        asked = [(row, text) for row, texts in enumerate(requirements) for text in texts or ()]
        tools = [[self._library[tool] for tool in bundle] for bundle in bundles]
        prompts = [_request(ask_tools(text, tools[row])) for row, text in asked]
        matches = dict(zip(asked, self._model.complete(prompts) if prompts else [], strict=True))
        coverages = []
        for row, texts in enumerate(requirements):
            answers = {text: matches[row, text] for text in texts or ()}
            if texts is None or any(isinstance(answer, Failure) for answer in answers.values()):
                coverages.append(FAILED)
                continue
            unsolved = tuple(
                text
                for text, answer in answers.items()
                if not isinstance(answer, Failure) and not released_match(answer.text)
            )
            coverages.append(BundleCoverage((), unsolved, "partial" if unsolved else "exact"))
        return coverages
