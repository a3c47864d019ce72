"""The spending limit: it stops before it is passed, whatever is under way, and over the life of a journal."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.chatserver import ChatServer, drop, hang, message, raw, status, usage

from bench.base.errors import UnavailableError
from bench.models.llm import Failure, LanguageModel, Message, Reply, Request, client, transport
from bench.models.llm import journal as journals
from bench.models.llm.budget import SpendingBudget, WorkStopped

Ask = Callable[..., Any]

#: The bound of a call with a prompt of one byte and `max_tokens=20`, at 1 a token each way.
BOUND = 1 + 16 + 64 + 20
NEVER = threading.Event()


@pytest.fixture(autouse=True)
def priced(chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token costs 1 each way, one call at a time, no real waits between tries."""
    monkeypatch.setenv("BENCH_LLM_PRICE", "1000000/1000000")
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", "1")
    monkeypatch.setattr(transport, "FIRST_WAIT", 0.001)


def rows(journal: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in journal.read_text().splitlines()]


def costs(journal: Path) -> list[float]:
    return [row["cost"] for row in rows(journal)]


def test_the_run_stops_before_the_call_that_might_pass_the_limit(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask, journal: Path
) -> None:
    # A call costs 10; it may cost up to the bound. After three, 30 + 101 would pass 130.
    chat_server.fault = usage({"prompt_tokens": 4, "completion_tokens": 6})
    monkeypatch.setenv("BENCH_LLM_LIMIT", "130")
    with pytest.raises(UnavailableError) as raised:
        ask(*"abcdefgh", max_tokens=20)
    assert str(raised.value) == (
        "the next call may cost up to 101, and 30 of the limit of 130 is spent; raise it where it was set "
        "(BENCH_LLM_LIMIT or --budget), and the same command continues."
    )
    assert chat_server.prompts == ["a", "b", "c"]
    assert costs(journal) == [10, 10, 10]
    # Exactly up to the limit is within it.
    monkeypatch.setenv("BENCH_LLM_LIMIT", "131")
    with pytest.raises(UnavailableError, match="40 of the limit"):
        ask(*"abcdefgh", max_tokens=20)
    assert chat_server.prompts == ["a", "b", "c", "d"]


def test_the_limit_holds_for_all_that_the_journal_has_paid_in_earlier_runs_too(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask, journal: Path, tmp_path: Path
) -> None:
    chat_server.fault = usage({"prompt_tokens": 50, "completion_tokens": 50})
    ask("a", "b", max_tokens=20)
    monkeypatch.setenv("BENCH_LLM_LIMIT", "250")
    with pytest.raises(UnavailableError, match="200 of the limit of 250 is spent"):
        ask("c", max_tokens=20)
    # What is recorded costs nothing.
    assert ask("a", max_tokens=20).from_journal
    # Another journal, another account.
    monkeypatch.setenv("BENCH_LLM_JOURNAL", str(tmp_path / "other.jsonl"))
    assert not ask("c", max_tokens=20).from_journal


