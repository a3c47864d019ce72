"""Common options: they hold for all that a command does, whichever command it is, and are refused by the others."""

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
from bench.cli.common import COMMON
from bench.cli.help import VerbCommand

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

    @click.command(cls=VerbCommand, common=("source",))
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


def test_the_folder_of_results_is_found_before_a_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Path] = []

    @click.command(cls=VerbCommand, common=("results",))
    def command(results: Path) -> None:
        seen.append(results)

    monkeypatch.setenv("BENCH_RESULTS", str(tmp_path / "mine"))
    for words in ([], ["--results", "here"]):
        command(words, standalone_mode=False)
    assert seen == [tmp_path / "mine", Path("here")]
    with pytest.raises(click.NoSuchOption, match="--offline"):
        command(["--offline"], standalone_mode=False)


def test_json_is_short_for_a_format_and_contradicts_another(bench: Bench, ready: Path) -> None:
    assert bench("show", "bm25@starter", "--json").out == bench("show", "bm25@starter", "--format", "json").out
    said = bench("show", "bm25@starter", "--json", "--format", "trec", code=2)
    assert said.err == "bench: --json is short for --format json, and --format trec is given.\n"


def test_no_command_is_handed_what_holds_for_all_that_it_runs() -> None:
    names = {option.name for kind in ("source", "budget") for option in COMMON[kind]}
    reading = [command for command in _commands(cli) if names & {option.name for option in command.params}]
    assert {"run", "compare", "explain", "tools", "gate", "method"} <= {command.name for command in reading}
    for command in reading:
        # A command that has them as arguments may forget to hand them on: the session is the one place.
        assert not names & set(signature(unwrap(command.callback or cli)).parameters), command.name
