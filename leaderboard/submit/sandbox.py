"""The sandbox in which submitted code runs: bubblewrap, and a watch over what it uses.

The code sees the interpreter, the installed packages, the code of bench, one folder that it is given, and nothing else
of this machine: no home folder, dataset, result, cache, journal, network, process or environment of the user's. All of
it is read-only but a small `/tmp` in memory. Its answer comes through a pipe, so that there is no folder that it could
write to. Everything in the sandbox ends with it, however it ends.

There is no second, weaker sandbox: without bubblewrap, or where the system does not permit it, nothing is run.
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
#: Where the given folder appears in the sandbox.
_GIVEN = "/given"
_SYSTEM = ("/usr/lib", "/usr/lib32", "/usr/lib64")
_LINKED = ("/lib", "/lib32", "/lib64")
_PACKAGES = frozenset({"site-packages", "dist-packages"})
#: The name under which bench is installed, and what separates words in names of packages.
_OWN = "tool-retrieval-bench"
_NAME = re.compile(r"[-_.]+")
#: Bytes that a process may reserve beyond those that it may use: libraries reserve more than they use. This limit holds
#: between two looks at what is used.
_RESERVED = 4 << 30
#: What errors of bubblewrap, or of a Python that does not start, are kept.
_LONGEST_COMPLAINT = 4000
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
#: Seconds between two looks at what the sandbox uses, to wait for the end of one that has answered, and of all in it.
_PAUSE = 0.05
_END = 1.0
_EMPTY = 30.0


@dataclass(frozen=True)
class Limits:
    """What the code in a sandbox may use.

    Attributes:
        seconds: by the clock.
        memory: bytes that all of its processes have in memory together, with the shared memory that the machine has
            gained since they began.
        tasks: processes and threads.
        scratch: bytes of `/tmp`, and of one file.
    """

    seconds: float = 1800.0
    memory: int = 8 << 30
    tasks: int = 1024
    scratch: int = 256 << 20


class SandboxStopped(Exception):
    """The code in the sandbox gave no answer within its limits; the text is a clause that says why."""


def check_sandbox() -> None:
    """Make sure that the sandbox works here; only the interpreter is started in it.

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
        given: the folder that it is handed, to be read only.
        most: bytes that it may answer.
        limits: what it may use.

    Returns:
        What it answered, without `BEGUN`: untrusted.

    Raises:
        Stopped: it exceeded a limit, or ended without an answer.
        UnavailableError: the sandbox could not be made; nothing of the submission was run.
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
                # The sandbox ends with bubblewrap: the first process of its namespace is killed, all others with it.
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


# What it uses ----------------------------------------------------------------------------------------------------


def _watch(process: subprocess.Popen[bytes], most: int, use: _Use) -> tuple[bytearray, str]:
    """What a sandbox writes to its end; the answer, and its complaints."""
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
                # What was said before the end is still in the pipes.
                closing, end = True, now + _END
            elif now >= look:
                use.check()
                # On a machine of many processes a look takes a while: most of the time is not spent looking.
                look = time.monotonic() + max(_PAUSE, 5 * (time.monotonic() - now))
    with suppress(subprocess.TimeoutExpired):
        process.wait(_END)
    return answer, complaint.decode("utf-8", "replace")


class _Use:
    """What a process and all below it use of the machine, held against limits."""

    def __init__(self, root: int, limits: Limits) -> None:
        self.root, self.limits = root, limits
        self.known: set[int] = set()
        self.shared = _shared_memory()

    def check(self) -> None:
        """Raise `Stopped` if it is more than it may be."""
        tasks, memory = 0, max(0, _shared_memory() - self.shared)
        for pid, threads, size in _below(self.root):
            memory += size
            tasks += threads
            if pid not in self.known:
                self.known.add(pid)
                # If the machine runs out of memory all the same, the sandbox ends first.
                with suppress(OSError):
                    Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
        if tasks > self.limits.tasks:
            raise SandboxStopped(f"it started more than {self.limits.tasks} processes and threads")
        if memory > self.limits.memory:
            raise SandboxStopped(f"it used more than {self.limits.memory / (1 << 30):.3g} GiB of memory")


