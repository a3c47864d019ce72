"""Language models behind endpoints: client, journal, and strict parsers of replies."""

from bench.models.llm.client import LanguageModel
from bench.models.llm.messages import Failure, Message, Reply, Request, Usage

__all__ = ["Failure", "LanguageModel", "Message", "Reply", "Request", "Usage"]
