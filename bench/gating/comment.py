"""The report as a comment on the pull request (GitHub) or merge request (GitLab) whose job runs the gate.

What the job runs for comes from the variables that GitHub and GitLab set for every job. A later run finds its comment
by the report's last line, which no reader sees, and writes it anew.

Sources: https://docs.github.com/en/rest/issues/comments and https://docs.gitlab.com/api/notes/.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx

from bench.base.config import current_session
from bench.base.errors import UnavailableError
from bench.base.http import BrokenOff, Connections, TooLong
from bench.base.paths import read_regular
from bench.base.secrets import keep
from bench.base.text import one_line

_SECONDS = 30.0
#: Bytes of a page of comments: a hundred, of which GitHub's have 65,536 characters at most.
_LARGEST_PAGE = 64 << 20
#: Bytes of the file that describes what a job of GitHub runs for.
_LARGEST_EVENT = 32 << 20
_PER_PAGE, _MOST_PAGES = 100, 100


@dataclass(frozen=True)
class _Place:
    """Where comments of a request are read and written.

    Attributes:
        comments: URL of its comments.
        edited: URL of one of them, with `{}` for its id.
        edit: the HTTP method that edits it.
        headers: with the token.
        user: URL that says whose the token is; empty where that is not needed.
    """

    comments: str
    edited: str
    edit: str
    headers: dict[str, str]
    user: str = ""


def write_comment(report: str, variables: Mapping[str, str]) -> bool:
    """Write a report as a comment, in place of the one that an earlier run wrote.

    Args:
        report: Markdown, whose last line is the same for each run of one gate.
        variables: of the environment.

    Returns:
        False if the job runs for no pull or merge request: there is nothing to comment on.

    Raises:
        UnavailableError: it cannot be written; one sentence.
    """
    place = _place(variables)
    if place is None:
        return False
    if current_session().offline:
        raise UnavailableError("the comment needs the network, which is not used offline.")
    report = report.rstrip()
    marker = report.splitlines()[-1]
    client = Connections()
    try:
        earlier = _earlier(client, place, marker)
        if earlier is None:
            _ask(client, place, "POST", place.comments, {"body": report})
        else:
            _ask(client, place, place.edit, place.edited.format(earlier), {"body": report})
    except (TimeoutError, TooLong, BrokenOff, httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        said = one_line(str(error), 200) or type(error).__name__
        raise UnavailableError(f"the comment was not written ({said}).") from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise UnavailableError("the comment was not written: the list of comments has no form that is known.") from None
    return True


def _place(variables: Mapping[str, str]) -> _Place | None:
    if variables.get("GITLAB_CI"):
        number = variables.get("CI_MERGE_REQUEST_IID")
        if not number:
            return None
        api, project = _needed(variables, "CI_API_V4_URL"), quote(_needed(variables, "CI_PROJECT_ID"), safe="")
        notes = f"{api}/projects/{project}/merge_requests/{quote(number, safe='')}/notes"
        token = _needed(variables, "COMMENT_TOKEN", "a project access token with the scope api, in a masked variable")
        return _Place(notes, f"{notes}/{{}}", "PUT", {"PRIVATE-TOKEN": token}, f"{api}/user")
    if "GITHUB_REPOSITORY" not in variables:
        raise UnavailableError(
            "--comment is for jobs of GitHub and GitLab: the environment has neither GITHUB_REPOSITORY nor GITLAB_CI."
        )
    pull_request = _pull_request(_needed(variables, "GITHUB_EVENT_PATH"))
    if pull_request is None:
        return None
    token = _needed(variables, "GITHUB_TOKEN", "${{ github.token }} of a job with `pull-requests: write`")
    api = variables.get("GITHUB_API_URL") or "https://api.github.com"
    issues = f"{api}/repos/{quote(variables['GITHUB_REPOSITORY'])}/issues"
    headers = {"Authorization": f"Bearer {token}", "Accept": "application/vnd.github+json"}
    return _Place(f"{issues}/{pull_request}/comments", f"{issues}/comments/{{}}", "PATCH", headers)


def _needed(variables: Mapping[str, str], name: str, what: str = "") -> str:
    if value := variables.get(name, ""):
        if name.endswith("_TOKEN"):
            keep(value)
        return value
    raise UnavailableError(f"the comment needs the variable {name}" + (f" ({what})." if what else "."))


def _pull_request(event: str) -> int | None:
    """The number of the pull request that a job of GitHub runs for; None for a push, a schedule and the like."""
    try:
        about = json.loads(read_regular(Path(event), _LARGEST_EVENT)).get("pull_request")
        return None if about is None else int(about["number"])
    except OSError as error:
        raise UnavailableError(f"cannot read {one_line(event, 200)}: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise UnavailableError(f"{one_line(event, 200)} does not say which pull request it is about.") from None


def _earlier(client: Connections, place: _Place, marker: str) -> int | None:
    """The id of the comment that an earlier run wrote. Anybody can write the marker, so its author counts, too."""
    writer = _ask(client, place, "GET", place.user)["id"] if place.user else None
    for page in range(1, _MOST_PAGES + 1):
        comments = _ask(client, place, "GET", place.comments, params={"per_page": str(_PER_PAGE), "page": str(page)})
        for comment in comments:
            if not str(comment["body"] or "").rstrip().endswith(marker):
                continue
            if place.user:
                ours = comment["author"]["id"] == writer
            else:
                ours = comment["user"]["type"] == "Bot" or comment["author_association"] in {"OWNER", "MEMBER"}
            if ours:
                return int(comment["id"])
        if len(comments) < _PER_PAGE:
            break
    return None


def _ask(
    client: Connections,
    place: _Place,
    verb: str,
    url: str,
    body: Mapping[str, str] | None = None,
    params: Mapping[str, str] | None = None,
) -> Any:
    """The answer, as JSON; of what was written, None."""
    content = None if body is None else json.dumps(body).encode()
    headers = {**place.headers, "Content-Type": "application/json"}
    answer = client.send(
        verb, url, headers=headers, seconds=_SECONDS, most=_LARGEST_PAGE, params=params, content=content
    )
    if not 200 <= answer.status < 300:
        said = one_line(answer.body.decode("utf-8", "replace"), 200)
        raise UnavailableError(f"the comment was not written ({verb} gives status {answer.status}: {said}).")
    return json.loads(answer.body) if content is None else None
