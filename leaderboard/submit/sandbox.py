"""The sandbox in which submitted code runs: bubblewrap, with limits on what it uses. `rerun` calls it.

The code sees the interpreter, the installed packages, the code of bench, one input folder, and nothing else of this
machine: no home folder, dataset, result, cache, journal, network, process or environment. Everything is read-only but a
small `/tmp` in memory. The answer comes through a pipe, so it needs no writable folder. All processes in the sandbox
end with it.

There is no weaker fallback: without bubblewrap, or if the system does not permit it, nothing runs.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import selectors
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import distributions, entry_points
from pathlib import Path

import bench
from bench.base.config import current_session
from bench.base.errors import BenchError, UnavailableError
from bench.base.paths import cache_folder, data_folder, expand_path, results_folder
from bench.leaderboard.submit.archive import quote
from bench.leaderboard.submit.handover import BEGUN

#: The first version that can forbid further user namespaces and limit the size of a folder in memory.
_VERSION = (0, 8)
#: Where the input folder appears in the sandbox.
_GIVEN = "/given"
_SYSTEM = ("/usr/lib", "/usr/lib32", "/usr/lib64")
_LINKED = ("/lib", "/lib32", "/lib64")
_PACKAGES = frozenset({"site-packages", "dist-packages"})
#: The name under which bench is installed, and the separators in package names.
_OWN = "tool-retrieval-bench"
_NAME = re.compile(r"[-_.]+")
#: Bytes that a process may reserve beyond its limit, because libraries reserve more than they use. This limit applies
#: between two checks of actual use.
_RESERVED = 4 << 30
#: Maximum bytes kept of errors from bubblewrap, or from a Python that does not start.
_LONGEST_COMPLAINT = 4000
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
#: Seconds between checks of use, and to wait for the end of an answered sandbox and of all processes in it.
_PAUSE = 0.05
_END = 1.0
_EMPTY = 30.0


@dataclass(frozen=True)
class Limits:
    """Limits of the code in a sandbox.

    Attributes:
        seconds: wall-clock time.
        memory: bytes of all its processes together, plus the shared memory that the machine has gained since they
            began.
        tasks: number of processes and threads.
        scratch: bytes of `/tmp`, and of any file.
    """

    seconds: float = 1800.0
    memory: int = 8 << 30
    tasks: int = 1024
    scratch: int = 256 << 20


class SandboxStopped(Exception):
    """The code in the sandbox did not answer within its limits; the text is a clause that says why."""


def check_sandbox() -> None:
    """Check that the sandbox works here; this only starts the interpreter in it.

    Raises:
        UnavailableError: bubblewrap is not installed or too old, or the system does not permit it.
    """
    program = shutil.which("bwrap")
    if program is None:
        raise UnavailableError(
            "a re-run needs bubblewrap (Linux), which is not installed, so nothing was run; install it with "
            "`apt-get install bubblewrap` or your system's package manager."
        )
    try:
        told = subprocess.run([program, "--version"], capture_output=True, text=True, errors="replace", timeout=30)
        version = re.search(r"(\d+)\.(\d+)", told.stdout)
        if version is None or (int(version[1]), int(version[2])) < _VERSION:
            raise UnavailableError(
                f"a re-run needs bubblewrap {'.'.join(map(str, _VERSION))} or newer, and {program} is "
                f"{quote(told.stdout.strip())}, so nothing was run; install a newer one."
            )
        command = [
            *_confining_command(program, None, Limits()),
            *_python(),
            "-c",
            "import bench.leaderboard.submit.inside",
        ]
        tried = subprocess.run(command, capture_output=True, env={}, text=True, errors="replace", timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"bubblewrap cannot be started ({error}), so nothing was run.") from None
    if tried.returncode:
        raise UnavailableError(
            f"bubblewrap cannot make a sandbox for this Python ({_last_line(tried.stderr)}), so nothing was run; the "
            "system must permit user namespaces to this user, as docs/submit.md explains."
        )


def run_confined(given: Path, most: int, limits: Limits) -> bytes:
    """Run `bench.leaderboard.submit.inside` in a sandbox.

    Args:
        given: the input folder, read-only.
        most: maximum bytes of the answer.
        limits: limits of the code.

    Returns:
        The untrusted answer, without `BEGUN`.

    Raises:
        Stopped: it exceeded a limit or ended without an answer.
        UnavailableError: the sandbox could not be made, so nothing of the submission ran.
    """
    program = shutil.which("bwrap")
    if program is None:
        raise UnavailableError("a re-run needs bubblewrap, which is not installed, so nothing was run.")
    inner = [*_python(), "-m", "bench.leaderboard.submit.inside", _GIVEN, str(limits.memory + _RESERVED)]
    inner.append(str(limits.scratch))
    told, tell = os.pipe()
    with open(told, "rb") as about:
        try:
            process = subprocess.Popen(
                [*_confining_command(program, given, limits, tell), *inner],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={},
                cwd="/",
                start_new_session=True,
                pass_fds=[tell],
            )
        finally:
            os.close(tell)
        first = None
        with process:
            try:
                first = _first_process(about.read(_LONGEST_COMPLAINT))
                answer, complaint = _watch(process, most, _Use(process.pid, limits))
            finally:
                # The sandbox ends with bubblewrap: killing the first process of its namespace kills all others.
                process.kill()
                process.wait()
                _wait_for_end(first)
    if not answer.startswith(BEGUN):
        raise UnavailableError(f"the sandbox could not be started ({_last_line(complaint)}), so nothing was run.")
    if len(answer) == len(BEGUN):
        code = process.returncode
        raise SandboxStopped(f"it ended its process without an answer (exit code {code})")
    return bytes(answer[len(BEGUN) :])


def _last_line(complaint: str) -> str:
    lines = complaint.strip().splitlines()
    return quote(lines[-1], 300)[1:-1] if lines else "no reason given"


# Use of the machine -----------------------------------------------------------------------------------------------


def _watch(process: subprocess.Popen[bytes], most: int, use: _Use) -> tuple[bytearray, str]:
    """Read a sandbox's answer and errors until it ends."""
    assert process.stdout is not None
    assert process.stderr is not None
    answer, complaint = bytearray(), bytearray()
    seconds = use.limits.seconds
    end = time.monotonic() + seconds
    with selectors.DefaultSelector() as streams:
        streams.register(process.stdout, selectors.EVENT_READ, answer)
        streams.register(process.stderr, selectors.EVENT_READ, complaint)
        look, closing = 0.0, False
        while streams.get_map():
            for key, _ in streams.select(_PAUSE):
                data = os.read(key.fd, 1 << 16)
                if not data:
                    streams.unregister(key.fileobj)
                elif key.data is answer or len(complaint) < _LONGEST_COMPLAINT:
                    key.data.extend(data)
            now = time.monotonic()
            if len(answer) > most:
                raise SandboxStopped(f"it answered with more than the {most} bytes that rankings can have")
            if now > end and not closing:
                raise SandboxStopped(f"it took longer than {seconds:g} seconds")
            if now > end:
                break
            if not closing and process.poll() is not None:
                # Output from before the end is still in the pipes.
                closing, end = True, now + _END
            elif now >= look:
                use.check()
                # On a machine with many processes a check takes a while; spend most of the time elsewhere.
                look = time.monotonic() + max(_PAUSE, 5 * (time.monotonic() - now))
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END)
    return answer, complaint.decode("utf-8", "replace")


