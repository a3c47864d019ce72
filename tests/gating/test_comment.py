"""The report as a comment on GitHub and GitLab, against servers on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from kit.comments import COMMIT, TOKEN, Comments, comments

from bench.base.config import config_context
from bench.base.errors import UnavailableError
from bench.gating.comment import write_comment

Bench = Callable[..., Any]
MARKER = "<!-- bench gate 0123456789abcdef -->"
OTHER = "<!-- bench gate fedcba9876543210 -->"


@pytest.fixture
def server() -> Iterator[Comments]:
    with comments() as server, config_context(offline=False):
        yield server


@pytest.fixture(params=["github", "gitlab"])
def variables(request: pytest.FixtureRequest, server: Comments, tmp_path: Path) -> dict[str, str]:
    """Those of a job for request 7."""
    return server.of_github(tmp_path / "event.json") if request.param == "github" else server.of_gitlab()


def test_a_report_becomes_one_comment_that_later_runs_update(server: Comments, variables: dict[str, str]) -> None:
    # A hundred others fill the first page; others wrote the marker, and a comment has no text.
    for _ in range(120):
        server.add("hello")
    for place, association, kind in ((3, "CONTRIBUTOR", "User"), (5, "OWNER", "User"), (6, "NONE", "Bot")):
        writer = {"user": {"login": f"other-{kind}", "type": kind}, "author": {"id": place}}
        server.comments[place] |= {"body": f"pass\n{MARKER}", "author_association": association, **writer}
    server.comments[4]["body"] = None
    for verdict in ("pass", "regression"):
        assert write_comment(f"## Gate: {verdict}\n\n{MARKER}\n", variables)
        assert len(server.comments) == 121
        # The commit is named: a job that fails before its gate leaves the comment of an earlier one.
        assert server.bodies()[120] == f"## Gate: {verdict}\n\nCommit {COMMIT}\n\n{MARKER}"
    assert [server.bodies()[place] for place in (3, 5, 6)] == [f"pass\n{MARKER}"] * 3
    # Another gate has a comment of its own.
    write_comment(f"## Gate: pass\n\n{OTHER}\n", variables)
    assert len(server.comments) == 122


def test_what_cannot_be_written_is_a_sentence_without_the_token(server: Comments, variables: dict[str, str]) -> None:
    server.refused = 403
    with pytest.raises(UnavailableError, match=r"^the comment was not written \(POST gives status 403: ") as refused:
        write_comment(f"## Gate: pass\n\n{MARKER}\n", variables)
    gone = {name: "http://127.0.0.1:9" if "API" in name else value for name, value in variables.items()}
    with pytest.raises(UnavailableError, match=r"^the comment was not written \(") as unreachable:
        write_comment(f"## Gate: pass\n\n{MARKER}\n", gone)
    assert len(str(refused.value)) < 400
    assert TOKEN not in str(unreachable.value)
    with config_context(offline=True), pytest.raises(UnavailableError, match="offline"):
        write_comment(MARKER, variables)
    assert server.comments == []


@pytest.mark.parametrize("said", [{"message": "moved"}, [3], [{"id": "x", "body": MARKER}], None])
def test_an_answer_of_another_form_is_a_sentence(
    server: Comments, variables: dict[str, str], said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Odd:
        def __getitem__(self, part: slice) -> Any:
            return said

    monkeypatch.setattr(server, "comments", Odd())
    with pytest.raises(UnavailableError, match="has no form that is known"):
        write_comment(MARKER, variables)


@pytest.mark.parametrize("end", ["", "hello", MARKER.upper(), f"{MARKER} -->", f"x {MARKER}"])
def test_a_report_that_is_none_is_not_written(server: Comments, variables: dict[str, str], end: str) -> None:
    with pytest.raises(UnavailableError, match="does not end as one"):
        write_comment(f"## Gate: pass\n\n{end}\n", variables)
    assert server.comments == []


def test_a_job_of_its_own_comments_with_the_report(
    bench: Bench,
    ready: Path,
    starter_baseline: Path,
    server: Comments,
    variables: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("gate.toml").write_text('[[rule]]\nmetric = "recall@5"\nmargin = 0.02\n')
    gate = ["gate", "random@starter", "--baseline", str(starter_baseline), "--policy", "gate.toml"]
    bench(*gate, "--markdown", "report.md", code=1)
    monkeypatch.delenv("BENCH_OFFLINE")
    bench("comment", "report.md", code=4)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    for _ in range(2):
        bench("comment", "report.md")
    (body,) = server.bodies()
    assert body.startswith("## Gate: regression")
    # A pull request from a fork.
    server.refused = 403
    said = bench("comment", "report.md", code=4)
    assert "the comment was not written" in said.err
    assert TOKEN not in said.out + said.err
    bench("comment", "no-such.md", code=2)
    monkeypatch.delenv("CI_MERGE_REQUEST_IID", raising=False)
    Path("event.json").write_text("{}")
    monkeypatch.setenv("GITHUB_EVENT_PATH", "event.json")
    assert "nothing is written" in bench("comment", "report.md").out


def test_a_job_for_no_request_writes_nothing(server: Comments, tmp_path: Path) -> None:
    assert not write_comment(MARKER, server.of_github(tmp_path / "event.json", number=None))
    gitlab = server.of_gitlab()
    del gitlab["CI_MERGE_REQUEST_IID"]
    assert not write_comment(MARKER, gitlab)
    assert server.seen == []


def test_the_commit_is_that_of_the_branch_and_may_be_unknown(server: Comments, tmp_path: Path) -> None:
    variables = server.of_github(tmp_path / "event.json")
    (tmp_path / "event.json").write_text('{"pull_request": {"number": 7}}')
    write_comment(f"## Gate: pass\n\n{MARKER}\n", variables)
    # The commit of a pipeline for merged results is on no branch.
    merged = {"CI_COMMIT_SHA": "c0de", "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": "5eed"}
    write_comment(f"## Gate: pass\n\n{OTHER}\n", {**server.of_gitlab(), **merged})
    assert server.bodies() == [f"## Gate: pass\n\n{MARKER}", f"## Gate: pass\n\nCommit 5eed\n\n{OTHER}"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"GITHUB_TOKEN": ""}, "needs the variable GITHUB_TOKEN"),
        ({"GITHUB_EVENT_PATH": "/nowhere/event.json"}, "cannot read /nowhere/event.json"),
        ({"GITHUB_EVENT_PATH": ""}, "needs the variable GITHUB_EVENT_PATH"),
        ({"GITLAB_CI": "true", "CI_MERGE_REQUEST_IID": "4"}, "needs the variable CI_API_V4_URL"),
    ],
)
def test_a_variable_that_is_missing_is_named(
    server: Comments, tmp_path: Path, change: dict[str, str], said: str
) -> None:
    with pytest.raises(UnavailableError, match=said):
        write_comment(MARKER, {**server.of_github(tmp_path / "event.json"), **change})
    with pytest.raises(UnavailableError, match="neither GITHUB_REPOSITORY nor GITLAB_CI"):
        write_comment(MARKER, {})


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1]",
        '{"pull_request": {"number": "x"}}',
        '{"pull_request": 3}',
        '{"pull_request": null, "pull_request": {"number": 7}}',
        "{" * 9999,
    ],
)
def test_an_event_that_is_none_is_a_sentence(server: Comments, tmp_path: Path, text: str) -> None:
    variables = server.of_github(tmp_path / "event.json")
    (tmp_path / "event.json").write_text(text)
    with pytest.raises(UnavailableError, match="does not say which pull request"):
        write_comment(MARKER, variables)
