"""The method `http`, end to end with a service on loopback."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.datasets import loaded
from kit.runs import ran
from kit.searchservice import Request, Service
from kit.validation import assert_conforms

from bench.base.errors import MethodError, UnavailableError, UnresolvedError, UsageError
from bench.base.spec import Spec, Value
from bench.interface.marks import NAMES_DROPPED, OWN_CATALOGUE
from bench.registry import build_method
from bench.results.store import RUN, StoredResult

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"

Fault = Callable[[str], tuple[Any, ...] | None]


class Search:
    """A service that ranks by shared words, over the tools that it was given."""

    def __init__(self) -> None:
        self.libraries: dict[str, list[tuple[str, set[str]]]] = {}
        #: Query -> body and status of an answer, or None for the right one.
        self.fault: Fault = lambda query: None

    def __call__(self, request: Request) -> None:
        if request.path == "/tools":
            texts = [(tool["id"], set(tool["text"].lower().split())) for tool in request.sent["tools"]]
            self.libraries[request.sent["library"]] = texts
            request.reply({})
        elif request.path == "/version":
            request.reply({"version": "v7"})
        elif (fault := self.fault(request.sent["query"])) is not None:
            request.reply(*fault)
        else:
            words = set(request.sent["query"].lower().split())
            ordered = sorted((-len(words & text), tool) for tool, text in self.libraries[request.sent["library"]])
            ordered = ordered[: request.sent["limit"]]
            request.reply({"hits": [{"id": tool, "score": -score} for score, tool in ordered]})


def method(service: Service, **more: Value) -> Spec:
    return Spec.of("http", {"url": service.url, **more})


@pytest.fixture
def search(service: Service) -> Search:
    """What the service answers with."""
    service.answer = Search()
    return service.answer


def at(service: Service, path: str) -> str:
    return service.url.replace("/search", path)


def test_a_service_is_given_the_tools_and_asked_each_query(service: Service, search: Search, tmp_path: Path) -> None:
    result = ran(tmp_path / "r", method(service, catalogue=at(service, "/tools"), version=at(service, "/version")))
    ((sent, tools),) = search.libraries.items()
    assert (len(sent), len(tools)) == (64, len(loaded("starter").tools))
    assert result.metrics.n_failed == 0
    assert result.metrics.metrics["recall@10"].mean > 0.2
    assert result.manifest.method.revisions == {service.url: "v7"}
    assert result.manifest.method.marks == []
    assert result.manifest.failures == []
    assert result.manifest.facts["asked_at_once"] == 1
    # Ties are broken by the protocol, because the service gives scores.
    assert result.metrics.metrics["recall@10"].tie_low is not None
    at_once = ran(
        tmp_path / "s", method(service, catalogue=at(service, "/tools"), version=at(service, "/version"), concurrency=8)
    )
    assert (at_once.folder / RUN).read_bytes() == (result.folder / RUN).read_bytes()
    assert at_once.manifest.facts["asked_at_once"] == 8


def test_a_service_without_a_version_is_marked(service: Service, search: Search, tmp_path: Path) -> None:
    catalogue = at(service, "/tools")
    (mark,) = ran(tmp_path, method(service, catalogue=catalogue)).manifest.marks
    assert mark.text == "remote"
    assert "not reproducible by hash" in mark.why
    named = ran(tmp_path, method(service, catalogue=catalogue, revision="2026-11-01"))
    assert named.manifest.marks == []
    assert named.manifest.method.revisions == {service.url: "2026-11-01"}


def test_a_version_may_stand_in_a_header_and_beside_the_answers(service: Service, tmp_path: Path) -> None:
    versions = iter(["3", *["4"] * 10_000])

    def answer(request: Request) -> None:
        headers = {"X-App-Version": "build 7"} if request.path == "/health" else {}
        request.reply({"tools": [], "version": next(versions)}, headers=headers)

    service.answer = answer
    result = ran(tmp_path, method(service, version=at(service, "/health#X-App-Version")))
    assert result.manifest.method.revisions == {service.url: "build 7"}
    assert [mark.text for mark in result.manifest.marks] == [OWN_CATALOGUE]
    # What answers say comes too late to name the result, and is told.
    assert result.manifest.facts["service_version"] == "4"
    with pytest.raises(UnavailableError, match=r"/health did not say its version: the header 'X-Build' of its answer"):
        ran(tmp_path, method(service, version=at(service, "/health#X-Build")))


def test_an_unusable_answer_is_a_failed_query_and_named(service: Service, search: Search, tmp_path: Path) -> None:
    faults: list[tuple[Any, ...]] = [
        ([], 500),
        ({"hits": ["nowhere"]},),
        (b"<html>",),
        ({"hits": ["crateful.get_catalogue"] * 2},),
    ]
    failing = {query.text: faults[i % 4] for i, query in enumerate(loaded("starter").queries) if i % 3 == 0}
    search.fault = lambda query: failing.get(query)
    result = ran(tmp_path, method(service, catalogue=at(service, "/tools"), tries=1, concurrency=4))
    assert 0 < result.metrics.n_failed < 20
    said = {reason.text.partition(" (")[0]: reason.count for reason in result.manifest.failures}
    assert list(said.values()) == sorted(said.values(), reverse=True)
    assert set(said) == {
        "the status 500",
        "unknown names: there is no tool 'nowhere'",
        "an answer that is not JSON",
        "the tool 'crateful.get_catalogue' twice",
    }


NEW = {"id": "crm.brand_new", "description": "Finds a customer."}


def test_names_that_the_library_lacks_are_told_or_left_out(service: Service, search: Search, tmp_path: Path) -> None:
    search.fault = lambda query: ({"tools": ["crateful.get_catalogue", NEW, "polder.service_point_finder"]},)
    with pytest.raises(MethodError, match=r"10 queries in a row with unknown names: .*'crm.brand_new'.* in 10 answers"):
        ran(tmp_path, method(service))
    left_out = ran(tmp_path, method(service, unknown="drop"))
    assert left_out.metrics.n_failed == 0
    assert set(left_out.run["tool_id"].to_pylist()) == {"crateful.get_catalogue", "polder.service_point_finder"}
    why = {mark.text: mark.why for mark in left_out.manifest.marks}[NAMES_DROPPED]
    start = "names that the library lacks were left out of 20 of 20 answers: there is no tool 'crm.brand_new'"
    assert why.startswith(start)
    assert why.endswith(", in 20 answers")
    assert left_out.manifest.facts["names_dropped"] == 20
    # Of fewer than ten queries, all fail, and it is not said that no name means a tool.
    few = ran(tmp_path, method(service), 5)
    assert [reason.count for reason in few.manifest.failures] == [few.metrics.n_failed] == [5]


def test_a_part_of_a_method_is_told_as_a_method_is(service: Service, search: Search, tmp_path: Path) -> None:
    def fused(**more: Value) -> tuple[dict[str, str], list[str]]:
        result = ran(tmp_path, Spec.of("rrf", {"methods": (Spec("bm25"), method(service, **more))}))
        assert result.metrics.n_failed == 0
        marks = {mark.text: mark.why for mark in result.manifest.marks}
        return marks, [reason.text for reason in result.manifest.failures]

    odd = {query.text for query in loaded("starter").queries[::2]}
    search.fault = lambda query: ({"tools": ["crateful.get_catalogue", *([NEW] if query in odd else [])]},)
    # What a part failed of, the other has made up for.
    marks, failed = fused()
    assert marks[OWN_CATALOGUE].startswith(f"calls {service.url}, which has its own catalogue: ")
    assert failed
    assert all("there is no tool 'crm.brand_new'" in reason for reason in failed)
    assert all(" (a part of the method alone)" in reason for reason in failed)
    marks, failed = fused(unknown="drop", catalogue=at(service, "/tools"))
    assert failed == []
    assert OWN_CATALOGUE not in marks
    assert "there is no tool 'crm.brand_new'" in marks[NAMES_DROPPED]


def test_an_answer_of_which_nothing_is_left_fails(service: Service, search: Search, tmp_path: Path) -> None:
    fail = {query.text for query in loaded("starter").queries[::5]}
    search.fault = lambda query: ([NEW],) if query in fail else None
    result = ran(tmp_path, method(service, catalogue=at(service, "/tools"), unknown="drop"))
    assert NAMES_DROPPED not in {mark.text for mark in result.manifest.marks}
    assert result.manifest.failures[0].text.startswith("unknown names: there is no tool 'crm.brand_new'")
    search.fault = lambda query: ([NEW],)
    for limit in (5, 20):
        with pytest.raises(UnresolvedError, match=r"no name in the answers .*'crm.brand_new'"):
            ran(tmp_path / "none", method(service, unknown="drop"), limit)
    assert not list((tmp_path / "none").glob("*/*/manifest.json"))


def test_reasons_and_names_that_were_left_out_survive_a_crash(
    service: Service, search: Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.methods.http.Http.batch_size", 5)
    asked: list[str] = []

    def fault(query: str) -> tuple[Any, ...] | None:
        asked.append(query)
        if len(asked) > 12:
            return [], 418
        return ([], 400) if len(asked) == 2 else ([NEW, "crateful.get_catalogue"],) if len(asked) == 4 else None

    plain = method(service, catalogue=at(service, "/tools"), unknown="drop", tries=1)
    for spec in (plain, Spec.of("graph-rag-tool-fusion", {"base": plain})):
        asked.clear()
        search.fault = fault
        with pytest.raises(UnavailableError, match="10 queries in a row"):
            ran(tmp_path, spec)
        search.fault = lambda query: None
        result = ran(tmp_path, spec)
        assert result.manifest.resumed
        assert any(reason.text.startswith("the status 400") for reason in result.manifest.failures)
        why = {mark.text: mark.why for mark in result.manifest.marks}[NAMES_DROPPED]
        assert "left out of 1 of 20 answers: there is no tool 'crm.brand_new'" in why


def test_a_gateway_may_answer_with_names_of_its_own(service: Service, tmp_path: Path) -> None:
    service.answer = lambda request: request.reply({"tools": ["mcp__crateful__get_catalogue"]})
    result = ran(tmp_path, method(service, concurrency=4))
    assert set(result.run["tool_id"].to_pylist()) == {"crateful.get_catalogue"}
    # Queries that are asked again for the latency are not counted twice.
    assert result.manifest.facts["mapped_names"] == (
        "1 name of a tool was mapped to an id (20 times): mcp__crateful__get_catalogue to crateful.get_catalogue (20)"
    )
    service.answer = lambda request: request.reply({"tools": ["other__get_catalogue"]})
    with pytest.raises(UnresolvedError, match=r"other__get_catalogue' \(near: .*crateful\.get_catalogue"):
        ran(tmp_path / "other", method(service, concurrency=4))
    assert not list((tmp_path / "other").glob("**/manifest.json"))


def test_a_service_that_is_down_ends_the_run_and_the_run_goes_on(
    service: Service, search: Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.methods.http.Http.batch_size", 5)
    monkeypatch.setattr("bench.evaluation.ask._LATENCY_QUERIES", 100)
    requests: list[str] = []

    def fault(query: str) -> tuple[Any, ...] | None:
        requests.append(query)
        return ({"error": "down"}, 400) if len(requests) > 7 else None

    search.fault = fault
    spec = method(service, catalogue=at(service, "/tools"))
    with pytest.raises(UnavailableError, match=r"failed 10 queries in a row, the last with the status 400"):
        ran(tmp_path, spec)
    assert not list(tmp_path.glob("*/*/manifest.json"))
    search.fault = requests.append
    before = len(requests)
    result = ran(tmp_path, spec)
    assert result.manifest.resumed
    # Three batches of five were finished. Their queries are asked once more, for the latency, and the others twice.
    assert 5 <= result.metrics.n_failed <= 3 + 5  # not all queries have gold
    assert sorted(Counter(requests[before:]).values()) == [1] * 15 + [2] * 5


def test_twenty_at_once_with_every_fault_give_what_one_after_another_gives(
    service: Service, search: Search, tmp_path: Path
) -> None:
    queries = sorted(query.text for query in loaded("starter").queries)
    faults: list[tuple[Any, ...]] = [([], 500), (b"{",), ([None],), (b"[" + b" " * (9 << 20) + b"]",)]
    failing = {text: faults[i % 4] for i, text in enumerate(queries) if i % 4 == 1}

    def fault(query: str) -> tuple[Any, ...] | None:
        time.sleep(0.01)  # so that the next ones arrive meanwhile
        return failing.get(query)

    search.fault = fault
    # A second try: on a loaded machine a connection that the service just closed may break under the next request.
    spec: dict[str, Value] = {"catalogue": at(service, "/tools"), "tries": 2, "timeout": 20.0}
    one = ran(tmp_path / "one", method(service, **spec))
    many = ran(tmp_path / "many", method(service, concurrency=20, **spec))
    assert (one.folder / RUN).read_bytes() == (many.folder / RUN).read_bytes()
    assert one.metrics.n_failed == many.metrics.n_failed > 0
    assert service.most_open > 1


def test_a_service_passes_the_conformance_kit(service: Service, search: Search) -> None:
    spec = method(service, catalogue=at(service, "/tools"), concurrency=4)
    assert_conforms(spec, loaded("starter"))


@pytest.mark.parametrize("server", ["server.py", "server.js"])
def test_the_examples_of_services_give_what_the_example_of_a_command_gives(
    server: str, expected: StoredResult, tmp_path: Path
) -> None:
    program = sys.executable if server.endswith(".py") else shutil.which("node")
    if program is None:
        pytest.skip("no node")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = subprocess.Popen([program, str(EXAMPLES / server), str(port)])
    try:
        deadline = time.monotonic() + 20
        while socket.socket().connect_ex(("127.0.0.1", port)) and time.monotonic() < deadline:
            time.sleep(0.05)
        address = f"http://127.0.0.1:{port}"
        result = ran(tmp_path, Spec.of("http", {"url": f"{address}/search", "catalogue": f"{address}/tools"}))
    finally:
        process.kill()
        process.wait()
    assert result.metrics.n_failed == 0
    # One gives scores, the other none.
    assert result.run["tool_id"].equals(expected.run["tool_id"])


def test_a_token_in_the_version_of_a_service_is_masked_however_it_is_spelt(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCH_TOKEN", "tok-of-the-test")
    answers = {"/version": b'{"version": "v1 \\u0074ok-of-the-test"}', "/search": b"[]"}
    service.answer = lambda request: request.reply(answers[request.path])
    result = ran(tmp_path, method(service, version=at(service, "/version"), token="SEARCH_TOKEN"))
    assert list(result.manifest.method.revisions.values()) == ["v1 [the key]"]


def test_what_cannot_work_is_said_before_the_run(service: Service, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs an address"):
        ran(tmp_path, Spec.of("http"))
    with pytest.raises(UsageError, match="not a URL of HTTP"):
        build_method(Spec.of("http", {"url": "ftp://somewhere"}))
    with pytest.raises(UsageError, match="JMESPath"):
        ran(tmp_path, method(service, answer="a["))
    service.answer = lambda request: request.reply({"error": "no"}, 403)
    with pytest.raises(UnavailableError, match="did not take the tools: the status 403"):
        ran(tmp_path, method(service, catalogue=at(service, "/tools")))
    with pytest.raises(UnavailableError, match="did not say its version"):
        ran(tmp_path, method(service, version=at(service, "/version")))
