"""`--mirror` and `--offline` hold for all that a command reads, whichever command it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from inspect import signature, unwrap
from pathlib import Path
from typing import Any

import click
import pytest
from kit.datasets import loaded

from bench.base.config import current_session
from bench.cli import cli
from bench.cli.options import source_options

Bench = Callable[..., Any]

BASELINES = Path(__file__).resolve().parents[2] / "baselines"
OF_A_RUN_FILE: dict[str, tuple[object, ...]] = {
    "compare": ("compare", "one.trec@apibank", "two.trec@apibank"),
    "explain": ("explain", "one.trec@apibank", "QUERY"),
    "tools": ("tools", "one.trec@apibank", "--k", "1"),
    "gate": ("gate", "one.trec@apibank", "--baseline", BASELINES / "apibank-bm25.json", "--policy", "gate.toml"),
}


@pytest.fixture
def judged(bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """Two run files on API-Bank, of which nothing else is on the machine; the id of a query."""
    dataset = loaded("apibank")
    queries = [dataset.queries[row].query_id for row in dataset.rows("test")]
    for name, tool in (("one", dataset.tools[0]), ("two", dataset.tools[1])):
        Path(f"{name}.trec").write_text("".join(f"{query} Q0 {tool.tool_id} 1 2.5 x\n" for query in queries))
    Path("gate.toml").write_text('[[rule]]\nmetric = "recall@5"\nmargin = 0.05\n')
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("BENCH_MIRROR")
    first: str = queries[0]
    return first


@pytest.mark.parametrize("verb", OF_A_RUN_FILE)
def test_the_dataset_of_a_run_file_is_read_from_the_mirror(bench: Bench, mirror: Path, judged: str, verb: str) -> None:
    words = [judged if word == "QUERY" else word for word in OF_A_RUN_FILE[verb]]
    # A gate says with 1 that the run is worse, and with 3 that it could not read.
    said = bench(*words, "--mirror", mirror, code=1 if verb == "gate" else 0)
    assert "one" in said.out


def test_a_command_with_these_options_runs_under_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_OFFLINE", "0")
    monkeypatch.setenv("BENCH_MIRROR", "of the environment")
    seen: list[tuple[bool, Path | None]] = []

    @click.command()
    @source_options
    def command() -> None:
        seen.append((current_session().offline, current_session().mirror))

    for words in ([], ["--offline", "--mirror", str(tmp_path)], ["--offline"], ["--mirror", str(tmp_path)]):
        command(words, standalone_mode=False)
    default = Path("of the environment")
    assert seen == [(False, default), (True, tmp_path), (True, default), (False, tmp_path)]
    assert current_session().mirror == default


def _commands(command: click.Command) -> Iterator[click.Command]:
    yield command
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            result = command.get_command(click.Context(command), name)
            assert result is not None
            yield from _commands(result)


def test_every_command_has_both_options_or_none_and_is_not_given_them() -> None:
    names = {"mirror", "offline"}
    reading = [command for command in _commands(cli) if names & {option.name for option in command.params}]
    assert {"run", "compare", "explain", "tools", "gate", "check"} <= {command.name for command in reading}
    for command in reading:
        assert names <= {option.name for option in command.params}, command.name
        # A command that has them as arguments may forget to hand them on: the session is the one place.
        assert not names & set(signature(unwrap(command.callback or cli)).parameters), command.name
