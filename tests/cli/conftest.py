"""What commands are run on: vectors planted in the cache, and results."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bench.models.encoders import EMBEDDED, Encoder
from bench.storage.vectorcache import VectorCache, text_key


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[list[str]], None]:
    """Give texts made-up vectors in an embedding cache of this test, so that no model needs to be loaded."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "planted"))

    def plant(texts: list[str]) -> None:
        cache = VectorCache(Encoder(EMBEDDED).identity)
        cache.put(
            {text_key(text): np.random.default_rng(len(text)).normal(size=384).astype(np.float32) for text in texts}
        )
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
