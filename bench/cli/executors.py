"""`--jobs` and `--ray`: where the cells of a command run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from bench.base import plugins
from bench.base.errors import UsageError
from bench.base.spec import Spec
from bench.cli.common import F
from bench.cli.help import more_option

if TYPE_CHECKING:
    from bench.data.dataset import Dataset
    from bench.evaluation.executors import Executor


def executor_options(function: F) -> F:
    """`--jobs` and `--ray`, passed as `jobs` and `address`."""
    function = more_option(
        "--ray",
        "address",
        metavar="ADDRESS",
        help="Run the cells on the Ray cluster at this address; `local` starts one on this machine.",
    )(function)
    return more_option(
        "--jobs",
        type=click.IntRange(min=1),
        default=1,
        metavar="N",
        help="Run N cells side by side, each in a process with its share of the cores [default: 1].",
    )(function)


def chosen_executor(jobs: int, address: str | None, load: Callable[[Spec], Dataset]) -> Executor | None:
    """The executor that `executor_options` select; None to run one cell after the other in this process.

    Raises:
        UsageError: both are given.
        UnavailableError: Ray, or the part of bench that uses it, is not installed.
    """
    if address is None:
        if jobs == 1:
            return None
        from bench.evaluation.executors import Processes

        return Processes(jobs)
    if jobs > 1:
        raise UsageError("--ray runs as many cells at a time as the cluster has room for: remove --jobs.")
    executor: Executor = join_cluster(address, load)
    return executor


def join_cluster(address: str, load: Callable[[Spec], Dataset]) -> Any:
    """The `bench.cluster.cluster.Cluster` at an address.

    Raises:
        UnavailableError: Ray, or the part of bench that uses it, is not installed.
    """
    return plugins.function("ray-cluster", "--ray cannot be used")(address, load)
