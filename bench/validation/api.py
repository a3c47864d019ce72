"""The Python API of validation: `bench.audit`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.api.catalogue import DatasetLike, ensure_loaded
from bench.base.paths import expand_path, results_folder
from bench.validation.audit import Audit


def audit(dataset: DatasetLike, *, against: Sequence[DatasetLike] = (), results: str | Path | None = None) -> Audit:
    """Report problems of a dataset, and what it can show. Equivalent to `bench data audit`.

    Args:
        against: other datasets that may share queries and tools with it.
        results: a folder of results; BENCH_RESULTS or `results` if None.

    Raises:
        UsageError, UnavailableError, DataError: a dataset cannot be loaded.

    Examples:
        >>> found = bench.audit("starter")
        >>> found.table.set_index("check").loc["leaked-query", ["count", "total"]].tolist()
        [0, 134]
    """
    kept = results_folder() if results is None else expand_path(results)
    return Audit.of(ensure_loaded(dataset), [ensure_loaded(other) for other in against], kept)
