"""Testing the papers' claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from bench.lab.reproduce.claims import Claim, ClaimTest, check_printed
from bench.lab.reproduce.measuring import compare_methods, comparison_of, decide, lacking_of, measurement_of
from bench.lab.reproduce.outcomes import ClaimVerdict, Difference
from bench.lab.reproduce.preconditions import check_precondition
from bench.lab.reproduce.recipes import fill_roles
from bench.lab.reproduce.report import ClaimReport, ClaimTestReport, PairedComparison
from bench.lab.reproduce.runs import MethodRuns
from bench.lab.reproduce.verdicts import judge_claim
from bench.metrics import parse_metric
from bench.stats.multiple import holm


def run_claim(claim: Claim, runs: MethodRuns, advance: Callable[[], None]) -> ClaimReport:
    """Run a claim's tests, correct their comparisons as one family, and judge it.

    Args:
        claim: the claim.
        runs: runs what the tests ask.
        advance: called after each test.
    """
    tests = []
    for test in with_models(claim, runs.models).tests:
        tests.append(_run(test, runs))
        advance()
    p = [comparison.p for test in tests for comparison in test.comparisons]
    corrected = iter(holm(p).tolist())
    tests = [
        test.model_copy(
            update={"comparisons": [_decide(comparison, next(corrected)) for comparison in test.comparisons]}
        )
        for test in tests
    ]
    return ClaimReport(
        claim=claim.id,
        paper=claim.paper,
        text=claim.claim,
        where=claim.where,
        verdict=verdict_of(tests),
        tests=tests,
        printed=check_printed(claim.printed),
        needs=list(claim.needs),
        note=claim.note,
    )


def with_models(claim: Claim, models: Mapping[str, str]) -> Claim:
    """The claim with a language model for each role that its tests name; one that is not the paper's is told."""

    def filled(test: ClaimTest) -> ClaimTest:
        (better, other), (worse, another) = fill_roles(test.better, models), fill_roles(test.worse, models)
        more: tuple[Difference, ...] = ("other model",) if other or another else ()
        differences = tuple(dict.fromkeys((*test.differences, *more)))
        return test.model_copy(update={"better": better, "worse": worse, "differences": differences})

    return claim.model_copy(update={"tests": tuple(map(filled, claim.tests))})


def verdict_of(tests: Sequence[ClaimTestReport]) -> ClaimVerdict:
    """The verdict of a claim by the tests whose precondition holds."""
    outcomes = [comparison.outcome for test in tests if test.decides for comparison in test.comparisons]
    return judge_claim(outcomes, set_aside=any(test.lacking is None and not test.decides for test in tests))


def _decide(comparison: PairedComparison, corrected: float) -> PairedComparison:
    higher = parse_metric(comparison.metric).measure.higher_is_better
    return decide(comparison, 1.0 if higher else -1.0, corrected)


def _run(test: ClaimTest, runs: MethodRuns) -> ClaimTestReport:
    """The comparisons of one test, not yet decided; or what it lacks. A fault of ours ends no other test."""
    differences = list(test.differences)
    try:
        first, second, pairs = compare_methods(test.better, test.worse, test, test.metrics, runs)
    except Exception as error:
        lacking = lacking_of([test.better, test.worse], test, test.metrics, test.needs, error)
        return ClaimTestReport(better=test.better, worse=test.worse, differences=differences, lacking=lacking)
    return ClaimTestReport(
        better=test.better,
        worse=test.worse,
        measurement=measurement_of(test.better, first, test),
        rival=measurement_of(test.worse, second, test),
        differences=differences,
        comparisons=[comparison_of(metric, pair) for metric, pair in zip(test.metrics, pairs, strict=True)],
        precondition=check_precondition(test, runs),
    )
