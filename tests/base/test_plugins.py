"""What plugs into the harness beside methods, datasets and metrics: verbs, pages, schemas, by a file `plugin.toml`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from kit.interpreter import Interpreter

PLUGIN = """
pages = ["greetings.page"]

[verbs]
hello = { module = "greetings.hello", help = "Say hello." }
"data hello" = { module = "greetings.hello", help = "Say hello to a dataset." }
run = { module = "greetings.hello", help = "Take the place of a verb of bench." }

[schemas]
greeting = "greetings.hello:Greeting"

[functions]
greet = "greetings.hello:greet"
"""
HELLO = """
import click
from pydantic import BaseModel

class Greeting(BaseModel):
    words: str

def greet(name):
    return f"hello {name}"

@click.command("hello")
@click.argument("name")
def command(name):
    click.echo(greet(name))
"""
PAGE = """
from bench.leaderboard.pages.registry import Page

def _write(content, writer):
    writer.put("greetings.html", f"<!doctype html><title>{len(content.boards)} boards</title>")

PAGE = Page("greetings", "greetings.html", _write, entry="Greetings", order=99)
"""
PRINT = """
import sys
from bench.__main__ import run
print(run(sys.argv[1:]))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where a package with a plug-in is installed, as pip leaves it."""
    files = {
        "greetings/__init__.py": "raise SystemExit('imported for nothing')",
        "greetings/plugin.toml": PLUGIN,
        "greetings/hello.py": HELLO,
        "greetings/page.py": PAGE,
        "greetings/schemas/greeting.json": json.dumps({"title": "greeting"}),
        "greetings-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: greetings\nVersion: 1\n",
        "greetings-1.dist-info/entry_points.txt": "[bench.plugins]\nmine = greetings\n",
    }
    place = tmp_path / "installed"
    for name, text in files.items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    return place


@pytest.fixture
def bench(folder: Path, interpreter: Interpreter, isolated: None, tmp_path: Path) -> Callable[..., str]:
    """Runs `bench` where the package is installed; gives what it prints, and its exit code in the last line."""

    def run(*words: str) -> str:
        done = interpreter(PRINT, *words, folder=tmp_path, path=(folder,))
        return f"{done.stdout}{done.stderr}"

    return run


def test_a_list_of_verbs_imports_no_plug_in(bench: Callable[..., str]) -> None:
    said = bench("--help")
    assert "Say hello." in said
    assert "Run methods on datasets" in said
    assert "Take the place" not in said
    assert "Say hello to a dataset." in bench("data", "--help")
    assert "greeting" in bench("list", "schemas").splitlines()
    assert json.loads(bench("list", "schemas", "greeting").rpartition("\n0")[0]) == {"title": "greeting"}


def test_a_verb_a_page_and_a_function_of_a_plug_in_are_used(bench: Callable[..., str], folder: Path) -> None:
    (folder / "greetings" / "__init__.py").write_text("")
    assert bench("hello", "you").splitlines() == ["hello you", "0"]
    assert bench("data", "hello", "starter").splitlines() == ["hello starter", "0"]
    bench("leaderboard", "build", "--results", "none", "--out", "site")
    site = folder.parent / "site"
    assert (site / "greetings.html").read_text() == "<!doctype html><title>0 boards</title>"
    assert "greetings.html" in (site / "index.html").read_text()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("verbs = 3", "AttributeError"),
        ("[verbs", "TOMLDecodeError"),
        ("[verbs]\nhello = { module = 'greetings.hello' }", "argument: 'help'"),
        (None, "cannot be read (No such file or directory)"),
    ],
)
def test_a_broken_plug_in_takes_nothing_else_away(
    bench: Callable[..., str], folder: Path, text: str | None, why: str
) -> None:
    path = folder / "greetings" / "plugin.toml"
    path.unlink()
    if text is not None:
        path.write_text(text)
    assert "Run methods on datasets" in bench("--help")
    said = " ".join(bench("hello").split())
    assert "there is no command 'hello'" in said
    assert "plugin.toml" in said
    assert why.split()[0] in said


def test_what_no_plug_in_has_is_said_in_a_sentence() -> None:
    from bench.base.errors import UnavailableError
    from bench.base.plugins import function

    with pytest.raises(UnavailableError, match="nothing can be sung: this installation of bench lacks"):
        function("song", "nothing can be sung")
