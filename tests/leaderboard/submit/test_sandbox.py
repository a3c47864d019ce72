"""The sandbox, attacked from within by methods that want the gold, the machine, or the machine's owner."""

from __future__ import annotations

import os
import select
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.base.errors import UnavailableError
from bench.base.spec import Spec
from bench.data.dataset import Dataset
from bench.evaluation.plan import Plan
from bench.evaluation.runner import views
from bench.interface import Queries
from bench.interface.ranking import Violation
from bench.leaderboard.submit.code import FOLDER
from bench.leaderboard.submit.handover import (
    MethodInput,
    RefusedReply,
    SandboxReply,
    SandboxRequest,
    read_reply,
    write_input,
)
from bench.leaderboard.submit.sandbox import Limits, SandboxStopped, _hidden_places, check_sandbox, run_confined

ROOT = Path(__file__).resolve().parents[3]
SMALL = Limits(seconds=60, tasks=200, scratch=16 << 20)
#: For tests of this limit alone: shared memory that tests in other processes fill meanwhile counts as well.
LITTLE_MEMORY = replace(SMALL, memory=1 << 30)

METHOD = """
import ctypes, mmap, os, resource, signal, socket, subprocess, sys, threading, time
from pathlib import Path
import numpy as np
from bench import Method, Ranking

class Attack(Method):
    "Ranks the first tools."

    def index(self, library):
        self.size = len(library)

    def rank(self, queries, depth):
        self.attack()
        tools = np.tile(np.arange(min(3, depth)), (len(queries), 1))
        return Ranking(tools, -tools.astype(float))

    def attack(self):
"""


@pytest.fixture
def attack(sandbox: None, tmp_path: Path, tiny: Dataset) -> Callable[..., SandboxReply]:
    """Run a method that does something before it ranks; what came back is read as `bench submit check` reads it."""

    def attack(body: str, limits: Limits = SMALL, most: int = 1 << 20) -> SandboxReply:
        plan = Plan(Spec.of("tiny"), Spec.of("m"))
        rows = plan.rows(tiny)
        library, history = views(plan, tiny)
        name = "attack:Attack"
        request = SandboxRequest(method=name, label=name, template=library.template, depth=5, cut="none")
        given = tmp_path / "given"
        shutil.rmtree(given, ignore_errors=True)
        (given / FOLDER).mkdir(parents=True)
        write_input(given, MethodInput(request, library, history, Queries.of(tiny, rows)))
        (given / FOLDER / "attack.py").write_text(METHOD + textwrap.indent(textwrap.dedent(body), " " * 8), "utf-8")
        before = sorted(given.rglob("*"))
        try:
            return read_reply(run_confined(given, most, limits), len(rows), len(library), 5)
        finally:
            assert sorted(given.rglob("*")) == before

    return attack


Attack = Callable[..., SandboxReply]


@pytest.fixture
def server() -> Iterator[tuple[int, list[str]]]:
    """A listening port on loopback, and who has called."""
    callers: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def listen() -> None:
            while True:
                try:
                    connection, address = listening.accept()
                except OSError:
                    return
                callers.append(str(address))
                connection.close()

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        yield listening.getsockname()[1], callers
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(5)


