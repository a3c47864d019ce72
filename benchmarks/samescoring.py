"""Which older scoring code gives today's numbers: `python benchmarks/samescoring.py [RESULTS ...]`.

A change of the scoring code that changes no number, such as a renamed helper, gives it another hash. This command shows
that it changed none: it scores the stored rankings again and compares every per-query value, mean, interval,
tie band and token count to the last bit. What is equal in all results of some older code is written to
`bench/results/same_scoring.json`, which `bench.results.scoring_code` reads; what differs in one result is left out,
and then older numbers of that measure do not compare with new ones. Results without a stored ranking (`run.parquet`),
and those whose dataset is not available, are skipped. No result is changed.

The folder of results defaults to `board/results` of the checkout. The file is rewritten each time; what it said before
stands where it led to today's code, or to code that is shown now to give the same numbers as today's.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from bench.base.errors import BenchError, ResultError
from bench.base.paths import write_text
from bench.data.dataset import Dataset
from bench.evaluation.rescore import score_again
from bench.metrics.measure import measure_name
from bench.registry import load_dataset
from bench.results.code_versions import scoring_code
from bench.results.scoring_code import SAME_SCORING, same_scoring
from bench.results.store import StoredResult, find_results

RESULTS = Path(__file__).resolve().parents[1] / "board" / "results"
#: Kinds of numbers besides the values and means of each measure.
_OTHERS = ("intervals", "tokens", "lenient", "ties")


@dataclass
class _Shown:
    """Today's code, older code that was compared with it, and what of that once gave other numbers."""

    today: str = ""
    older: set[str] = field(default_factory=set)
    other: set[str] = field(default_factory=set)

    def enter(self, old: str, new: str, equal: bool) -> None:
        self.today = new
        self.older |= {old} - {new}
        self.other |= set() if equal else {old}

    def merge_earlier(self, earlier: Mapping[str, str]) -> dict[str, str]:
        """What was shown, with what was shown `earlier`."""
        now = self.older - self.other
        # What gave the numbers of code that is shown now gives today's, too.
        same = {self.today, *now, *(earlier[old] for old in now if old in earlier)}
        stands = ({old for old, middle in earlier.items() if middle in same} | same) - self.other - {self.today}
        return dict.fromkeys(sorted(stands), self.today)


def compared(result: StoredResult, dataset: Dataset) -> Iterator[tuple[str, str, str, bool]]:
    """Score a result again: of each number, which measure or kind it is, older code, today's, and if both gave it."""
    scored = score_again(result, dataset, [])
    before, after = result.metrics, scored.metrics
    old, new = result.manifest.scoring, scoring_code(after.metrics)
    for name in before.metrics.keys() & after.metrics.keys():
        was, now, measure = before.metrics[name], after.metrics[name], measure_name(name)
        values = np.array(scored.per_query[name].to_pylist(), dtype=np.float64)
        same = result.values(name).tobytes() == values.tobytes() and (was.mean, was.n) == (now.mean, now.n)
        yield measure, old.measures.get(measure, ""), new.measures[measure], same
        yield "intervals", old.intervals, new.intervals, (was.low, was.high) == (now.low, now.high)
    # Older results have fewer counts.
    yield "tokens", old.tokens, new.tokens, before.tokens.items() <= after.tokens.items()
    if before.lenient is not None and after.lenient is not None:
        same = before.lenient.model_copy(update={"code": after.lenient.code}) == after.lenient
        yield "lenient", before.lenient.code, after.lenient.code, same
    if before.ties is not None and after.ties is not None:
        bands = [
            {name: (item.tie_low, item.tie_expected, item.tie_high) for name, item in metrics.metrics.items()}
            for metrics in (before, after)
        ]
        same = before.ties.draws.items() <= after.ties.draws.items() and bands[0].items() <= bands[1].items()
        yield "ties", before.ties.code, after.ties.code, same


def main(folders: list[Path]) -> int:
    """Rewrite the file; return 1 if some code gave different numbers."""
    shown: defaultdict[str, _Shown] = defaultdict(_Shown)
    datasets: dict[str, Dataset] = {}
    told, results, values = list[str](), 0, 0
    for result in (item for folder in folders or [RESULTS] for item in find_results(folder)):
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
            for name, old, new, equal in compared(result, datasets[spec]):
                shown[name].enter(old, new, equal)
                values += 0 if name in _OTHERS else result.per_query.num_rows
            results += 1
        except BenchError as error:
            told.append(f"{result.label}: {error}" if isinstance(result, StoredResult) else str(error))
    if not results:
        sys.stderr.write("no result was scored again; the file is left as it is\n")
        return 1
    earlier = same_scoring()
    measures = sorted(shown.keys() - {*_OTHERS})
    merged = {name: shown[name].merge_earlier(earlier["measures"].get(name, {})) for name in measures}
    content = {
        "made_by": "python benchmarks/samescoring.py",
        "scored_again": {"results": results, "values": values},
        "measures": {name: same for name, same in merged.items() if same},
        **{kind: shown[kind].merge_earlier(earlier[kind]) for kind in _OTHERS},
    }
    write_text(SAME_SCORING, json.dumps(content, indent=1) + "\n")
    sys.stdout.write("".join(f"not scored again: {line}\n" for line in told))
    sys.stdout.write(f"{results} results scored again, {values} values compared\n")
    differing = sorted(name for name in shown if shown[name].other)
    sys.stdout.write("".join(f"other numbers than before: {name}\n" for name in differing))
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main([Path(name) for name in sys.argv[1:]]))
