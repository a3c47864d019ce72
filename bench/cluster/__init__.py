"""Clusters: runs the cells of a grid, and large computations of a cell, on the machines of a Ray cluster.

The option `--ray` of `run`, `tune`, `reproduce` and `train` uses it.
"""
