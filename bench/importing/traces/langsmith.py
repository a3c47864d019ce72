"""LangSmith: runs as JSON Lines or nested in `child_runs`, and LangChain's streams of events, which end them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bench.importing.traces.events import (
    CALL_IDS,
    Call,
    Event,
    LoggedExchange,
    failed_of,
    first_field,
    json_of,
    seconds_of,
)
from bench.importing.traces.messages import answer_events, events_of, exchange_of, is_messages

#: What threads are called by, in the metadata; `session_id` of a run itself is the project.
_THREADS = ("session_id", "thread_id", "conversation_id")
_TEXTS = ("input", "question", "query", "user_input", "message", "prompt", "text")
_MOST_DEPTH = 40
#: Events of LangChain's `astream_events` that end a run, and the type of the run.
_ENDS = {
    "on_chat_model_end": "llm",
    "on_llm_end": "llm",
    "on_tool_end": "tool",
    "on_tool_error": "tool",
    "on_chain_end": "chain",
}


def is_langsmith(value: Mapping[str, Any]) -> bool:
    """Whether an object is a run, or an event of one."""
    if isinstance(value.get("event"), str) and value["event"].startswith("on_"):
        return isinstance(value.get("data"), dict) and "run_id" in value
    return isinstance(value.get("run_type"), str) and ("inputs" in value or "outputs" in value or "trace_id" in value)


class LangSmith:
    """Reads runs, each with those below it."""

    def read(self, value: Mapping[str, Any]) -> Iterator[LoggedExchange]:
        """The exchanges of a run and of its `child_runs`, or of the run that an event ends."""
        pending: list[tuple[Mapping[str, Any], str, int]] = [(_ended(value) if "event" in value else value, "", 0)]
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


def _ended(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The run that an event ends; one of no type if it ends none."""
    given = event.get("data")
    data: Mapping[str, Any] = given if isinstance(given, dict) else {}
    above = event.get("parent_ids")
    ids = [each for each in above if isinstance(each, str)] if isinstance(above, list) else []
    return {
        "run_type": _ENDS.get(str(event.get("event"))),
        "id": event.get("run_id"),
        "trace_id": ids[0] if ids else event.get("run_id"),
        "parent_run_id": ids[-1] if ids else None,
        "name": event.get("name"),
        "inputs": data.get("input"),
        "outputs": {"output": data.get("output")},
        "error": data.get("error"),
        "metadata": event.get("metadata"),
    }


def _events(run: Mapping[str, Any]) -> tuple[Event, ...]:
    kind, inputs, outputs = run.get("run_type"), json_of(run.get("inputs")), json_of(run.get("outputs"))
    if kind == "tool":
        return _tool_events(run, inputs, outputs)
    if kind != "llm" and (first_field(run, "parent_run_id") or kind != "chain"):
        return ()
    if kind == "llm":
        return exchange_of(_request_events(inputs), answer_events(outputs))
    # The state of a graph after its run has all that was said; of other chains, the runs below say it one by one.
    state = outputs.get("output", outputs) if isinstance(outputs, dict) else None
    whole = events_of(state["messages"]) if isinstance(state, dict) and is_messages(state.get("messages")) else []
    return exchange_of(_request_events(inputs), whole)


def _request_events(inputs: Any) -> list[Event]:
    if not isinstance(inputs, dict):
        return events_of(inputs) if is_messages(inputs) else []
    for key in ("messages", "input", "contents"):
        if is_messages(inputs.get(key)):
            return events_of(inputs[key])
    texts = (inputs[key] for key in _TEXTS if isinstance(inputs.get(key), str))
    prompts = inputs.get("prompts")
    first = prompts[0] if isinstance(prompts, list) and prompts and isinstance(prompts[0], str) else ""
    return events_of(text) if (text := next(texts, first)) else []


def _tool_events(run: Mapping[str, Any], inputs: Any, outputs: Any) -> tuple[Event, ...]:
    """The call of a run of a tool, whose own name may be one for display."""
    output = json_of(outputs.get("output")) if isinstance(outputs, dict) else None
    message: Mapping[str, Any] = output if isinstance(output, dict) else {}
    kwargs = message.get("kwargs")
    message = kwargs if isinstance(kwargs, dict) else message  # a ToolMessage: it names the tool, the call, the status
    is_result = any(key in message for key in CALL_IDS[:2])
    serialized = run.get("serialized")
    named = [message if is_result else {}, serialized if isinstance(serialized, dict) else {}, run]
    name = next((name for each in named if (name := first_field(each, "name"))), "")
    broken = run.get("error") or run.get("status") == "error" or (is_result and failed_of(message))
    failed = True if broken else None if output is None else False
    call_id = first_field(message, *CALL_IDS[:2]) if is_result else ""
    own, parent = first_field(run, "id"), first_field(run, "parent_run_id")
    return (Call(name, inputs, call_id, failed, span=own, parent=parent),) if name else ()


def _thread(run: Mapping[str, Any]) -> str:
    extra = run.get("extra")
    about = extra.get("metadata") if isinstance(extra, dict) else run.get("metadata")
    return first_field(about, *_THREADS) if isinstance(about, dict) else first_field(run, "thread_id")
