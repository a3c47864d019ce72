"""Checking a dataset from its files up."""

from __future__ import annotations

from dataclasses import dataclass

from bench.data.dataset import Dataset
from bench.data.sources import Sources
from bench.registry.datasets import build_dataset, load_dataset, resolve


@dataclass(frozen=True)
class Verification:
    """What was checked.

    Attributes:
        spec: the dataset.
        files: how many upstream files match their checksums.
        content_hash: of the tables built anew from those files.
        problems: what does not agree; empty when all is well.
    """

    spec: str
    files: int
    content_hash: str
    problems: list[str]


def verify_dataset(spec: str, sources: Sources) -> Verification:
    """Check every file's sha256, build the tables anew (counts are checked), and compare with the stored ones.

    Raises:
        BenchError: a file is missing or wrong, or the tables are not what the card says.
    """
    entry, options, canonical = resolve(spec)
    stored = load_dataset(canonical, sources)
    # The hash is taken over the rows as they are read, not copied from the file that says what it should be.
    found = Dataset.build(stored.spec, stored.card, stored.rows_again()).content_hash
    problems = [] if found == stored.content_hash else [f"the stored tables hash to {found[:16]}, not to what they say"]
    if entry.module is None:
        return Verification(canonical, 0, found, problems)
    fresh = build_dataset(entry, options, canonical, sources)
    if fresh.content_hash != stored.content_hash:
        problems.append(
            f"built anew from its files the content hash is {fresh.content_hash[:16]}, "
            f"the stored tables have {stored.content_hash[:16]}"
        )
    return Verification(canonical, len(entry.card.files()), fresh.content_hash, problems)