class _Use:
    """The resources that a process and its descendants use, compared with limits."""

    def __init__(self, root: int, limits: Limits) -> None:
        self.root, self.limits = root, limits
        self.known: set[int] = set()
        self.shared = _shared_memory()

    def check(self) -> None:
        """Raise `Stopped` if a limit is exceeded."""
        tasks, memory = 0, max(0, _shared_memory() - self.shared)
        for pid, threads, size in _below(self.root):
            memory += size
            tasks += threads
            if pid not in self.known:
                self.known.add(pid)
                # If the machine runs out of memory nevertheless, the sandbox is killed first.
                with suppress(OSError):
                    Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
        if tasks > self.limits.tasks:
            raise SandboxStopped(f"it started more than {self.limits.tasks} processes and threads")
        if memory > self.limits.memory:
            raise SandboxStopped(f"it used more than {self.limits.memory / (1 << 30):.3g} GiB of memory")


def _first_process(about: bytes) -> int | None:
    """The first process in a sandbox, as bubblewrap reports it; None if it could not make a sandbox."""
    try:
        return int(json.loads(about)["child-pid"])
    except (ValueError, KeyError, TypeError):
        return None


def _wait_for_end(first: int | None) -> None:
    """Wait until a sandbox is empty: the system ends its first process once all others have ended."""
    end = time.monotonic() + _EMPTY
    while first is not None and _lives(first) and time.monotonic() < end:
        time.sleep(_PAUSE / 10)


