"""Opens results by name for commands: stored results, and run files, which are scored first."""

from __future__ import annotations

import os
from pathlib import Path

from bench.base.errors import UsageError
from bench.base.progress import QUIET, Progress
from bench.base.protocol import MAPPED
from bench.lookup.finding import find_result, is_alias
from bench.lookup.folder import ResultsFolder
from bench.results.store import StoredResult


def open_result(
    name: str, results: Path | ResultsFolder, dataset: str | None = None, progress: Progress = QUIET
) -> StoredResult:
    """Open a result by its folder, id or `method@dataset`; or a run file, which is scored and stored first.

    Args:
        name: the name. `@dataset` may follow a run file.
        results: the folder of results, or a `ResultsFolder` if several are opened.
        dataset: the dataset of a run file or method named without `@dataset`.
        progress: receives reports of downloads.

    Raises:
        UsageError: no result or several have that name; or the dataset of a run file is not named.
        ResultError: it cannot be read, or does not fit the dataset.
    """
    stored = ResultsFolder.of(results)
    head, _, tail = name.rpartition("@")
    for path, on in ((Path(name), dataset), (Path(head), tail.strip())):
        # A long spec is not a file name, and not an error.
        if os.path.isfile(path):
            return _score_run_file(path, on, stored.path, progress)
    if dataset is not None and "@" not in name and is_alias(stored, name):
        # An alias alone names the newest result with it, of any code and data.
        name = f"{name}@{dataset}"
    try:
        return find_result(stored, name)
    except UsageError:
        if dataset is None or "@" in name:
            raise
    return find_result(stored, f"{name}@{dataset}")


def _score_run_file(path: Path, dataset: str | None, results: Path, progress: Progress) -> StoredResult:
    if dataset is None:
        raise UsageError(f"{path} is a run file: name its dataset, as in {path.name}@apibank.")
    # Imported here: most commands score nothing.
    from bench.evaluation.external import score_run_file
    from bench.evaluation.run_files import read_run_file
    from bench.registry import load_dataset

    data = read_run_file(path)
    loaded = load_dataset(dataset, progress)
    result = score_run_file(data, path.name, loaded, results, name=path.stem)
    if mapped := result.manifest.facts.get(MAPPED):
        progress.note(f"{result.label}: {mapped}")
    return result
