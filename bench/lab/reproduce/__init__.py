"""Reproduction of the papers' tables and claims: cells, recipes, verdicts."""
