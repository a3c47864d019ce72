"""The preview: served to this machine, built again on a change."""

from __future__ import annotations

import importlib
import threading
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.errors import ResultError, StorageError

serve = importlib.import_module("bench.leaderboard.serve")


@pytest.mark.usefixtures("ready")
def test_the_site_is_served_to_this_machine_alone(build: Callable[..., Any]) -> None:
    site = build()
    server = serve.open_server(site.folder, 0)
    assert server.server_address[0] == "127.0.0.1"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        with urllib.request.urlopen(address, timeout=10) as answer:
            assert answer.read() == (site.folder / "index.html").read_bytes()
            assert answer.headers["Cache-Control"] == "no-cache"
    finally:
        server.shutdown()
        server.server_close()


def test_a_port_that_is_taken_is_told_in_a_sentence(tmp_path: Path) -> None:
    server = serve.open_server(tmp_path, 0)
    try:
        with pytest.raises(StorageError, match="--port"):
            serve.open_server(tmp_path, server.server_address[1])
    finally:
        server.server_close()


def test_a_change_of_a_result_builds_again_and_a_build_that_fails_does_not_end_it(ready: Path) -> None:
    built: list[float] = []
    said: list[str] = []
    stop = threading.Event()

    def build() -> None:
        built.append(time.monotonic())
        if len(built) == 1:
            raise ResultError("no luck.")

    watcher = threading.Thread(target=serve.watch, args=(ready, serve.state_of(ready), build, said.append, stop, 0.02))
    watcher.start()
    try:
        for times in (1, 2):
            manifest = next(ready.glob("*/*/manifest.json"))
            fresh = manifest.with_name("fresh")
            fresh.write_text(manifest.read_text() + "\n")
            fresh.replace(manifest)
            deadline = time.monotonic() + 10
            while len(built) < times and time.monotonic() < deadline:
                time.sleep(0.01)
        assert len(built) == 2
        assert said == ["no luck."]
    finally:
        stop.set()
        watcher.join(10)
