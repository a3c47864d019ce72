"""Tuning: grid search of a method's parameters on dev queries. The verb `tune` and `bench.tune` call it."""
