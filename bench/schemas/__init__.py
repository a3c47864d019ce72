"""JSON Schemas of every file that bench writes.

`python -m bench.schemas.build` regenerates them from the models; a test compares the shipped ones with the models.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def schema_names() -> list[str]:
    """Names of the shipped schemas, sorted."""
    return sorted(path.name.removesuffix(".json") for path in FOLDER.glob("*.json"))


def shipped_schema(name: str) -> dict[str, Any]:
    """A shipped schema."""
    schema: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text("utf-8"))
    return schema
