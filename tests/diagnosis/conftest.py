"""The fixtures of the tiny dataset, and of tests that run commands."""

from __future__ import annotations

from kit.commands import folder, lexical, lexical_results
from kit.tiny import instance, notes, run, runner, tiny

__all__ = ["folder", "instance", "lexical", "lexical_results", "notes", "run", "runner", "tiny"]
