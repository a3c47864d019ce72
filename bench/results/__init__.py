"""Stored results: reading, writing and comparability."""
