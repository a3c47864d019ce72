"""Tuning: a grid of a method's parameters, tried on dev queries. The verb `tune` and `bench.tune` call it."""
