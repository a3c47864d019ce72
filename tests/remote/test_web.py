"""Services that hang, flood, drip, refuse and lie, on loopback."""

from __future__ import annotations

import gzip
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from kit.searchservice import Answer, Request, Service

from bench.base.config import config_context
from bench.base.errors import UnavailableError, UsageError
from bench.base.secrets import mask
from bench.remote import web
from bench.remote.answers import Unusable
from bench.remote.web import Web, WebClient, check_url


def client(timeout: float = 5.0, tries: int = 1, rate: float = 0.0, token: str = "") -> WebClient:
    return WebClient(Web(timeout, tries, rate, token))


def test_json_goes_out_and_bytes_come_back(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "secret")
    service.answer = lambda request: request.reply({"tools": ["a"]})
    requests = client(token="MY_TOKEN")
    assert requests.send("POST", service.url, {"query": "q", "limit": 3}) == b'{"tools": ["a"]}'
    assert requests.send("GET", service.url, {"query": "a b", "limit": 3}) == b'{"tools": ["a"]}'
    (verb, path, sent, headers), (second, with_query, _, _) = service.seen
    assert (verb, path, sent, headers["Authorization"]) == (
        "POST",
        "/search",
        {"query": "q", "limit": 3},
        "Bearer secret",
    )
    assert (second, with_query) == ("GET", "/search?query=a+b&limit=3")


def test_a_token_that_is_sent_back_is_masked(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "s3cret-token")
    service.answer = lambda request: request.reply({"you sent": request.headers["Authorization"]}, 403)
    with pytest.raises(Unusable, match=r"the status 403 .*Bearer \[the key\]") as caught:
        client(token="MY_TOKEN").send("POST", service.url, {})
    assert "s3cret" not in str(caught.value)
    service.answer = lambda request: request.reply([request.headers["Authorization"]])
    assert client(token="MY_TOKEN").send("POST", service.url, {}) == b'["Bearer [the key]"]'


def test_a_token_that_is_not_set_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MY_TOKEN", raising=False)
    with pytest.raises(UsageError, match="MY_TOKEN"):
        client(token="MY_TOKEN")


def hangs(request: Request) -> None:
    time.sleep(3)


def drips_its_head(request: Request) -> None:
    request.drip(b"HTTP/1.1 200 OK\r\nX-Slow: " + b"x" * 100, 0.05)


def drips_its_body(request: Request) -> None:
    request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
    request.drip(b"x" * 100, 0.05)


@pytest.mark.parametrize("answer", [hangs, drips_its_head, drips_its_body])
def test_no_answer_takes_longer_than_its_time(service: Service, answer: Answer) -> None:
    service.answer = answer
    started = time.monotonic()
    with pytest.raises(Unusable, match=r"no answer within 0\.4 seconds"):
        client(timeout=0.4).send("POST", service.url, {})
    assert time.monotonic() - started < 2.5


def floods(request: Request) -> None:
    request.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
    for _ in range(64):
        request.wfile.write(b"x" * (1 << 20))


def floods_with_an_error(request: Request) -> None:
    request.wfile.write(b"HTTP/1.1 400 Bad\r\n\r\n")
    for _ in range(64):
        request.wfile.write(b"no! " * (1 << 18))


def bombs(request: Request) -> None:
    request.reply(gzip.compress(b"[" + b" " * (32 << 20) + b"]"), headers={"Content-Encoding": "gzip"})


def test_answers_without_an_end_are_cut(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "LARGEST", 1 << 20)
    service.answer = floods
    with pytest.raises(Unusable, match="more than 1 MiB"):
        client().send("POST", service.url, {})
    service.answer = floods_with_an_error
    with pytest.raises(Unusable, match=r"the status 400 \('no! no! .*\)") as caught:
        client().send("POST", service.url, {})
    assert len(str(caught.value)) < 150
    # Nothing is unpacked: an answer that was packed unasked is bytes that are not JSON.
    service.answer = bombs
    assert len(client().send("POST", service.url, {})) < 1 << 20


def test_what_may_pass_is_tried_again_and_the_rest_is_not(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "FIRST_WAIT", 0.01)
    statuses = [503, 429, 200]
    service.answer = lambda request: request.reply([], statuses[len(service.seen) - 1], {"Retry-After": "0.01"})
    assert client(tries=3).send("POST", service.url, {}) == b"[]"
    assert len(service.seen) == 3
    service.seen.clear()
    service.answer = lambda request: request.reply({"error": "no\x1b[31m such place"}, 404)
    with pytest.raises(Unusable, match="the status 404") as caught:
        client(tries=3).send("POST", service.url, {})
    assert str(caught.value).isprintable()
    assert len(service.seen) == 1


def test_a_redirect_is_not_followed(service: Service) -> None:
    service.answer = lambda request: request.reply([], 302, {"Location": "http://127.0.0.1:1/elsewhere"})
    with pytest.raises(Unusable, match="the status 302"):
        client().send("POST", service.url, {})
    assert len(service.seen) == 1


def test_a_place_without_a_service_is_said(service: Service) -> None:
    service.server_close()
    with pytest.raises(Unusable, match="no answer"):
        client().send("POST", service.url, {})


def test_several_threads_ask_at_once_and_no_faster_than_the_rate(service: Service) -> None:
    def answer(request: Request) -> None:
        time.sleep(0.1)
        request.reply(request.sent)

    service.answer = answer
    requests = client()
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda number: requests.send("POST", service.url, [number]), range(16)))
    assert replies == [b"[%d]" % number for number in range(16)]
    assert service.most_open > 3
    service.answer = lambda request: request.reply([])
    slow, started = client(rate=20), time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: slow.send("POST", service.url, []), range(9)))
    assert time.monotonic() - started >= 0.39


def test_offline_only_this_machine_is_asked(service: Service) -> None:
    service.answer = lambda request: request.reply([])
    with config_context(offline=True):
        requests = client()
    assert requests.send("POST", service.url, {}) == b"[]"
    with pytest.raises(UnavailableError, match="offline"):
        requests.send("POST", "http://search.example/", {})


def test_any_number_of_clients_share_one_thread(service: Service) -> None:
    service.answer = lambda request: request.reply([])
    client().send("POST", service.url, {})
    before = {thread for thread in threading.enumerate() if thread.name == "bench-exchange"}
    for _ in range(5):
        client().send("POST", service.url, {})
    assert {thread for thread in threading.enumerate() if thread.name == "bench-exchange"} == before
    assert len(before) == 1


@pytest.mark.parametrize("url", ["", "localhost:8000", "ftp://x/y", "http://", "http://a:b@host/", "file:///etc"])
def test_only_urls_of_http_are_taken(url: str) -> None:
    with pytest.raises(UsageError):
        check_url(url)


@pytest.mark.parametrize("name", ["key", "apikey", "X-Api-Key", "access-token", "accessToken", "clientSecret", "sig"])
def test_a_key_in_an_address_is_refused_where_it_would_be_stored_and_masked_elsewhere(name: str) -> None:
    url = f"http://localhost:1/search?lang=en&{name}=abcdefgh-{name}"
    with pytest.raises(
        UsageError, match=f"the value of '{name}' in a URL would be stored with the result; give token="
    ):
        check_url(url)
    assert check_url(url, stored=False) == url
    assert f"abcdefgh-{name}" not in mask(f"asks {url}")


@pytest.mark.parametrize("query", ["keyword=a", "sort_by=keys", "monkey=1", "lang=en", "key=", "design=2"])
def test_what_is_no_key_may_stand_in_an_address(query: str) -> None:
    assert check_url(f"http://localhost:1/search?{query}")
