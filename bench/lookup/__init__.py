"""Stored results by name: which one is meant, whether it is what the code of today gives, and its removal."""
