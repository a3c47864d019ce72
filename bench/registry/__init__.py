"""Finding datasets and methods by name: built-in ones and plug-ins.

The harness never names a concrete method or dataset; it asks here.
"""

from bench.data.entries import DatasetEntry, broken_datasets, dataset_entries, dataset_entry
from bench.registry.datasets import load_dataset
from bench.registry.methods import build_method, method_class, method_names

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
