"""The inside of the sandbox: builds a method, calls it in the protocol's order, and hands its answer back.

    python -m bench.leaderboard.submit.inside FOLDER BYTES SCRATCH

FOLDER holds what is handed over (`handover.py`) and the submitted code, BYTES of memory may be reserved, SCRATCH bytes
a file may have. The answer goes to standard output, which the method does not get: what it prints goes nowhere. All of
bench is imported and the limits are set before the first line of the method's code runs.
"""

from __future__ import annotations

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np

from bench.base.config import config_context
from bench.base.errors import BenchError, MethodError
from bench.base.spec import parse
from bench.evaluation.cut import Cut, learn_cut
from bench.evaluation.method_errors import check_parts, method_errors
from bench.interface import Method, Queries, Ranking, RecommendingMethod, ToolSets
from bench.interface.parts import is_oracle, needs_llm, preflight
from bench.interface.ranking import validate, validate_sets
from bench.leaderboard.submit.code import FOLDER
from bench.leaderboard.submit.handover import BEGUN, Given, Reply, error_bytes, read_given, reply_bytes
from bench.registry import build_method
from bench.results.ids import method_hash

#: Processes and threads of this user, as far as the system counts them for the sandbox; the parent counts as well.
_TASKS = 4096
_FILES = 256


def main(folder: Path, memory: int, scratch: int) -> None:
    """Answer, and end at once: nothing that the method has left behind runs on."""
    channel = _channel()
    given = read_given(folder)
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
    """Standard output under another number; the three standard streams lead nowhere from here on."""
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
        # A stricter limit of the user's own stays.
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (most, most))


def _send(channel: int, data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(channel, left) :]


def answer(given: Given) -> Reply:
    """Build, fit, index and rank, in the order of `bench.evaluation.runner`.

    Raises:
        BenchError: the method cannot be built, needs what is not there, fails, or breaks the protocol.
    """
    request, library, history = given.request, given.library, given.history
    spec = parse(request.method)
    method = build_method(spec)
    if (str(method.full_spec), str(method.spec)) != (request.method, request.label):
        raise MethodError(f"the manifest calls it {request.label}, and its parameters are those of {method.spec}")
    check_parts(method)
    if is_oracle(method):
        raise MethodError("an oracle reads the gold, which is not here")
    if needs_llm(method):
        raise MethodError("it asks a language model, and there is no network here")
    identity = method_hash(method)
    with method_errors(method, "checking that it can run"):
        preflight(method, library, history)
    cut = None
    if request.cut_at is not None:
        cut = Cut(request.cut, request.cut_at, given=True)
    elif request.cut != "none":
        with method_errors(method, "ranking past queries to learn a cut"):
            cut = learn_cut(request.cut, lambda: build_method(spec), history, library, request.depth)
    with method_errors(method, "learning from past queries"):
        if len(history):
            method.fit(history)
    with method_errors(method, "indexing the library"):
        method.index(library)
    check_parts(method)
    rankings, sets = [], []
    for start in range(0, len(given.queries), method.batch_size):
        positions = np.arange(start, min(len(given.queries), start + method.batch_size))
        with method_errors(method, f"ranking {len(positions)} queries"):
            ranking, recommended = _batch(method, given.queries.take(positions), len(library), request.depth)
        rankings.append(ranking)
        if recommended is not None:
            sets.append(recommended)
    joined = Ranking.join(rankings)
    own = ToolSets.join(sets) if sets else None
    return Reply(joined, own if cut is None else cut.apply(joined), identity)


def _batch(method: Method, queries: Queries, library: int, depth: int) -> tuple[Ranking, ToolSets | None]:
    raw = method.rank(queries, depth)
    recommended = method.recommend(queries) if isinstance(method, RecommendingMethod) else None
    ranking = validate(raw, len(queries), library, depth)
    if recommended is None:
        return ranking, None
    sets = validate_sets(recommended, len(queries), library)
    if ranking.failed is not None:
        nothing = np.empty(0, dtype=np.int32)
        sets = ToolSets.of([nothing if ranking.failed[i] else sets.row(i) for i in range(len(sets))])
    return ranking, sets


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
