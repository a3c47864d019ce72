"""Test the papers' claims, and check by measurement whether each test is relevant to its claim."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from bench.base.errors import UsageError
from bench.base.spec import parse
from bench.interface import Library
from bench.lab.reproduce.artefacts import artefact, folder_of, names_in
from bench.lab.reproduce.claims import Claim, ClaimTest, Precondition, check_printed
from bench.lab.reproduce.measuring import compare_methods, decide, lacking_of, measurement_of
from bench.lab.reproduce.outcomes import SAME, Difference
from bench.lab.reproduce.recipes import RecipeQuestion, fill_roles
from bench.lab.reproduce.report import ClaimReport, ClaimTestReport, PairedComparison, PreconditionReport
from bench.lab.reproduce.runs import MethodRuns, as_bench_error, plans
from bench.lab.reproduce.verdicts import judge_claim
from bench.metrics import parse_metric
from bench.stats.multiple import holm


def run_claim(claim: Claim, runs: MethodRuns, advance: Callable[[], None]) -> ClaimReport:
    """Run a claim's tests, each followed by `advance`; correct their comparisons as one family, and judge it."""
    tests = []
    for test in with_models(claim, runs.models).tests:
        tests.append(_run(test, runs))
        advance()
    p = [one.p for test in tests for one in test.comparisons if one.outcome != SAME]
    corrected = iter(holm(p).tolist())

    def decided(one: PairedComparison) -> PairedComparison:
        higher = parse_metric(one.metric).measure.higher_is_better
        return one if one.outcome == SAME else decide(one, 1.0 if higher else -1.0, next(corrected))

    tests = [test.model_copy(update={"comparisons": list(map(decided, test.comparisons))}) for test in tests]
    outcomes = [comparison.outcome for test in tests if test.decides for comparison in test.comparisons]
    return ClaimReport(
        claim=claim.id,
        paper=claim.paper,
        text=claim.claim,
        where=claim.where,
        verdict=judge_claim(outcomes, set_aside=any(test.lacking is None and not test.decides for test in tests)),
        tests=tests,
        printed=check_printed(claim.printed),
        needs=list(claim.needs),
        note=claim.note,
    )


def with_models(claim: Claim, models: Mapping[str, str]) -> Claim:
    """The claim with a language model for each role in its tests; a model other than the paper's is reported."""

    def filled(test: ClaimTest) -> ClaimTest:
        (better, other), (worse, another) = fill_roles(test.better, models), fill_roles(test.worse, models)
        more: tuple[Difference, ...] = ("other model",) if other or another else ()
        differences = tuple(dict.fromkeys((*test.differences, *more)))
        return test.model_copy(update={"better": better, "worse": worse, "differences": differences})

    return claim.model_copy(update={"tests": tuple(map(filled, claim.tests))})


def _run(test: ClaimTest, runs: MethodRuns) -> ClaimTestReport:
    """The comparisons of one test, before decisions; or what is missing. A bug in one test does not end the others."""
    differences = list(test.differences)
    try:
        first, second, comparisons = compare_methods(test.better, test.worse, test, test.metrics, runs)
    except Exception as error:
        lacking = lacking_of([test.better, test.worse], test, test.metrics, test.needs, error)
        return ClaimTestReport(better=test.better, worse=test.worse, differences=differences, lacking=lacking)
    return ClaimTestReport(
        better=test.better,
        worse=test.worse,
        measurement=measurement_of(test.better, first, test),
        rival=measurement_of(test.worse, second, test),
        differences=differences,
        comparisons=comparisons,
        precondition=check_precondition(test, runs),
    )


# Preconditions ------------------------------------------------------------------------------------------------------


def check_precondition(test: ClaimTest, runs: MethodRuns) -> PreconditionReport | None:
    """The measurement of a test's precondition; None if it has none. Errors are reported, never raised."""
    wanted = test.precondition
    if wanted is None:
        return None
    report = PreconditionReport(name=wanted.name, needs=wanted.needs, holds=None)
    try:
        if wanted.fact is None:
            return _compared(wanted, report, runs)
        value = _fact(wanted, test, runs)
        assert wanted.at_least is not None
        update = {"holds": value >= wanted.at_least, "fact": wanted.fact, "value": value, "at_least": wanted.at_least}
        return report.model_copy(update=update)
    except Exception as error:
        return report.model_copy(update={"reason": str(as_bench_error(error))})


def question_of(wanted: Precondition) -> RecipeQuestion:
    """The data of a precondition that compares two systems."""
    return RecipeQuestion(on=wanted.on, split=wanted.split)


def _compared(wanted: Precondition, report: PreconditionReport, runs: MethodRuns) -> PreconditionReport:
    """It holds if the first system is significantly better; the comparison is a family of its own."""
    question = question_of(wanted)
    first, second, (pair,) = compare_methods(wanted.better, wanted.worse, question, [wanted.metric], runs)
    comparison = decide(pair, 1.0, pair.p)
    update = {
        "holds": comparison.outcome == "as published",
        "metric": wanted.metric,
        "split": first.results[0].manifest.dataset.split,
        "better": float(first.values.mean()),
        "worse": float(second.values.mean()),
        "comparison": comparison,
    }
    return report.model_copy(update=update)


def _fact(wanted: Precondition, test: ClaimTest, runs: MethodRuns) -> float:
    if wanted.fact == "llm_replies_per_query":
        return min(_replies(text, test, runs) for text in (test.better, test.worse) if "llm=" in text)
    if wanted.fact == "discriminator_f1":
        return min(_discriminator_f1(name, wanted.on[0], runs) for name in _artefacts(test, "discriminator"))
    return float(all(map(is_pretrained, _artefacts(test, "generator"))))


def _replies(method: str, test: ClaimTest, runs: MethodRuns) -> float:
    """Replies of language models per query, over all data of a test."""
    manifests = [runs.result(plan).manifest for plan in plans(method, test)]
    used = [item.model_use for item in manifests if item.model_use is not None]
    replies = sum(use.requests - use.failures for use in used)
    return replies / sum(item.dataset.queries * item.repeats for item in manifests)


def _artefacts(test: ClaimTest, kind: str) -> list[str]:
    names = [name for name in names_in(test.better + test.worse) if artefact(name).kind == kind]
    if not names:
        raise UsageError(f"{test.better} and {test.worse} name no trained {kind}.")
    return names


def _discriminator_f1(name: str, dataset: str, runs: MethodRuns) -> float:
    """Macro F1 over the annotated pairs of a dataset and drawn ones, as in Table 3 of TGR."""
    from bench.lab.graph.agreement import three_way
    from bench.methods.tgr.discriminator import Discriminator

    loaded = runs.dataset(parse(dataset))
    edges = Library.of(loaded, loaded.card.template).edges
    return three_way(Discriminator(str(folder_of(name))).probabilities, loaded.tools, edges)["f1"]


def is_pretrained(name: str) -> bool:
    """Whether an artefact was fine-tuned from an existing model, not trained from random numbers."""
    base = artefact(name).base
    if base is not None and base.startswith("$"):
        return is_pretrained(base[1:])
    return base not in (None, "scratch")
