"""Language models behind endpoints, asked through a journal; and strict readers of what they say."""

from bench.llm.client import LanguageModel
from bench.llm.messages import Failure, Message, Reply, Request, Usage

__all__ = ["Failure", "LanguageModel", "Message", "Reply", "Request", "Usage"]
