"""Pages of the documentation, whose blocks show what commands print; tests of guides compare the two."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"


def blocks(page: str, language: str = "") -> list[str]:
    """The fenced blocks of a page of docs/ in one language."""
    text = (DOCS / page).read_text("utf-8")
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [block for name, block in fenced if name == language]


def assert_shown(shown: str, printed: str) -> None:
    """Every line that a page shows is printed, in this order; `...` stands for any lines."""
    lines = [line.rstrip() for line in printed.splitlines()]
    for line in shown.splitlines():
        if line != "...":
            assert line in lines, f"not printed: {line}"
            del lines[: lines.index(line) + 1]
