"""Counts attempts: the variants of one method stored on the same evaluated queries. Comparisons and the site show them.

A family contains the attempts under one name: all results on the same content, split and queries whose methods have the
same name, with any parameters, cuts, tool texts, depths or code; for scored run files, all files under one name; for
choices, those by one model among the tools of one method. A result with repeats counts once, and so do results that
agree on every query. Only test queries count, because dev is meant for choosing; oracles, which do not compete, do not
count.

Only stored results are known: removed results, and attempts under other names, are not counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import BenchError
from bench.base.spec import parse
from bench.lookup.folder import ResultsFolder, json_beginning, json_string
from bench.metrics import parse_metric
from bench.results.comparability import S, Stored, comparison_key, metric_difference
from bench.results.manifest import Manifest, Mark, MethodIdentity
from bench.results.store import PER_QUERY, StoredResult

#: Means that differ by less are equal.
_SAME = 1e-12


def _base_name(method: MethodIdentity) -> str:
    """The method's name without parameters; a run file's own name."""
    return method.spec if method.run_file else method.spec.partition("(")[0].strip() or method.spec


def family_of(method: MethodIdentity) -> str:
    """The name under which variants of a method count together: `tgr` of `tgr(graph=manual)`, a run file's own name."""
    name = _base_name(method)
    if name != "choose" or method.run_file:
        return name
    # Choices compare models and the methods that supply tools; the number of tools and the prompt are attempts.
    with suppress(BenchError):
        given = dict(parse(method.full_spec).arguments)
        base = str(given.get("base", "")).partition("(")[0]
        return f"choose among {base} by {given.get('llm', '')}"
    return name


def variants_of(results: Sequence[S]) -> dict[str, list[S]]:
    """The variants of each result's family among results.

    Args:
        results: results on any datasets, of any methods.

    Returns:
        Result id -> the result, and the other variants of its family, each once; the result alone if its queries are
        not test queries or its method is an oracle.
    """
    families: defaultdict[tuple[object, ...], list[S]] = defaultdict(list)
    by_id = {item.manifest.result_id: [item] for item in results}
    for item in sorted(results, key=lambda item: _order(item.manifest)):
        if _counts(item.manifest):
            families[_family(item.manifest)].append(item)
    for members in families.values():
        distinct = _first_of_each(_first_of_each(members, _asked), _answers)
        for item in members:
            others = [other for other in distinct if not _same(item.manifest, other.manifest)]
            by_id[item.manifest.result_id] = [item, *others]
    return by_id


def number_families(results: Sequence[Stored]) -> NDArray[np.int64]:
    """(results,) the family of each result, as codes from 0 in order of appearance."""
    codes: dict[Hashable, int] = {}
    families = [_family(item.manifest) if _counts(item.manifest) else item.manifest.result_id for item in results]
    return np.array([codes.setdefault(family, len(codes)) for family in families], dtype=np.int64)


def stored_variants(
    results: Sequence[StoredResult], folder: ResultsFolder | None = None
) -> dict[str, list[StoredResult]]:
    """The variants of each result's family that are stored in its folder of results, as in `variants_of`.

    Unreadable results are left out.

    Args:
        results: the results.
        folder: the folder of the results, already listed; None to list the folder of each result.
    """
    wanted: defaultdict[Path, set[tuple[str, str]]] = defaultdict(set)
    found = {item.manifest.result_id: item for item in results}
    for item in results:
        if _counts(item.manifest):
            data, method = item.manifest.dataset, item.manifest.method
            # Unlike the family of a choice, it stands in the manifest.
            wanted[item.folder.parent.parent].add((data.content_hash, _base_name(method)))
    for root, families in wanted.items():
        stored = folder if folder is not None and folder.path == root else ResultsFolder(root)
        folders = {
            folder
            for content, name in families
            for folder in stored.containing(json_string(content), json_beginning(name))
        }
        for item in stored.readable(sorted(folders)):
            found.setdefault(item.manifest.result_id, item)
    by_id = variants_of(list(found.values()))
    return {item.manifest.result_id: by_id[item.manifest.result_id] for item in results}


