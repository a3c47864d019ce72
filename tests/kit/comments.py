"""Comments of a pull request on GitHub and of a merge request on GitLab, as far as the gate uses them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

TOKEN = "a-secret-of-the-job"
#: Who the token's user is, on GitLab and on GitHub.
BOT, LOGIN = 77, "github-actions[bot]"
#: The last commit of the request.
COMMIT = "c0ffee" * 6 + "c0ff"


class Comments(ThreadingHTTPServer):
    """A server on loopback. `refused` is the status that a writer gets; 0 to let it write."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.comments: list[dict[str, Any]] = []
        self.refused = 0
        self.seen: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def bodies(self) -> list[str]:
        return [comment["body"] for comment in self.comments]

    def add(self, body: str | None, **more: Any) -> None:
        """A comment that is there already, of the token's user."""
        about = {"user": {"login": LOGIN}, "author": {"id": BOT}}
        self.comments.append({"id": len(self.comments) + 1, "body": body, **about, **more})

    def of_github(self, event: Path, number: int | None = 7) -> dict[str, str]:
        """The variables of a job of GitHub, which runs for a pull request or, without a number, for a push."""
        request = {"pull_request": {"number": number, "head": {"sha": COMMIT}}}
        event.write_text(json.dumps({"ref": "main"} if number is None else request))
        about = {"GITHUB_ACTIONS": "true", "GITHUB_REPOSITORY": "owner/name", "GITHUB_EVENT_PATH": str(event)}
        return {**about, "GITHUB_API_URL": self.url, "GITHUB_TOKEN": TOKEN}

    def of_gitlab(self, number: int = 7) -> dict[str, str]:
        """The variables of a job of GitLab that runs for a merge request."""
        about = {"GITLAB_CI": "true", "CI_PROJECT_ID": "3", "CI_MERGE_REQUEST_IID": str(number)}
        about["CI_COMMIT_SHA"] = COMMIT
        return {**about, "CI_API_V4_URL": f"{self.url}/api/v4", "COMMENT_TOKEN": TOKEN}


@contextmanager
def comments() -> Iterator[Comments]:
    """Such a server, until the block ends."""
    with Comments() as server:
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

    def _answer(self, status: int, value: object) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _begin(self) -> str:
        place, _, _ = self.path.partition("?")
        self.server.seen.append(f"{self.command} {place}")
        gitlab = place.startswith("/api/v4/")
        given = self.headers["PRIVATE-TOKEN"] if gitlab else self.headers["Authorization"].removeprefix("Bearer ")
        assert given == TOKEN
        return place

    def do_GET(self) -> None:
        place = self._begin()
        if place == "/api/v4/user":
            self._answer(200, {"id": BOT})
            return
        assert place in self.places, place
        page = int(parse_qs(self.path.partition("?")[2])["page"][0])
        self._answer(200, self.server.comments[100 * (page - 1) : 100 * page])

    def do_POST(self) -> None:
        place = self._begin()
        (body,) = json.loads(self.rfile.read(int(self.headers["Content-Length"]))).values()
        if place == "/graphql":
            assert body == "{viewer {login}}"
            self._answer(200, {"data": {"viewer": {"login": LOGIN}}})
        elif self.server.refused:
            # Some proxies say what they were sent.
            self._answer(self.server.refused, {"message": "not accessible", "sent": dict(self.headers)})
        elif self.command == "POST":
            assert place in self.places, place
            self.server.add(body)
            self._answer(201, self.server.comments[-1])
        else:
            assert self.command == ("PUT" if place.startswith("/api/") else "PATCH")
            (there,) = [
                item
                for item in self.server.comments
                if any(place == f"{one}{item['id']}" for one in self.places.values())
            ]
            there["body"] = body
            self._answer(200, there)

    def do_PATCH(self) -> None:
        self.do_POST()

    def do_PUT(self) -> None:
        self.do_POST()

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""
