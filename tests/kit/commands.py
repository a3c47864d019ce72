"""Fixtures of tests that run commands: a small dataset, and results made once in a run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from bench.__main__ import run
from bench.base.paths import results_folder
from bench.example.write import write_example as write_example
from kit.once import Once
from kit.results import LOCKS, of_this_run


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A small dataset in BEIR form with all that bench can write into one."""
    made = tmp_path / "beir"
    (made / "qrels").mkdir(parents=True)
    corpus = [
        {"_id": "crm.find", "title": "find_customer", "text": "Looks up customers by name or e-mail."},
        {"_id": "post.send", "title": "send_letter", "text": "Sends a letter to an address."},
        {"_id": "map.route", "title": "", "text": "Finds the way between two places.", "metadata": {}},
    ]
    queries = [
        {"_id": "q1", "text": "who is our contact at the bakery on Main Street?"},
        {"_id": "q2", "text": "write to the bakery that we are late"},
        {"_id": "q3", "text": "how do I get to the mill?", "metadata": {"slices": {"kind": "way"}}},
        {"_id": "q4", "text": "what a day", "metadata": {"split": "test"}},
    ]
    for name, rows in (("corpus", corpus), ("queries", queries)):
        (made / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (made / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tcrm.find\t2\nq3\tmap.route\t1\n")
    (made / "qrels" / "train.tsv").write_text("query-id\tcorpus-id\tscore\nq2\tcrm.find\t1\nq2\tpost.send\t1\n")
    return made


@pytest.fixture(scope="session")
def lexical_results(once: Once, shared_cache: Path) -> Path:
    """Results of three lexical methods and of chance on starter, made once in a run: read them, or change a copy."""
    words = [word for name in ("bm25", "tfidf", "bm25-okapi", "random") for word in ("-m", name)]

    def make(folder: Path) -> None:
        with of_this_run(shared_cache):
            assert run(["run", *words, "-d", "starter", "-q", "--results", str(folder)]) == 0

    return once("lexical-results", make)


@pytest.fixture
def lexical(lexical_results: Path, isolated: None) -> Path:
    """A copy of `lexical_results`, as this test's own results."""
    shutil.copytree(lexical_results, results_folder(), ignore=LOCKS)
    return results_folder()
