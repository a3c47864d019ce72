"""Which older scoring code gives today's numbers: `python benchmarks/samescoring.py [RESULTS ...]`.

A change of the scoring code that changes no number, such as a renamed helper, gives it another hash. This command shows
that it changed none: it scores the stored rankings again and compares every per-query value, mean, interval,
tie band and token count to the last bit. What is equal in all results of some older code is written to
`bench/results/same_scoring.json`, which `bench.results.comparability` reads; what differs in one result is left out,
and then older numbers of that measure do not compare with new ones. Results without a stored ranking (`run.parquet`),
and those whose dataset is not available, are skipped. No result is changed.

The folder of results defaults to `board/results` of the checkout. The file is rewritten each time; what it said before
stands where it led to today's code, or to code that is shown now to give the same numbers as today's.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.base.errors import BenchError, ResultError
from bench.base.paths import write_text
from bench.data.dataset import Dataset
from bench.evaluation.rescore import score_again
from bench.evaluation.scoring import scoring_code
from bench.metrics.measure import measure_name
from bench.registry import load_dataset
from bench.results.comparability import SAME_SCORING, same_scoring
from bench.results.store import StoredResult, find_results

RESULTS = Path(__file__).resolve().parents[1] / "board" / "results"


@dataclass
class _Shown:
    """Older code -> today's that gave the same numbers each time, and older code that once did not."""

    today: str = ""
    same: dict[str, str] = field(default_factory=dict)
    other: set[str] = field(default_factory=set)

    def enter(self, old: str, new: str, equal: bool) -> None:
        self.today = new
        if old != new:
            self.same[old] = new
        if not equal:
            self.other.add(old)

    def merge_earlier(self, earlier: Mapping[str, str]) -> dict[str, str]:
        """What was shown, with what was shown `earlier`."""
        now = {old: new for old, new in self.same.items() if old not in self.other}
        # What gave the numbers of code that is shown now gives today's, too.
        same = {self.today, *now, *(earlier[old] for old in now if old in earlier)}
        stands = ({old for old, middle in earlier.items() if middle in same} | same) - self.other - {self.today}
        return dict(sorted((now | dict.fromkeys(stands, self.today)).items()))


class ScoringComparison:
    """What scoring results again has shown so far: of each measure, and of the other kinds of numbers."""

    def __init__(self) -> None:
        self.measures: defaultdict[str, _Shown] = defaultdict(_Shown)
        self.others = {kind: _Shown() for kind in ("intervals", "tokens", "lenient", "ties")}
        self.results = self.values = 0

    def enter(self, result: StoredResult, dataset: Dataset) -> None:
        """Score a result again and compare its numbers."""
        scored = score_again(result, dataset, [])
        before, after = result.metrics, scored.metrics
        old, new = result.manifest.scoring, scoring_code(after.metrics)
        for name in before.metrics.keys() & after.metrics.keys():
            was, now, measure = before.metrics[name], after.metrics[name], measure_name(name)
            values = result.values(name)
            equal = values.tobytes() == np.array(scored.per_query[name].to_pylist(), dtype=np.float64).tobytes()
            same = equal and (was.mean, was.n) == (now.mean, now.n)
            self.measures[measure].enter(old.measures.get(measure, ""), new.measures[measure], same)
            self.others["intervals"].enter(old.intervals, new.intervals, (was.low, was.high) == (now.low, now.high))
            self.values += len(values)
        # Older results have fewer counts.
        self.others["tokens"].enter(old.tokens, new.tokens, before.tokens.items() <= after.tokens.items())
        if before.lenient is not None and after.lenient is not None:
            same = before.lenient.model_copy(update={"code": after.lenient.code}) == after.lenient
            self.others["lenient"].enter(before.lenient.code, after.lenient.code, same)
        if before.ties is not None and after.ties is not None:
            bands = [
                {name: (item.tie_low, item.tie_expected, item.tie_high) for name, item in metrics.metrics.items()}
                for metrics in (before, after)
            ]
            same = before.ties.draws.items() <= after.ties.draws.items() and bands[0].items() <= bands[1].items()
            self.others["ties"].enter(before.ties.code, after.ties.code, same)
        self.results += 1

    def text(self) -> str:
        """The file's content."""
        earlier = same_scoring()
        merged = {name: self.measures[name].merge_earlier(earlier["measures"].get(name, {})) for name in self.measures}
        content = {
            "made_by": "python benchmarks/samescoring.py",
            "scored_again": {"results": self.results, "values": self.values},
            "measures": {name: same for name, same in sorted(merged.items()) if same},
            **{kind: shown.merge_earlier(earlier[kind]) for kind, shown in self.others.items()},
        }
        return json.dumps(content, indent=1) + "\n"

    def differing(self) -> list[str]:
        """Names of what other numbers were found of."""
        return sorted(name for name, shown in (self.measures | self.others).items() if shown.other)


def compare_folders(folders: Iterable[Path], told: list[str]) -> ScoringComparison:
    """Score every result with a ranking again; what could not be scored is told."""
    comparison = ScoringComparison()
    datasets: dict[str, Dataset] = {}
    for result in (item for folder in folders for item in find_results(folder)):
        try:
            if isinstance(result, ResultError):
                raise result
            spec = result.manifest.dataset.spec
            if not result.has_run:
                raise ResultError("its ranking is not stored")
            if spec not in datasets:
                datasets = {spec: load_dataset(spec)}
            if datasets[spec].content_hash != result.manifest.dataset.content_hash:
                raise ResultError(f"{spec} has changed since.")
            comparison.enter(result, datasets[spec])
        except BenchError as error:
            told.append(f"{result.label}: {error}" if isinstance(result, StoredResult) else str(error))
    return comparison


def main(folders: list[Path]) -> int:
    """Rewrite the file; return 1 if some code gave different numbers."""
    told: list[str] = []
    comparison = compare_folders(folders or [RESULTS], told)
    if not comparison.results:
        sys.stderr.write("no result was scored again; the file is left as it is\n")
        return 1
    write_text(SAME_SCORING, comparison.text())
    sys.stdout.write("".join(f"not scored again: {line}\n" for line in told))
    sys.stdout.write(f"{comparison.results} results scored again, {comparison.values} values compared\n")
    sys.stdout.write("".join(f"other numbers than before: {name}\n" for name in comparison.differing()))
    return 1 if comparison.differing() else 0


if __name__ == "__main__":
    sys.exit(main([Path(name) for name in sys.argv[1:]]))
