"""LangSmith: exported runs, as JSON Lines or nested in `child_runs`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.importing.traces.events import Call, Event, LoggedExchange, first_field, json_of, seconds_of
from bench.importing.traces.messages import answer_events, events_of, is_messages

#: What threads are called by, in the metadata; `session_id` of a run itself is the project.
_THREADS = ("session_id", "thread_id", "conversation_id")
_TEXTS = ("input", "question", "query", "user_input", "message", "prompt", "text")
_MOST_DEPTH = 40


def is_langsmith(value: Mapping[str, Any]) -> bool:
    """Whether an object is a run."""
    return isinstance(value.get("run_type"), str) and ("inputs" in value or "outputs" in value or "trace_id" in value)


class LangSmith:
    """Reads runs, each with those below it."""

    def read(self, value: Mapping[str, Any]) -> Iterator[LoggedExchange]:
        """The exchanges of a run and of its `child_runs`."""
        pending: list[tuple[Mapping[str, Any], str, int]] = [(value, "", 0)]
        while pending:
            run, above, depth = pending.pop()
            trace = (
                first_field(run, "trace_id")
                or above
                or ("" if first_field(run, "parent_run_id") else first_field(run, "id"))
            )
            if events := _events(run):
                yield LoggedExchange(events, trace, _thread(run), seconds_of(run.get("start_time")))
            below = run.get("child_runs")
            if isinstance(below, list) and depth < _MOST_DEPTH:
                pending += [(each, trace, depth + 1) for each in reversed(below) if isinstance(each, dict)]

    def finish(self) -> Iterator[LoggedExchange]:
        """Nothing: each run is complete."""
        return iter(())


def _events(run: Mapping[str, Any]) -> tuple[Event, ...]:
    kind, inputs, outputs = run.get("run_type"), json_of(run.get("inputs")), json_of(run.get("outputs"))
    if kind == "tool":
        return (Call(name, inputs),) if (name := first_field(run, "name")) else ()
    if kind != "llm" and (first_field(run, "parent_run_id") or kind != "chain"):
        return ()
    request_events: list[Event] = []
    if isinstance(inputs, dict):
        for key in ("messages", "input", "contents"):
            if is_messages(inputs.get(key)):
                request_events = events_of(inputs[key])
                break
        else:
            texts = (inputs[key] for key in _TEXTS if isinstance(inputs.get(key), str))
            prompts = inputs.get("prompts")
            first = prompts[0] if isinstance(prompts, list) and prompts and isinstance(prompts[0], str) else ""
            request_events = events_of([{"role": "user", "content": text}]) if (text := next(texts, first)) else []
    # A chain's outputs hold what its runs below say one by one.
    answered = answer_events(outputs) if kind == "llm" else []
    return (*request_events, *answered)


def _thread(run: Mapping[str, Any]) -> str:
    extra = run.get("extra")
    about = extra.get("metadata") if isinstance(extra, dict) else run.get("metadata")
    return first_field(about, *_THREADS) if isinstance(about, dict) else first_field(run, "thread_id")
