"""The effect of edited descriptions: the same method on the library as it is and as edited. `bench tools --try` calls
it.

Nothing is stored, and the dataset is unchanged. Unedited texts keep their cached embeddings, so a dense method encodes
only the edited tools.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bench.base.config import config_context
from bench.base.errors import UsageError
from bench.base.paths import read_regular
from bench.base.progress import QUIET, Progress
from bench.base.records import Record
from bench.base.text import one_line
from bench.data.dataset import Dataset
from bench.data.tables import Tool
from bench.data.tool_names import ToolNames
from bench.diagnosis.explain import rebuild, unexplainable
from bench.diagnosis.tool_counts import ToolCounts, count_tools
from bench.diagnosis.tool_report import cut_to_library, rank_or_none, requirements
from bench.evaluation.ask import ask
from bench.evaluation.method_errors import check_marks
from bench.importing.reading import check_json
from bench.importing.tools.catalogue import Source, read_catalogue
from bench.importing.tools.tool import canonical
from bench.interface.marks import OWN_CATALOGUE
from bench.metrics import evaluate, parse_metrics
from bench.results.comparability import check_content
from bench.results.store import StoredResult, span_of
from bench.results.units import number_units
from bench.stats.multiple import holm
from bench.stats.paired import compare

#: Maximum bytes of a file of texts by id.
_LARGEST = 64 << 20
#: Maximum queries and tools of each kind to list.
_MOST_LISTED = 50
#: Tolerance: last bits of embeddings depend on what was encoded together.
_SAME = 1e-9


class MetricChange(Record):
    """A metric before and after the edit, over all queries that have it.

    Attributes:
        metric: its canonical string.
        before, after: means.
        difference: after minus before, with its 95% interval over units of independence.
        p: two-sided, of the paired randomisation test, corrected by Holm over the metrics here.
        better, worse: queries.
        n: queries.
    """

    metric: str
    before: float
    after: float
    difference: float
    low: float | None
    high: float | None
    p: float
    better: int
    worse: int
    n: int


class ToolChange(Record):
    """A tool that was edited, or whose results changed because others were.

    Attributes:
        fields: its edited fields; empty for the others.
        wanted: number of queries that want it.
        found_before, found_after: number of those that find it among the first k.
        unwanted_before, unwanted_after: number of queries that show it among the first k without wanting it.
    """

    tool_id: str
    fields: list[str]
    wanted: int
    found_before: int
    found_after: int
    unwanted_before: int
    unwanted_after: int


class RankChange(Record):
    """A tool that a query wants, with its rank before and after; null if it is not ranked."""

    query_id: str
    text: str
    tool_id: str
    before: int | None
    after: int | None


class EditReport(Record):
    """The effect of edited tools on a result.

    Attributes:
        result_id, label, dataset, split: the result whose method is asked again.
        k: number of tools of each ranking that count as shown.
        queries: number of judged queries, in `groups` groups of dependent ones.
        metrics: at k.
        tools: the edited tools, then others with changed results, largest change first.
        found, lost: wanted tools that enter or leave the first k; the first few.
        n_found, n_lost: their numbers.
        notes: notes for readers, in sentences.
    """

    schema_name: Literal["tools-edit"] = "tools-edit"
    schema_version: Literal[1] = 1
    result_id: str
    label: str
    dataset: str
    split: str
    k: int
    queries: int
    groups: int
    metrics: list[MetricChange]
    tools: list[ToolChange]
    found: list[RankChange]
    lost: list[RankChange]
    n_found: int
    n_lost: int
    notes: list[str]


def read_edits(source: str, dataset: Dataset) -> tuple[Dataset, dict[int, list[str]]]:
    """A dataset with the edited tools of a file in place of its own.

    Args:
        source: a file or folder in any form that `bench data import` reads, as `PATH` or `SERVER=PATH`; or a JSON
            object of new descriptions by tool id. Tools outside it are unchanged.

    Returns:
        The dataset, and for each edited tool its code and the changed fields.

    Raises:
        UsageError: it cannot be read, names an unknown tool or one tool twice, or edits nothing.
        DataError: it is malformed.
    """
    where = Source.of(source)
    texts = _read_texts(where.path)
    tools, names = list(dataset.tools), ToolNames(dataset.tools)
    edited: dict[int, list[str]] = {}
    pairs: list[tuple[int, dict[str, Any]]]
    if texts is not None:
        pairs = [(_code(name, name, names, dataset, source), {"description": text}) for name, text in texts.items()]
    else:
        given = read_catalogue([where]).tools
        pairs = [(_code(tool.tool_id, tool.name, names, dataset, source), _values(tool)) for tool in given]
    for code, values in pairs:
        if code in edited:
            raise UsageError(f"{source} has two tools that are {_quote(dataset.tools[code].tool_id)} of the dataset.")
        before, after = canonical(dataset.tools[code]), canonical(dataclasses.replace(dataset.tools[code], **values))
        fields = [name for name in values if getattr(before, name) != getattr(after, name)]
        edited[code] = fields
        tools[code] = dataclasses.replace(dataset.tools[code], **{field: values[field] for field in fields})
    edited = {code: fields for code, fields in sorted(edited.items()) if fields}
    if not edited:
        raise UsageError(
            f"no tool of {source} differs from {dataset.spec}: edit a description there, and give the same command."
        )
    return dataclasses.replace(dataset, tools=tuple(tools)), edited


def _read_texts(path: Path) -> dict[str, str] | None:
    """Descriptions by id, if the file is a JSON object of texts; None otherwise."""
    if path.suffix.lower() != ".json" or not path.is_file():
        return None
    try:
        pairs = json.loads(read_regular(path, _LARGEST), object_pairs_hook=list)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}.") from None
    except (ValueError, RecursionError):
        # The reader of catalogues reports the location of the fault.
        return None
    # Lists of objects and lists of such entries are catalogues.
    if not isinstance(pairs, list) or not pairs or not all(isinstance(pair, tuple) for pair in pairs):
        return None
    if not all(isinstance(text, str) for _, text in pairs):
        return None
    texts = dict(pairs)
    if len(texts) < len(pairs):
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise UsageError(f"{path} has {_quote(twice)} twice; keep one of its descriptions.")
    check_json(texts, str(path))
    return texts


def _code(identifier: str, name: str, names: ToolNames, dataset: Dataset, source: str) -> int:
    """The code of the tool that a file means, by id or name, resolved as everywhere."""
    for called in (identifier, name):
        if len(codes := names.find(called)) == 1:
            return codes[0]
    # Several tools may have the name if none has the id.
    why = names.fault(name if names.find(name) else identifier)
    raise UsageError(
        f"{source}, edited tools of {dataset.spec}: {why}. Name the "
        f"server as SERVER={source}, or give ids; to add or rename tools, import the catalogue."
    )


def _values(tool: Tool) -> dict[str, Any]:
    """The fields that a file gives for a tool. Its id, name and position in the hierarchy are unchanged."""
    values: dict[str, Any] = {"description": tool.description}
    if tool.input_schema is not None:
        values |= {"parameters": tool.parameters, "input_schema": tool.input_schema}
    others = {name: getattr(tool, name) for name in ("title", "returns", "annotations", "deprecated")}
    return values | {name: value for name, value in others.items() if value}


def _quote(text: str) -> str:
    return repr(one_line(text, 120))


def try_edits(
    result: StoredResult,
    dataset: Dataset,
    edited: Dataset,
    fields: Mapping[int, Sequence[str]],
    *,
    k: int = 5,
    repeat: int = 1,
    progress: Progress = QUIET,
) -> EditReport:
    """Ask a result's method its queries again, on the library as it is and as edited.

    Args:
        result, dataset: the result, and the data it was made on.
        edited, fields: from `read_edits`.
        k: number of tools of each ranking that count as shown.
        repeat: which repeat to ask again, if there are several.

    Raises:
        UsageError: the method cannot be asked here (a run file, a service, a paid model), its tool texts do not
            show the edit, or rankings are shorter than k.
        ResultError: the result is on other data.
        BenchError: the method fails.
    """
    manifest = result.manifest
    identity = manifest.dataset
    check_content(manifest, dataset)
    if why := unexplainable(manifest):
        raise UsageError(f"{result.label} cannot be asked of edited tools. {why}")
    _check_given(result.label, {mark.text: mark.why for mark in manifest.marks})
    k, cut = cut_to_library(k, result, dataset)
    template = identity.template
    if all(dataset.tools[code].text(template) == edited.tools[code].text(template) for code in fields):
        changed = ", ".join(sorted({field for names in fields.values() for field in names}))
        raise UsageError(
            f"the edit changes {changed}, and the text that {result.label} is given ({identity.tool_text}) shows none "
            "of it: nothing would change. `bench run --template full` gives a method all of a tool."
        )
    one = result.of_repeat(repeat)
    one.check_ids(dataset, ranking=False)
    rows = np.array([dataset.query_codes[name] for name in one.per_query["query_id"].to_pylist()], dtype=np.int64)
    metrics = [f"{name}@{k}" for name in ("recall", "ndcg", "pass")]
    before, counts = _ask(result, dataset, rows, k, metrics, repeat, progress, "rank as it is")
    after, now = _ask(result, edited, rows, k, metrics, repeat, progress, "rank as edited")
    judged = dataset.gold.take(rows).counts > 0
    return EditReport(
        result_id=manifest.result_id,
        label=result.label,
        dataset=identity.spec,
        split=identity.split,
        k=k,
        queries=int(judged.sum()),
        groups=len(np.unique(one.units[judged])),
        metrics=_compare(before, after, one.units),
        tools=_tool_changes(dataset, fields, counts, now),
        **_moves(dataset, rows, counts, now),
        notes=[*cut, *_older(one, before), *manifest.notes],
    )


def _ask(
    result: StoredResult,
    dataset: Dataset,
    rows: NDArray[np.int64],
    k: int,
    metrics: Sequence[str],
    repeat: int,
    progress: Progress,
    stage: str,
) -> tuple[dict[str, NDArray[np.float64]], ToolCounts]:
    """Metric -> (queries,) values of the method's answers, NaN if it does not apply; and counts by tool."""
    # Nothing is downloaded and no money is spent.
    with config_context(offline=True, repeat=repeat):
        method, _, _ = rebuild(result, dataset, rows, progress)
        answers = ask(method, dataset, rows, result.manifest.depth, None, progress, stage)
    _check_given(result.label, check_marks(method))
    failed = np.zeros(len(rows), dtype=np.bool_) if answers.ranking.failed is None else answers.ranking.failed
    gold = dataset.gold.take(rows)
    scores = evaluate(answers.ranking.tools, gold, parse_metrics(list(metrics)), unanswered=failed)
    # A query without gold has nothing to find.
    values = {name: np.where(gold.counts > 0, scores.values[:, i], np.nan) for i, name in enumerate(metrics)}
    ranked, tools = answers.ranking.tools, len(dataset.tools)
    return values, count_tools(ranked, requirements(gold), gold.forbidden, result.units, tools, k)


