"""Encoding: bench beside sentence-transformers, by backend, and what the cache of vectors costs a fast encoder.

    python benchmarks/encoding.py

The first part encodes the texts of ToolLens (tools and test queries) with the embedded encoder and no cache, each
backend in turn, several times; the second encodes made-up texts with a static encoder, which only looks vectors up,
so that whatever bench adds shows. Models are loaded, and compiled, before the clock starts. Ratios are of the minima.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from mteb_peer import static_encoder

from bench.base.config import config_context
from bench.interface import Library
from bench.models.compiled import Backend
from bench.models.encoders import EMBEDDED, Encoder
from bench.registry import load_dataset

BACKENDS: tuple[Backend, ...] = ("torch", "openvino", "openvino-bf16")


def least(works: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Seconds of the fastest of so many rounds, each of which does all works in turn."""
    times: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, work in works.items():
            begun = time.perf_counter()
            work()
            times.setdefault(name, []).append(time.perf_counter() - begun)
    return {name: min(seconds) for name, seconds in times.items()}


def backends(rounds: int) -> None:
    dataset = load_dataset("toollens")
    texts = [*Library.of(dataset, dataset.card.template).texts]
    texts += [dataset.queries[row].text for row in dataset.rows("test")]
    with config_context(cache=False):
        encoders = {backend: Encoder(EMBEDDED, backend=backend) for backend in BACKENDS}
        vectors = {backend: encoder.encode(texts) for backend, encoder in encoders.items()}
        peer = plain(EMBEDDED)
        works: dict[str, Callable[[], object]] = {
            "sentence-transformers": lambda: peer.encode(texts, show_progress_bar=False),
            **{backend: partial(encoder.encode, texts) for backend, encoder in encoders.items()},
        }
        seconds = least(works, rounds)
    alone = seconds.pop("sentence-transformers")
    print(f"{len(texts)} texts of toollens; sentence-transformers, its own batches of 32: {alone:.1f} s")
    for backend in BACKENDS:
        farthest = np.abs(vectors[backend] - vectors["torch"]).max()
        ratio = alone / seconds[backend]
        print(f"  {backend}: {seconds[backend]:.1f} s, {ratio:.2f} times as fast; differs by {farthest:.1g}")


def cache(count: int, rounds: int) -> None:
    random = np.random.default_rng(0)
    words = np.array([f"word{number}" for number in range(2000)])
    texts = [f"{number} " + " ".join(random.choice(words, random.integers(20, 80))) for number in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        static_encoder(place / "static")
        name = str(place / "static")
        peer = plain(name)
        caches = (str(place / f"cache{number}") for number in range(rounds))

        def written() -> None:
            with patch.dict("os.environ", {"BENCH_CACHE": next(caches)}):
                Encoder(name).encode(texts)

        def read() -> None:
            with patch.dict("os.environ", {"BENCH_CACHE": str(place / "cache0")}):
                Encoder(name).encode(texts)

        with config_context():
            with patch.dict("os.environ", {"BENCH_CACHE": str(place / "first")}):
                Encoder(name).encode(texts[:1])
            works: dict[str, Callable[[], object]] = {
                "32": lambda: peer.encode(texts),
                "1024": lambda: peer.encode(texts, batch_size=1024),
                "written": written,
                "read": read,
            }
            seconds = least(works, rounds)
    print(f"{count} texts, static encoder: {seconds['32']:.1f} s in batches of 32, {seconds['1024']:.1f} s of 1024")
    ratio = seconds["written"] / seconds["1024"]
    print(f"  bench, cache written: {seconds['written']:.1f} s, {ratio:.2f} times the latter")
    print(f"  bench, all from the cache: {seconds['read']:.2f} s")


def plain(name: str) -> Any:
    """The sentence-transformers model itself."""
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(Encoder(name).folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--texts", type=int, default=100_000, help="made-up texts for the static encoder")
    given = parser.parse_args()
    backends(given.rounds)
    cache(given.texts, given.rounds)


if __name__ == "__main__":
    main()