def test_nothing_of_the_users_can_be_read_written_or_called(
    attack: Attack, server: tuple[int, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port, callers = server
    monkeypatch.setenv("BENCH_LLM_KEY", "sk-secret")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    secret = tmp_path / "home" / "secret.txt"
    for path in (secret, Path(os.environ["BENCH_RESULTS"], "d", "r", "manifest.json")):
        path.parent.mkdir(parents=True)
        path.write_text("secret")
    gold = ROOT / "datasets" / "starter" / "queries.jsonl"
    assert gold.is_file()
    known = [gold, gold.parent / "loader.py", secret, ROOT / ".git", ROOT / "tests" / "conftest.py", "/etc/passwd"]
    known += [*Path(os.environ["BENCH_RESULTS"]).rglob("*.json"), "/proc/1/environ", "/proc/self/environ"]
    body = f"""
        found = []
        def attempt(name, act):
            try:
                if act() not in (False, -1):
                    found.append(name)
            except OSError:
                pass
        for path in {[str(path) for path in known]!r}:
            attempt(path, lambda: Path(path).read_bytes())
        wanted = {{"queries.jsonl", "tools.jsonl", "gold.parquet", "run.parquet", "secret.txt", "card.toml"}}
        for folder, _, files in os.walk("/"):
            if "site-packages" not in folder and wanted & set(files):
                found.append(folder)
        attempt("environment", lambda: "sk-secret" in repr(sorted(os.environ.items())))
        attempt("loopback", lambda: socket.create_connection(("127.0.0.1", {port}), 2))
        attempt("network", lambda: socket.create_connection(("192.0.2.1", 80), 2))
        for place in ("/", "/given", "/given/code", "/dev", "/usr/lib", {str(ROOT / "bench")!r}, {str(tmp_path)!r}):
            attempt(f"write {{place}}", lambda: Path(place, "written").write_text("x"))
        attempt("link", lambda: os.symlink("/etc/passwd", "/given/link"))
        libc = ctypes.CDLL(None)
        attempt("mount", lambda: libc.mount(b"none", b"/tmp", b"tmpfs", 0, 0))
        attempt("user namespace", lambda: libc.unshare(0x10000000))
        attempt("remount", lambda: libc.mount(b"none", b"/", None, 0x1020, 0))
        attempt("chroot", lambda: os.chroot("/tmp"))
        attempt("set the clock", lambda: time.clock_settime(time.CLOCK_REALTIME, 0))
        attempt("processes", lambda: os.listdir("/proc"))
        try:
            resource.setrlimit(resource.RLIMIT_DATA, (1 << 50, 1 << 50))
            found.append("limits")
        except ValueError:
            pass
        raise RuntimeError(f"found {{found}}")
    """
    with pytest.raises(RefusedReply, match=r"found \[\] \(attack\.py:\d+\)\.$"):
        attack(body)
    assert callers == []
    assert not (ROOT / "bench" / "written").exists()


def test_a_second_installation_and_what_no_package_has_put_there_are_not_shown(
    attack: Attack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "lib" / "python3.11" / "site-packages"
    hidden = [
        folder / "bench" / "datasets" / "starter" / "queries.jsonl",
        folder / "~ench" / "datasets" / "starter" / "queries.jsonl",
        folder / "gold.parquet",
        # A dataset that came with another package, under whatever name.
        folder / "copied" / "data" / "card.toml",
        folder / "copied" / "data" / "gold.json",
    ]
    shown = [folder / "copied" / "__init__.py", folder / "single.py"]
    for path in [*hidden, *shown]:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("'q1'")
    for name, files in {
        "copied-1.0": ["copied/__init__.py", "copied/data/card.toml", "copied/data/gold.json", "single.py"],
        "tool_retrieval_bench-0.1": ["bench/datasets/starter/queries.jsonl"],
    }.items():
        about = folder / f"{name}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Name: {name.partition('-')[0]}\nVersion: {name.partition('-')[2]}\n")
        (about / "RECORD").write_text("".join(f"{file},,\n" for file in [*files, f"{about.name}/METADATA"]))
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder)])
    body = f"""
        found = []
        for path in {[str(path) for path in [*hidden, *shown]]!r}:
            try:
                if Path(path).read_bytes():
                    found.append(Path(path).name)
            except OSError:
                pass
        import copied, single
        raise RuntimeError(f"found {{found}}")
    """
    with pytest.raises(RefusedReply, match=r"found \['__init__\.py', 'single\.py'\]"):
        attack(body)
    # Of a folder that this process does not import from, nothing is shown.
    monkeypatch.setattr(sys, "path", sys.path[:-1])
    assert folder in _hidden_places([tmp_path / "lib"])


def test_folders_of_the_users_are_hidden_by_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("mirror", "journals"):
        (tmp_path / name).mkdir()
    monkeypatch.setenv("BENCH_MIRROR", "~/mirror")
    monkeypatch.setenv("BENCH_LLM_JOURNAL", "~/journals/j.jsonl")
    assert {tmp_path / "mirror", tmp_path / "journals"} <= set(_hidden_places([tmp_path]))


def test_noise_signals_and_children_left_behind_change_nothing(attack: Attack, tmp_path: Path) -> None:
    marker = f"left-behind-{os.getpid()}-{tmp_path.name}"
    body = f"""
        print("\\x1b[2J\\x1b]0;evil\\x07" * 100_000, flush=True)
        for stream in (0, 1, 2):
            os.write(stream, b"\\x1b[2J" * 100_000)
        for victim in (os.getppid(), 1, -1):
            try:
                os.kill(victim, signal.SIGKILL)
            except OSError:
                pass
        os.symlink("/etc/passwd", "/tmp/link")
        for streams in [{{}}] * 3 + [dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)] * 30:
            subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)", {marker!r}],
                             start_new_session=True, **streams)
        threading.Thread(target=time.sleep, args=(600,)).start()
        import atexit
        atexit.register(time.sleep, 600)
    """
    reply = attack(body)
    assert reply.ranking.tools.tolist() == [[0, 1, 2]] * 22
    assert reply.sets is None
    assert marker not in _commands()


def _commands() -> str:
    collected = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            collected.append(path.read_bytes().decode("utf-8", "replace"))
        except OSError:
            continue
    return "\n".join(collected)


