"""The fixtures of the tiny dataset."""

from tiny import instance, notes, run, runner, tiny

__all__ = ["instance", "notes", "run", "runner", "tiny"]
