"""The fixtures of the tiny dataset."""

from kit.tiny import instance, notes, run, runner, tiny

__all__ = ["instance", "notes", "run", "runner", "tiny"]
