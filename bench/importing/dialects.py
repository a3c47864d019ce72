"""The names that other projects use for parts of tools, queries and logs: the table `dialects.toml`.

The readers of queries, tools and traces import it. Its entries are names, not JMESPath expressions: those are less than
half as fast, and do not say which of several names a row has, which errors must.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

TABLE: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def words(*keys: str) -> tuple[str, ...]:
    """The words of an entry of the table, in order."""
    part: Any = TABLE
    for key in keys:
        part = part[key]
    return tuple(part.split())
