"""Runs plans: checks all of them first, then runs each stage by stage. `bench run` and the executors call it."""

from __future__ import annotations

import dataclasses
import datetime
import gc
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from bench.base.config import Meter, config_context, current_session, meter_requests
from bench.base.errors import BenchError, MethodError, ResultError, UnresolvedError, UsageError
from bench.base.keys import refuse
from bench.base.locks import recover
from bench.base.paths import write_text
from bench.base.progress import QUIET, Progress
from bench.base.protocol import DEFAULT_DEPTH
from bench.base.secrets import publish
from bench.base.spec import Spec, parse
from bench.base.text import slug
from bench.data.dataset import Dataset
from bench.data.origins import count_origins
from bench.evaluation.method_errors import check, check_facts, check_marks, check_revisions, method_errors
from bench.evaluation.plan import Plan
from bench.evaluation.up_to_date import up_to_date
from bench.identity.used import watch_use
from bench.interface import History, Library, Method, RecommendingMethod, version_for
from bench.interface.marks import FLAKY, REMOTE, RESUMED
from bench.interface.parts import has_chance, is_oracle, learns, methods_of, models, needs_history, needs_llm, tree
from bench.lookup.consistency import resolved_settings
from bench.lookup.unfinished import begin_run, end_run
from bench.metrics import Metric
from bench.results.code_versions import method_code, method_packages, method_use, scoring_code
from bench.results.commands import print_command, stored_settings
from bench.results.ids import hashed_spec, method_hash, result_id
from bench.results.intervals import BOOTSTRAP_SEED
from bench.results.manifest import DatasetIdentity, Environment, Manifest, Mark, MethodIdentity, ModelUse
from bench.results.settings import RunSettings
from bench.results.store import (
    MANIFEST,
    PER_QUERY,
    RUN,
    StoredResult,
    check_writable,
    is_complete,
    result_folder,
    result_lock,
    write_result,
)
from bench.results.units import unit_counts

if TYPE_CHECKING:
    from bench.evaluation.ask import Answers
    from bench.evaluation.cut import Cut

Overwrite = Literal["never", "missing", "remote", "always"]

#: Marks the batches of a run started with `always`, so that the same command resumes it.
_ANEW = "begun-anew"


@dataclass(frozen=True)
class Prepared:
    """A plan that can run, its method, and the place of its result.

    Attributes:
        settings: those of the plan, with the split and the template of its dataset filled in.
        code: the hash of the method's code; for a user's method, of the code it has used so far.
        provisional: the id of the result for that code.
        identifier: the id of a stored result of a user's method, if all code that it used is unchanged; else
            provisional.
        folder: of the result.
    """

    plan: Plan
    settings: RunSettings
    method: Method
    code: str
    provisional: str
    identifier: str
    folder: Path

    @property
    def begun(self) -> Path:
        """The folder of the result; answers lie beside it until the result is complete."""
        return self.folder.with_name(self.folder.name.removesuffix(self.identifier) + self.provisional)