def _lives(pid: int) -> bool:
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in {b"Z", b"X"}
    return False


def _shared_memory() -> int:
    """Bytes of shared memory and of files in memory on this machine; processes can fill these without growing."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/meminfo").read_text().partition("\nShmem:")[2].split()[0]) << 10
    return 0


def _below(root: int) -> Iterator[tuple[int, int, int]]:
    """(process, number of threads, bytes in memory) of a process and its descendants."""
    children: dict[int, list[tuple[int, int, int]]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, IndexError):
                # The name of the program, in parentheses, may contain anything.
                values = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()
                entry = int(name), int(values[17]), int(values[21]) * _PAGE
                children.setdefault(int(values[1]), []).append(entry)
    pending = [root]
    while pending:
        for entry in children.pop(pending.pop(), []):
            yield entry
            pending.append(entry[0])


# Visible files ----------------------------------------------------------------------------------------------------


def _python() -> list[str]:
    """The interpreter, without user packages, the working folder and start-up files on its path."""
    return [_interpreter(), "-P", "-s", "-S", "-B"]


def _interpreter() -> str:
    # In a virtual environment, use the Python it was made from: the environment's own is only a link.
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def _confining_command(program: str, given: Path | None, limits: Limits, tell: int | None = None) -> list[str]:
    """The bubblewrap command that precedes the sandboxed command; it reports on `tell` what it has started."""
    command = [program, "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"]
    command += ["--cap-drop", "ALL", "--uid", "65534", "--gid", "65534", "--hostname", "sandbox"]
    # First, because visible folders may lie in /tmp.
    command += ["--dev", "/dev", "--size", "4096", "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    command += ["--size", str(limits.scratch), "--tmpfs", "/tmp"]
    seen, path = _visible_places()
    for place in seen:
        command += ["--ro-bind", str(place), str(place)]
    for link in _LINKED:
        if os.path.islink(link):
            command += ["--symlink", os.readlink(link), link]
    for root in _checkout():
        # `bench/__init__.py` looks for these two; the folder is empty.
        project = str(root / "pyproject.toml")
        command += ["--dir", str(root / "datasets"), "--ro-bind", project, project]
    for place in _hidden_places(seen):
        if place.is_dir():
            command += ["--size", "4096", "--tmpfs", str(place), "--remount-ro", str(place)]
        else:
            command += ["--ro-bind", "/dev/null", str(place)]
    if tell is not None:
        command += ["--info-fd", str(tell)]
    if given is not None:
        command += ["--ro-bind", str(given), _GIVEN]
    environment = {
        "PYTHONPATH": os.pathsep.join(map(str, path)),
        "HOME": "/tmp",
        "TMPDIR": "/tmp",
        "USER": "nobody",
        "LANG": "C.UTF-8",
        "BENCH_CACHE": "/tmp/cache",
        "BENCH_OFFLINE": "1",
        "BENCH_NO_CACHE": "1",
        "HF_HUB_OFFLINE": "1",
    }
    command += ["--clearenv", *(word for name, value in environment.items() for word in ("--setenv", name, value))]
    return [*command, "--remount-ro", "/", "--chdir", "/tmp", "--"]


def _checkout() -> list[Path]:
    """The root of the checkout that bench runs from, which has the methods beside the package; else empty."""
    return [Path(place).resolve() for place in bench.__path__[1:]]


def _packages() -> list[Path]:
    """The folders of installed packages that this process imports from."""
    return [Path(place).resolve() for place in sys.path if Path(place).name in _PACKAGES and Path(place).is_dir()]


def _visible_places() -> tuple[list[Path], list[Path]]:
    """The visible folders, and the import path among them."""
    package = Path(bench.__path__[0]).resolve()
    packages = _packages()
    code = [package, *(root / name for root in _checkout() for name in ("methods", "leaderboard"))]
    standard = [Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")]
    python = [Path(_interpreter()), Path(sys.base_prefix).resolve() / "lib", *standard]
    system = [*map(Path, _SYSTEM), *(Path(link) for link in _LINKED if not os.path.islink(link))]
    wanted = [*system, Path("/etc/ld.so.cache"), *python, *packages, *code]
    places: list[Path] = []
    for place in sorted({place for place in wanted if place.exists()}):
        if not any(place.is_relative_to(other) for other in places):
            places.append(place)
    return places, list(dict.fromkeys([package.parent, *packages]))


def _hidden_places(seen: list[Path]) -> list[Path]:
    """Paths inside visible folders that must stay hidden.

    Folders with data: datasets in bench and in other packages, and the user's. In folders of packages: those that this
    process does not import from, and files that belong to no installed package. A second installation of bench has
    none.
    """
    places = [Path(place) / "datasets" for place in bench.__path__]
    for point in entry_points(group="bench.datasets"):
        places += _package_folders(point.value)
    mirror, journal = current_session().mirror, os.environ.get("BENCH_LLM_JOURNAL")
    named = [mirror, Path(journal).parent if journal else None]
    folders: list[Callable[[], Path]] = [cache_folder, data_folder, results_folder]
    folders += [partial(expand_path, path) for path in named if path]
    for folder in folders:
        with suppress(BenchError):
            places.append(folder())
    packages = _packages()
    for root in seen:
        for pattern in ("*-packages", "python*/*-packages", "lib/python*/*-packages"):
            places += [place for place in root.glob(pattern) if place.resolve() not in packages]
    for place in packages:
        places += _strange(place)
    real = {place.resolve() for place in places if place.exists()}
    shown = {place for place in real if any(place.is_relative_to(other) for other in seen)}
    return sorted(place for place in shown if not shown & set(place.parents))


@cache
def _strange(folder: Path) -> list[Path]:
    """Entries of a package folder that belong to no package, or are a dataset with its card."""
    known = {path.name for path in (Path(place) for place in bench.__path__) if path.resolve().parent == folder}
    for package in distributions(path=[str(folder)]):
        if _NAME.sub("-", package.name).lower() != _OWN:
            lines = (package.read_text("RECORD") or package.read_text("top_level.txt") or package.name).splitlines()
            known |= {re.split(r"[/,]", line, maxsplit=1)[0] for line in lines}
    strange = []
    for place in folder.iterdir():
        # A package from the system's package manager may lack its extension module.
        if place.name not in known and place.stem not in known:
            strange.append(place)
        elif place.is_dir():
            strange += [card.parent for pattern in ("", "*/", "*/*/") for card in place.glob(f"{pattern}card.toml")]
    return strange


def _package_folders(name: str) -> list[Path]:
    """The folders of a package, or of its parent package if it cannot be imported."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = importlib.util.find_spec(name.partition(".")[0])
    return [Path(place) for place in (spec.submodule_search_locations or [] if spec else [])]
