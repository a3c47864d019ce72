"""Queries for a dataset's tools, written by a language model and kept if a second call picks the same tools."""