def test_if_bench_is_killed_the_sandbox_ends(sandbox: None) -> None:
    script = """
import signal, shutil, subprocess, sys
from bench.leaderboard.submit.sandbox import Limits, _confining_command, _python
inner = [*_python(), "-c", "import time; print('begun', flush=True); time.sleep(60)"]
process = subprocess.Popen([*_confining_command(shutil.which("bwrap"), None, Limits()), *inner], stdout=sys.stdout)
signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"begun\n"
        parent.kill()
        # All that runs in the sandbox holds the pipe.
        assert select.select([parent.stdout], [], [], 20)[0]
        assert parent.stdout.read() == b""


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("while True: os.fork()", "more than 200 processes and threads|more than 1 GiB of memory"),
        ("kept = [bytearray(1 << 24) for _ in range(200)]\ntime.sleep(60)", "more than 1 GiB of memory"),
        ("kept = bytearray(1 << 45)", "it ran out of memory"),
        ("kept = mmap.mmap(-1, 3 << 30)\nfor at in range(0, 3 << 30, 4096): kept[at] = 1", "more than 1 GiB of memory"),
        (
            "for i in range(200):\n"
            "    file = os.memfd_create('m')\n"
            "    for _ in range(16): os.write(file, bytes(1 << 20))\n"
            "time.sleep(60)",
            "more than 1 GiB of memory",
        ),
        (
            "try: Path('/tmp/big').write_bytes(bytes(17 << 20))\n"
            "except OSError as error: Path('/tmp/big').unlink()\n"
            "else: sys.exit('a large file')\n"
            "for i in range(30): Path(f'/tmp/{i}').write_bytes(bytes(1 << 20))",
            "No space left on device",
        ),
        ("ctypes.string_at(0)", "it ended its process without an answer"),
        ("os._exit(0)", "it ended its process without an answer"),
        ("sys.exit('as if all were well')", "failed while ranking 22 queries: SystemExit"),
        ("raise type('E', (Exception,), {'__str__': lambda self: 1})()", "TypeError|without an answer"),
    ],
)
def test_what_uses_too_much_or_ends_itself_is_stopped_with_one_sentence(attack: Attack, body: str, reason: str) -> None:
    with pytest.raises((SandboxStopped, RefusedReply), match=reason) as stopped:
        attack(body, LITTLE_MEMORY if "1 GiB" in reason else SMALL)
    assert len(str(stopped.value)) < 400


@pytest.mark.parametrize(
    "body",
    [
        "while True: pass",
        "signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); os.closerange(0, 256); time.sleep(600)",
    ],
)
def test_what_takes_too_long_is_stopped(attack: Attack, body: str) -> None:
    with pytest.raises(SandboxStopped, match=r"it took longer than 1\.5 seconds"):
        attack(body, replace(SMALL, seconds=1.5))


#: The pipe of the answer is an open file of the process: the method can find it.
CHANNEL = """
    import stat
    channel = next(fd for fd in range(3, 256) if stat.S_ISFIFO(os.fstat(fd).st_mode))
"""


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("while True: os.write(channel, b'\\x1b[2J' * 1000)", "it answered with more than the 1048576 bytes"),
        ("import pickle; os.write(channel, pickle.dumps(print)); os._exit(0)", "not in the form of a reply"),
    ],
)
def test_a_forged_answer_is_data_and_nothing_else(attack: Attack, lines: str, reason: str) -> None:
    with pytest.raises((SandboxStopped, RefusedReply), match=reason):
        attack(CHANNEL + f"    {lines}\n")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"[" * 50_000 + b"\n", "not in the form of a reply"),
        (b'{"width": 9000000000000000}\n', "more tools than there are"),
        (b'{"width": 3}\n', "has 0 bytes where"),
        (b'{"width": 1}\n' + b"\xff\xff\xff\x7f" * 22 + bytes(22), "unknown tool"),
    ],
)
def test_what_is_no_reply_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises((RefusedReply, Violation), match=reason):
        read_reply(data, 22, 12, 5)


def test_gold_inside_an_installed_package_is_masked(sandbox: None, tmp_path: Path) -> None:
    site = tmp_path / "site-packages"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "bench", site / "bench", ignore=ignored)
    for name in ("methods", "datasets", "leaderboard"):
        shutil.copytree(ROOT / name, site / "bench" / name, ignore=ignored)
    plugin = site / "moredata"
    plugin.mkdir()
    (plugin / "__init__.py").write_text("")
    (plugin / "gold.jsonl").write_text("gold")
    # Its card is missing: bench cannot use the dataset, but its gold must not be seen all the same.
    about = site / "moredata-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: moredata\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[bench.datasets]\nmoredata = moredata\nbroken = broken.data\n")
    (site / "broken" / "data").mkdir(parents=True)
    (site / "broken" / "__init__.py").write_text("import nothing_of_this_name")
    (site / "broken" / "data" / "gold.jsonl").write_text("gold")
    look = """
