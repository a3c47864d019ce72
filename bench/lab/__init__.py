"""The laboratory: training, the papers' tables, writing queries, building datasets, graphs. Its verbs call it."""
