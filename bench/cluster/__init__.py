"""Clusters: the cells of a grid, and large work of a cell, on the machines of a Ray cluster.

The option `--ray` of `run`, `tune`, `reproduce` and `train` asks for it by name.
"""
