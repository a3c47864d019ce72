"""Installed packages: under which names they are imported, and their versions; read once in a process."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, distributions, version


def versions_of(imported: Iterable[str]) -> dict[str, str]:
    """Versions of the packages that are imported under some names; of one that is not installed there is none."""
    found = {name: installed_version(name) for top in sorted(imported) for name in distributions_of(top)}
    return {name: known for name, known in sorted(found.items()) if known is not None}


@cache
def distributions_of(top: str) -> tuple[str, ...]:
    """The names under which a package that is imported is installed, in most cases its own."""
    if installed_version(top) is not None:
        return (plain_name(top),)
    begins = f"\n{top}/", f"\n{top}.py"
    return tuple(
        sorted({plain_name(name) for name, files in _installed_packages() if any(begin in files for begin in begins)})
    )


@cache
def _installed_packages() -> list[tuple[str, str]]:
    """The names of all packages that are installed, and the lists of their files.

    (`packages_distributions` takes a second, as it makes an object of each file.)
    """
    return [(package.name, "\n" + (package.read_text("RECORD") or "")) for package in distributions()]


@cache
def installed_version(name: str) -> str | None:
    """The version of a package by the name under which it is installed; None where it is not."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def plain_name(name: str) -> str:
    """The name of a package as package indexes write it."""
    return re.sub(r"[-_.]+", "-", name).lower()
