"""Gating a search function, for the API and the pytest plug-in: it gets the queries of a baseline."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

from bench.base.errors import MethodError, UnresolvedError
from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.data.queryviews import merge_rankings
from bench.data.tool_names import NameRecord, ToolNames
from bench.evaluation.ask import Answers, asking_order, calls_of
from bench.evaluation.machine import hardware, package_versions
from bench.evaluation.plan import Plan
from bench.evaluation.runner import dataset_identity
from bench.evaluation.scoring import score
from bench.gating.baseline import Baseline, answers_digest, read_baseline
from bench.gating.candidate import Candidate
from bench.gating.judge import baseline_side, judge, not_comparable
from bench.gating.policy import read_policy
from bench.gating.report import GateReport, Side, not_judged
from bench.interface import Ranking, version_for
from bench.metrics import Metric, parse_metrics
from bench.metrics.ties import UnseenTies
from bench.registry import load_dataset
from bench.results.code_versions import scoring_code
from bench.results.manifest import Latency

#: What a project's own search is: the text of a query in, ids of tools out, best first.
Search = Callable[[str], Iterable[str]]


def gate_search(search: Search, baseline_file: Path, policy_file: Path, name: str = "candidate") -> GateReport:
    """Ask a search for each query of a baseline, and judge its answers by a policy.

    Args:
        search: text of a query -> ids of tools, best first.
        baseline_file, policy_file: as for `bench gate`.
        name: name of the search.

    Raises:
        BenchError: a file cannot be read, the dataset cannot be loaded, or an answer is not a list of known ids.
    """
    policy = read_policy(policy_file)
    baseline = read_baseline(baseline_file)
    dataset = load_dataset(baseline.dataset.spec)
    metrics = parse_metrics(rule.metric for rule in policy.rule)
    names = [str(metric) for metric in metrics]
    now = baseline.dataset.model_copy(update={"content_hash": dataset.content_hash})
    # The data and the code that score a search function now.
    here = {"dataset": now, "protocol": version_for(dataset.gold), "scoring": scoring_code(names)}
    if reasons := not_comparable(baseline.model_copy(update=here), baseline, names, across=baseline.asked is not None):
        # Reported before a search that may take long.
        return not_judged("not comparable", reasons, Side(label=name), baseline_side(baseline))

    def load(at_hand: bool) -> Dataset:
        return dataset

    return judge(ask_search(search, dataset, baseline, metrics, name), baseline, policy, load)


def ask_search(
    search: Search, dataset: Dataset, baseline: Baseline, metrics: Iterable[Metric] = (), name: str = "candidate"
) -> Candidate:
    """Ask a search for each query of a baseline, one by one, and score what it answers.

    Queries come in the order in which methods are asked, so that nothing can be guessed from their neighbours. What
    the search raises is not caught. The clock runs until the answer has been read to its end.

    Args:
        search: text of a query -> ids of tools, best first; an empty answer counts as failed.
        dataset: the baseline's.
        baseline: says which queries are asked.
        metrics: metrics in addition to the default ones.
        name: what the search is called.

    Raises:
        MethodError: an answer is no list of ids, names a tool that the dataset does not have, or names one twice.
        UnresolvedError: it does so before any name meant a tool.
    """
    known = baseline.dataset
    plan = Plan(Spec(dataset.spec), Spec("search"), split=known.split, limit=known.limit, template=known.template)
    plan = plan.normal(dataset)
    rows = plan.rows(dataset)
    rankings: list[list[int]] = [[] for _ in rows]
    seconds = []
    names, record = ToolNames(dataset.tools), NameRecord()
    for position in asking_order(dataset, rows):
        query = dataset.queries[int(rows[position])]
        answers_of_calls: list[list[int]] = []
        for text in calls_of(query):
            started = time.perf_counter()
            answer: object = search(text)
            if isinstance(answer, Iterable) and not isinstance(answer, str | bytes):
                # A generator works when it is read. One that never ends has named a tool twice by then.
                answer = list(islice(answer, len(dataset.tools) + 1))
            seconds.append(time.perf_counter() - started)
            answers_of_calls.append(_codes(answer, names, record, f"{name} answered the query {query.query_id} with"))
        rankings[position] = (
            merge_rankings(answers_of_calls, len(dataset.tools)) if query.calls else answers_of_calls[0]
        )
    answers = Answers(Ranking.of_lists(rankings), UnseenTies.none(len(rows)), None)
    scored = score("", dataset, rows, [answers], known.template, list(metrics))
    return Candidate(
        label=f"{name} @ {dataset.spec}",
        result_id=None,
        method_hash=None,
        dataset=dataset_identity(plan, dataset, rows, 0),
        depth=max(1, answers.ranking.tools.shape[1]),
        protocol=version_for(dataset.gold),
        scoring=scoring_code(scored.metrics.metrics),
        n_failed=scored.metrics.n_failed,
        latency=Latency.of(seconds, cached=False),
        hardware=hardware(),
        tokens=scored.metrics.tokens,
        rankings=answers_digest(scored.run, scored.per_query),
        per_query=scored.per_query,
        run=scored.run,
        packages=package_versions(),
        names=record.mapped(),
        not_given="a search function has a catalogue of its own",
    )


def _codes(answer: object, names: ToolNames, record: NameRecord, said: str) -> list[int]:
    """Tool codes of an answer, in its order; `said` begins the sentence of an error."""
    if isinstance(answer, str | bytes) or not isinstance(answer, Iterable):
        raise MethodError(f"{said} {type(answer).__name__}; it must give a list of tool ids.")
    codes: dict[int, None] = {}
    for tool in answer:
        meant = names.find(tool) if isinstance(tool, str) else ()
        if len(meant) != 1:
            kind = MethodError if record.known or not isinstance(tool, str) else UnresolvedError
            why = f": {names.fault(tool)}" if isinstance(tool, str) else ", which is no id of a tool"
            raise kind(f"{said} {tool!r:.80}{why}.")
        if meant[0] in codes:
            raise MethodError(f"{said} the tool {tool!r:.80} twice.")
        codes[meant[0]] = None
        record.take(tool, names.tools[meant[0]].tool_id)
    return list(codes)
