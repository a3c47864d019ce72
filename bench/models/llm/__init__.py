"""Language models behind endpoints: client, journal, and strict parsers of replies. Methods call them."""

from bench.models.llm.client import LanguageModel
from bench.models.llm.messages import Failure, Message, Reply, Request, Usage

__all__ = ["Failure", "LanguageModel", "Message", "Reply", "Request", "Usage"]