def _check_given(label: str, marks: Mapping[str, str]) -> None:
    """Refuse a method with a part that does not receive the dataset's tools."""
    if why := marks.get(OWN_CATALOGUE):
        raise UsageError(
            f"an edit cannot be tried on {label}: it {why.removesuffix('.')}; send the tools, with "
            "http(catalogue=ADDRESS) or a command that reads the file of BENCH_TOOLS."
        )


def _compare(
    before: Mapping[str, NDArray[np.float64]], after: Mapping[str, NDArray[np.float64]], units: NDArray[np.int64]
) -> list[MetricChange]:
    changes = []
    for name, values in before.items():
        taken = ~np.isnan(values)
        if not taken.any():
            continue
        then, now = values[taken], after[name][taken]
        (pair,) = compare((now - then)[:, None], units=number_units(units[taken]), span=span_of(name).of_differences())
        changes.append(
            MetricChange(
                metric=name,
                before=float(then.mean()),
                after=float(now.mean()),
                difference=pair.difference,
                low=pair.low,
                high=pair.high,
                p=pair.p,
                better=pair.wins,
                worse=pair.losses,
                n=int(taken.sum()),
            )
        )
    corrected = holm([change.p for change in changes]).tolist() if changes else []
    return [change.model_copy(update={"p": p}) for change, p in zip(changes, corrected, strict=True)]


