"""Score the output of any system (a file, a dictionary, a DataFrame or an array): part of `import bench`."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic_core import PydanticSerializationError

from bench.api.arguments import names
from bench.api.catalogue import DatasetLike, ensure_loaded
from bench.api.results import Result
from bench.base.errors import ResultError, UsageError
from bench.base.paths import expand_path, results_folder
from bench.base.protocol import DEFAULT_DEPTH
from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.data.template import Template
from bench.evaluation.external import score_run_file
from bench.evaluation.plan import Plan
from bench.evaluation.run_files import RunLine, read_run_file
from bench.metrics import parse_metrics
from bench.results.settings import EvaluatedSplit, check_setting
from bench.search.topk import top_k
from bench.show.objects import pandas_module

if TYPE_CHECKING:
    import pandas

#: Forms of a run that `score` accepts.
RunLike: TypeAlias = (
    "str | Path | Mapping[str, Sequence[str]] | Mapping[str, Mapping[str, float]] | NDArray[Any] | pandas.DataFrame"
)


def score(
    run: RunLike,
    dataset: DatasetLike,
    *,
    name: str | None = None,
    split: EvaluatedSplit | None = None,
    template: Template | None = None,
    metrics: Sequence[str] = (),
    results: str | Path | None = None,
) -> Result:
    """Score the run of any system and store the result. The same as `bench score`.

    Queries of the split that are missing from the run count as failed and score 0.

    Args:
        run: one of

            - a path (or its text) of a TREC run or JSON-lines file;
            - `{query_id: [tool_id, ...]}`, best first;
            - `{query_id: {tool_id: score}}`, higher is better;
            - a DataFrame with the columns `query_id`, `tool_id` and optionally `score` or `rank` (`score` takes
              precedence); without both, the rows of a query are ranked in their order;
            - a float array (queries, tools) of scores; the best 100 tools of each query are ranked (scores are compared
              in single precision, -inf excludes a tool); or an integer array (queries, depth) of tool codes, best
              first, padded at the end with -1. Row i is query `dataset.rows(split)[i]`; the code of a tool is its
              position in `dataset.tools`.

            Tools with equal scores are ordered by tool id (rule 1 of the protocol).
        dataset: the dataset that the system ran on: a spec, or a loaded dataset.
        name: name of the system; if None, the file's name without its suffix, or `run`.
        split: the queries to score; the dataset's default split if None.
        template: the text of a tool for token counts; the dataset's default if None.
        metrics: additional metrics, such as `["ndcg@7"]`.
        results: the results folder; `$BENCH_RESULTS` or `results` in the working folder if None.

    Raises:
        ResultError: the run names an unknown query or tool, repeats a tool, or has a score that is not finite.
        UsageError: the run has none of these forms.

    Examples:
        >>> dataset = bench.load_dataset("starter")
        >>> perfect = {query.query_id: list(query.gold) for query in dataset.queries if query.split == "test"}
        >>> bench.score(perfect, dataset, name="perfect").mean("recall@10")
        1.0
    """
    split, template = check_setting("split", split), check_setting("template", template)
    data = ensure_loaded(dataset)
    if isinstance(run, str | Path):
        path = expand_path(run)
        file, name = path.name, name or path.stem
        content, command = read_run_file(path), ""
    else:
        name = name or "run"
        file = f"{name} (in memory)"
        content = "".join(_jsonl(run, data, split)).encode()
        command = f"bench.score(run, {data.spec!r}, name={name!r})"
    return Result(
        score_run_file(
            content,
            file,
            data,
            results_folder() if results is None else expand_path(results),
            name=name,
            command=command,
            split=split,
            template=template,
            metrics=parse_metrics(names("metrics", metrics)),
        )
    )


def _jsonl(run: Any, dataset: Dataset, split: EvaluatedSplit | None) -> Iterator[str]:
    """The run as JSON lines, so that one reader checks runs of every form."""
    for query, tools, scores in _entries(run, dataset, split):
        if not isinstance(query, str) or not all(isinstance(tool, str) for tool in tools):
            raise UsageError(f"query {query!r}: the ids of a query and its tools must be strings.")
        if scores is not None:
            for tool, value in zip(tools, scores, strict=True):
                if not math.isfinite(value):
                    raise ResultError(f"query {query}, tool {tool}: the score {value} is not a finite number.")
        try:
            yield RunLine(query_id=query, tools=tools, scores=scores).model_dump_json(exclude_none=True) + "\n"
        except PydanticSerializationError:
            raise UsageError(f"query {query!r}: an id of the query or its tools is not valid Unicode.") from None


def _entries(
    run: Any, dataset: Dataset, split: EvaluatedSplit | None
) -> Iterable[tuple[str, list[str], list[float] | None]]:
    """(query id, tool ids, scores or None) of a run in memory."""
    if isinstance(run, Mapping):
        return (_of_mapping(query, answer) for query, answer in run.items())
    if isinstance(run, np.ndarray):
        return _of_array(run, dataset, split)
    pandas = sys.modules.get("pandas")
    if pandas is not None and isinstance(run, pandas.DataFrame):
        return _of_frame(run)
    raise UsageError(
        f"a run is a path, a dictionary, a DataFrame or an array, not {type(run).__name__}; help(bench.score) shows "
        "each."
    )


def _of_mapping(query: str, answer: object) -> tuple[str, list[str], list[float] | None]:
    if isinstance(answer, Mapping):
        try:
            return query, list(answer), [float(value) for value in answer.values()]
        except (TypeError, ValueError, OverflowError):
            raise UsageError(f"query {query!r}: a score is not a number; write {{tool_id: score}}.") from None
    # A set has no order: its ranking would differ between processes.
    if isinstance(answer, Iterable) and not isinstance(answer, str | bytes | set | frozenset):
        return query, list(answer), None
    raise UsageError(f"query {query!r} has {answer!r:.80}; write a list of tool ids, or {{tool_id: score}}.")


def _of_frame(run: pandas.DataFrame) -> Iterator[tuple[str, list[str], list[float] | None]]:
    if not run.columns.is_unique:
        raise UsageError("the DataFrame has two columns of the same name.")
    missing = [column for column in ("query_id", "tool_id") if column not in run.columns]
    if missing:
        raise UsageError(f"the DataFrame has no column {missing[0]!r}; it needs query_id, tool_id and score or rank.")
    # The stored ranking of a method without scores has a column of nulls.
    scored = "score" in run.columns and not run["score"].isna().all()
    if run["query_id"].isna().any():
        raise UsageError("the column query_id of the DataFrame lacks values.")  # groupby would leave the rows out
    if not scored and "rank" in run.columns:
        # As text, rank 10 would come before rank 2.
        ranks = pandas_module().to_numeric(run["rank"], errors="coerce")
        if ranks.isna().any():
            raise UsageError("the column rank of the DataFrame has a value that is not a number.")
        run = run.assign(rank=ranks).sort_values("rank", kind="stable")
    try:
        for query, rows in run.groupby("query_id", sort=False):
            yield str(query), rows["tool_id"].tolist(), [float(v) for v in rows["score"]] if scored else None
    except (TypeError, ValueError, OverflowError):
        raise UsageError("the column score of the DataFrame has a value that is not a number.") from None


def _of_array(
    run: NDArray[Any], dataset: Dataset, split: EvaluatedSplit | None
) -> Iterator[tuple[str, list[str], list[float] | None]]:
    rows = Plan(Spec.of(dataset.spec), Spec.of("run"), split=split).rows(dataset)
    side = split or dataset.card.split
    tools = len(dataset.tools)
    if run.ndim != 2 or len(run) != len(rows) or run.dtype.kind not in "fiu":
        raise UsageError(
            f"the array has shape {run.shape} and type {run.dtype}; {dataset.spec} needs a row of numbers for each of "
            f"its {len(rows)} {side} queries."
        )
    if run.dtype.kind == "f":
        if run.shape[1] != tools:
            raise UsageError(f"the array has scores of {run.shape[1]} tools, and {dataset.spec} has {tools}.")
        if np.isnan(run).any():
            first = int(rows[np.argwhere(np.isnan(run))[0][0]])
            raise ResultError(f"the array has a score that is NaN for query {dataset.queries[first].query_id}.")
        ranking = top_k(run, DEFAULT_DEPTH)
        codes, scores = ranking.tools, ranking.scores
    else:
        if run.size and not (run.min() >= -1 and run.max() < tools):
            raise ResultError(f"the array has a tool code outside -1 to {tools - 1}; {dataset.spec} has {tools} tools.")
        codes, scores = run, None
    for i, row in enumerate(rows):
        kept = codes[i] >= 0
        yield (
            dataset.queries[int(row)].query_id,
            [dataset.tools[int(code)].tool_id for code in codes[i][kept]],
            None if scores is None else [float(value) for value in scores[i][kept]],
        )
