"""The fixtures of the tiny dataset, and of the method that is watched."""

from tiny import instance, notes, run, runner, tiny
from watched import forget

__all__ = ["forget", "instance", "notes", "run", "runner", "tiny"]
