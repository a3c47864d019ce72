"""Plug-ins of the harness: folders that add verbs, pages of the site, schemas and functions.

A folder that adds to bench has a `plugin.toml`:

    pages = ["mine.page"]                       # modules with a `PAGE`, as `leaderboard/pages` has them

    [verbs]                                     # the click command `command` of a module
    hello = { module = "mine.hello", help = "Say hello." }
    "data hello" = { module = "mine.data", help = "Say hello to a dataset." }

    [schemas]                                   # pydantic models; `schemas/NAME.json` beside the file has the schema
    greeting = "mine.hello:Greeting"

    [functions]                                 # functions that other parts of bench look up by name
    tools-page = "mine.page:of_tools"

Folders of bench such as `bench/lab`, `bench/choices` and `leaderboard` have the file, and bench works without them.
The file of `bench` itself lists functions for layers below the Python API.
Other distributions name the package with the file by an entry point of the group `bench.plugins`:

    [project.entry-points."bench.plugins"]
    mine = "mine"
"""

from __future__ import annotations

import importlib
import importlib.util
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from typing import Any

import bench
from bench.base.errors import UnavailableError

FILE = "plugin.toml"
#: The group of entry points of other packages.
GROUP = "bench.plugins"


@dataclass(frozen=True)
class Verb:
    """A verb of the command line.

    Attributes:
        module: the module with its click command, called `command`.
        help: a line for the list of verbs, which does not import them.
    """

    module: str
    help: str


@dataclass(frozen=True)
class Plugin:
    """A plugged-in folder; if its file cannot be read, `fault` says why."""

    folder: Path
    verbs: dict[str, Verb] = field(default_factory=dict)
    pages: list[str] = field(default_factory=list)
    schemas: dict[str, str] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    fault: str = ""


@cache
def plugins() -> tuple[Plugin, ...]:
    """All plug-ins: first those of bench, then those of other packages."""
    places = [Path(place) for place in bench.__path__]
    built_in = [path.parent for place in places for path in (*place.glob(FILE), *sorted(place.glob(f"*/{FILE}")))]
    return tuple(_read(folder) for folder in dict.fromkeys([*built_in, *_of_packages()]))


def verbs(below: str = "") -> dict[str, Verb]:
    """The verbs of plug-ins by name, of `bench` or below one of its verbs; the first of equal names counts."""
    by_word: dict[str, Verb] = {}
    for plugin in plugins():
        for name, verb in plugin.verbs.items():
            above, _, word = name.rpartition(" ")
            if above == below:
                by_word.setdefault(word, verb)
    return by_word


def function(name: str, without: str) -> Any:
    """Look up a function of a plug-in by name.

    Raises:
        UnavailableError: no plug-in has it, or it imports a part of bench that is not installed; `without` is a clause
            that says what is then unavailable.
    """
    target = next((plugin.functions[name] for plugin in plugins() if name in plugin.functions), None)
    try:
        if target is not None:
            return load(target)
    except ModuleNotFoundError as error:
        # The function exists, but another folder of bench that it imports does not.
        if not (error.name or "").startswith("bench."):
            raise
    raise UnavailableError(f"{without}: this installation of bench lacks the part that has it; install bench anew.")


def load(name: str) -> Any:
    """Import `module:name`."""
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


def faults() -> list[str]:
    """Why plug-ins cannot be read, one sentence each."""
    return [plugin.fault for plugin in plugins() if plugin.fault]


def installed_points(group: str) -> EntryPoints:
    """Entry points of a group, of all installed packages."""
    points: EntryPoints = _all_points().select(group=group)
    return points


@cache
def _all_points() -> Any:
    # Once for all groups: each call opens a file of every installed package. The return type differs in Python 3.12.
    return entry_points()


def _of_packages() -> Iterator[Path]:
    for point in installed_points(GROUP):
        try:
            spec = importlib.util.find_spec(point.value)
        except (ImportError, ValueError, AttributeError):
            spec = None
        yield from (Path(place) for place in (spec.submodule_search_locations or [] if spec else [Path(point.value)]))


def _read(folder: Path) -> Plugin:
    path = folder / FILE
    try:
        raw = tomllib.loads(path.read_text("utf-8"))
        if unknown := sorted(raw.keys() - {"verbs", "pages", "schemas", "functions"}):
            raise ValueError(f"there is no key {unknown[0]!r}")
        return Plugin(
            folder,
            {
                name: Verb(**{key: str(each) for key, each in verb.items()})
                for name, verb in raw.get("verbs", {}).items()
            },
            [str(name) for name in raw.get("pages", [])],
            {str(name): str(model) for name, model in raw.get("schemas", {}).items()},
            {str(name): str(where) for name, where in raw.get("functions", {}).items()},
        )
    except OSError as error:
        return Plugin(folder, fault=f"the plug-in {path} cannot be read ({error.strerror}).")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return Plugin(folder, fault=f"the plug-in {path} is not as bench reads it ({type(error).__name__}: {error}).")