@dataclass
class Runner:
    """Runs plans and stores their results.

    Attributes:
        results: the folder of results.
        load: loads the dataset of a spec.
        build: builds a fresh method from a spec.
        progress: receives reports of the work.
        overwrite: what to do with an existing result: `remote` keeps it unless its method calls an unversioned service,
            `missing` keeps it in any case, `never` refuses, `always` runs it again.
        metrics: metrics beyond the default ones.
        jobs: number of cells that run side by side on this machine, including this runner's. Results name it if it is
            above 1, because their timings are then not comparable with those of an otherwise idle machine.
    """

    results: Path
    load: Callable[[Spec], Dataset]
    build: Callable[[Spec], Method]
    progress: Progress = QUIET
    overwrite: Overwrite = "remote"
    metrics: Sequence[Metric] = ()
    jobs: int = 1
    _datasets: dict[Spec, Dataset] = field(default_factory=dict)
    #: Ids of the results of runs started by this runner.
    _begun: set[str] = field(default_factory=set)

    def run(self, plans: Sequence[Plan]) -> Iterator[StoredResult | BenchError]:
        """Check every plan before the first expensive step, then run them in order.

        Yields:
            A result for each plan, or the error that ended it; the others still run.

        Raises:
            BenchError: the first problem found by the checks; nothing has run then.
        """
        yield from self.run_checked(self.check(plans))

    def run_checked(self, prepared: deque[Prepared]) -> Iterator[StoredResult | BenchError]:
        """Run what `check` returned, as `run` does, and empty the list."""
        # The plans share loaded models, and each run has its own counts.
        shared = current_session()
        while prepared:
            outcome: StoredResult | BenchError
            try:
                # Closed before the result is yielded: a generator shares the context of its caller.
                with config_context(shared, repeat=1):
                    # A method is released after its run: its index may be large.
                    outcome = self._run(prepared.popleft())
            except BenchError as error:
                outcome = error
            yield outcome

    def check(self, plans: Sequence[Plan]) -> deque[Prepared]:
        """The plans with their methods, ready to run.

        Raises:
            BenchError: the first problem of any of them.
        """
        prepared = deque[Prepared]()
        for plan in plans:
            plan.check()
        refuse("the run", *(plan.command() for plan in plans))
        with config_context(current_session(), repeat=1):
            try:
                methods = [self.build(plan.method) for plan in plans]
                for plan, method in zip(plans, methods, strict=True):
                    prepared.append(self._prepare(plan, method))
            except BenchError:
                self._begin_rest(prepared, plans[len(prepared) :])
                raise
        for item in prepared:
            if self.overwrite == "never" and is_complete(item.folder):
                raise UsageError(f"the result {item.folder} already exists, and --overwrite is never.")
        check_writable(self.results)
        self._begin(prepared)
        return prepared

    def _begin(self, prepared: Iterable[Prepared]) -> None:
        """Record which runs start now, so that an older result is not taken for theirs if they fail."""
        for item in prepared:
            if not self.keeps(item):
                self._begun.add(item.identifier)
                command = item.plan.command(self.metrics)
                begin_run(self.results, item.plan.method, item.plan.dataset, item.settings, command)

    def _begin_rest(self, prepared: Iterable[Prepared], plans: Sequence[Plan]) -> None:
        """Like `_begin`, if the first of `plans` cannot run, so that none runs.

        Plans without an older result are left out: their datasets may be unavailable.
        """
        with suppress(BenchError):
            self._begin(item for item in prepared if self._has_older(item.plan))
        for plan in filter(self._has_older, plans):
            with suppress(BenchError):
                try:
                    self._begin([self._prepare(plan, self.build(plan.method))])
                except BenchError:
                    dataset = self.dataset(plan.dataset)
                    settings = plan.normal(dataset).resolve(dataset)
                    begin_run(self.results, plan.method, plan.dataset, settings, plan.command(self.metrics))

    def _has_older(self, plan: Plan) -> bool:
        return any(self.results.glob(f"{slug(str(plan.dataset))}/{slug(plan.method.name)}-*"))

    def keeps(self, item: Prepared) -> bool:
        """Whether a stored result replaces a run, unless it turns out to be damaged."""
        if self.overwrite == "always" or not is_complete(item.folder):
            return False
        try:
            return self.overwrite == "missing" or not _asks_elsewhere(StoredResult.read(item.folder))
        except ResultError:
            return False

    def end(self, plan: Plan, settings: RunSettings) -> None:
        """Record that a run has ended with a current result."""
        end_run(self.results, plan.method, plan.dataset, settings)

    def forget(self) -> None:
        """Release the datasets in memory."""
        self._datasets.clear()

    def dataset(self, spec: Spec) -> Dataset:
        """The dataset of a spec; each is loaded once."""
        if spec not in self._datasets:
            with self.progress.stage(f"load {spec}"):
                dataset = self._datasets[spec] = self.load(spec)
                publish(name for tool in dataset.tools for name in (tool.tool_id, tool.name))
        return self._datasets[spec]

    def _prepare(self, plan: Plan, method: Method) -> Prepared:
        # Its identity is taken now: what it builds later does not belong to it.
        method.context.close()
        dataset = self.dataset(plan.dataset)
        plan = plan.normal(dataset)
        for metric in self.metrics:
            if isinstance(metric.cutoff, int) and metric.cutoff > plan.depth and plan.depth < len(dataset.tools):
                raise UsageError(f"{metric} needs a deeper ranking: give --depth {metric.cutoff} or more.")
        if plan.repeats > 1 and not has_chance(method):
            self.progress.note(f"{method.spec}: it is deterministic, so it runs once")
            plan = plan.model_copy(update={"repeats": 1})
        library, history = views(plan, dataset)
        check_plan(plan, method, dataset, history)
        check(method, library, history)
        settings, code = plan.resolve(dataset), method_code(method)
        provisional = result_id(dataset.content_hash, settings, method_hash(method, code))
        return self._place(Prepared(plan, settings, method, code, provisional, "", Path()))

    def _place(self, item: Prepared) -> Prepared:
        """Prepare a plan, with the id and the folder of its result."""
        dataset, method, found = self.dataset(item.plan.dataset), item.method, item.provisional
        if method_use(method) is not None:
            place = result_folder(self.results, dataset.spec, method.name, "*")
            for manifest in sorted(place.parent.glob(f"{place.name}/{MANIFEST}"), reverse=True):
                with suppress(BenchError):
                    stored = StoredResult.read(manifest.parent).manifest
                    code = method_code(method, stored.method.used)
                    known = result_id(dataset.content_hash, item.settings, method_hash(method, code))
                    found = known if known == stored.result_id else found
        folder = result_folder(self.results, dataset.spec, method.name, found)
        return dataclasses.replace(item, identifier=found, folder=folder)

    def _run(self, item: Prepared) -> StoredResult:
        with result_lock(self.results, item.begun, self.progress):
            # Another process may have made it in the meantime.
            item = self._place(item)
            recover(item.folder)
            if is_complete(item.folder) and self.overwrite != "always":
                try:
                    kept = StoredResult.read(item.folder)
                    kept.verify()
                except ResultError as error:
                    self.progress.note(f"{error} Running it again.")
                else:
                    if self.overwrite == "missing" or not _asks_elsewhere(kept):
                        if self.overwrite != "missing" or item.identifier in self._begun:
                            self.end(item.plan, item.settings)
                        return self._bring_up_to_date(kept, item.plan)
                    self.progress.note(
                        f"{kept.label}: run again, as its service may have changed; --overwrite missing keeps it"
                    )
            try:
                with watch_use() if method_use(item.method) is not None else nullcontext():
                    return self._make(item)
            except UnresolvedError:
                from bench.evaluation.checkpoints import forget, has_answers

                # The same command asks again, unless an earlier process left answers.
                if not has_answers(_partial(item.begun)):
                    forget(_partial(item.begun))
                raise

    def _bring_up_to_date(self, result: StoredResult, plan: Plan) -> StoredResult:
        """A stored result, scored again if it lacks a metric or the scoring code has changed."""
        made = result.manifest.environment.created
        dataset = self.dataset(plan.dataset)
        if up_to_date(result, dataset, self.metrics):
            self.progress.note(f"{result.label}: kept from {made}; use --overwrite always to run it again")
            return result
        from bench.evaluation.rescore import rescore

        self.progress.note(f"{result.label}: ranking kept from {made}, re-scored")
        return rescore(result, dataset, self.metrics)

    def _make(self, item: Prepared) -> StoredResult:
        # A kept result does not need them.
        from bench.evaluation.ask import ask, ask_again, asking_order, prepare, scope_sentences
        from bench.evaluation.checkpoints import forget, use_keeper
        from bench.evaluation.machine import peak_memory_mib, reset_peak_memory
        from bench.evaluation.observed import observe
        from bench.evaluation.scoring import score

        plan, method, dataset = item.plan, item.method, self.dataset(item.plan.dataset)
        library, history = views(plan, dataset)
        rows = plan.rows(dataset)
        batches = _partial(item.begun)
        if self.overwrite == "always" and not (batches / _ANEW).is_file():
            forget(batches)
            write_text(batches / _ANEW, "")
        keep = use_keeper(batches, method)
        clock = _Clock()
        gc.collect()
        reset_peak_memory()
        cut: Cut | None = None
        if plan.cut_at is not None:
            from bench.evaluation.cut import Cut

            cut = Cut(plan.cut, plan.cut_at, given=True)
        elif plan.cut != "none":
            from bench.evaluation.cut import learn_cut

            with clock("cut"), self.progress.stage(f"learn cut {plan.cut}"):
                cut = learn_cut(plan.cut, lambda: self.build(plan.method), history, library, plan.depth)
        order = rows[asking_order(dataset, rows)]

        def repeat(number: int, fresh: Method) -> tuple[Answers, Meter]:
            # The first repeat writes its batches where a run without repeats does.
            folder = batches if number == 1 else batches / f"repeat-{number}"
            stage = "rank" if plan.repeats == 1 else f"rank, repeat {number} of {plan.repeats}"
            prepare(fresh, library, history, dataset.gold.take(order), checked=fresh is method, clock=clock)
            with meter_requests() as meter:
                answers = ask(fresh, dataset, rows, plan.depth, folder, self.progress, stage, keep)
            clock.add("rank", answers.seconds)
            return answers, meter

        made = [repeat(1, method)]
        with method_errors(method, "ranking single queries"):
            timed, flaky = ask_again(method, dataset, rows, plan.depth, made[0][0].ranking)
            facts = check_facts(method) | _calls(dataset, rows)
        for number in range(2, plan.repeats + 1):
            # A separate instance: answers of one that was already fitted, indexed or asked would not be independent.
            with config_context(repeat=number):
                again = self.build(plan.method)
                again.context.close()
                made.append(repeat(number, again))
                del again
        peak = peak_memory_mib()
        repeats, meters = [answers for answers, _ in made], [meter for _, meter in made]
        resumed = any(answers.resumed for answers in repeats)
        oracle = is_oracle(method)
        failures, seen, counted = observe(dataset, rows, repeats, is_floor=oracle or method.is_floor)
        if cut is not None:
            repeats = [dataclasses.replace(answers, sets=cut.apply(answers.ranking)) for answers in repeats]
        template = plan.tool_text(dataset)
        try:
            identifier = _identify(item, dataset)
        except UsageError as error:
            # Answers may come from either version of the code.
            forget(batches)
            raise MethodError(
                f"a file of {method.spec} was edited while it ran, so nothing is stored: {error}"
            ) from None
        with clock("score"), self.progress.stage("score"):
            scored = score(identifier, dataset, rows, repeats, template, self.metrics, plan.depth)
        marks = check_marks(method)
        if used := list(models(method)):
            from bench.evaluation.contamination import training_leaks

            marks |= training_leaks(used, dataset, rows, lambda spec: self.dataset(parse(spec)))
        marks |= seen
        if resumed and REMOTE in marks:
            marks[RESUMED] = (
                "some answers come from an earlier run that was interrupted, and the service may have changed since"
            )
        if flaky and plan.repeats == 1:
            marks[FLAKY] = flaky
        # The spec as the manifest has it, however the user typed it.
        asked = stored_settings(str(method.spec), dataset.spec, plan, self.metrics)
        manifest = Manifest(
            result_id=identifier,
            protocol=version_for(dataset.gold),
            dataset=dataset_identity(plan, dataset, rows, len(history)),
            method=MethodIdentity(
                spec=str(method.spec),
                full_spec=str(hashed_spec(method)),
                hash=method_hash(method),
                revisions=check_revisions(method),
                code=method_code(method),
                used=method_use(method),
                oracle=oracle,
                needs_llm=needs_llm(method),
                marks=[Mark.from_method(mark, sentence) for mark, sentence in marks.items()],
                learns=len(history) > 0 and any(learns(part) for part in methods_of(method)),
                cut=None if cut is None else str(cut),
            ),
            depth=plan.depth,
            repeats=plan.repeats,
            settings=asked,
            seeds={"bootstrap": BOOTSTRAP_SEED},
            environment=environment(print_command(asked), self.jobs, method_packages(method)),
            timings={name: round(value, 6) for name, value in clock.seconds.items()},
            latency=timed,
            peak_memory_mib=None if peak is None else round(peak, 1),
            model_use=_model_use(meters, resumed) if needs_llm(method) else None,
            facts=facts | counted,
            failures=failures,
            warnings=[*_warnings(plan, dataset, oracle), *scope_sentences(dataset, rows)],
            resumed=resumed,
            scoring=scoring_code(scored.metrics.metrics),
        )
        tables = (scored.run, scored.per_query, scored.repeats, scored.notes)
        folder = result_folder(self.results, dataset.spec, method.name, identifier)
        with result_lock(self.results, folder, self.progress) if folder != item.begun else nullcontext():
            result = write_result(folder, manifest, scored.metrics, *tables)
        forget(batches)
        self.end(plan, item.settings)
        if manifest.method.used is not None:
            self._tell_same(result)
        self._offer_backend(method)
        return result

    def _tell_same(self, result: StoredResult) -> None:
        """Tell the user if an older version of the code gave the same rankings."""
        data, asked, made = result.manifest.dataset, resolved_settings(result.manifest), list[Manifest]()
        for folder in result.folder.parent.glob(f"{result.folder.name.rpartition('-')[0]}-*"):
            with suppress(ResultError):
                made.append(StoredResult.read(folder).manifest)
        for other in sorted(made, key=lambda manifest: manifest.environment.created, reverse=True):
            same = all(other.files.get(name) == result.manifest.files[name] for name in (RUN, PER_QUERY))
            same = same and other.dataset.content_hash == data.content_hash and resolved_settings(other) == asked
            if same and other.result_id != result.manifest.result_id:
                self.progress.note(
                    f"{result.label}: its rankings equal those of {other.result_id}, made at "
                    f"{other.environment.created}: edits since then have not changed them"
                )
                return

    def _offer_backend(self, method: Method) -> None:
        """Tell the user about a faster backend, if the method has such a parameter; the choice is the user's."""
        if not any(getattr(part.parameters, "backend", "") == "torch" for part in methods_of(method)):
            return
        from bench.models.compiled import offer_backend

        # Nothing is encoded here for a model behind an endpoint.
        local = [part for part in tree(method) if not getattr(part, "paid", False)]
        by_torch = [part for part in local if getattr(part, "backend", "") == "torch"]
        offer = offer_backend(sum(getattr(part, "computed", 0) for part in by_torch))
        if offer is not None:
            self.progress.note(f"{method.spec}: {offer}")


