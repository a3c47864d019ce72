"""Dependency graphs of tools: where their edges come from, and what they do to vectors and scores."""
