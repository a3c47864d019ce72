"""Draws what a command prints as a picture: `python docs/pictures/terminal.py OUT.svg bench compare tgr@apibank …`."""

from __future__ import annotations

import io
import math
import os
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

#: What bench prints to anything but a terminal; a line of text is 24.4 units high.
_WIDTH, _LINE, _MARGIN = 100, 24.4, 16
#: rich's own form names a font of another host; a page must load nothing from elsewhere.
_FORM = """<svg viewBox="0 0 WIDTH HEIGHT" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font: {char_height}px Menlo, Consolas, "DejaVu Sans Mono", monospace; white-space: pre; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect width="{width}" height="{height}"/></clipPath>{lines}</defs>
<rect width="WIDTH" height="HEIGHT" rx="8" fill="#1f2430"/>
<g transform="translate(16, 16)">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def draw(out: Path, command: list[str]) -> None:
    """Run a command as in a terminal and write the command line and its output as SVG."""
    environment = os.environ | {"FORCE_COLOR": "1", "TERM": "xterm-256color"}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text("$ " + " ".join([Path(command[0]).name, *command[1:]])))
    console.print(Text.from_ansi(done.stdout.rstrip("\n")))
    drawn = console.export_svg(title="", code_format=_FORM, unique_id="terminal")
    lines = 1 + len(done.stdout.rstrip("\n").splitlines())
    width, height = math.ceil(_WIDTH * 12.2) + 2 * _MARGIN, math.ceil(lines * _LINE) + 2 * _MARGIN
    out.write_text(drawn.replace("WIDTH", str(width)).replace("HEIGHT", str(height)), "utf-8")


if __name__ == "__main__":
    draw(Path(sys.argv[1]), sys.argv[2:])
