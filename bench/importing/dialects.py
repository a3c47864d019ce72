"""What other projects call the parts of tools and of queries: the table `dialects.toml`.

The readers of queries, tools and traces import it. Its entries are names, not JMESPath expressions: these find fields
half as fast, and do not say which of several names a row has, as errors must.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

TABLE: dict[str, Any] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def words(*keys: str) -> tuple[str, ...]:
    """The words of a text of the table, in order."""
    part: Any = TABLE
    for key in keys:
        part = part[key]
    return tuple(part.split())
