"""Versions of installed packages and their import names, read once per process. Ids of results include them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from importlib.metadata import PackageNotFoundError, distributions, version


def versions_of(imported: Iterable[str]) -> dict[str, str]:
    """Versions of the packages with the given import names, without packages that are not installed."""
    found = {name: installed_version(name) for top in sorted(imported) for name in distributions_of(top)}
    return {name: known for name, known in sorted(found.items()) if known is not None}


@cache
def distributions_of(top: str) -> tuple[str, ...]:
    """The distribution names of an import name; usually the same name."""
    if installed_version(top) is not None:
        return (plain_name(top),)
    begins = f"\n{top}/", f"\n{top}.py"
    return tuple(
        sorted({plain_name(name) for name, files in _installed_packages() if any(begin in files for begin in begins)})
    )


@cache
def _installed_packages() -> list[tuple[str, str]]:
    """The names of all installed packages, with the lists of their files.

    (`packages_distributions` takes a second, because it creates an object per file.)
    """
    return [(package.name, "\n" + (package.read_text("RECORD") or "")) for package in distributions()]


@cache
def installed_version(name: str) -> str | None:
    """The version of a package by its distribution name; None if it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def plain_name(name: str) -> str:
    """The normalised name of a package, as in package indexes."""
    return re.sub(r"[-_.]+", "-", name).lower()
