"""Datasets: their cards, their files, their tables, and the frozen form that everything else works on."""
