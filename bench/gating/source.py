"""Where a job of CI installs bench from: where this bench came from, so that both run the same code.

A package index may not have bench, or another version of it. pip records where it installed a package from (PEP 610);
of a checkout, git knows where it is pushed to.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import bench
from bench.base.errors import DISTRIBUTION

#: What stands for the owner of a repository that is not known.
OWNER = "OWNER"
#: `git@HOST:PATH`, as `git remote` has the address of many checkouts.
_SCP = re.compile(r"(?:[\w.-]+@)?(?P<host>[\w.-]+\.[\w-]+):(?P<path>(?!/)[\w./~-]+)")
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
#: What needs no quotes in YAML and in a shell, in a requirement.
_HARMLESS = re.compile(r"[\w./:@+~=-]+", re.ASCII)


@dataclass(frozen=True)
class Source:
    """What pip is told to install.

    Attributes:
        requirement: such as `git+https://HOST/OWNER/REPOSITORY@COMMIT`.
        note: what its reader has to do before it works; empty where nothing is left to do.
    """

    requirement: str
    note: str = ""


def find_source() -> Source:
    """Where this bench came from; nothing is asked of the network."""
    try:
        told = distribution(DISTRIBUTION).read_text("direct_url.json")
        recorded = None if told is None else json.loads(told)
    except (PackageNotFoundError, ValueError, RecursionError):
        recorded = {}
    if recorded is not None and not isinstance(recorded, dict):
        recorded = {}
    return source_of(recorded, Path(bench.__file__).resolve().parents[1])


def source_of(recorded: Mapping[str, Any] | None, root: Path) -> Source:
    """Where an installation came from.

    Args:
        recorded: its `direct_url.json`; None where it came from an index.
        root: the folder above `bench/`.
    """
    if recorded is None:
        return Source(f"{DISTRIBUTION}=={bench.__version__}")
    cloned = recorded.get("vcs_info")
    if isinstance(cloned, dict):
        address, commit, note = _https(str(recorded.get("url", ""))), str(cloned.get("commit_id", "")), ""
    else:
        address, commit, note = _of_checkout(root)
    if address and _COMMIT.fullmatch(commit) and _HARMLESS.fullmatch(address):
        return Source(f"git+{address}@{commit}", note)
    unknown = f"git+https://github.com/{OWNER}/{DISTRIBUTION}@v{bench.__version__}"
    return Source(unknown, f"this bench came from no public repository, so {OWNER} stands in BENCH: write who has one")


def _of_checkout(root: Path) -> tuple[str, str, str]:
    """The address, the commit, and what is to be done before CI has that commit."""
    if not (root / ".git").exists():
        return "", "", ""
    try:
        address = _https(_git(root, "remote", "get-url", "origin"))
        commit = _git(root, "rev-parse", "HEAD")
        pushed = _git(root, "branch", "--remotes", "--contains", commit)
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return "", "", ""
    if not pushed:
        return (
            address,
            commit,
            f"the commit {commit[:12]} of this checkout is on no remote branch that git knows: push it",
        )
    if changed:
        return address, commit, f"this checkout has changes that the commit {commit[:12]} lacks: commit and push them"
    return address, commit, ""


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, text=True, timeout=20, check=True)
    return done.stdout.strip()


def _https(address: str) -> str:
    """An address of git's as one that anybody can read from, without a user or a password; empty if it has none."""
    if short := _SCP.fullmatch(address):
        address = f"https://{short['host']}/{short['path']}"
    try:
        parts = urlsplit(address)
        if parts.scheme not in {"https", "ssh", "git"} or not parts.hostname:
            return ""
        port = f":{parts.port}" if parts.port is not None and parts.scheme == "https" else ""
    except ValueError:
        return ""
    return urlunsplit(("https", parts.hostname + port, parts.path, "", ""))
