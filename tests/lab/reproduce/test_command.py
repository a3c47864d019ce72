"""`bench reproduce` from end to end: what it prints, writes and keeps."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pandas as pd
import pytest
from kit.once import Once
from kit.results import LOCKS, of_this_run

from bench.__main__ import run
from bench.base.paths import results_folder
from bench.cli.schemas import shipped_schema
from bench.lab.reproduce.artefacts import folder_of
from bench.lab.reproduce.cells import paper_of, papers, table_cells, table_names
from bench.lab.reproduce.claims import claims
from bench.lab.reproduce.command import _chosen, _names
from bench.lab.reproduce.report import Reproduction

Bench = Callable[..., Any]


def test_the_list_has_every_table_claim_and_model(bench: Bench) -> None:
    said = bench("reproduce", "list").out
    assert all(name in said for name in table_names())
    result = bench("reproduce", "list", "--json").json
    assert {name: item["cells"] for name, item in result["tables"].items()} == {
        name: len(table_cells(name)) for name in table_names()
    }
    assert [item["id"] for item in result["claims"]] == [claim.id for claim in claims()]
    assert result["artefacts"]["unseen-reranker"]["there"] is False
    assert {name: set(items) for name, items in result["drawn"].items()} == {
        name: set(paper.drawn) for name, paper in papers().items()
    }


def test_every_name_of_the_list_can_be_reproduced() -> None:
    for name in [*table_names(), *(claim.id for claim in claims())]:
        tables, tested = _chosen([name])
        assert [*tables, *(claim.id for claim in tested)] == [name]
    tables, tested = _chosen(["tgr"])
    assert {paper_of(name) for name in tables} == {"tgr"} == {claim.paper for claim in tested}
    assert len(set(_names())) == len(_names())


def test_a_claim_is_reproduced_by_its_name(bench: Bench) -> None:
    report = bench("reproduce", "better-results-of-the-llm", "--json", "--quiet").json
    assert [item["claim"] for item in report["claims"]] == ["better-results-of-the-llm"]
    assert report["cells"] == []
    assert "better-results-of-the-llm: not run" in bench("reproduce", "better-results-of-the-llm", "--quiet").out


@pytest.fixture(scope="module")
def reproduced(once: Once, shared_cache: Path, mirror: Path) -> Path:
    """What `bench reproduce tgr-5` prints (`said`), writes (`out`) and keeps (`results`), made once in a run."""

    def make(folder: Path) -> None:
        with of_this_run(shared_cache), pytest.MonkeyPatch.context() as patch, (folder / "said").open("w") as said:
            patch.setenv("BENCH_MIRROR", str(mirror))
            patch.setenv("BENCH_RESULTS", str(folder / "results"))
            with contextlib.redirect_stdout(said):
                assert run(["reproduce", "tgr-5", "--out", str(folder / "out"), "--quiet"]) == 0

    return once("reproduced-tgr-5", make)


@pytest.fixture
def kept(reproduced: Path, isolated: None) -> None:
    """Its results, as this test's own."""
    shutil.copytree(reproduced / "results", results_folder(), ignore=LOCKS)


@pytest.mark.slow("real data")
def test_a_small_table_end_to_end(bench: Bench, reproduced: Path, kept: None) -> None:
    out, said = reproduced / "out", (reproduced / "said").read_text()
    assert "tgr-5: The discriminator's graph beside the annotated one" in said
    assert max(map(len, said.splitlines())) <= 100 or "bench run" in said
    written = json.loads((out / "reproduction.json").read_text())
    jsonschema.Draft202012Validator(shipped_schema("reproduction")).validate(written)
    report = Reproduction.model_validate(written)

    # Each of the 24 cells once, each with one verdict; the rows of ToolBench-IR need a model that is not here.
    assert sorted((cell.row, cell.metric) for cell in report.cells) == sorted(
        (cell.row, cell.metric) for cell in table_cells("tgr-5")
    )
    assert {cell.verdict for cell in report.cells if cell.row.startswith("ToolBench-IR")} == {"not run"}
    annotated = {cell.metric: cell for cell in report.cells if cell.row == "PMLM-L3-v2+TGR-m"}
    assert {cell.verdict for cell in annotated.values()} == {"direction only"}
    block = report.blocks[annotated["pass@10"].block]
    assert block.measurement is not None
    assert block.rival is not None
    assert (block.measurement.method, block.rival.method) == ("tgr(graph=manual)", "dense")
    assert block.measurement.queries == 269
    assert {"other model", "other graph", "other queries", "other library size"} == set(block.differences)
    assert [item.needs[-1] for item in block.lacking] == [
        "the paper's annotation, which is not published: ours is taken"
    ] * 2
    assert block.lacking[0].commands[-1] == "bench data add apibank-full --from FOLDER"

    # Annotated edges: pass@10 up by a tenth or more, p < 0.05 after correction.
    gain = annotated["pass@10"].direction
    assert gain is not None
    assert gain.difference >= 0.10
    assert gain.corrected < 0.05
    assert gain.outcome == "as published"
    assert gain.low is not None
    assert gain.low > 0

    # Kept results make the second time quick and the same; Markdown says the same as JSON.
    stored = sorted(results_folder().glob("*/*/manifest.json"))
    again = bench("reproduce", "tgr-5", "--json", "--quiet").json
    assert again["cells"] == written["cells"]
    assert sorted(results_folder().glob("*/*/manifest.json")) == stored
    assert len(stored) == 3
    text = (out / "reproduction.md").read_text()
    assert f"| PMLM-L3-v2+TGR-m, API-Bank [2] | recall@5 | {annotated['recall@5'].printed}" in text
    assert "| tgr-5 | 24 | 0 | 0 | 0 | 12 | 12 | 0 | 2 | 0 |" in text
    assert bench("reproduce", "tgr-5", "--format", "markdown", "--quiet").out.count("| pass@10 |") == 4

    # The cells are one line of pandas.
    frame = pd.DataFrame(written["cells"])
    assert len(frame) == 24
    assert frame["verdict"].value_counts().to_dict() == {"direction only": 12, "not run": 12}


