"""Tools, queries and traces as their owners have them, made into datasets."""
