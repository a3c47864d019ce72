"""Comments of a pull request on GitHub and of a merge request on GitLab, as far as the jobs that comment use them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import AF_INET, AF_UNIX
from typing import Any
from urllib.parse import parse_qs

TOKEN = "a-secret-of-the-job"
#: Who the token's user is, on GitLab and on GitHub.
BOT, LOGIN = 77, "github-actions[bot]"
#: The last commit of the request.
COMMIT = "c0ffee" * 6 + "c0ff"


class Comments(ThreadingHTTPServer):
    """A server on loopback, or on a Unix socket at a path, which `gh` can be told to ask.

    `refused` is the status that a writer gets; 0 to let it write.
    """

    def __init__(self, socket: Path | None = None) -> None:
        self.address_family = AF_INET if socket is None else AF_UNIX
        # A socket has no host and no port, which the base class looks up.
        super().__init__(("127.0.0.1", 0), _Request, bind_and_activate=False)
        if socket is None:
            self.server_bind()
        else:
            self.socket.bind(str(socket))
        self.server_activate()
        self.comments: list[dict[str, Any]] = []
        self.refused = 0

    def get_request(self) -> tuple[Any, Any]:
        """A connection; the handler wants a client's host and port."""
        connection, address = super().get_request()
        return connection, address or ("", 0)

    def bodies(self) -> list[str]:
        return [comment["body"] for comment in self.comments]

    def add(self, body: str | None, **more: Any) -> None:
        """A comment that is there already, of the token's user."""
        about = {"user": {"login": LOGIN}, "author": {"id": BOT}}
        self.comments.append({"id": len(self.comments) + 1, "body": body, **about, **more})

    def of_gitlab(self, number: int = 7) -> dict[str, str]:
        """The variables of a job of GitLab that runs for a merge request."""
        about = {"CI_PROJECT_ID": "3", "CI_MERGE_REQUEST_IID": str(number), "CI_COMMIT_SHA": COMMIT}
        return {**about, "CI_API_V4_URL": f"http://127.0.0.1:{self.server_port}/api/v4", "COMMENT_TOKEN": TOKEN}


@contextmanager
def comments(socket: Path | None = None) -> Iterator[Comments]:
    """Such a server, until the block ends."""
    with Comments(socket) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


class _Request(BaseHTTPRequestHandler):
    server: Comments

    #: Where comments are, and one of them, by host.
    places = {
        "/repos/owner/name/issues/7/comments": "/repos/owner/name/issues/comments/",
        "/api/v4/projects/3/merge_requests/7/notes": "/api/v4/projects/3/merge_requests/7/notes/",
    }

    def _answer(self, status: int, value: object, **headers: str) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Length": str(len(data)), "Content-Type": "application/json", **headers}.items():
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)

    def _place(self) -> str:
        """The path, of a request with the token."""
        place, _, _ = self.path.partition("?")
        given = self.headers["PRIVATE-TOKEN"] if place.startswith("/api/v4/") else self.headers["Authorization"]
        assert given.split()[-1] == TOKEN
        return place

    def do_GET(self) -> None:
        place = self._place()
        if place == "/api/v4/user":
            self._answer(200, {"id": BOT})
            return
        assert place in self.places, place
        asked = parse_qs(self.path.partition("?")[2])
        page, size = int(asked.get("page", ["1"])[0]), int(asked["per_page"][0])
        found = self.server.comments[size * (page - 1) : size * page]
        more = {}
        if size * page < len(self.server.comments):
            more["Link"] = f'<https://api.github.com{place}?per_page={size}&page={page + 1}>; rel="next"'
        self._answer(200, found, **more)

    def do_POST(self) -> None:
        place, sent = self._place(), self.rfile.read(int(self.headers["Content-Length"]))
        if place == "/graphql":
            assert json.loads(sent)["query"] == "{viewer{login}}"
            self._answer(200, {"data": {"viewer": {"login": LOGIN}}})
            return
        body = parse_qs(sent.decode())["body"][0] if place.startswith("/api/") else json.loads(sent)["body"]
        if self.server.refused:
            self._answer(self.server.refused, {"message": "not accessible"})
        elif self.command == "POST":
            assert place in self.places, place
            self.server.add(body)
            self._answer(201, self.server.comments[-1])
        else:
            assert self.command == ("PUT" if place.startswith("/api/") else "PATCH")
            there = {f"{one}{item['id']}": item for item in self.server.comments for one in self.places.values()}[place]
            there["body"] = body
            self._answer(200, there)

    def do_PATCH(self) -> None:
        self.do_POST()

    def do_PUT(self) -> None:
        self.do_POST()

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""
