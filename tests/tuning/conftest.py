"""The fixture of the tiny dataset."""

from __future__ import annotations

from kit.tiny import tiny

__all__ = ["tiny"]
