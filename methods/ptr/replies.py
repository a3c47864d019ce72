"""Strict parsing of a language model's reply: one JSON object of the expected form, or nothing."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

Sentence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]


class DialogueReply(BaseModel):
    """Base of the replies: other keys and other types than declared are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


R = TypeVar("R", bound=DialogueReply)


def read_reply(form: type[R], text: str, context: dict[str, Any] | None = None) -> R | None:
    """The reply in its form, or None when it has not got it.

    Args:
        form: what the reply must be.
        text: what the model wrote; the object may be in a code fence or between words.
        context: what the form's validators need to know, such as how many tools were listed.
    """
    from bench.models.llm.replies import json_object

    value = json_object(text)
    if value is None:
        return None
    try:
        return form.model_validate(value, context=context)
    except ValidationError:
        return None
