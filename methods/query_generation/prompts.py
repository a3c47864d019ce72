"""Prompts for query generation."""

from __future__ import annotations

from typing import Literal, get_args

#: `plain` asks for descriptions of tools, `intent` for the user's intents, `paper` and `paper-intent` for the same in
#: the paper's words; `utterance` is the request and nothing else, for models that were trained on that.
Prompt = Literal["plain", "intent", "paper", "paper-intent", "utterance"]

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

#: Quoted from Kachuee et al. 2024, figure 2; that `Answer:` has a line of its own is our reading. The number of queries
#: is the paper's, whatever is asked for.
_PAPER = """\
Given a request by user (Human), generate the description of an API(s) that can be used to address the request.
Try to decompose the request to a set of descriptions for API(s) that can help handle the request.
Do NOT respond to the Human and just describe the API(s) that can help.
Use new line to separate multiple descriptions. Each description should be less than 20 words.
Return at most 5 descriptions (lines).
Do not provide any additional explanation or examples, return just a set of API descriptions.
Human: {utterance}
Answer:"""

#: Quoted from figure 5, with the line breaks of figure 2.
_PAPER_INTENT = """\
Given a request by user (Human), generate the description of the user's intentions (intents).
Try to decompose the request to a set of intents.
Do NOT respond to the Human and just describe the intents.
Use new line to separate multiple descriptions. Each description should be less than 20 words.
Return at most 5 descriptions (lines).
Do not provide any additional explanation or examples, return just a set of intents.
Human: {utterance}
Answer:"""

_TEXTS: dict[Prompt, str] = {
    "plain": _PLAIN,
    "intent": _INTENT,
    "paper": _PAPER,
    "paper-intent": _PAPER_INTENT,
}


def query_prompt(prompt: Prompt, utterance: str, queries: int) -> str:
    """The prompt for at most `queries` queries, one per line."""
    if prompt == "utterance":
        return utterance
    return _TEXTS[prompt].format(queries=queries, utterance=" ".join(utterance.split()))


def trained_prompt(name: str | None) -> Prompt | None:
    """The prompt that a local model says it was trained on; None if it names none of these."""
    return next((prompt for prompt in get_args(Prompt) if prompt == name), None)
