"""Verify a dataset from its files, for `bench data fetch --verify`."""

from __future__ import annotations

from dataclasses import dataclass

from bench.base.errors import DataError
from bench.base.progress import QUIET, Progress
from bench.data.card import MANIFEST
from bench.data.dataset import Dataset
from bench.data.parquet import read_dataset
from bench.data.sources import Sources
from bench.registry.datasets import build_dataset, check_brought, resolve, stored_folder


@dataclass(frozen=True)
class Verification:
    """The outcome of a verification.

    Attributes:
        spec: the dataset.
        files: number of upstream files that match their checksums.
        content_hash: content hash of the tables rebuilt from those files.
        problems: mismatches; empty if there are none.
    """

    spec: str
    files: int
    content_hash: str
    problems: list[str]


def verify_dataset(spec: str, progress: Progress = QUIET) -> Verification:
    """Check the sha256 of every file, the stored tables and their counts, and compare them with rebuilt tables.

    Problems are reported, not repaired.

    Raises:
        UnavailableError: a file is missing and must not or cannot be downloaded.
        DataError: the tables built from verified files differ from the card.
    """
    entry, options, canonical = resolve(spec)
    if entry.module is not None:
        check_brought(entry)
    sources = Sources.from_session(progress)
    problems: list[str] = []
    files = 0
    for name, digest in (entry.card.files() if entry.module else {}).items():
        try:
            sources.check(name, digest)
            files += 1
        except DataError as error:
            problems.append(str(error).rstrip("."))
    folder = stored_folder(entry, options)
    stored, content_hash = None, ""
    if (folder / MANIFEST).is_file():
        try:
            stored = read_dataset(folder)
            # Hash the rows instead of trusting the hash in the file.
            content_hash = Dataset.build(stored.spec, stored.card, stored.rows_again()).content_hash
            if content_hash != stored.content_hash:
                problems.append(f"the stored tables hash to {content_hash[:16]}, but record {stored.content_hash[:16]}")
        except DataError as error:
            problems.append(str(error).rstrip("."))
    if entry.module is not None and not problems:
        fresh = build_dataset(entry, options, canonical, progress).content_hash
        if stored is not None and fresh != content_hash:
            problems.append(
                f"the tables rebuilt from its files hash to {fresh[:16]}, the stored tables to {content_hash[:16]}"
            )
        content_hash = fresh
    return Verification(canonical, files, content_hash, problems)
