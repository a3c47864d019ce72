"""From ranking to choice: does a language model, shown the first tools of a method, call the right ones?"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.api.arguments import check_choices, whole_number
from bench.api.results import Result, open_stored_result
from bench.base.config import config_context, current_session
from bench.base.paths import expand_path, results_folder
from bench.comparison.choices import ChoiceReport, estimate, priced_model
from bench.evaluation.choosing import Arm, Chooser, Form, make_choices
from bench.evaluation.runner import Runner
from bench.registry import build_method, load_dataset
from bench.results.choices import OUTCOMES
from bench.show.objects import Shown, frame
from bench.show.tables import Table

if TYPE_CHECKING:
    import pandas

_COLUMNS = ("method", "dataset", "arm", "shown", "queries", "accuracy", "low", "high", *OUTCOMES)


class Choices(Shown):
    """What `bench.choose` found.

    Attributes:
        calibration: dataset -> how the model chooses where the gold is shown; `calibration[dataset].faults` says why it
            is not fit to judge rankings there, and is empty if it is.
    """

    def __init__(self, report: ChoiceReport) -> None:
        self.calibration = dict(report.calibration)
        self._report = report
        self._choices = report.choices

    @property
    def results(self) -> list[Result]:
        """The choices as results, for `bench.compare` and `bench.gate`."""
        return [Result(choice.result) for choice in self._choices]

    @cached_property
    def table(self) -> pandas.DataFrame:
        """One row a choice: what was shown, the share of right choices with its 95% interval, and counts of outcomes.

        Raises:
            UnavailableError: pandas is not installed.
        """
        rows: list[dict[str, object]] = []
        for choice in self._choices:
            right = choice.choices.accuracy()
            rows.append(
                {
                    "method": choice.run.source.manifest.method.label,
                    "dataset": choice.result.manifest.dataset.spec,
                    "arm": choice.run.arm,
                    "shown": choice.run.shown,
                    "queries": right.n,
                    "accuracy": right.mean,
                    "low": right.low,
                    "high": right.high,
                    **{str(outcome): count for outcome, count in choice.choices.counts().items()},
                }
            )
        return frame(rows, _COLUMNS)

    def to_dict(self) -> dict[str, Any]:
        """Everything that was found, as `bench choose --json` prints it."""
        return self._report.to_dict()

    def _line(self) -> str:
        return f"of {len(self._choices)} rankings on {', '.join(self.calibration)}"

    def _tables(self) -> list[Table]:
        return [table for _, table, _ in self._report.parts() if table is not None]


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
    stored, journalled, and not made twice.

    Args:
        rankings: a result, or the name of a stored one, or a list of these.
        model: the language model, as in `llm=SPEC`.
        shown: how many tools it is shown; several numbers for several runs.
        arms: what it is shown: the first tools (`retrieved`), the gold alone (`gold`), the whole `library`, a random
            `sample` of it with the gold, the first tools with the gold put in (`with-gold`), or without it
            (`without-gold`).
        form: how it is asked: the provider's tool `calls`, a `json` object of names, or `names`, one on each line.
        limit: ask only so many queries of each result.
        budget: the most to spend, in the currency of `BENCH_LLM_PRICE`.
        price: a model of the table of prices by which costs are told; the model's own prices if None.
        results: the folder of results; `$BENCH_RESULTS` or `results` if None.

    Raises:
        UsageError: an unknown name, a ranking that no method makes again, or a wrong argument.
        UnavailableError: the model cannot be asked, or the budget is spent; what was answered is kept.

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
    check_choices(form=form)
    for arm in arms:
        check_choices(arm=arm)
    progress = current_session().progress
    runner = Runner(
        results_folder() if results is None else expand_path(results),
        load=lambda spec: load_dataset(spec, progress),
        build=lambda spec: build_method(spec, progress=progress),
        progress=progress,
        overwrite="missing",
    )
    priced = priced_model(model, price)
    with config_context(budget=budget):
        calibration, choices = make_choices(
            runner,
            [open_stored_result(item, results) for item in given],
            Chooser(model, form),
            [whole_number("shown", number) for number in numbers],
            tuple(arms),
            None if limit is None else whole_number("limit", limit),
            lambda runs, plans: progress.note(estimate(runs, plans, priced)),
        )
    return Choices(ChoiceReport(calibration, choices, priced))