def test_nothing_is_sent_when_the_first_call_might_pass_the_limit(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    monkeypatch.setenv("BENCH_LLM_LIMIT", str(BOUND - 1))
    with pytest.raises(UnavailableError, match=" 0 of the limit"):
        ask("a", max_tokens=20)
    monkeypatch.setenv("BENCH_LLM_LIMIT", "0")
    with pytest.raises(UnavailableError, match="0 of the limit of 0 is spent"):
        ask("a", max_tokens=20)
    assert chat_server.requests == []


def test_the_bound_holds_for_every_tokeniser(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    # Bytes, not characters: a rare sign may be several tokens.
    monkeypatch.setenv("BENCH_LLM_LIMIT", str(BOUND - 1 + 12))
    ask("工具工具", max_tokens=20)
    monkeypatch.setenv("BENCH_LLM_LIMIT", "111")
    with pytest.raises(UnavailableError, match="up to 112,"):
        ask("具工具工", max_tokens=20)


@pytest.mark.parametrize("concurrency", [2, 8])
def test_calls_under_way_are_counted_at_their_most(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask, journal: Path, concurrency: int
) -> None:
    # There is room for two calls at once, and none may be refused: those that wait get the room of those that end.
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", str(concurrency))
    monkeypatch.setenv("BENCH_LLM_LIMIT", str(2 * BOUND + 20))
    chat_server.fault = usage({"prompt_tokens": 1, "completion_tokens": 1})
    chat_server.answer = lambda body: time.sleep(0.02) or "yes"
    assert all(isinstance(reply, Reply) for reply in ask(*"abcdefghij", max_tokens=20))
    assert chat_server.most_at_once == 2
    assert sum(costs(journal)) == 20


def test_whatever_calls_cost_within_their_bounds_the_limit_is_not_passed(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask, journal: Path
) -> None:
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", "6")
    monkeypatch.setenv("BENCH_LLM_LIMIT", "777")
    spent = 0

    def fault(exchange: Any) -> None:
        nonlocal spent
        number = sum(map(ord, exchange.body["messages"][0]["content"]))
        tokens = {"prompt_tokens": 1 + number * 37 % 80, "completion_tokens": 1 + number * 11 % 20}
        spent += sum(tokens.values())
        assert spent <= 777
        exchange.send({**exchange.reply, "usage": tokens})

    chat_server.fault = fault
    with pytest.raises(UnavailableError):
        ask(*(chr(48 + i) for i in range(60)), max_tokens=20)
    assert sum(costs(journal)) == spent
    # Not so careful that most of the money is left.
    assert 777 - BOUND < spent <= 777


# Tries that brought no answer ---------------------------------------------------------------------------------------


def test_a_try_that_may_have_been_charged_for_counts_at_its_most(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask, journal: Path
) -> None:
    monkeypatch.setenv("BENCH_LLM_TIMEOUT", "0.5")
    # Refused and failed ones are not charged for; the other three may be.
    chat_server.faults.extend([status(429), drop(), raw(b"{"), status(500), hang(), None])
    chat_server.answer = lambda body: "one two"
    ask("a", max_tokens=20)
    assert costs(journal) == [3 * BOUND + 1 + 2]
    assert LanguageModel("m").usage.cost == 0


def test_a_request_given_up_is_paid_for_in_the_journal(chat_server: ChatServer, ask: Ask, journal: Path) -> None:
    chat_server.faults.extend([raw(b"{")] * 6)
    assert isinstance(ask("a", max_tokens=20), Failure)
    assert costs(journal) == [6 * BOUND]


@pytest.fixture
def new_process(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Forget what this process knows of journals, as a new one does."""
    return lambda: monkeypatch.setattr(journals, "_OPEN", {})


def test_no_try_is_made_that_might_pass_the_limit(
    chat_server: ChatServer,
    monkeypatch: pytest.MonkeyPatch,
    ask: Ask,
    journal: Path,
    new_process: Callable[[], None],
) -> None:
    monkeypatch.setenv("BENCH_LLM_LIMIT", str(3 * BOUND - 1))
    chat_server.fault = raw(b"{")
    with pytest.raises(UnavailableError, match=f"{2 * BOUND} of the limit"):
        ask("a", max_tokens=20)
    assert len(chat_server.requests) == 2
    # What was lost stays lost, and the same command in a new process finds it spent.
    assert [(row["kind"], row["key"], row["cost"]) for row in rows(journal)] == [("lost", "", 2 * BOUND)]
    chat_server.fault = None
    for _ in range(3):
        with pytest.raises(UnavailableError, match=f"{2 * BOUND} of the limit"):
            ask("a", max_tokens=20)
        new_process()
    assert len(chat_server.requests) == 2
    # It answers nothing: asked with a higher limit, the request is answered.
    monkeypatch.setenv("BENCH_LLM_LIMIT", str(3 * BOUND))
    assert isinstance(ask("a", max_tokens=20), Reply)


def test_a_try_that_was_lost_before_the_key_is_refused_is_paid_for(
    chat_server: ChatServer, ask: Ask, journal: Path
) -> None:
    chat_server.faults.extend([raw(b"{"), drop(), status(401)])
    with pytest.raises(UnavailableError, match="refused the key"):
        ask("a", max_tokens=20)
    assert costs(journal) == [2 * BOUND]


def test_a_try_that_was_lost_before_ctrl_c_is_paid_for(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask, journal: Path
) -> None:
    # The first try is lost; Ctrl-C comes in the wait for the second.
    monkeypatch.setattr(transport, "FIRST_WAIT", 60.0)
    chat_server.fault = raw(b"{")
    monkeypatch.setattr(client, "_next", interrupted_after(lambda: len(chat_server.requests) == 1))
    with pytest.raises(KeyboardInterrupt):
        ask("a", max_tokens=20)
    assert costs(journal) == [BOUND]


def test_calls_under_way_at_ctrl_c_are_paid_for_at_their_most_and_once(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask, journal: Path
) -> None:
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", "2")
    monkeypatch.setattr(client, "_GRACE", 0.1)
    go_on = threading.Event()
    chat_server.answer = lambda body: str(go_on.wait(20))
    monkeypatch.setattr(client, "_next", interrupted_after(lambda: len(chat_server.requests) == 2))
    with pytest.raises(KeyboardInterrupt):
        ask("a", "b", max_tokens=20)
    assert costs(journal) == [BOUND, BOUND]
    # Their replies come all the same, as this process goes on: they are kept, and not paid for again.
    go_on.set()
    until = time.monotonic() + 20
    while len(costs(journal)) < 4:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert costs(journal) == [BOUND, BOUND, 0, 0]
    # And nothing is held any more.
    monkeypatch.undo()
    budget = journals.journal_at(journal).budget
    until = time.monotonic() + 20
    while budget._held:
        assert time.monotonic() < until
        time.sleep(0.01)


def interrupted_after(seen: Callable[[], bool]) -> Callable[[Any], Any]:
    """Ctrl-C in the thread that waits for replies, once something is seen."""

    def wait(items: Any) -> Any:
        until = time.monotonic() + 20
        while not seen():
            assert time.monotonic() < until
            time.sleep(0.01)
        time.sleep(0.1)  # until the client has made of it what it makes
        raise KeyboardInterrupt

    return wait


def test_two_calls_that_each_want_the_room_of_the_other_do_not_wait_for_ever(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    monkeypatch.setenv("BENCH_LLM_CONCURRENCY", "2")
    monkeypatch.setenv("BENCH_LLM_LIMIT", str(3 * BOUND - 1))
    chat_server.fault = raw(b"{")
    started = time.monotonic()
    with pytest.raises(UnavailableError, match=r"is spent"):
        ask("a", "b", max_tokens=20)
    assert time.monotonic() - started < 10
    assert len(chat_server.requests) == 2


def test_a_refused_reply_is_paid_for(chat_server: ChatServer, ask: Ask, journal: Path) -> None:
    chat_server.faults.append(message(refusal="no", content=None))
    ask("a", max_tokens=20)
    assert costs(journal) == [1 + 3]


def test_tokens_that_are_not_counted_are_paid_for_at_their_most(
    chat_server: ChatServer, ask: Ask, journal: Path
) -> None:
    chat_server.faults.append(usage(None))
    ask("a", max_tokens=20)
    assert costs(journal) == [BOUND]


def test_without_prices_nothing_is_known_to_cost_anything(
    chat_server: ChatServer, monkeypatch: pytest.MonkeyPatch, journal: Path
) -> None:
    monkeypatch.delenv("BENCH_LLM_PRICE")
    model = LanguageModel("m")
    model.complete([Request((Message("user", "a"),))])
    assert model.usage.cost is None
    assert json.loads(journal.read_text())["cost"] is None


# The budget alone ---------------------------------------------------------------------------------------------------


def test_one_that_waits_is_let_go_when_the_work_is_given_up() -> None:
    budget = SpendingBudget(lambda: 0.0)
    stop = threading.Event()
    with budget.holding(10, 10, NEVER):
        threading.Timer(0.05, stop.set).start()
        with pytest.raises(WorkStopped), budget.holding(1, 10, stop):
            pass
    with budget.holding(10, 10, NEVER):
        pass


def test_what_is_held_is_given_back_but_for_what_is_lost_and_not_recorded() -> None:
    budget = SpendingBudget(lambda: 0.0)
    with budget.holding(4, 10, NEVER) as held:
        held.lose()
        held.renew()
        held.renew()
        assert (held.lost, held.fresh) == (4, 4)
        held.recorded = True
    with budget.holding(4, 10, NEVER) as held:
        held.lose()
    with pytest.raises(UnavailableError), budget.holding(7, 10, NEVER):
        pass
    with budget.holding(6, 10, NEVER):
        pass


def test_without_a_limit_nobody_waits() -> None:
    budget = SpendingBudget(lambda: 1e9)
    with budget.holding(1e9, None, NEVER), budget.holding(1e9, None, NEVER) as held:
        held.lose()
        held.renew()
