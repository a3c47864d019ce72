"""A whole evaluation by bench and by mteb on the same texts with one encoder: the numbers, and cold and warm times.

    pip install mteb        # in the environment of bench, or in a folder on PYTHONPATH; no dependency of bench
    python benchmarks/mteb_peer.py OUT [toollens] [synthetic]

`toollens` takes the embedded MiniLM. `synthetic` has the sizes of ToolRet (44,453 tools, 7,961 queries) with made-up
texts and a static encoder with random vectors of words. Each time is that of a process of its own, from its start to
its end. Warm means that every vector is cached: by bench as always, by mteb in its `CachedEmbeddingWrapper`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from bench.interface import Library
from bench.models.encoders import EMBEDDED, Encoder
from bench.registry import load_dataset

TOOLS, QUERIES, WORDS = 44_453, 7_961, 4_000


def synthetic(folder: Path) -> None:
    """A dataset in BEIR form: tools of 20 to 80 words, and queries of eight words of their tool and four others."""
    random = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = ["".join(random.choice(letters, random.integers(3, 9))) for _ in range(WORDS)]
    share = 1 / np.arange(1, WORDS + 1) ** 0.8
    share /= share.sum()
    tools = [random.choice(WORDS, random.integers(20, 80), p=share) for _ in range(TOOLS)]
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    with (folder / "corpus.jsonl").open("w") as out:
        for number, tool in enumerate(tools):
            text = " ".join(words[word] for word in tool)
            out.write(json.dumps({"_id": f"t{number:05}", "title": "", "text": text}) + "\n")
    gold = random.integers(TOOLS, size=QUERIES)
    with (folder / "queries.jsonl").open("w") as out, (folder / "qrels" / "test.tsv").open("w") as judged:
        judged.write("query-id\tcorpus-id\tscore\n")
        for number, tool in enumerate(gold.tolist()):
            query_words = [*random.choice(tools[tool], 8), *random.choice(WORDS, 4)]
            out.write(
                json.dumps({"_id": f"q{number:05}", "text": " ".join(words[word] for word in query_words)}) + "\n"
            )
            judged.write(f"q{number:05}\tt{tool:05}\t1\n")


def static_encoder(folder: Path) -> None:
    """A sentence-transformers model that takes the mean of random vectors of the embedded encoder's tokens."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import StaticEmbedding
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Encoder(EMBEDDED).folder / "tokenizer.json"))
    weights = np.random.default_rng(1).normal(size=(tokenizer.get_vocab_size(), 256)).astype(np.float32)
    SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)]).save(str(folder))


def by_mteb(dataset: str, encoder: str, cache: str) -> None:
    """Evaluate with mteb and print ndcg@10; with a cache, through its wrapper."""
    datasets, mteb = import_module("datasets"), import_module("mteb")
    metadata = import_module("mteb.abstasks.task_metadata").TaskMetadata
    given = load_dataset(dataset)
    rows = given.rows("test")
    texts = Library.of(given, given.card.template).texts
    split = {
        "corpus": datasets.Dataset.from_list(
            [{"id": tool.tool_id, "title": "", "text": text} for tool, text in zip(given.tools, texts, strict=True)]
        ),
        "queries": datasets.Dataset.from_list(
            [{"id": given.queries[row].query_id, "text": given.queries[row].text} for row in rows]
        ),
        "relevant_docs": {given.queries[row].query_id: dict(given.queries[row].gold) for row in rows},
        "top_ranked": None,
    }
    described = metadata(
        name="Peer",
        description="The same texts and judgements as bench has.",
        reference="https://example.org",
        dataset={"path": "none/none", "revision": "0" * 40},
        type="Retrieval",
        category="t2t",
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
    )

    def load_data(self: Any, **_: Any) -> None:
        self.dataset = {"default": {"test": split}}
        self.data_loaded = True

    task = type(
        "Peer", (import_module("mteb.abstasks").AbsTaskRetrieval,), {"metadata": described, "load_data": load_data}
    )()
    from sentence_transformers import SentenceTransformer

    folder = str(Encoder(EMBEDDED).folder) if encoder == EMBEDDED else encoder
    model = SentenceTransformer(folder, device="cpu")
    if cache:
        wrapped = import_module("mteb.models.sentence_transformer_wrapper").SentenceTransformerEncoderWrapper(model)
        model = import_module("mteb.models.cache_wrappers").CachedEmbeddingWrapper(wrapped, cache)
    result = mteb.evaluate(model, task, cache=None, show_progress_bar=False)
    (scores,) = result.task_results[0].scores["test"]
    print(json.dumps(scores["ndcg_at_10"]))


def timed(command: Sequence[str], environment: dict[str, str]) -> tuple[float, str]:
    """Seconds of a process, and its output."""
    started = time.perf_counter()
    done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, check=True, text=True)
    return time.perf_counter() - started, done.stdout


def main(arguments: Sequence[str] | None = None) -> None:
    """Run both on each set of texts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("what", nargs="*", default=["toollens", "synthetic"])
    parser.add_argument("--by-mteb", nargs=3, metavar=("DATASET", "ENCODER", "CACHE"), help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.by_mteb:
        by_mteb(*given.by_mteb)
        return
    out = given.out.absolute()
    for what in given.what:
        encoder, environment = EMBEDDED, {"BENCH_CACHE": str(out / what / "cache"), "HF_HUB_OFFLINE": "1"}
        if what == "synthetic":
            encoder = str(out / "static")
            environment["BENCH_DATA"] = str(out / "data")
            synthetic(out / "beir")
            static_encoder(out / "static")
            add = [sys.executable, "-m", "bench", "data", "add", "synthetic", "--from", str(out / "beir")]
            timed(add, environment)
        run = [sys.executable, "-m", "bench", "run", "-d", what, "--json", "-q"]
        run += ["--overwrite", "always", "--results", str(out / what / "results"), "-m"]
        ours = [timed([*run, f"dense(encoder={encoder})"], environment) for _ in range(2)]
        fast = timed([*run, f"dense(encoder={encoder}, backend=openvino-bf16)"], environment)
        peer = [sys.executable, __file__, str(out), "--by-mteb", what, encoder]
        theirs = [timed([*peer, cache], environment) for cache in ("", *[str(out / what / "mteb")] * 2)]
        mean = json.loads(ours[0][1])[0]["metrics"]["metrics"]["ndcg@10"]["mean"]
        other = json.loads(theirs[0][1].splitlines()[-1])
        print(f"{what}: ndcg@10 bench {mean:.6f}, mteb {other:.6f}")
        print(f"  cold: bench {ours[0][0]:.1f} s, mteb {theirs[0][0]:.1f} s: {ours[0][0] / theirs[0][0]:.2f}")
        value = json.loads(fast[1])[0]["metrics"]["metrics"]["ndcg@10"]["mean"]
        print(f"  cold, openvino-bf16: {fast[0]:.1f} s, {fast[0] / theirs[0][0]:.2f} times mteb; ndcg@10 {value:.6f}")
        print(
            f"  warm: bench {ours[1][0]:.1f} s, mteb {theirs[2][0]:.1f} s: {ours[1][0] / theirs[2][0]:.2f}", flush=True
        )


if __name__ == "__main__":
    main()
