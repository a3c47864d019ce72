"""Comparisons of stored results, with uncertainty: for `bench compare`, the gate, tables and the site."""