def check_plan(plan: Plan, method: Method, dataset: Dataset, history: History) -> None:
    """Raise `UsageError` if the method of a plan needs past queries that the dataset lacks, or cannot be cut."""
    if needs_history(method) and not history.gold.counts.any():
        split = plan.evaluated_split(dataset)
        raise UsageError(
            f"method {method.spec} needs past queries, and {dataset.spec} has none"
            + (f" when all queries of --split {split} are asked." if split != "test" else ".")
        )
    if plan.cut != "none" and isinstance(method, RecommendingMethod):
        raise UsageError(f"method {method.spec} recommends its own sets; --cut is for methods that only rank.")
    if plan.cut != "none" and plan.cut_at is None:
        from bench.evaluation.cut import split_history

        split_history(plan.cut, history)


def _partial(folder: Path) -> Path:
    """The folder of the finished batches of a run until its result is complete."""
    return folder.with_name(f".{folder.name}.partial")


class _Clock:
    """Seconds of named stages, added up over the repeats of a run."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        yield
        self.add(stage, time.perf_counter() - started)

    def add(self, stage: str, seconds: float) -> None:
        self.seconds[stage] = self.seconds.get(stage, 0.0) + seconds


def views(plan: Plan, dataset: Dataset) -> tuple[Library, History]:
    """What the method of a plan may see: the library, and past queries that are not evaluated."""
    library = Library.of(dataset, plan.tool_text(dataset))
    # The whole split stays out of the history, even if --limit evaluates only a part of it.
    return library, History.of(dataset, library, dataset.rows(plan.evaluated_split(dataset)))


def dataset_identity(plan: Plan, dataset: Dataset, rows: NDArray[np.int64], history: int) -> DatasetIdentity:
    """The part of a manifest about the dataset."""
    from bench.data.novelty import repeated_gold

    has_gold = dataset.gold.counts[rows] > 0
    judged = int(has_gold.sum())
    count, effective = unit_counts(dataset.units[rows[has_gold]])
    return DatasetIdentity(
        spec=dataset.spec,
        title=dataset.card.title,
        content_hash=dataset.content_hash,
        split=plan.evaluated_split(dataset),
        limit=plan.limit,
        queries=len(rows),
        judged=judged,
        no_gold=len(rows) - judged,
        tools=len(dataset.tools),
        history=history,
        template=plan.tool_text(dataset),
        unit=dataset.unit,
        units=count,
        effective=effective,
        source=dataset.source,
        origins=count_origins(dataset.queries[row] for row in rows),
        repeated_gold=repeated_gold(dataset, rows, dataset.rows(plan.evaluated_split(dataset))) if history else None,
    )


def environment(command: str, jobs: int = 1, imported: Iterable[str] = ()) -> Environment:
    """The environment in which this process makes results.

    Args:
        command: the command that reproduces the result.
        jobs: number of cells that run side by side.
        imported: the packages that the method's code imports.
    """
    from bench.evaluation.machine import git_state, hardware, package_versions

    git = git_state()
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    return Environment(
        command=command,
        created=now.isoformat(),
        packages=package_versions(imported),
        commit=git[0] if git else None,
        dirty=git[1] if git else None,
        hardware=hardware() | ({"jobs": jobs} if jobs > 1 else {}),
    )


def _asks_elsewhere(result: StoredResult) -> bool:
    """Whether the method called a service that may have changed unnoticed (the mark `remote`)."""
    return any(mark.text == REMOTE for mark in result.manifest.marks)


def _identify(item: Prepared, dataset: Dataset) -> str:
    """The id of the result of a run that has ended.

    Raises:
        UsageError: its code or models changed during the run.
    """
    method, code = item.method, method_code(item.method)
    # Only now is it known what a user's code has used; models, parameters and bench's code were known before.
    begun = code if method_use(method) is None else item.code
    if result_id(dataset.content_hash, item.settings, method_hash(method, begun)) != item.provisional:
        raise UsageError("run it again: its models or its code have changed.")
    return result_id(dataset.content_hash, item.settings, method_hash(method, code))


def _calls(dataset: Dataset, rows: NDArray[np.int64]) -> dict[str, float]:
    """The mean number of calls per query, if some queries need several."""
    from bench.evaluation.ask import calls_of

    calls = [len(calls_of(dataset.queries[row])) for row in rows.tolist()]
    return {"calls_per_query": round(sum(calls) / len(calls), 4)} if max(calls) > 1 else {}


def _model_use(meters: Sequence[Meter], resumed: bool) -> ModelUse:
    """The counts of the meters of all repeats.

    They lack the requests of an earlier process, so that the cost is unknown in this case.
    """
    requests = sum(meter.requests for meter in meters)
    costs = [meter.cost for meter in meters if meter.cost is not None]
    return ModelUse(
        requests=requests,
        from_journal=sum(meter.from_journal for meter in meters),
        failures=sum(meter.failures for meter in meters),
        input_tokens=sum(meter.input_tokens for meter in meters),
        output_tokens=sum(meter.output_tokens for meter in meters),
        cost=None if resumed or not requests or len(costs) < len(meters) else sum(costs),
    )


def _warnings(plan: Plan, dataset: Dataset, oracle: bool) -> list[str]:
    sentences = []
    if plan.limit is not None:
        sentences.append(f"only {plan.limit} queries were evaluated (--limit): not comparable with full results")
    if plan.depth < DEFAULT_DEPTH and plan.depth < len(dataset.tools):
        sentences.append(f"depth {plan.depth}: metrics with a deeper cut-off are omitted")
    if oracle:
        sentences.append("an oracle: it reads the gold")
    return sentences
