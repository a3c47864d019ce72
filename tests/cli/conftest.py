"""Running the command line in this process, as `bench` does, and looking at what it said."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.__main__ import run
from bench.text.encoders import EMBEDDED, Encoder
from bench.vectorcache import VectorCache, text_key


@dataclass(frozen=True)
class Said:
    """Exit code, standard output and standard error of one command."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.out)


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Said]:
    """Run one command in a working folder of its own; its exit code must be the expected one."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)

    def bench(*arguments: object, code: int = 0) -> Said:
        capsys.readouterr()
        found = run([str(argument) for argument in arguments])
        said = Said(found, *capsys.readouterr())
        assert said.code == code, said.err or said.out
        assert "Traceback" not in said.err
        return said

    return bench


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[list[str]], None]:
    """Give texts made-up vectors in an embedding cache of this test, so that no model needs to be loaded."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "planted"))

    def plant(texts: list[str]) -> None:
        cache = VectorCache(Encoder(EMBEDDED).identity)
        cache.put({text_key(text): np.random.default_rng(len(text)).normal(size=384) for text in texts})
        cache.close()

    return plant


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
