"""The papers' tables and claims held against what is measured here: cells, recipes, verdicts."""