def best_by(variants: Sequence[Stored], metrics: Iterable[str]) -> list[str]:
    """The metrics by which no variant has a better mean than the first; values of different code do not count.

    Args:
        variants: those of one family, as in `variants_of`.
        metrics: the metrics to check; those that the first variant lacks are left out.
    """
    first = variants[0]
    return [
        metric
        for metric in metrics
        if metric in first.metrics.metrics
        and not any(_better(other, first, metric) for other in variants[1:] if metric in other.metrics.metrics)
    ]


def words_of(count: int, split: str, metrics: Sequence[str], best: Sequence[str]) -> str:
    """`best of 17 variants on test`, `one of 17 variants on test, the best by recall@5`; empty for a single one.

    Args:
        count: the number of variants.
        split: the split of the queries.
        metrics: the metrics that were checked.
        best: the metrics by which no other variant is better.
    """
    if count < 2:
        return ""
    where = "test" if split == "test" else f"{split} queries"
    if list(best) == list(metrics):
        return f"best of {count} variants on {where}"
    return f"one of {count} variants on {where}" + (f", the best by {', '.join(best)}" if best else "")


def best_marks(results: Sequence[S], shown: Sequence[S], metric: str) -> list[Mark | None]:
    """(shown,) the mark of a row that is the best of several variants by a metric; None for others.

    Args:
        results: results that compare: all attempts.
        shown: results with a row; the best of a family is the best of its rows.
        metric: the metric that orders rows.
    """
    by_id, rows = variants_of(results), {item.manifest.result_id for item in shown}
    marked: list[Mark | None] = []
    for item in shown:
        variants = by_id[item.manifest.result_id]
        rivals = [item, *(other for other in variants[1:] if other.manifest.result_id in rows)]
        words = words_of(len(variants), item.manifest.dataset.split, [metric], best_by(rivals, [metric]))
        why = (
            f"{len(variants)} variants of {family_of(item.manifest.method)} were tried on these queries, and it has "
            f"the best {metric} of them: as the best of several, that mean is too high"
        )
        best = words.startswith("best")
        marked.append(Mark(kind="variants", text=words.replace(" variants", ""), why=why) if best else None)
    return marked


def _better(one: Stored, other: Stored, metric: str) -> bool:
    if metric_difference(one.manifest, other.manifest, metric) is not None:
        return False
    gain = one.metrics.metrics[metric].mean - other.metrics.metrics[metric].mean
    return (gain if parse_metric(metric).measure.higher_is_better else -gain) > _SAME


def _counts(manifest: Manifest) -> bool:
    return manifest.dataset.split in {"test", "all"} and not manifest.method.oracle


def _family(manifest: Manifest) -> tuple[object, ...]:
    return comparison_key(manifest), family_of(manifest.method), manifest.method.run_file is None


def _order(manifest: Manifest) -> tuple[int, str, str]:
    return manifest.repeats, manifest.environment.created, manifest.result_id


def _first_of_each(members: Iterable[S], key: Callable[[Manifest], Hashable]) -> list[S]:
    first: dict[Hashable, S] = {}
    for item in members:
        first.setdefault(key(item.manifest), item)
    return list(first.values())


def _asked(manifest: Manifest) -> tuple[object, ...]:
    """The identity of an attempt: a method's code, parameters and settings, without repeats."""
    method = manifest.method
    return method.hash, method.spec, method.cut, method.run_file, manifest.depth, manifest.dataset.template


def _answers(manifest: Manifest) -> str:
    """The digest of the per-query values of a result, equal for results that agree on every query."""
    return manifest.files.get(PER_QUERY, manifest.result_id)


def _same(one: Manifest, other: Manifest) -> bool:
    return _asked(one) == _asked(other) or _answers(one) == _answers(other)
