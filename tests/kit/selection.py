"""Which tests run: all but the slow ones, all (`--all`), or those nearest to what has changed (`--near`).

`@pytest.mark.slow("a browser")` marks a test or a module that needs long, and says what for. Such tests run with
`--all`, and where their file is named on the command line; otherwise the last lines of a run say what was left out.
"""

from __future__ import annotations

import collections
import time
from typing import Any

import pytest

from kit.near import Near, nearest

#: Seconds after the first test after which `--near` starts no further one.
NEAR_SECONDS = 22.0
#: In the count of what was left out: near tests that the time did not suffice for.
_LATE = "near tests"

_left = pytest.StashKey["collections.Counter[str]"]()
_near = pytest.StashKey[Near]()
_end = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Two options."""
    group = parser.getgroup("bench")
    group.addoption("--all", action="store_true", help="run the slow tests too, as `make test-all` does")
    group.addoption(
        "--near",
        action="store_true",
        help=f"run the tests nearest to what changed since the last commit, for at most {NEAR_SECONDS:.0f} s",
    )


def pytest_configure(config: pytest.Config) -> None:
    """With `--near`, only the files of the nearest tests are collected; a worker is told which."""
    config.stash[_left] = collections.Counter()
    if config.getoption("near"):
        told = getattr(config, "workerinput", {}).get("near")
        config.stash[_near] = near = Near(*told) if told else nearest(config.rootpath)
        config.args = list(dict.fromkeys(test.partition("::")[0] for test in near.tests))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker the nearest tests, so that it does not look for them itself."""
    if near := node.config.stash.get(_near, None):
        node.workerinput["near"] = [list(near.tests), near.message]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the slow tests out, or begin with them: what is left at the end is short. The nearest tests come first."""
    if config.getoption("all"):
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)
        return
    if config.getoption("markexpr"):
        return
    if near := config.stash.get(_near, None):
        order = {test: number for number, test in enumerate(near.tests)}
        items[:] = [item for item in items if _id(item) in order]
        items.sort(key=lambda item: order[_id(item)])
    named = [word.partition("::")[0] for word in config.invocation_params.args if ".py" in str(word)]
    kept, left = [], []
    for item in items:
        slow = item.get_closest_marker("slow")
        if slow is None or any(item.nodeid.startswith(file) or str(item.path).endswith(file) for file in named):
            kept.append(item)
        else:
            left.append(item)
            config.stash[_left][slow.args[0]] += 1
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = kept


def _id(item: pytest.Item) -> str:
    """The id of a test without its parameters."""
    return item.nodeid.partition("[")[0]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> bool | None:
    """With `--near`, no test begins when the time is over: it is counted and passed over, which is no failure.

    On a busy machine it may take as long to collect the tests: the time begins with the first of them.
    """
    if item.config.getoption("near") and time.monotonic() > item.config.stash.setdefault(
        _end, time.monotonic() + NEAR_SECONDS
    ):
        item.config.stash[_left][_LATE] += 1
        return True
    return None


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker tells the process that prints; that no test is near is no failure."""
    if session.config.getoption("near") and session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED:
        session.exitstatus = pytest.ExitCode.OK
    left = session.config.stash[_left]
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["left"] = dict(left)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """All workers leave out the same tests."""
    left: dict[str, int] = getattr(node, "workeroutput", {}).get("left", {})
    late = node.config.stash[_left][_LATE] + left.pop(_LATE, 0)
    node.config.stash[_left] = collections.Counter({**left, _LATE: late})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what did not run."""
    left = config.stash[_left]
    if late := left.pop(_LATE, 0):
        terminalreporter.write_line(f"No time was left for {late} of the near tests: `make test` runs them.")
    if left:
        kinds = ", ".join(f"{count} of {kind}" for kind, count in left.most_common())
        terminalreporter.write_line(f"Left to `make test-all`: {left.total()} slow tests ({kinds}).")
    if near := config.stash.get(_near, None):
        terminalreporter.write_line(near.message)
