"""Commands of `bench` in processes of their own, forked off one that has imported it: each starts in no time.

For tests of what a process alone has: exit codes, closed pipes, full disks. How long `bench` takes to start, and what
it imports, must be tested with a process that is started anew.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

_PROGRAM = """
import importlib, json, os, signal, sys, tempfile
from bench.__main__ import main

cases, modules, together = json.loads(sys.argv[1])
for module in modules:
    importlib.import_module(module)

def stream(name):
    if name == "closed":
        reading, writing = os.pipe()
        os.close(reading)
        return writing
    return os.open(name, os.O_WRONLY)

said, running = [], []

def ended():
    child, *files = running.pop(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    said.append([code, *(os.pread(file.fileno(), 1 << 24, 0).decode() for file in files)])

for case in cases:
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
    child = os.fork()
    if not child:
        signal.alarm(120)
        os.dup2(stream(case["out"]) if case["out"] else out.fileno(), 1)
        os.dup2(stream(case["err"]) if case["err"] else err.fileno(), 2)
        sys.argv = ["bench", *case["arguments"]]
        main()
    running.append((child, out, err))
    if not together:
        ended()
while running:
    ended()
print(json.dumps(said))
"""


@dataclass(frozen=True)
class Command:
    """One command, and where its output goes: "closed", a pipe that nobody reads; a file such as /dev/full; or back."""

    arguments: Sequence[str]
    out: str = ""
    err: str = ""


@dataclass(frozen=True)
class Ended:
    """Exit code of a process, and what it wrote where nothing else was asked for."""

    code: int
    out: str
    err: str


def forked(commands: Sequence[Command], *modules: str, together: bool = False) -> list[Ended]:
    """Run commands, each in a process, which is ended if it hangs.

    Args:
        commands: run one after the other.
        modules: imported before, as the commands would import them.
        together: run the commands all at once.
    """
    text = json.dumps([[asdict(command) for command in commands], modules, together])
    done = subprocess.run([sys.executable, "-c", _PROGRAM, text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return [Ended(*said) for said in json.loads(done.stdout)]
