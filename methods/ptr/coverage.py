"""Functional coverage: which tools of a bundle serve a query, and which problems remain unsolved.

"PTR: Precision-Driven Tool Recommendation for Large Language Models", section 3.2. What maps functionalities to tools
is a language model (`bench.methods.ptr.dialogue`) or rules that replace one (`bench.methods.ptr.rules`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol

Assessment = Literal["exact", "over", "partial"]
ASSESSMENTS: tuple[Assessment, ...] = ("exact", "over", "partial")


@dataclass(frozen=True)
class BundleCoverage:
    """The mapping's result for one query and one bundle.

    Attributes:
        kept: tool codes that serve a functionality, in the order of the functionalities they serve.
        unsolved: problems that no kept tool solves, as texts that can be understood alone.
        assessment: `exact`: the bundle does everything and no tool is superfluous; `over`: it does everything and
            some tool is superfluous; `partial`: something is left undone. None without a bundle.
        failed: the language model gave no answer; then the other fields are meaningless.
        unparsed: number of replies that could not be parsed, for which a fallback was used.
    """

    kept: tuple[int, ...]
    unsolved: tuple[str, ...]
    assessment: Assessment | None = None
    failed: bool = False
    unparsed: int = 0


FAILED = BundleCoverage((), (), failed=True)


@dataclass(frozen=True)
class Recommendation:
    """The recommended set of one query, and how it came about.

    Attributes:
        bundle: the past bundle of stage 1; empty without one.
        coverage: the result of stage 2; without that stage, the unchanged bundle.
        added: (problem, tool): for each unsolved problem, the tool that stage 3 ranked first.
    """

    bundle: tuple[int, ...]
    coverage: BundleCoverage
    added: tuple[tuple[str, int], ...] = ()

    @cached_property
    def tools(self) -> tuple[int, ...]:
        """The set in the order in which its tools were found, without repetitions."""
        return tuple(dict.fromkeys([*self.coverage.kept, *(tool for _, tool in self.added)]))


class Mapping(Protocol):
    """Maps queries to coverage."""

    def cover(self, queries: Sequence[str], bundles: Sequence[Sequence[int]] | None) -> list[BundleCoverage]:
        """The coverage of each query by its bundle (tool codes); without bundles every functionality is unsolved."""
        ...


def assess(matches: Sequence[int | None], bundle: Sequence[int]) -> Assessment:
    """The assessment that follows from a mapping alone: functionality i is served by tool `matches[i]`, or by none."""
    if None in matches:
        return "partial"
    return "over" if set(bundle) - set(matches) else "exact"
