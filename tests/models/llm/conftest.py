"""Asking in as few words as may be."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.models.llm import LanguageModel, Message, Request


@pytest.fixture
def ask() -> Callable[..., Any]:
    """What a fresh model says to prompts: one for one prompt, else a list."""

    def ask(*prompts: str, model: str = "m", **settings: Any) -> Any:
        requests = [Request((Message("user", prompt),), **settings) for prompt in prompts]
        answers = LanguageModel(model).complete(requests)
        return answers[0] if len(answers) == 1 else answers

    return ask


@pytest.fixture
def journal(chat_server: object) -> Path:
    """The journal of this test."""
    return Path(os.environ["BENCH_LLM_JOURNAL"])


@pytest.fixture
def process() -> Callable[..., subprocess.Popen[str]]:
    """Start a program in a process of its own."""

    def process(program: str, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", program, *arguments]
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    return process
