"""The pytest plug-in: gate a project's own search in a test.

    def test_search_does_not_get_worse(bench_gate):
        bench_gate(lambda query: my_search(query))

    pytest --bench-baseline baselines/search.json --bench-policy gate.toml

Every pytest in an environment with bench imports this module, so it imports nothing else of bench until the fixture is
used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

if TYPE_CHECKING:
    from bench.gating.report import GateReport

Search = Callable[[str], Iterable[str]]


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options `--bench-baseline` and `--bench-policy`."""
    group = parser.getgroup("bench", "bench: regression gate for tool retrieval")
    group.addoption("--bench-baseline", metavar="FILE", help="baseline file from `bench bless`, for bench_gate")
    group.addoption("--bench-policy", metavar="FILE", help="policy file (TOML) for bench_gate")


class Gate:
    """The fixture's value: call it with a search."""

    def __init__(self, folders: Sequence[Path], baseline: str | None, policy: str | None) -> None:
        self._folders = folders
        self._baseline = baseline
        self._policy = policy

    def __call__(
        self,
        search: Search,
        *,
        baseline: str | Path | None = None,
        policy: str | Path | None = None,
        name: str = "candidate",
        inconclusive: Literal["fail", "xfail"] = "fail",
    ) -> GateReport:
        """Ask a search for each query of the baseline, and fail the test unless every rule of the policy is met.

        Args:
            search: text of a query -> ids of tools, best first. Its exceptions fail the test.
            baseline, policy: files, in place of those on the command line; relative to the folder in which pytest
                was called, or to its root folder.
            name: name of the search in the report.
            inconclusive: `xfail` reports an inconclusive test as expected to fail. It is never a pass.

        Returns:
            The report, if all rules are met.
        """
        from bench.base.errors import BenchError
        from bench.gating.search_function import gate_search
        from bench.gating.wording import text

        __tracebackhide__ = True
        files = {"--bench-baseline": baseline or self._baseline, "--bench-policy": policy or self._policy}
        for option, value in files.items():
            if not value:
                pytest.fail(f"bench_gate could not run: give a file with {option} or as an argument.", pytrace=False)
        places = [self._place(str(value)) for value in files.values()]
        try:
            report = gate_search(search, places[0], places[1], name)
        except BenchError as error:
            pytest.fail(f"bench_gate could not run: {error}", pytrace=False)
        if report.outcome == "inconclusive" and inconclusive == "xfail":
            pytest.xfail(text(report))
        if report.outcome != "pass":
            pytest.fail(text(report), pytrace=False)
        return report

    def _place(self, named: str) -> Path:
        """The path of a file: options may be on the command line, or in a configuration at the root."""
        places = [folder / named for folder in self._folders]
        return next((place for place in places if place.exists()), places[0])


@pytest.fixture
def bench_gate(request: pytest.FixtureRequest) -> Gate:
    """Gate a search against a blessed baseline: `bench_gate(search)`."""
    config = request.config
    folders = (config.invocation_params.dir, config.rootpath)
    return Gate(folders, config.getoption("bench_baseline"), config.getoption("bench_policy"))
