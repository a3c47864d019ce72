"""A service of this machine is asked without a proxy, whatever the environment says, and sends nobody elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest
from kit.chatserver import ChatServer
from kit.searchservice import Service, serving

from bench.base.config import config_context
from bench.base.errors import BenchError
from bench.models.encoders import Encoder
from bench.models.llm import LanguageModel, Message, Request
from bench.remote.answers import Unusable
from bench.remote.mcp import McpClient
from bench.remote.servers import Server
from bench.remote.web import Web, WebClient

NAMES = ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
Ask = Callable[[str], object]


def ask_service(url: str) -> object:
    return WebClient(Web(5.0, 1, 0.0, "")).send("POST", url, {"query": "q"})


def ask_mcp(url: str) -> object:
    client = McpClient(Server(url=url), "a test")
    with suppress(Unusable):
        client.tools()
    client.close()
    return None


@pytest.fixture
def proxy() -> Iterator[Service]:
    """Where no request may come."""
    with serving() as proxy:
        proxy.answer = lambda request: request.reply([])
        yield proxy
        assert proxy.seen == []


def use(monkeypatch: pytest.MonkeyPatch, proxy: Service, name: str, exempt: str = "") -> None:
    for other in [*NAMES, "no_proxy"]:
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.server_port}")
    monkeypatch.setenv("NO_PROXY", exempt)


@pytest.mark.parametrize("offline", [True, False])
@pytest.mark.parametrize("ask", [ask_service, ask_mcp])
@pytest.mark.parametrize(("name", "exempt"), [*((name, "") for name in NAMES), ("http_proxy", "example.com,localhost")])
def test_retrievers_of_this_machine(
    service: Service, proxy: Service, monkeypatch: pytest.MonkeyPatch, name: str, exempt: str, ask: Ask, offline: bool
) -> None:
    use(monkeypatch, proxy, name, exempt)
    service.answer = lambda request: request.reply([])
    with config_context(offline=offline):
        ask(service.url)
    assert service.seen


@pytest.mark.parametrize("ask", [ask_service, ask_mcp])
def test_a_redirect_leads_nowhere(service: Service, proxy: Service, ask: Ask) -> None:
    service.answer = lambda request: request.reply([], 302, {"Location": proxy.url})
    with config_context(offline=True), suppress(Unusable):
        ask(service.url)
    assert service.seen


@pytest.mark.parametrize("name", ["http_proxy", "ALL_PROXY"])
def test_models_of_this_machine(
    chat_server: ChatServer, proxy: Service, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    use(monkeypatch, proxy, name)
    assert LanguageModel("m").complete([Request((Message("user", "hello"),))])
    with suppress(BenchError):
        Encoder("openai:m").encode(["a text"])
    assert len(chat_server.requests) == 2


@pytest.mark.parametrize("name", NAMES)
def test_offline_nothing_else_is_asked_and_no_proxy_either(
    proxy: Service, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    use(monkeypatch, proxy, name)
    with config_context(offline=True):
        for url in ("http://search.example/", "https://search.example/", "http://127.0.0.1.search.example/"):
            with pytest.raises(BenchError, match="offline"):
                ask_service(url)
            with pytest.raises(BenchError, match="offline"):
                ask_mcp(url)
