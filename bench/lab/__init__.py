"""The laboratory: training, the papers' tables, writing queries, building datasets, drawing graphs."""
