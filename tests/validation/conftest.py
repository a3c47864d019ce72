"""The fixtures of tests that run commands."""

from __future__ import annotations

from kit.commands import folder

__all__ = ["folder"]
