"""The tutorial is typed as it is written: its files, its commands in order, and what they print."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from kit.pages import DOCS, assert_shown

from bench.__main__ import run

PAGE = (DOCS / "tutorial.md").read_text("utf-8")
#: A command with what the page shows of its output.
TYPED = re.findall(r"^\$ (.*)\n((?:(?!\$ |```).*\n)*)", PAGE, re.MULTILINE)


@pytest.mark.usefixtures("isolated")
def test_every_command_prints_what_the_tutorial_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "search", raising=False)
    for name, text in re.findall(r"Write `(\S+)`:\n\n```\w+\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE):
        Path(name).write_text(text, "utf-8")
    for command, shown in TYPED:
        program, *words = shlex.split(command)
        if program != "bench":
            subprocess.run([program, *words], check=True)
            continue
        codes = re.findall(r"\(exit code (\d+)\)", shown)
        assert run(words) == int(codes[0] if codes else 0), command
        assert_shown(shown, capsys.readouterr().out)


def test_the_tutorial_shows_a_regression_and_a_pass() -> None:
    gates = [shown for command, shown in TYPED if command.startswith("bench gate ")]
    assert [re.findall(r"exit code (\d)", shown) for shown in gates] == [["1"], ["0"]]
