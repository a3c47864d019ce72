"""What a cell costs: seconds predicted from a calibration of this machine, beside measured ones; and larger cells.

    python benchmarks/costs.py [--datasets NAME ...]

The model of a cell of `dense` without cached vectors:

    seconds = start + tokens / encoding + queries x tools x dimensions / search + queries / scoring

`start` (the process, its imports, the encoder, timing single queries) and the rate of scoring are measured on two
small cells, that of encoding on texts of neither the calibration's cells nor the predicted ones, that of search on
random vectors. Then each dataset is run as `bench run -m dense -d DATASET --no-cache`, and the ratio is printed. Run it
on a quiet machine. `--larger` only prints what the model says of large libraries on GPUs, by the rates named there.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.base.config import config_context
from bench.data.dataset import Dataset
from bench.interface import Library
from bench.models.encoders import EMBEDDED, Encoder
from bench.registry import load_dataset

#: The texts that encoding is timed on, and the small cells.
TEXTS = "github-mcp"
SMALL = ("restbench-spotify", "metatool")
PREDICTED = ("toollens", "toollinkos", "metatool-single", "sealtools")
#: The embedded encoder cuts texts here.
_MOST_TOKENS = 256
_DIMENSIONS = 384


@dataclass(frozen=True)
class Rates:
    """What a machine does.

    Attributes:
        start: seconds of a cell without any work.
        encoding: tokens a second.
        search: multiplications a second.
        scoring: queries a second.
    """

    start: float
    encoding: float
    search: float
    scoring: float

    def seconds(self, tokens: float, queries: int, tools: int, dimensions: int = _DIMENSIONS) -> float:
        """Of one cell."""
        return self.start + tokens / self.encoding + queries * tools * dimensions / self.search + queries / self.scoring


def texts_of(dataset: Dataset) -> list[str]:
    """What `dense` encodes: the distinct texts of tools, and those of the test queries."""
    tools = Library.of(dataset, dataset.card.template).texts
    queries = [dataset.queries[row].text for row in dataset.rows("test")]
    return list(dict.fromkeys([*tools, *queries]))


def tokens_of(texts: Sequence[str]) -> int:
    """Tokens of the embedded encoder, as many as it reads."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Encoder(EMBEDDED).folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(_MOST_TOKENS)
    return sum(len(encoding.ids) for encoding in tokenizer.encode_batch(list(texts)))


def measured(dataset: str, folder: Path) -> tuple[float, dict[str, Any]]:
    """Seconds of a run from the command to its end, and its manifest."""
    command = [sys.executable, "-m", "bench", "run", "-m", "dense", "-d", dataset]
    options = ["--no-cache", "--overwrite", "always", "--quiet", "--json", "--results", str(folder)]
    started = time.perf_counter()
    out = subprocess.run([*command, *options], stdout=subprocess.PIPE, check=True).stdout
    seconds = time.perf_counter() - started
    return seconds, json.loads(out)[0]["manifest"]


def calibrated(folder: Path) -> Rates:
    """The rates of this machine."""
    texts = texts_of(load_dataset(TEXTS))
    with config_context(cache=False):
        encoder = Encoder(EMBEDDED)
        encoder.encode(texts[:8])
        started = time.perf_counter()
        encoder.encode(texts)
        encoding = tokens_of(texts) / (time.perf_counter() - started)
    random = np.random.default_rng(0)
    left, right = (random.normal(size=(size, _DIMENSIONS)).astype(np.float32) for size in (256, 20_000))
    started = time.perf_counter()
    nearest = np.argpartition(left @ right.T, -100, axis=1)
    search = nearest.size * _DIMENSIONS / (time.perf_counter() - started)
    starts, scoring = [], 0.0
    for name in SMALL:
        dataset = load_dataset(name)
        seconds, manifest = measured(name, folder)
        starts.append(seconds - manifest["timings"]["score"] - tokens_of(texts_of(dataset)) / encoding)
        scoring = max(scoring, manifest["dataset"]["queries"] / manifest["timings"]["score"])
    return Rates(float(np.mean(starts)), encoding, search, scoring)


def larger() -> None:
    """ToolRet and a registry of MCP servers with an encoder of 7 billion parameters on eight GPUs."""
    # 2 operations per parameter and token; an H100 has 989e12 a second in bfloat16, of which encoders reach some 40%.
    each = 0.4 * 989e12 / (2 * 7e9)
    print(f"assumed: {each:,.0f} tokens a second and GPU; 90 s to load the model; 150 tokens a tool, 60 a query")
    for name, tools, queries in (("ToolRet", 44_453, 7_961), ("a registry of MCP tools", 400_000, 5_000)):
        tokens = tools * 150 + queries * 60
        seconds = tokens / each
        vectors = tools * 4096 * 4 / 2**30
        print(
            f"{name}: {tokens / 1e6:.1f} million tokens, {seconds:.0f} GPU seconds of encoding, "
            f"{90 + seconds / 8:.0f} s on eight GPUs, {vectors:.1f} GiB of vectors"
        )


def main(arguments: Sequence[str] | None = None) -> None:
    """Calibrate, predict, measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", default=PREDICTED)
    parser.add_argument("--larger", action="store_true")
    given = parser.parse_args(arguments)
    if given.larger:
        larger()
        return
    with tempfile.TemporaryDirectory() as folder:
        rates = calibrated(Path(folder))
        print(rates)
        for name in given.datasets:
            dataset = load_dataset(name)
            tokens = tokens_of(texts_of(dataset))
            predicted = rates.seconds(tokens, len(dataset.rows("test")), len(dataset.tools))
            seconds, _ = measured(name, Path(folder))
            print(
                f"{name}: {tokens:,} tokens, predicted {predicted:.1f} s, measured {seconds:.1f} s: "
                f"{predicted / seconds:.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
