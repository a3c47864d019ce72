"""The process inside the sandbox: builds a method, calls it in the protocol's order, and sends its answer.

    python -m bench.leaderboard.submit.inside FOLDER BYTES SCRATCH

FOLDER holds the input (`handover.py`) and the submitted code, BYTES is the memory that may be reserved, SCRATCH the
maximum bytes of a file. The answer goes to standard output, which the method cannot reach: what it prints is discarded.
All of bench is imported and the limits are set before the first line of the method's code runs. `sandbox` starts it.
"""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

from bench.base.config import config_context
from bench.base.errors import BenchError, MethodError
from bench.base.spec import parse
from bench.evaluation.ask import ask_queries, prepare
from bench.evaluation.cut import Cut, learn_cut
from bench.evaluation.method_errors import check
from bench.interface.parts import is_oracle, needs_llm
from bench.leaderboard.submit.code import FOLDER
from bench.leaderboard.submit.handover import BEGUN, MethodInput, SandboxReply, error_bytes, read_input, reply_bytes
from bench.registry import build_method
from bench.results.ids import hashed_spec, method_hash

#: Maximum processes and threads of this user, as far as the system counts them for the sandbox, parent included.
_TASKS = 4096
_FILES = 256


def main(folder: Path, memory: int, scratch: int) -> None:
    """Send the answer and exit at once, so that nothing the method left behind keeps running."""
    channel = _channel()
    given = read_input(folder)
    _limit(memory, scratch)
    _send(channel, BEGUN)
    try:
        if (folder / FOLDER).is_dir():
            # The method is imported from the working folder, as `bench run` does.
            os.chdir(folder / FOLDER)
        with config_context(offline=True, cache=False):
            data = reply_bytes(answer(given))
    except BenchError as error:
        data = error_bytes(str(error))
    except MemoryError:
        data = error_bytes("it ran out of memory")
    except BaseException as error:
        data = error_bytes(f"{type(error).__name__}: {error}")
    _send(channel, data)
    os._exit(0)


def _channel() -> int:
    """Duplicate standard output; from here on the three standard streams lead nowhere."""
    channel = os.dup(1)
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nothing, stream)
    os.close(nothing)
    return channel


def _limit(memory: int, scratch: int) -> None:
    limits = {
        resource.RLIMIT_DATA: memory,
        resource.RLIMIT_FSIZE: scratch,
        resource.RLIMIT_NPROC: _TASKS,
        resource.RLIMIT_NOFILE: _FILES,
        resource.RLIMIT_CORE: 0,
    }
    for kind, most in limits.items():
        # Keep a stricter limit of the user.
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (most, most))


def _send(channel: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(channel, left) :]


def answer(given: MethodInput) -> SandboxReply:
    """Build, fit, index and rank, in the order of `bench.evaluation.runner`.

    Raises:
        BenchError: the method cannot be built, lacks something it needs, fails, or breaks the protocol.
    """
    request, library, history = given.request, given.library, given.history
    spec = parse(request.method)
    method = build_method(spec)
    if (str(hashed_spec(method)), str(method.spec)) != (request.method, request.label):
        raise MethodError(f"the manifest calls it {request.label}, and its parameters are those of {method.spec}")
    if is_oracle(method):
        raise MethodError("an oracle reads the gold, which is not here")
    if needs_llm(method):
        raise MethodError("it asks a language model, and there is no network here")
    identity = method_hash(method)
    check(method, library, history)
    cut = None
    if request.cut_at is not None:
        cut = Cut(request.cut, request.cut_at, given=True)
    elif request.cut != "none":
        cut = learn_cut(request.cut, lambda: build_method(spec), history, library, request.depth)
    prepare(method, library, history, checked=True)
    ranking, sets = ask_queries(method, given.queries, len(library), request.depth)
    return SandboxReply(ranking, sets if cut is None else cut.apply(ranking), identity)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
