"""Find datasets and methods by name: built-in ones and plug-ins.

The harness never names a concrete method or dataset; it looks them up here.
"""

from typing import TYPE_CHECKING

from bench.data.entries import DatasetEntry, broken_datasets, dataset_entries, dataset_entry
from bench.registry.methods import build_method, method_class, method_names

if TYPE_CHECKING:
    from bench.registry.datasets import load_dataset

__all__ = [
    "DatasetEntry",
    "broken_datasets",
    "build_method",
    "dataset_entries",
    "dataset_entry",
    "load_dataset",
    "method_class",
    "method_names",
]


def __getattr__(name: str) -> object:
    """`load_dataset`, imported on first use (PEP 562): commands that read stored results do not need it."""
    if name != "load_dataset":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from bench.registry.datasets import load_dataset

    return load_dataset
