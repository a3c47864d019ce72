"""JSON Schemas of every file that bench writes.

`python -m bench.cli.schemas.build` regenerates them from the models; a test compares the shipped ones with the models.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from bench.base.plugins import plugins

FOLDER = Path(__file__).parent


def schema_files() -> dict[str, Path]:
    """Name -> file of each shipped schema, including those of plug-ins, sorted."""
    folders = [FOLDER, *(plugin.folder / "schemas" for plugin in plugins())]
    files = {path.name.removesuffix(".json"): path for folder in folders for path in folder.glob("*.json")}
    return dict(sorted(files.items()))


def shipped_schema(name: str) -> dict[str, Any]:
    """A shipped schema."""
    schema: dict[str, Any] = json.loads(schema_files()[name].read_text("utf-8"))
    return schema
