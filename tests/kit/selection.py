"""Which tests run: all but the slow ones, all (`--all`), or those nearest to what has changed (`--near`).

`@pytest.mark.slow("a browser")` marks a test or a module that needs long, and says what for. Such tests run with
`--all`, and where their file is named on the command line; otherwise the last lines of a run say what was left out.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Iterator
from typing import Any

import pytest

from kit.near import nearest

#: Seconds after which `--near` starts no further test.
NEAR_SECONDS = 22.0

_left = pytest.StashKey["collections.Counter[str]"]()
_found = pytest.StashKey[str]()
_started = time.monotonic()


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
    """With `--near`, only the files of the nearest tests are collected, the nearest test first."""
    config.stash[_left] = collections.Counter()
    if config.getoption("near"):
        chosen = nearest(config.rootpath)
        config.stash[_found] = chosen.told
        config.args = list(chosen.tests)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the slow tests out, or begin with them: what is left at the end is short."""
    if config.getoption("all"):
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)
        return
    if config.getoption("near") or config.getoption("markexpr"):
        return
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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """With `--near`, no test begins when the time is over."""
    if item.config.getoption("near") and time.monotonic() - _started > NEAR_SECONDS:
        item.session.shouldstop = "the time for near tests is over: `make test` runs the others"
    return (yield)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A worker tells the process that prints."""
    left = session.config.stash[_left]
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["left"] = dict(left)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """All workers leave out the same tests."""
    left: dict[str, int] = getattr(node, "workeroutput", {}).get("left", {})
    node.config.stash[_left] = collections.Counter(left)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what did not run."""
    left = config.stash[_left]
    if left:
        kinds = ", ".join(f"{count} of {kind}" for kind, count in left.most_common())
        terminalreporter.write_line(f"Left to `make test-all`: {left.total()} slow tests ({kinds}).")
    if told := config.stash.get(_found, ""):
        terminalreporter.write_line(told)
