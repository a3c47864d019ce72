"""Stored results: reading, writing, what compares with what."""
