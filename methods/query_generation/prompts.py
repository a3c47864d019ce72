"""Prompts for query generation."""

from __future__ import annotations

from typing import Literal, get_args

#: `plain` asks for descriptions of tools, `intent` for the user's intents; `utterance` is the request and nothing else,
#: for models that were trained on that.
Prompt = Literal["plain", "intent", "utterance"]

_PLAIN = """\
Somebody puts the request below to an assistant that can call tools. Which tools would it take? Describe each of them \
on a line of its own, as its documentation would say in one sentence what it does, in fewer than 20 words. If the \
request has several parts, describe a tool for each part. Write {queries} lines at most. Do not carry out the request \
and do not reply to it; write the descriptions and nothing else.

Request: {utterance}
Tools:"""

_INTENT = """\
Somebody puts the request below to an assistant. What does this person want to get done? State each intent on a line \
of its own, in fewer than 20 words. If the request has several parts, state an intent for each part. Write {queries} \
lines at most. Do not carry out the request and do not reply to it; write the intents and nothing else.

Request: {utterance}
Intents:"""


def query_prompt(prompt: Prompt, utterance: str, queries: int) -> str:
    """The prompt that asks for at most `queries` queries, one on each line."""
    if prompt == "utterance":
        return utterance
    return (_PLAIN if prompt == "plain" else _INTENT).format(queries=queries, utterance=" ".join(utterance.split()))


def trained_prompt(name: str | None) -> Prompt | None:
    """The prompt that a local model says it was trained on; None where it names none of these."""
    return next((prompt for prompt in get_args(Prompt) if prompt == name), None)