import os
from bench.registry import method_names
seen = {name: sorted(os.listdir(name)) for name in SEEN}
print(len(method_names()) > 3, seen)
""".replace("SEEN", repr([str(site / "bench" / "datasets"), str(plugin), str(site / "broken")]))
    script = f"""
import subprocess, shutil
from bench.leaderboard.submit.sandbox import Limits, _confining_command, _python
command = [*_confining_command(shutil.which("bwrap"), None, Limits()), *_python(), "-c", {look!r}]
print(subprocess.run(command, capture_output=True, text=True, env={{}}))
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        # A folder of the user's around the package does not take the masks off what lies in it.
        env={**os.environ, "PYTHONPATH": str(site), "BENCH_RESULTS": str(tmp_path)},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    empty: dict[str, list[str]] = {str(site / "bench" / "datasets"): [], str(plugin): [], str(site / "broken"): []}
    assert f"True {empty}" in done.stdout, done


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (None, "needs bubblewrap .* which is not installed, so nothing was run; install it"),
        ("echo bubblewrap 0.6.1", r"needs bubblewrap 0\.8 or newer, .* so nothing was run; install a newer one"),
        ("echo what", "needs bubblewrap"),
        (
            '[ "$1" = --version ] && echo bubblewrap 0.9.0 && exit\n'
            "echo 'bwrap: setting up uid map: Permission denied' >&2; exit 1",
            "cannot make a sandbox for this Python .*uid map: Permission denied.*so nothing was run",
        ),
    ],
)
def test_without_a_sandbox_nothing_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str | None, reason: str
) -> None:
    if script is not None:
        (tmp_path / "bwrap").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match=reason):
        check_sandbox()


@pytest.mark.parametrize("alone", [False, True])
def test_what_is_handed_over_has_no_gold_of_an_asked_query(tmp_path: Path, tiny: Dataset, alone: bool) -> None:
    from bench.leaderboard.submit.handover import read_input

    plan = Plan(Spec.of("tiny"), Spec.of("m"))
    rows = plan.rows(tiny)
    library, history = views(plan, tiny)
    if alone:
        library = replace(library, edges=library.edges[:0])
        history = replace(history.take(np.array([], dtype=np.int64)), library=library)
    request = SandboxRequest(method="m", label="m", template=library.template, depth=5, cut="none")
    given = MethodInput(request, library, history, Queries.of(tiny, rows))
    write_input(tmp_path, given)
    for path in tmp_path.iterdir():
        data = path.read_bytes()
        assert not any(tiny.queries[row].query_id.encode() in data for row in rows)
    again = read_input(tmp_path)
    assert again.request == request
    assert again.library.tools == library.tools
    assert again.library.texts == library.texts
    assert np.array_equal(again.library.edges, library.edges)
    assert again.history.texts == history.texts
    assert np.array_equal(again.history.split, history.split)
    for name in ("starts", "tools", "grades"):
        assert np.array_equal(getattr(again.history.gold, name), getattr(history.gold, name))
    assert again.queries.texts == given.queries.texts


def test_alternatives_and_forbidden_tools_of_past_queries_are_handed_over(tmp_path: Path, tiny: Dataset) -> None:
    from bench.leaderboard.submit.handover import read_input

    queries = []
    for number, query in enumerate(tiny.queries):
        free = sorted({tool.tool_id for tool in tiny.tools} - set(query.gold))
        any_of = {min(query.gold): tuple(free[: 1 + number % 2])} if query.gold and number % 3 else {}
        queries.append(replace(query, any_of=any_of, forbidden=tuple(free[-1:]) if number % 4 == 0 else ()))
    dataset = Dataset.build("tiny", tiny.card, replace(tiny.rows_again(), queries=queries))
    plan = Plan(Spec.of("tiny"), Spec.of("m"))
    library, history = views(plan, dataset)
    request = SandboxRequest(method="m", label="m", template=library.template, depth=5, cut="none")
    write_input(tmp_path, MethodInput(request, library, history, Queries.of(dataset, plan.rows(dataset))))
    again, gold = read_input(tmp_path).history.gold, history.gold
    assert gold.groups is not None
    assert gold.forbidden is not None
    assert again.groups is not None
    assert again.forbidden is not None
    assert list(again.judgements()) == list(gold.judgements())
    assert any(len(group) == 3 for _, group, _ in gold.judgements())
    assert list(again.forbidden.judgements()) == list(gold.forbidden.judgements())
    assert len(gold.forbidden.tools)
