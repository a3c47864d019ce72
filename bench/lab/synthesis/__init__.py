"""Queries for a dataset's tools, written by a language model and kept where a second call picks the same tools."""
