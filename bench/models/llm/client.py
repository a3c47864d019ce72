"""The client of language models with chat completions, with a journal. Methods call it.

A request in the journal is answered from it; the others are sent, several at once, and each reply is on disk before it
is used. So a run that ends early has not paid in vain, and a recorded run replays without a network, with the same
replies.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeAlias, TypeVar

from bench.base.config import bound_session
from bench.base.errors import UnavailableError, UsageError, require
from bench.base.progress import QUIET, Progress
from bench.base.text import one_line
from bench.models.llm.anthropic import AnthropicTransport
from bench.models.llm.budget import Reservation, WorkStopped
from bench.models.llm.completion import (
    FILTERED,
    NO_CALLS,
    ChatTransport,
    Completion,
    Filtered,
    input_bound,
    is_estimated,
)
from bench.models.llm.gemini import GeminiTransport
from bench.models.llm.journal import Journal, JournalAnswer, JournalCall, JournalLine, JournalRequest, journal_at
from bench.models.llm.local import FileTransport, file_settings, is_file_model, name_by_content
from bench.models.llm.messages import Failure, Message, Reply, Request, Usage, describe_request, request_key
from bench.models.llm.settings import OFFLINE, EndpointSettings, chat_settings
from bench.models.llm.transport import GaveUp, Refused

__all__ = ["Failure", "LanguageModel", "Message", "Reply", "Request", "Usage"]

T = TypeVar("T")
_Queue: TypeAlias = queue.SimpleQueue

#: After this many consecutive failed requests the endpoint is considered down: continuing would fail all remaining
#: queries.
_DOWN = 10
_GRACE = 1.0  # seconds for replies that have just arrived to reach the journal after Ctrl-C
_LOOK = 0.5  # seconds between checks for Ctrl-C if waiting cannot be interrupted
_SHOWN = 80  # maximum characters of a prompt in an error
#: Prefix of a model's name -> the provider's own API.
_PROVIDERS: dict[str, type[AnthropicTransport] | type[GeminiTransport]] = {
    "anthropic": AnthropicTransport,
    "gemini": GeminiTransport,
}


class LanguageModel:
    """A model behind an endpoint.

    Args:
        model: its name at the endpoint, `anthropic:NAME`, `gemini:NAME`, or `local:FILE.gguf`.
        progress: receives the progress of waiting for replies.
    """

    needs_llm = True

    def __init__(self, model: str, *, progress: Progress = QUIET) -> None:
        self.model = name_by_content(model)
        self._in_file = is_file_model(self.model)
        provider, _, name = self.model.partition(":")
        self._provider = _PROVIDERS.get(provider)
        self._asked_as = self.model if self._provider is None else name
        if not self._asked_as.strip():
            raise UsageError(f"llm={model} names no model; write {provider}:MODEL.")
        self._progress = progress
        self._session = bound_session()
        self._in_a_row = 0
        self._counting = threading.Lock()
        self._counted: set[str] = set()
        self._calls = self._from_journal = self._failures = self._input = self._cached = self._output = 0
        self._estimated = 0
        self._told: set[str] = set()
        self._under_way: set[Reservation] = set()

    @cached_property
    def _settings(self) -> EndpointSettings:
        if self._provider is not None:
            return self._provider.settings()
        return file_settings(self.model) if self._in_file else chat_settings()

    @property
    def _reachable(self) -> bool:
        """Whether calls are allowed at all."""
        return self._settings.named and (self._in_file or not self._session().offline)

    @cached_property
    def _journal(self) -> Journal:
        return journal_at(self._settings.journal)

    @cached_property
    def _transport(self) -> ChatTransport:
        if self._in_file:
            return FileTransport(self.model, self._settings)
        return (self._provider or ChatTransport)(self._settings)

    @property
    def identity(self) -> str:
        """Model and the endpoint for requests outside the journal; without one, the endpoints in the journal."""
        if self._settings.named:
            return f"{self.model} at {self._settings.url}"
        return f"{self.model} at {one_line(', '.join(self._journal.endpoints(self.model)), 200) or 'no endpoint'}"

    @property
    def name(self) -> str:
        """Its name at the endpoint."""
        return self.model

    def revisions(self) -> dict[str, str]:
        """Its identity, for the methods that use this."""
        return {"llm": self.identity}

    def facts(self) -> dict[str, str | int | float | bool]:
        """What readers of the result should know: the number of requests, and how many the journal answered."""
        usage = self.usage
        return {
            "llm_calls": usage.calls,
            "llm_from_journal": usage.from_journal,
            "llm_failures": usage.failures,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
        }

    def marks(self) -> dict[str, str]:
        """Whether the tokens of the row, and their cost, are estimated."""
        replies = f"{self._estimated} of {self._calls + self._from_journal} replies"
        why = f"the endpoint counted no tokens in {replies}; upper bounds stand for them, also in costs"
        return {"tokens estimated": why} if self._estimated else {}

    @property
    def usage(self) -> Usage:
        """Statistics of the requests so far."""
        price = self._settings.price
        cost = None if price is None else price.of(self._input, self._output, self._cached)
        counts = (self._calls, self._from_journal, self._failures, self._input, self._output)
        return Usage(*counts, cost, self._estimated)

    def preflight(self) -> None:
        """Report now if nothing could be answered; makes no call.

        Raises:
            UnavailableError: there is no endpoint that may be called, and the journal has no reply of this model;
                or the package that calls the endpoint is not installed.
            UsageError: a setting is wrong.
            DataError: the journal is damaged.
        """
        # Always read it: damage is reported before any work, not in the middle of it.
        recorded = self._journal.endpoints(self.model)
        if isinstance(self._transport, FileTransport):
            # Some replies are certainly missing: report a file that cannot be loaded before any work.
            if self._reachable and not recorded:
                self._transport.start()
        elif self._reachable:
            require(self._transport.package, what=f"the language model {self.model}")
        if not self._reachable and not recorded:
            raise UnavailableError(
                f"cannot call {self.model}: {self._obstacle()}, and the journal {self._settings.journal} "
                f"has no reply from it. {self._remedy()}"
            )

    def complete(self, requests: Sequence[Request]) -> list[Reply | Failure]:
        """Answer requests, in order; equal requests are sent once.

        Raises:
            UnavailableError: the journal lacks a reply and no endpoint may be called; the key is refused; the limit
                would be exceeded; the endpoint is down. Replies so far are in the journal.
            UsageError: a setting is wrong, the endpoint does not know the model or refuses the request.
        """
        repeat = self._session().repeat
        keys = [request_key(self.model, request, repeat) for request in requests]
        answers: dict[str, JournalAnswer] = {}
        missing: dict[str, Request] = {}
        for key, request in zip(keys, requests, strict=True):
            answer = self._journal.find(key)
            if answer is None or (answer.kind == "gave-up" and self._reachable):
                missing[key] = request
            else:
                answers[key] = answer
        if missing and not self._reachable:
            raise self._lacking(list(missing.values()), repeat)
        for key, request in zip(keys, requests, strict=True):
            if key in answers:
                self._count(key, request, answers[key], sent=False)
                self._tell_of_another_endpoint(answers[key])
        if missing:
            self._ask(missing, answers, repeat)
        return [
            _result(answers[key], request, from_journal=key not in missing)
            for key, request in zip(keys, requests, strict=True)
        ]

    # Sending --------------------------------------------------------------------------------------------------------

    def _ask(self, missing: Mapping[str, Request], answers: dict[str, JournalAnswer], repeat: int) -> None:
        """Send requests from a few threads; this one only waits, so that Ctrl-C works at once."""
        todo: _Queue[tuple[str, Request]] = queue.SimpleQueue()
        for keyed_request in missing.items():
            todo.put(keyed_request)
        done: _Queue[tuple[str, JournalAnswer] | BaseException | None] = queue.SimpleQueue()
        stop = threading.Event()
        working = min(self._settings.concurrency, len(missing))
        # Daemons: after Ctrl-C do not wait for an endpoint that does not answer.
        work = (todo, done, stop, repeat)
        threads = [threading.Thread(target=self._work, args=work, daemon=True) for _ in range(working)]
        failed: BaseException | None = None
        try:
            for thread in threads:
                thread.start()
            with self._progress.stage(f"ask {self.model}", len(missing), "requests") as stage:
                while working:
                    item = _next(done)
                    if item is None:
                        working -= 1
                    elif isinstance(item, BaseException):
                        failed = failed or item
                    else:
                        key, answers[key] = item
                        self._count(key, missing[key], answers[key], sent=True)
                        self._tell_of_calls()
                        self._check_that_it_is_up(answers[key])
                        stage.advance()
        except BaseException:
            stop.set()
            until = time.monotonic() + _GRACE
            for thread in threads:
                if thread.ident is not None:
                    thread.join(max(0.0, until - time.monotonic()))
            # Requests in flight were sent; their cost is not awaited.
            for held in list(self._under_way):
                self._settle(held, held.lost + held.fresh)
            raise
        if failed is not None:
            raise failed

    def _work(
        self,
        todo: _Queue[tuple[str, Request]],
        done: _Queue[tuple[str, JournalAnswer] | BaseException | None],
        stop: threading.Event,
        repeat: int,
    ) -> None:
        """Answer requests until there are none, or until no more can succeed."""
        try:
            while not stop.is_set():
                key, request = todo.get_nowait()
                done.put((key, self._answer(key, request, stop, repeat)))
        except (queue.Empty, WorkStopped):
            pass
        except BaseException as error:
            stop.set()
            done.put(error)
        finally:
            done.put(None)

    def _answer(self, key: str, request: Request, stop: threading.Event, repeat: int) -> JournalAnswer:
        """Request one reply, and add it to the journal."""
        settings, price = self._settings, self._settings.price
        bound = 0.0 if price is None else price.of(input_bound(request), request.max_tokens)
        with self._journal.budget.holding(bound, settings.limit, stop) as held:
            # Another process may have sent the same request while this one waited.
            answer = self._journal.find(key)
            if answer is not None and answer.kind != "gave-up":
                return answer
            self._under_way.add(held)
            try:
                got = self._completion(request, held, stop)
            except BaseException:
                # No room for another try, a refused key, Ctrl-C: failed tries are paid all the same.
                self._settle(held, held.lost)
                raise
            finally:
                self._under_way.discard(held)
            counts = (got.input_tokens, got.output_tokens, got.cached_tokens)
            paid = 0.0 if price is None else price.of(*counts) + held.lost
            cost = None if price is None else max(0.0, paid - held.settled)
            line = JournalLine(
                key=key,
                model=self.model,
                endpoint=settings.url,
                request=JournalRequest.model_validate({**describe_request(request), "repeat": repeat}),
                cost=cost,
                **{**vars(got), "calls": [JournalCall(name=call.name, arguments=call.arguments) for call in got.calls]},
            )
            answer = self._journal.append(line)
            held.recorded = True
        return answer

    def _settle(self, held: Reservation, cost: float) -> None:
        """Record the possible cost of a call without an answer."""
        if cost > held.settled:
            line = JournalLine(
                kind="lost", model=self.model, endpoint=self._settings.url, estimated=True, cost=cost - held.settled
            )
            self._journal.append(line)
            held.settled, held.recorded = cost, True

    def _completion(self, request: Request, held: Reservation, stop: threading.Event) -> Completion:
        """The endpoint's answer to a request, or its failure."""
        try:
            return self._transport.complete(self._asked_as, request, held, stop)
        except GaveUp as error:
            return Completion("gave-up", str(error))
        except Refused as error:
            return Completion("refusal", str(error), FILTERED if isinstance(error, Filtered) else "")

    def _check_that_it_is_up(self, answer: JournalAnswer) -> None:
        self._in_a_row = self._in_a_row + 1 if answer.kind == "gave-up" else 0
        if self._in_a_row >= _DOWN:
            raise UnavailableError(
                f"{self._settings.url} has failed {self._in_a_row} requests in a row, the last so: {answer.text}. "
                "What was answered is kept, and the same command continues."
            )

    # Counting and reporting -----------------------------------------------------------------------------------------

    def _count(self, key: str, request: Request, answer: JournalAnswer, *, sent: bool) -> None:
        with self._counting:
            if key in self._counted:
                return
            self._counted.add(key)
            self._calls += sent
            self._from_journal += not sent
            self._failures += answer.kind != "reply"
            self._input += answer.input_tokens
            self._output += answer.output_tokens
            self._cached += answer.cached_tokens
            self._estimated += is_estimated(request, answer.input_tokens, answer.output_tokens)
            price = self._settings.price
            counts = (answer.input_tokens, answer.output_tokens, answer.cached_tokens)
            for meter in self._session().meters:
                meter.count(
                    sent=sent,
                    failed=answer.kind != "reply",
                    input_tokens=answer.input_tokens,
                    output_tokens=answer.output_tokens,
                    cost=None if price is None else price.of(*counts),
                )

    def _tell_of_calls(self) -> None:
        """Report once that the endpoint does not accept `tool_choice`."""
        if "tool_choice" in self._transport.unsupported(self._asked_as) and "calls" not in self._told:
            self._told.add("calls")
            self._progress.note(f"{self._settings.url} takes no tool_choice, and is asked without it. {NO_CALLS}")

    def _tell_of_another_endpoint(self, answer: JournalAnswer) -> None:
        """Report once that replies were made elsewhere than the identity says."""
        settings = self._settings
        if settings.named and answer.endpoint != settings.url and "endpoint" not in self._told:
            self._told.add("endpoint")
            self._progress.note(
                f"replies of {self.model} are taken from the journal {settings.journal}, where "
                f"{one_line(answer.endpoint, 200)} made them, not {settings.url}; name another file in "
                "BENCH_LLM_JOURNAL to ask again"
            )

    def _lacking(self, requests: Sequence[Request], repeat: int) -> UnavailableError:
        prompt = requests[0].messages[-1].content if requests[0].messages else ""
        again = f", repeat {repeat}" if repeat > 1 else ""
        return UnavailableError(
            f"the journal {self._settings.journal} lacks {len(requests)} of the replies of {self.model}, the first to "
            f"{one_line(prompt, _SHOWN)!r} (sample {requests[0].sample}{again}), and {self._obstacle()}. "
            f"{self._remedy()}"
        )

    def _obstacle(self) -> str:
        if self._in_file:
            return "its file is not here"
        if self._session().offline:
            return OFFLINE
        return "no endpoint is named" if self._provider is None else f"{self._settings.key_name} is not set"

    def _remedy(self) -> str:
        if self._in_file:
            return "Name the file with its folder, or a recorded journal in BENCH_LLM_JOURNAL."
        if self._session().offline and self._settings.named:
            return "Go online, or name the recorded journal in BENCH_LLM_JOURNAL."
        if self._provider is not None:
            return f"Set {self._settings.key_name}, or name a recorded journal in BENCH_LLM_JOURNAL."
        return (
            "Name an endpoint in BENCH_LLM_URL (its key in BENCH_LLM_KEY), or a recorded journal in BENCH_LLM_JOURNAL."
        )


def _result(answer: JournalAnswer, request: Request, *, from_journal: bool) -> Reply | Failure:
    counts = (answer.input_tokens, answer.output_tokens)
    estimated = is_estimated(request, *counts)
    if answer.kind != "reply":
        return Failure(answer.text, answer.finish == FILTERED, *counts, answer.cached_tokens, estimated)
    served = (answer.cached_tokens, answer.seconds)
    return Reply(answer.text, *counts, answer.finish, from_journal, answer.calls, *served, estimated)


def _next(items: _Queue[T]) -> T:
    """The next item; waits in a way that Ctrl-C interrupts on every system."""
    while True:
        try:
            return items.get(timeout=_LOOK)
        except queue.Empty:
            continue
