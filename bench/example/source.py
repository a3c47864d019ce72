"""The source from which a CI job installs bench: that of this bench, so that both run the same code. `init` uses it.

A package index may lack bench, or have another version. pip records the source of a package (PEP 610); for a checkout,
git knows its remotes.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from filecmp import cmpfiles
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from urllib.request import url2pathname

import bench
from bench.base.errors import DISTRIBUTION
from bench.base.strict_json import loads

#: The folders of a checkout that go into a wheel; the first is the package, which contains the others.
_PACKED = ("bench", "datasets", "leaderboard", "methods", "pyproject.toml")
#: `git@HOST:PATH`, the address of many remotes.
_SCP = re.compile(r"(?:[\w.-]+@)?(?P<host>[\w.-]+\.[\w-]+):(?P<path>(?!/)[\w./~-]+)")
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
#: Requirements that need no quotes in YAML or a shell.
_HARMLESS = re.compile(r"[\w./:@+~=%#-]+", re.ASCII)


@dataclass(frozen=True)
class Source:
    """What pip should install.

    Attributes:
        requirement: for example `git+https://HOST/OWNER/REPOSITORY@COMMIT`; pip can install it at least on this
            machine.
        note: what to do before it works elsewhere; empty if nothing.
    """

    requirement: str
    note: str = ""


def find_source() -> Source:
    """The source of this bench; no network is used."""
    code = Path(bench.__file__).resolve().parent
    recorded: Any = {"url": code.parent.as_uri(), "dir_info": {}}
    try:
        installed = distribution(DISTRIBUTION)
        # An editable installation, or a checkout in PYTHONPATH, runs the code of a folder, whatever pip recorded.
        if Path(str(installed.locate_file(code.name))).resolve() == code:
            text = installed.read_text("direct_url.json")
            recorded = None if text is None else loads(text)
    except PackageNotFoundError:
        pass
    except (ValueError, RecursionError):
        recorded = {}
    return source_of(recorded, code)


def source_of(recorded: Any, code: Path) -> Source:
    """The source of an installation.

    Args:
        recorded: its `direct_url.json`; None if it came from an index.
        code: its folder `bench`.
    """
    released, note = f"{DISTRIBUTION}=={bench.__version__}", "tell CI's pip its index, if this bench is not from PyPI"
    found = None
    match recorded:
        case None:
            found = Source(released, note)
        case {"url": str(url), "vcs_info": {"vcs": "git", "commit_id": str(commit)}} if _COMMIT.fullmatch(commit):
            inside = recorded.get("subdirectory")
            revision = f"{commit}#subdirectory={inside}" if inside else commit
            found = _of_address(url, revision) or _of_this_machine(f"git+{url}@{revision}")
        case {"url": str(url), "dir_info": {}} if url.startswith("file:///"):
            found = _of_checkout(Path(url2pathname(url.removeprefix("file://"))), code) or _of_this_machine(url)
        case {"url": str(url), "archive_info": {}}:
            found = Source(url) if url.startswith("https://") and "@" not in url else _of_this_machine(url)
    if found is not None and _HARMLESS.fullmatch(found.requirement):
        return found
    return Source(released, "pip recorded no address from which CI can install this bench: write one in BENCH")


def _of_this_machine(requirement: str) -> Source | None:
    """The source, if pip can install it only on this machine; None for a remote address."""
    note = f"no other machine can read {requirement}: put it where CI can, and write that address in BENCH"
    return Source(requirement, note) if requirement.removeprefix("git+").startswith("file:///") else None


def _of_address(remote: str, revision: str) -> Source | None:
    """A commit at a git address, in a form anyone can read, without user or password; None if it has none."""
    short = _SCP.fullmatch(remote)
    try:
        parts = urlsplit(f"ssh://{short['host']}/{short['path']}" if short else remote)
        port = f":{parts.port}" if parts.port is not None and parts.scheme == "https" else ""
    except ValueError:
        return None
    if parts.scheme not in {"https", "ssh", "git"} or not parts.hostname:
        return None
    address = urlunsplit(("https", parts.hostname + port, parts.path, "", ""))
    note = "" if parts.scheme == "https" else f"check that CI can read {address}: the remote has an address for ssh"
    return Source(f"git+{address}@{revision}", note)


def _of_checkout(folder: Path, code: Path) -> Source | None:
    """The commit of a checkout at its remote, or else at its folder; None if the folder is not a checkout.

    Args:
        folder: the folder of the checkout's `pyproject.toml`.
        code: the folder `bench` of the installation made from it.
    """
    try:
        _git(folder, "ls-files", "--error-unmatch", "pyproject.toml")
        commit, inside = _git(folder, "rev-parse", "HEAD"), _git(folder, "rev-parse", "--show-prefix")[:-1]
        changed = _git(folder, "status", "--porcelain", "--", *_PACKED)
        branches = _git(folder, "branch", "--remotes", "--contains", commit, "--format=%(refname)")
        remotes = {name: _git(folder, "remote", "get-url", name) for name in _git(folder, "remote").split()}
        top = Path(_git(folder, "rev-parse", "--show-toplevel")).as_uri()
    except (OSError, subprocess.SubprocessError):
        return None
    short, notes = f"the commit {commit[:12]} of {folder}", []
    modules = [str(path.relative_to(code)) for path in code.rglob("*.py")]
    same = {name for root in (folder / code.name, folder) for name in cmpfiles(code, root, modules, shallow=False)[0]}
    if changed:
        notes.append(f"commit and push what has changed since {short}, and write the new commit in BENCH")
    elif len(same) < len(modules):
        notes.append(f"install bench again, because it was built from other code than that of {short}")
    revision = f"{commit}#subdirectory={inside}" if inside else commit
    # The remotes that have the commit first; among several, git's default name first.
    without = {name for name in remotes if f"refs/remotes/{name}/" not in branches}
    for name in sorted(remotes, key=lambda name: (name in without, name != "origin")):
        if found := _of_address(remotes[name], revision):
            notes += [f"push {short}, which is on no remote branch that git knows"] if name in without else []
            return Source(found.requirement, "; ".join(filter(None, [*notes, found.note])))
    notes.append(f"push {folder} where CI can read it, and write git+https://HOST/OWNER/REPOSITORY@COMMIT in BENCH")
    return Source(f"git+{top}@{revision}", "; ".join(notes))


def _git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.strip()