def _first_process(about: bytes) -> int | None:
    """The first process in a sandbox, as bubblewrap names it; None where it could make no sandbox."""
    try:
        return int(json.loads(about)["child-pid"])
    except (ValueError, KeyError, TypeError):
        return None


def _wait_for_end(first: int | None) -> None:
    """Wait until a sandbox is empty: the system ends its first process when all others in it have ended."""
    end = time.monotonic() + _EMPTY
    while first is not None and _lives(first) and time.monotonic() < end:
        time.sleep(_PAUSE / 10)


def _lives(pid: int) -> bool:
    with suppress(OSError, IndexError):
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in {b"Z", b"X"}
    return False


def _shared_memory() -> int:
    """Bytes of shared memory and of files in memory on this machine, which a process can fill without being larger."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/meminfo").read_text().partition("\nShmem:")[2].split()[0]) << 10
    return 0


def _below(root: int) -> Iterator[tuple[int, int, int]]:
    """(process, its threads, its bytes in memory) of a process and all that come from it."""
    children: dict[int, list[tuple[int, int, int]]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with suppress(OSError, IndexError):
                # The name of the program, in parentheses, may hold anything.
                values = Path("/proc", name, "stat").read_bytes().rpartition(b")")[2].split()
                entry = int(name), int(values[17]), int(values[21]) * _PAGE
                children.setdefault(int(values[1]), []).append(entry)
    pending = [root]
    while pending:
        for entry in children.pop(pending.pop(), []):
            yield entry
            pending.append(entry[0])


# What it sees ----------------------------------------------------------------------------------------------------


def _python() -> list[str]:
    """The interpreter, without the user's packages, the working folder and start-up files on its path."""
    return [_interpreter(), "-P", "-s", "-S", "-B"]


def _interpreter() -> str:
    # Of a virtual environment, the Python that it was made from: the environment's own is only a link to it.
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def _confining_command(program: str, given: Path | None, limits: Limits, tell: int | None = None) -> list[str]:
    """The command before the command that is run in the sandbox; it says on `tell` what it has started."""
    command = [program, "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--new-session"]
    command += ["--cap-drop", "ALL", "--uid", "65534", "--gid", "65534", "--hostname", "sandbox"]
    # First, because what is shown may lie in /tmp.
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
    """The root of the checkout that bench runs from, in which the methods lie beside the package; else nothing."""
    return [Path(place).resolve() for place in bench.__path__[1:]]


def _packages() -> list[Path]:
    """The folders of installed packages that this process imports from."""
    return [Path(place).resolve() for place in sys.path if Path(place).name in _PACKAGES and Path(place).is_dir()]


def _visible_places() -> tuple[list[Path], list[Path]]:
    """What is shown of this machine, and the part of it that is the path of imports."""
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
    """What lies in what is shown and is not to be seen.

    Folders with data: of datasets, in bench and in other packages, and of the user's. Of folders of packages, those
    that this process does not import from, and in the others what no installed package has put there; a second
    installation of bench has put nothing there.
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
    """What lies in a folder of packages and belongs to no package, or is a dataset with its card."""
    known = {path.name for path in (Path(place) for place in bench.__path__) if path.resolve().parent == folder}
    for package in distributions(path=[str(folder)]):
        if _NAME.sub("-", package.name).lower() != _OWN:
            lines = (package.read_text("RECORD") or package.read_text("top_level.txt") or package.name).splitlines()
            known |= {re.split(r"[/,]", line, maxsplit=1)[0] for line in lines}
    strange = []
    for place in folder.iterdir():
        # A package that the system's package manager has put there may lack its extension.
        if place.name not in known and place.stem not in known:
            strange.append(place)
        elif place.is_dir():
            strange += [card.parent for pattern in ("", "*/", "*/*/") for card in place.glob(f"{pattern}card.toml")]
    return strange


def _package_folders(name: str) -> list[Path]:
    """The folders of a package; of the package around it if that cannot be imported."""
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = importlib.util.find_spec(name.partition(".")[0])
    return [Path(place) for place in (spec.submodule_search_locations or [] if spec else [])]
