"""A scored run file is a result like every other: what it is called, what it is made of, and where it comes from."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.data.dataset import Dataset
from bench.data.parquet import write_dataset
from bench.evaluation.external import score_run_file
from bench.metrics import parse_metrics
from bench.results.code_versions import scoring_code
from bench.results.store import StoredResult, find_results

Score = Callable[..., StoredResult]
TEXT = "q00 Q0 t00 1 2 x\n"


@pytest.fixture
def scored(tmp_path: Path, tiny: Dataset) -> Score:
    """Score a text as a run file."""

    def scored(text: str, file: str = "my.run", **options: object) -> StoredResult:
        given = {"name": "mine", "command": "bench score my.run", **options}
        return score_run_file(text.encode(), file, tiny, tmp_path / "scored", **given)  # type: ignore[arg-type]

    return scored


def test_another_split_is_scored_when_it_is_named(scored: Score) -> None:
    result = scored("q35 Q0 t00 1 2 x\n", split="dev")
    assert result.manifest.dataset.split == "dev"
    assert len(result.per_query) == 5


def test_a_scored_file_is_a_result_like_every_other(scored: Score, tmp_path: Path) -> None:
    result = scored(TEXT, name="my system", command="bench score my.run --name 'my system'")
    again = StoredResult.read(result.folder)
    again.verify()
    manifest = again.manifest
    assert manifest == result.manifest
    assert [item.label for item in find_results(tmp_path / "scored") if isinstance(item, StoredResult)] == [
        "my system @ tiny"
    ]
    digest = hashlib.sha256(TEXT.encode()).hexdigest()
    assert manifest.method.run_file == f"my.run sha256:{digest}"
    assert manifest.method.hash == digest
    assert not manifest.method.oracle
    assert not manifest.method.needs_llm
    assert manifest.environment.command == "bench score my.run --name 'my system'"
    assert manifest.scoring == scoring_code(result.metrics.metrics)
    assert manifest.dataset.limit is None
    assert manifest.warnings == ["scored from a run file: how the system was run, and what data it saw, is unknown"]


def test_a_scored_file_is_another_result_for_another_name_text_or_split(scored: Score) -> None:
    result = scored(TEXT, name="my system")
    same = [
        scored(TEXT, name="my system"),
        # What a file is called, and which metrics are asked for, changes no answer.
        scored(TEXT, file="other.run", name="my system"),
        scored(TEXT, name="my system", metrics=parse_metrics(["ndcg@7"])),
        scored(TEXT, name="my system", split="test"),
    ]
    assert {other.manifest.result_id for other in same} == {result.manifest.result_id}
    others = [
        scored(TEXT, name="other"),
        scored(TEXT + "\n", name="my system"),
        scored("q35 Q0 t00 1 2 x\n", name="my system", split="dev"),
        scored(TEXT, name="my system", template="toolbench"),
    ]
    assert len({result.manifest.result_id, *(other.manifest.result_id for other in others)}) == 5


def test_a_scored_file_counts_the_tokens_of_the_template_asked_for(scored: Score) -> None:
    one, other = (scored(TEXT, template=t) for t in ("name_description", "toolbench"))
    assert one.metrics.tokens["library"] < other.metrics.tokens["library"]
    # They differ in what is stored, so they are two results.
    assert one.manifest.result_id != other.manifest.result_id


def test_every_metric_is_taken_of_a_ranking_however_short(scored: Score) -> None:
    metrics = scored(TEXT, metrics=parse_metrics(["ndcg@7"])).metrics.metrics
    # A cut ranking would have no recall@100; this is the system's own answer, whole.
    assert {"recall@100", "mmrr@100", "ndcg@7"} <= set(metrics)


# Where the bytes come from ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["stdin", "pipe"])
def test_a_run_that_can_be_read_but_once_is_scored_and_named_by_what_was_read(
    tiny: Dataset, tmp_path: Path, source: str
) -> None:
    write_dataset(tiny, tmp_path / "data" / "datasets" / "tiny")
    # Larger than the buffer of a pipe, so that it comes in several parts.
    data = "".join(f"q{i:02} Q0 t{code:02} 1 {-code} tag\n" for i in range(22) for code in range(12)).encode()
    data += b"\n" * 200_000
    pipe = tmp_path / "sys.run"
    environment = {
        **os.environ,
        "BENCH_DATA": str(tmp_path / "data"),
        "BENCH_RESULTS": str(tmp_path / "results"),
    }
    command = [sys.executable, "-m", "bench", "score", "-d", "tiny", "-" if source == "stdin" else str(pipe)]
    if source == "pipe":
        os.mkfifo(pipe)
        threading.Thread(target=lambda: pipe.write_bytes(data), daemon=True).start()
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        input=data if source == "stdin" else b"",
        capture_output=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr.decode()
    (result,) = (item for item in find_results(tmp_path / "results") if isinstance(item, StoredResult))
    file = "-" if source == "stdin" else "sys.run"
    assert result.manifest.method.run_file == f"{file} sha256:{hashlib.sha256(data).hexdigest()}"
    assert result.manifest.method.spec == ("stdin" if source == "stdin" else "sys")
    assert len(result.run) == 22 * 12
    assert result.metrics.n_failed == 0
