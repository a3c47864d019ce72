"""Dependency graphs of tools."""
