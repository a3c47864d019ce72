"""A run that is killed costs at most the calls under way: the next one makes only those that are missing."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path

import pytest
from kit.chatserver import ChatServer
from kit.forked import Forked

COUNT = 30
PROGRAM = f"""
import json
from bench.models.llm import LanguageModel, Message, Request
model = LanguageModel("m")
replies = model.complete([Request((Message("user", f"p{{i}}"),)) for i in range({COUNT})])
print(json.dumps([[reply.text for reply in replies], model.usage.calls]))
"""


@pytest.mark.parametrize("concurrency", [1, 4])
def test_after_a_kill_only_what_was_not_answered_is_asked_again(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, journal: Path, concurrency: int
) -> None:
    if not hasattr(signal, "SIGKILL"):
        pytest.skip("no SIGKILL on this system")
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", str(concurrency))
    chat_server.answer = lambda body: time.sleep(0.01) or f"to {body['messages'][0]['content']}"
    # Killed twice, at moments that hang on the machine.
    for stop_at in (4, 17):
        running = Forked(PROGRAM)
        until = time.monotonic() + 60
        while len(set(chat_server.prompts)) < stop_at:
            assert time.monotonic() < until
            assert not running.ended
            time.sleep(0.001)
        running.signal(signal.SIGKILL)
        assert running.wait()[0] == -signal.SIGKILL
        # The calls that were under way have reached the server.
        time.sleep(0.1)
    recorded = journal.read_bytes().count(b"\n")
    before = len(chat_server.prompts)
    code, out, err = Forked(PROGRAM).wait()
    assert code == 0, err
    assert out.strip().startswith('[["to p0", "to p1", "to p2"')
    assert out.strip().endswith(f'"to p{COUNT - 1}"], {COUNT - recorded}]')
    assert len(chat_server.prompts) - before == COUNT - recorded
    requests = Counter(chat_server.prompts)
    assert len(requests) == COUNT
    assert sum(requests.values()) - COUNT <= 2 * concurrency
    # And then all is there.
    before = len(chat_server.prompts)
    _, again, _ = Forked(PROGRAM).wait()
    assert again == out.replace(f", {COUNT - recorded}]", ", 0]")
    assert len(chat_server.prompts) == before
