"""The preview: served to this machine, built again on a change."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from kit.results import folder_of
from kit.sites import Built

from bench.base.errors import ResultError, StorageError
from bench.leaderboard import serve


def test_the_site_is_served_to_this_machine_alone(ready_site: Built) -> None:
    server = serve.open_server(ready_site.folder, 0)
    assert server.server_address[0] == "127.0.0.1"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        address = f"http://127.0.0.1:{server.server_address[1]}/"
        with urllib.request.urlopen(address, timeout=10) as answer:
            assert answer.read() == (ready_site.folder / "index.html").read_bytes()
            assert answer.headers["Cache-Control"] == "no-cache"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("asked", "status"),
    [
        *(
            (f"/{name}", 200)
            for name in ("", "page.html", "same.html", "part/", "samepart/", "?a=b", "part/../page.html")
        ),
        *((f"/{name}", 404) for name in ("file.html", "relative.html", "folder/", "folder/secret.html", "deep/part/x")),
        *(
            (f"/{name}", 404)
            for name in ("indexed/", "circle", "f%69le.html", "folder%2Fsecret.html", "%00", "file.html/")
        ),
        *((f"/{name}", 404) for name in ("..%2fout/secret.html", "../out/secret.html", "%2e%2e/out/secret.html")),
        ("//out/secret.html", 404),
    ],
)
def test_no_link_leads_out_of_the_site(tmp_path: Path, asked: str, status: int) -> None:
    site, out = tmp_path / "site", tmp_path / "out"
    for folder in (site / "part", site / "indexed", site / "deep", out):
        folder.mkdir(parents=True)
    (out / "secret.html").write_text("secret")
    (out / "index.html").write_text("secret")
    for page in (site / "index.html", site / "page.html", site / "part" / "index.html"):
        page.write_text("page")
    links: dict[str, Path | str] = {
        "file.html": out / "secret.html",
        "relative.html": "../out/secret.html",
        "folder": out,
        "circle": "circle",
    }
    inner: dict[str, Path | str] = {
        "indexed/index.html": out / "index.html",
        "deep/part": "../../out",
        "same.html": "page.html",
        "samepart": "part",
    }
    for name, target in {**links, **inner}.items():
        (site / name).symlink_to(target)
    server = serve.open_server(site, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    connection = HTTPConnection("127.0.0.1", server.server_address[1], timeout=10)
    try:
        for verb in ("GET", "HEAD"):
            connection.request(verb, asked)
            answer = connection.getresponse()
            assert answer.status == status
            assert b"secret" not in answer.read()
    finally:
        connection.close()
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


def test_the_command_serves_the_last_build_at_once_and_goes_on_after_a_build_that_fails(
    few: Path, build: Callable[..., Built]
) -> None:
    site = build()
    line = [sys.executable, "-m", "bench", "leaderboard", "build", "--serve", "0", "--out", str(site.folder)]
    process = subprocess.Popen(
        [*line, "--results", str(few)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert "it shows the last build" in first
        with urllib.request.urlopen(first.split()[0], timeout=30) as answer:
            assert b"bench" in answer.read()
        assert "0 rejected" in process.stdout.readline()
        # A build cannot write where a folder is; the preview says so, and builds again after the next change.
        (site.folder / "index.html").unlink()
        (site.folder / "index.html").mkdir()
        (site.folder / "index.html" / "in the way").touch()
        shutil.rmtree(folder_of(few, "random"))
        assert "index.html" in process.stdout.readline()
        shutil.rmtree(site.folder / "index.html")
        shutil.rmtree(folder_of(few, "bm25"))
        assert "0 rejected" in process.stdout.readline()
        with urllib.request.urlopen(first.split()[0], timeout=30) as answer:
            assert b"No results yet." in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=30)[0].strip() == ""
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("option", ["--strict", "--json"])
def test_what_waits_for_an_end_does_not_go_with_serving(bench: Callable[..., Any], option: str) -> None:
    assert "--serve runs until Ctrl-C" in bench("leaderboard", "build", "--serve", "0", option, code=2).err
