"""Dependency graphs of tools: `bench graph` and agreement with annotated edges."""
