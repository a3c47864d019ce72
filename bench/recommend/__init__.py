"""Recommending tool sets: coverage of a query's functionalities, multi-view re-ranking, building datasets of sets."""
