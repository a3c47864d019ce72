"""Read the replies of a language model in a form. The writers of queries, datasets and tool pairs call it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeVar

from bench.methods.ptr.replies import DialogueReply, read_reply
from bench.models.llm.messages import Failure, Reply

R = TypeVar("R", bound=DialogueReply)
Unusable = Literal["failed", "unparsed"]


def read_replies(form: type[R], answers: Sequence[Reply | Failure]) -> list[R | Unusable]:
    """Each reply in its form; or why there is none: the request failed, or the reply does not have this form."""
    return ["failed" if isinstance(each, Failure) else read_reply(form, each.text) or "unparsed" for each in answers]