def _tool_changes(
    dataset: Dataset, fields: Mapping[int, Sequence[str]], before: ToolCounts, after: ToolCounts
) -> list[ToolChange]:
    moved = np.abs(after.found - before.found) + np.abs(after.unwanted - before.unwanted)
    others = [code for code in np.lexsort((np.arange(len(moved)), -moved)).tolist() if code not in fields]
    chosen = [*fields, *[code for code in others if moved[code]][:_MOST_LISTED]]
    return [
        ToolChange(
            tool_id=dataset.tools[code].tool_id,
            fields=list(fields.get(code, ())),
            wanted=int(before.wanted[code]),
            found_before=int(before.found[code]),
            found_after=int(after.found[code]),
            unwanted_before=int(before.unwanted[code]),
            unwanted_after=int(after.unwanted[code]),
        )
        for code in chosen
    ]


def _moves(dataset: Dataset, rows: NDArray[np.int64], before: ToolCounts, after: ToolCounts) -> dict[str, Any]:
    """Requirements that are met among the first k only after the edit, and only before it."""
    k = before.k
    sides: dict[str, Any] = {}
    for name, there, here in (("found", before, after), ("lost", after, before)):
        cases = np.flatnonzero((there.rank > k) & (here.rank <= k))
        cases = cases[np.lexsort((cases, here.rank[cases]))]
        sides[f"n_{name}"] = len(cases)
        sides[name] = [
            RankChange(
                query_id=(query := dataset.queries[rows[before.query[case]]]).query_id,
                text=query.text,
                tool_id=dataset.tools[before.tool[case]].tool_id,
                before=rank_or_none(int(before.rank[case])),
                after=rank_or_none(int(after.rank[case])),
            )
            for case in cases[:_MOST_LISTED].tolist()
        ]
    return sides


def _older(result: StoredResult, before: Mapping[str, NDArray[np.float64]]) -> list[str]:
    """A sentence if the method's current numbers differ from the stored ones."""
    stored = {name: result.values(name) for name in before if name in result.per_query.column_names}
    if all(np.allclose(stored[name], before[name], atol=_SAME, equal_nan=True) for name in stored):
        return []
    return [
        "without the edit, the method gives other numbers today than the stored ones, because its code, models or "
        "packages have changed since; both sides here are of today"
    ]
