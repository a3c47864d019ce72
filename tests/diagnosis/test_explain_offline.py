"""An explanation asks no endpoint, whatever the environment allows and whatever the method would do."""

from __future__ import annotations

from pathlib import Path

import pytest
from kit.chatserver import ChatServer
from kit.datasets import make_dataset

from bench.base.spec import parse
from bench.data.tables import Query, Tool
from bench.diagnosis.explain import explain
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.registry import build_method
from bench.results.store import StoredResult

pytestmark = pytest.mark.usefixtures("own_cache")
DATASET = make_dataset(
    [Tool("send", "send", "sends tea"), Tool("token", "token", "gives oats")],
    [Query("asked", "a seat", {"token": 1}, "test")],
)

#: Does not say that it asks a language model, so nothing but the network keeps it from asking.
SILENT = '''
from bench.models.llm import LanguageModel, Message, Request
from bench.interface import Method, Ranking


class Silent(Method):
    """Ranks by the length of a reply, and asks again for every text."""

    def index(self, library):
        self.tools = len(library)

    def rank(self, queries, depth):
        asked = [Request((Message("user", text),)) for text in queries.texts]
        LanguageModel("m").complete(asked)
        return Ranking.of_lists([list(range(self.tools))[:depth] for _ in queries.texts])
'''


def stored(tmp_path: Path, method: str) -> StoredResult:
    runner = Runner(tmp_path / "results", load=lambda _: DATASET, build=build_method)
    (result,) = runner.run([Plan(parse("made"), parse(method))])
    assert isinstance(result, StoredResult), result
    return result


def test_vectors_that_are_gone_from_the_cache_are_not_asked_for_again(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    result = stored(tmp_path, 'dense(encoder="openai:emb-1")')
    count = len(chat_server.requests)
    assert count > 0
    explained = explain(result, DATASET, "asked")
    assert explained.answer is not None, explained.missing
    assert explained.answer.explanation.reasons
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "empty"))
    explained = explain(result, DATASET, "asked")
    assert explained.answer is None
    assert "the cache lacks" in explained.missing
    assert len(chat_server.requests) == count
    # The caller itself is online, as before.
    stored(tmp_path / "again", 'dense(encoder="openai:emb-1")')
    assert len(chat_server.requests) > count


def test_a_language_model_is_not_asked_by_a_method_that_did_not_say_it_would(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "silent_plugin.py").write_text(SILENT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    result = stored(tmp_path, "silent_plugin:Silent")
    count = len(chat_server.prompts)
    assert count > 0
    monkeypatch.setenv("BENCH_LLM_JOURNAL", str(tmp_path / "empty.jsonl"))
    explained = explain(result, DATASET, "asked")
    assert explained.answer is None
    assert explained.missing
    assert len(chat_server.prompts) == count
