"""Choices of two scripted models among the tools that bm25 ranked on starter, made once in a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.__main__ import run
from kit.chatserver import Body, ChatServer, by_words
from kit.once import Once
from kit.results import of_this_run


def takes_first(body: Body) -> list[tuple[str, str]]:
    """The calls of a model that takes the first tool, whatever it is."""
    return [(body["tools"][0]["function"]["name"], "{}")]


def choice_results(once: Once, cache: Path) -> Path:
    """Results of bm25, and choices of the model `reads`, which reads words, and of `first`, which takes the first."""

    def make(folder: Path) -> None:
        server, results = ChatServer(), ["--results", str(folder), "-q"]
        with of_this_run(cache), pytest.MonkeyPatch.context() as patch:
            patch.setenv("BENCH_LLM_URL", server.url)
            patch.setenv("BENCH_LLM_JOURNAL", str(folder.with_name(f"{folder.name}-journal.jsonl")))
            patch.setenv("NO_PROXY", "127.0.0.1")
            patch.delenv("BENCH_OFFLINE", raising=False)
            assert run(["run", "-m", "bm25", "-d", "starter", "--limit", "40", *results]) == 0
            choose = ["choose", "bm25@starter", *results]
            server.calls = by_words
            arms = [word for arm in ("retrieved", "without-gold", "library") for word in ("--arm", arm)]
            assert run([*choose, "--model", "reads", "--shown", "1,3,5", *arms]) == 0
            server.calls = takes_first
            assert run([*choose, "--model", "first"]) == 0
        server.close()

    return once("choice-results", make)
