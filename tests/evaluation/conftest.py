"""The fixtures of the tiny dataset, and of the method that is watched."""

from kit.tiny import instance, notes, run, runner, tiny
from kit.watched import forget

__all__ = ["forget", "instance", "notes", "run", "runner", "tiny"]