def test_a_table_that_cannot_run_here_says_what_it_needs(bench: Bench, mirror: Path) -> None:
    report = bench("reproduce", "ptr-3", "--json", "--quiet").json
    assert {cell["verdict"] for cell in report["cells"]} == {"not run"}
    assert len(report["cells"]) == 27
    for block in report["blocks"]:
        (lacking,) = block["lacking"]
        assert any("an endpoint for" in need for need in lacking["needs"])
        (command,) = lacking["commands"]
        assert command.startswith("bench run --method 'ptr(")
    said = bench("reproduce", "ptr-3", "--quiet").out
    assert "not run: recall@gold 0.221" in said
    assert "27 cells: 27 not run" in said


def test_nothing_is_run_where_there_is_no_data(bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No mirror, no network, an empty cache: the report is still whole."""
    monkeypatch.delenv("BENCH_MIRROR", raising=False)
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "empty"))
    report = bench("reproduce", "tgr-4", "--json", "--quiet", "--out", "out").json
    assert json.loads(Path("out/reproduction.json").read_text())["cells"] == report["cells"]
    shown = bench("reproduce", "tgr-4", "--format", "markdown", "--quiet").out
    assert Path("out/reproduction.md").read_text().partition("\n\n")[0] == shown.partition("\n\n")[0]
    assert "| tgr-4 | 6 | 0 | 0 | 0 | 0 | 6 | 0 | 0 |" in shown
    assert [cell["verdict"] for cell in report["cells"]] == ["not run"] * 6
    assert "offline" in report["blocks"][0]["lacking"][-1]["reason"]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "say what to reproduce"),
        (["tgr-22"], "did you mean 'tgr-2'"),
        (["tgr-2", "list"], "goes with no table"),
        (["tgr-2", "unseen-reranker"], "goes with no table or claim"),
        (["cosine-is-bets"], "did you mean 'cosine-is-best'"),
        (["train", "toollens-retreiver"], "did you mean 'toollens-retriever'"),
    ],
)
def test_a_wrong_word_is_answered_with_the_nearest(bench: Bench, words: list[str], sentence: str) -> None:
    assert sentence in bench("reproduce", *words, code=2).err


@pytest.mark.parametrize("words", [["train", "unseen-reranker"], ["unseen-reranker"]])
def test_a_model_that_cannot_be_made_fails_the_command_and_names_it(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    commands: list[list[str]] = []

    def refuse(words: list[str]) -> subprocess.CompletedProcess[str]:
        commands.append(words)
        return subprocess.CompletedProcess(words, 3)

    monkeypatch.setattr("bench.lab.reproduce.command.subprocess.run", refuse)
    said = bench("reproduce", *words, "--offline", "--mirror", "upstream", code=1)
    (command,) = commands
    assert command[-3:] == ["--mirror", "upstream", "--offline"]
    assert command[:5] == [sys.executable, "-m", "bench", "train", "retriever"]
    assert "unseen-reranker: not trained, because unseen-retriever is missing" in said.out
    assert "not trained: unseen-retriever, unseen-reranker" in said.err


def test_models_whose_data_must_be_brought_are_left_out_unless_they_are_named(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make(words: list[str]) -> subprocess.CompletedProcess[str]:
        made.append(words[words.index("--out") + 1])
        return subprocess.CompletedProcess(words, 1)

    made: list[str] = []
    monkeypatch.setattr("bench.lab.reproduce.command.subprocess.run", make)
    said = bench("reproduce", "train", code=1).out
    assert str(folder_of("toollens-retriever")) in made
    assert str(folder_of("toolbench-retriever")) not in made
    assert "toolbench-retriever: skipped, because it needs data that you provide: bench data add toolbench-full" in said


@pytest.mark.slow("real data")
def test_the_list_and_a_kept_table_import_no_model(kept: None) -> None:
    program = """
import contextlib, io, sys
from bench.__main__ import run
for words in (["reproduce", "list"], ["reproduce", "tgr-5", "--quiet"]):
    with contextlib.redirect_stdout(io.StringIO()):
        assert run(words) == 0
models = ("torch", "transformers", "sentence_transformers", "pandas", "scipy.stats")
print([name for name in models if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("word", ["train", "list"])
def test_what_runs_no_cells_takes_no_jobs(bench: Bench, word: str) -> None:
    assert f"bench reproduce {word} runs no cells" in bench("reproduce", word, "--jobs", 2, code=2).err
