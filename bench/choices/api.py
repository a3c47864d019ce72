"""`bench.choose`: does a language model, given the first tools of a method, call the right ones?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.api.arguments import check_choice, whole_number
from bench.api.results import Result, open_stored_result
from bench.base.config import config_context, current_session
from bench.base.paths import expand_path, results_folder
from bench.choices.costs import estimate, priced_model
from bench.choices.report import Choices
from bench.choices.runs import Form, Picker, make_choices
from bench.evaluation.runner import Runner
from bench.registry import build_method, load_dataset
from bench.results.choices import Arm


def choose(
    rankings: Result | str | Path | Sequence[Result | str | Path],
    model: str,
    *,
    shown: int | Sequence[int] = 5,
    arms: Sequence[Arm] = ("retrieved",),
    form: Form = "calls",
    limit: int | None = None,
    budget: float | None = None,
    price: str | None = None,
    results: str | Path | None = None,
) -> Choices:
    """Let a language model choose among the tools that stored results have ranked. The same as `bench choose`.

    The model is first calibrated on the same queries: it is shown the gold among other tools. Choices are results:
    stored, journalled, and not repeated.

    Args:
        rankings: a result, or the name of a stored one, or a list of these.
        model: the language model, as in `llm=SPEC`.
        shown: how many tools it is shown; several numbers for several runs.
        arms: what it is shown: the first tools (`retrieved`), the gold alone (`gold`), the whole `library`, a
            random `sample` of it with the gold, the first tools with the gold inserted (`with-gold`), or removed
            (`without-gold`).
        form: how it answers: the provider's tool `calls`, a `json` object of names, or `names`, one per line.
        limit: ask only so many queries of each result.
        budget: maximum cost, in the currency of `BENCH_LLM_PRICE`.
        price: a model in the table of prices, to report costs at its prices; by default the model's own.
        results: the folder of results; `$BENCH_RESULTS` or `results` if None.

    Raises:
        UsageError: an unknown name, a ranking that no method reproduces, or a wrong argument.
        UnavailableError: the model cannot be called, or the budget is spent; answers so far are kept.

    Examples:
        >>> choices = bench.choose("bm25@starter", "my-model", shown=[1, 5])  # doctest: +SKIP
        >>> bench.compare(*choices.results, metrics=["choice"])  # doctest: +SKIP

        >>> ranked = bench.run("bm25")
        >>> try:
        ...     bench.choose(ranked, "local:models/absent.gguf", form="json")
        ... except bench.BenchError as error:
        ...     print(str(error).partition(";")[0])
        there is no file models/absent.gguf
    """
    given = [rankings] if isinstance(rankings, Result | str | Path) else list(rankings)
    numbers = [shown] if isinstance(shown, int) else list(shown)
    check_choice("form", form, Form)
    for arm in arms:
        check_choice("arm", arm, Arm)
    progress = current_session().progress
    runner = Runner(
        results_folder() if results is None else expand_path(results),
        load=lambda spec: load_dataset(spec, progress),
        build=lambda spec: build_method(spec, progress=progress),
        progress=progress,
        overwrite="missing",
    )
    priced = priced_model(model, price)
    sources = [open_stored_result(item, results) for item in given]
    with config_context(budget=budget):
        calibration, choices = make_choices(
            runner,
            sources,
            Picker(model, form),
            [whole_number("shown", number) for number in numbers],
            tuple(arms),
            None if limit is None else whole_number("limit", limit),
            lambda plans: progress.note(estimate(sources, plans, priced)),
        )
    return Choices(calibration, choices, priced)
