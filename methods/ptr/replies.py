"""Parse a language model's replies: strictly, as one JSON object of a given form; or as PTR's released code does."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, StringConstraints, ValidationError

Sentence = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]


class DialogueReply(BaseModel):
    """Base of the replies: undeclared keys and types are refused."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


R = TypeVar("R", bound=DialogueReply)


def read_reply(form: type[R], text: str, context: dict[str, Any] | None = None) -> R | None:
    """The reply in its form, or None if it does not have this form.

    Args:
        form: what the reply must be.
        text: what the model wrote; the object may be in a code fence or between words.
        context: data for the form's validators, such as the number of listed tools.
    """
    from bench.models.llm.replies import json_object

    value = json_object(text)
    if value is None:
        return None
    try:
        return form.model_validate(value, context=context)
    except ValidationError:
        return None


def nonblank_lines(text: str) -> list[str]:
    """The lines of a reply without their dashes, as the released code reads a list, headings included."""
    return [line.strip("- ").strip() for line in text.split("\n") if line.strip()]


def released_match(text: str) -> bool:
    """Whether the released code finds a tool in a reply: a line that begins with "Tool", whatever follows.

    It later drops the names of such tools, because they begin with "tool"; the only effect is that their functionality
    counts as solved.
    """
    return any(line.startswith("Tool") for line in nonblank_lines(text))
