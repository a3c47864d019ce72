"""What hostile results change of the honest rows of a board: without a list of references, by name, and with the list.

    python benchmarks/attacks.py [--datasets apibank starter] [--attacks names family] [--hostile 86]

Honest results are those that the board keeps. Hostile ones are added to a copy of their folder: whole results, each
with the values of some system on each query, and a manifest whose seal is right. The attacks:

names          16 results, by the names of registered methods that the board has not
family         a thousand settings of one method, bm25(k1=...)
early          copies of the best system with noise, dated before all others
late           one for each reference, dated after it, that answers the same question
subset         half with the queries of the best system's better half alone, half over a limit of queries
copies         of the best system, under other names
noise S        copies of the best system; S times its differences from another one are added, with random signs
random         each has the values of an honest system on other queries
sandwich       of the second system: one query better, or one query worse

Each line has the pairs of honest systems that differ significantly by ndcg@10, before and after, how many honest rows
have another number or mark, and what the board refuses. References are, by rule: all methods (a board without a list);
results by the name of a registered method, whoever made them; and the results that `board/ranking_set.toml` lists.
"""

from __future__ import annotations

import argparse
import hashlib
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bench.base.paths import sha256_of
from bench.leaderboard.boards.board import RANKED, Board, References, make_board, read_results
from bench.leaderboard.boards.rankingset import list_references, read_ranking_set
from bench.leaderboard.boards.tables import check_values
from bench.registry import method_names
from bench.results.store import MANIFEST, METRICS, PER_QUERY, RUN, StoredResult, to_json
from bench.stats.noninferiority import LEVEL

BOARD = Path(__file__).parents[1] / "board"
METRIC = "ndcg@10"
STRENGTHS = (0.001, 0.01, 0.1, 0.3, 1.0)

Values = NDArray[np.float64]
#: How many results are refused, how many pairs of honest rows are significant, and what is told of each.
Told = tuple[int, int, dict[str, list[Any]]]


@dataclass(frozen=True)
class Hostile:
    """A result to be forged.

    Attributes:
        spec: the method that it names.
        values: (judged queries, RANKED).
        created: when it says that it was made; None for the date of the result that it is made from.
        kept: (judged queries,) those that it has; None for all.
        limit: of queries, as it says.
    """

    spec: str
    values: Values
    created: str | None = None
    kept: NDArray[np.bool_] | None = None
    limit: int | None = None


Attack = Callable[[list[str], Values, int, np.random.Generator], Iterator[Hostile]]


def names(specs: list[str], values: Values, count: int, random: np.random.Generator) -> Iterator[Hostile]:
    """By the names of registered methods: honest values, each on other queries."""
    for name in [name for name in method_names() if name not in specs][:16]:
        yield Hostile(name, random.permutation(values[random.integers(len(values))]))


def family(specs: list[str], values: Values, count: int, random: np.random.Generator) -> Iterator[Hostile]:
    """A thousand settings of one method."""
    for i, item in enumerate(noise(0.3)(specs, values, 1000, random)):
        yield Hostile(f"bm25(k1={0.001 * (i + 1):.3f})", item.values)


def early(specs: list[str], values: Values, count: int, random: np.random.Generator) -> Iterator[Hostile]:
    """Noisy copies that say that they were first."""
    for item in noise(0.1)(specs, values, count, random):
        yield Hostile(item.spec, item.values, created="2000-01-01T00:00:00+00:00")


def late(specs: list[str], values: Values, count: int, random: np.random.Generator) -> Iterator[Hostile]:
    """What would take the place of each honest result by a registered name."""
    for spec, mine in zip(specs, values, strict=True):
        if spec in method_names():
            yield Hostile(spec, random.permutation(mine), created="2099-01-01T00:00:00+00:00")


def subset(specs: list[str], values: Values, count: int, random: np.random.Generator) -> Iterator[Hostile]:
    """On the queries that the best system answers best, under no limit and under one."""
    best = values[0, :, RANKED.index(METRIC)]
    better = np.zeros(len(best), dtype=np.bool_)
    better[np.argsort(-best, kind="stable")[: len(best) // 2]] = True
    for i in range(count):
        mine = np.clip(values[0] + random.normal(0, 0.01, values[0].shape), 0, 1)
        yield Hostile(f"mine-{i}", mine, kept=better, limit=int(better.sum()) if i % 2 else None)


def copies(specs: list[str], values: Values, count: int, random: np.random.Generator) -> Iterator[Hostile]:
    """Copies of the best system."""
    yield from (Hostile(f"mine-{i}", values[0]) for i in range(count))


def noise(strength: float) -> Attack:
    """Copies with noise of the size of real differences, times a strength."""

    def make(specs: list[str], values: Values, count: int, random: np.random.Generator) -> Iterator[Hostile]:
        for i in range(count):
            apart = values[0] - values[random.integers(1, len(values))]
            signs = random.choice([-1.0, 1.0], (len(apart), 1))
            yield Hostile(f"mine-{i}", np.clip(values[0] + strength * signs * apart, 0, 1))

    return make


def unrelated(specs: list[str], values: Values, count: int, random: np.random.Generator) -> Iterator[Hostile]:
    """The values of honest systems, each on other queries."""
    for i in range(count):
        yield Hostile(f"mine-{i}", random.permutation(values[random.integers(len(values))]))


def sandwiches(specs: list[str], values: Values, count: int, random: np.random.Generator) -> Iterator[Hostile]:
    """Just above and just below the second system."""
    for i in range(count):
        mine = values[1].copy()
        mine[random.choice(np.flatnonzero(mine.min(axis=1) < 1 if i % 2 else mine.max(axis=1) > 0))] = float(i % 2)
        yield Hostile(f"mine-{i}", mine)


ATTACKS: dict[str, Attack] = {
    "names": names,
    "family": family,
    "early": early,
    "late": late,
    "subset": subset,
    "copies": copies,
    **{f"noise {strength:g}": noise(strength) for strength in STRENGTHS},
    "random": unrelated,
    "sandwich": sandwiches,
}


def forge(source: StoredResult, hostile: Hostile, number: int) -> None:
    """Write a result beside another one, from which all is taken that is not forged. Its ranking is left out."""
    result_id = hashlib.sha256(f"{hostile.spec} {number}".encode()).hexdigest()[:12]
    folder = source.folder.with_name(f"forged-{result_id}")
    folder.mkdir()
    table = source.per_query
    judged = table["n_gold"].to_numpy() > 0
    for column, name in enumerate(RANKED):
        whole = np.full(len(table), np.nan)
        whole[judged] = hostile.values[:, column]
        place = table.column_names.index(name)
        table = table.set_column(place, name, pa.array(whole, pa.float64(), from_pandas=True))
    if hostile.kept is not None:
        kept = ~judged
        kept[judged] = hostile.kept
        table = table.filter(pa.array(kept))
    table = table.select([name for name in table.column_names if name in RANKED or "@" not in name])
    pq.write_table(table, folder / PER_QUERY, compression="zstd")
    n, failed = int((table["n_gold"].to_numpy() > 0).sum()), int(np.array(table["failed"].to_pylist()).sum())
    means = {name: np.nanmean(table[name].to_numpy()) for name in RANKED}
    stated = {
        name: source.metrics.metrics[name].model_copy(update={"mean": float(mean), "n": n})
        for name, mean in means.items()
    }
    metrics = source.metrics.model_copy(
        update={"result_id": result_id, "metrics": stated, "n": n, "n_failed": failed, "lenient": None}
    )
    (folder / METRICS).write_text(to_json(metrics))
    told = source.manifest
    method = told.method.model_copy(update={"spec": hostile.spec, "full_spec": hostile.spec, "hash": result_id * 5})
    data = told.dataset.model_copy(update={"limit": hostile.limit, "judged": n, "queries": len(table)})
    when = told.environment.model_copy(update={"created": hostile.created or told.environment.created})
    files = {name: sha256_of(folder / name) for name in (PER_QUERY, METRICS)} | {RUN: result_id * 5}
    changes = {"result_id": result_id, "method": method, "dataset": data, "environment": when, "files": files}
    (folder / MANIFEST).write_text(to_json(told.model_copy(update=changes | {"omitted": [RUN]}).sealed()))


def boards(results: Path, references: References) -> tuple[dict[str, Board], int]:
    """The boards of a folder, by their slug, and how many of its results are refused."""
    groups, rejected = read_results(results, references)
    made: dict[str, Board] = {}
    for members in groups:
        board, wrong = make_board(members, results, False, references=references)
        rejected += wrong
        if board is not None:
            made[board.slug] = board
    return made, len(rejected)


def told_of(made: Mapping[str, Board], honest: frozenset[str]) -> tuple[int, dict[str, list[Any]]]:
    """What boards say of honest results beside each other: how many pairs of them are significant, and each row."""
    pairs, rows = 0, dict[str, list[Any]]()
    for board in made.values():
        for row in board.rows:
            if row.id in honest:
                rows[row.id] = [row.key, row.marks, sorted(row.doubtful), sorted(row.older), board.source]
        for metric, standing in board.standings.items():
            own = [i for i, name in enumerate(standing.ids) if name in honest]
            arrays = [value for value in vars(standing).values() if isinstance(value, np.ndarray)]
            for i in own:
                of_row = [array[i, own] if array.shape == standing.pairs.shape else array[i] for array in arrays]
                rows[standing.ids[i]].append(str([part.tolist() for part in of_row]))
            if metric == METRIC:
                pairs += int((standing.pairs[np.ix_(own, own)][np.triu_indices(len(own), 1)] < LEVEL).sum())
    return pairs, rows


def main() -> None:
    """Print what each attack changes."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--hostile", type=int, default=86)
    parser.add_argument("--datasets", nargs="+", default=["apibank", "starter"])
    parser.add_argument("--attacks", nargs="+", default=list(ATTACKS), choices=list(ATTACKS))
    arguments = parser.parse_args()
    listed = read_ranking_set(BOARD / "ranking_set.toml").references
    for dataset in arguments.datasets:
        with tempfile.TemporaryDirectory() as temporary:
            results = Path(temporary)
            for folder in sorted((BOARD / "results" / dataset).glob("[!.]*")):
                item = StoredResult.read(folder)
                if item.manifest.dataset.limit is None and set(RANKED) <= item.metrics.metrics.keys():
                    shutil.copytree(folder, results / dataset / folder.name)
            attack_board(results, listed, arguments.attacks, arguments.hostile)


def attack_board(results: Path, listed: References, attacks: list[str], count: int) -> None:
    """Print what attacks change on the board of a folder's results."""
    ((slug, board),) = boards(results, listed)[0].items()
    honest = frozenset(row.id for row in board.rows)
    rows = [row for row in board.rows if not row.oracle]
    table = [values for row in rows if (values := check_values(row.result, RANKED, False, [])[0]) is not None]
    specs = [row.result.manifest.method.spec for row in rows]

    def tell() -> dict[str, Told]:
        """What is told by each rule."""
        by_name = {item.manifest.result_id: item.manifest.digest for item in list_references(results)[0]}
        told: dict[str, Told] = {}
        for rule, references in {"all": {}, "by name": by_name, "listed": listed}.items():
            if rule == "listed" and by_name.items() <= listed.items():
                told[rule] = told["by name"]
            else:
                made, rejected = boards(results, references)
                told[rule] = rejected, *told_of(made, honest)
        return told

    before = tell()
    print(f"{slug}: {len(honest)} honest rows, {len(table[0])} queries")
    for name in attacks:
        random = np.random.default_rng(0)
        for number, hostile in enumerate(ATTACKS[name](specs, np.stack(table), count, random)):
            forge(rows[0].result, hostile, number)
        for rule, (rejected, pairs, after) in tell().items():
            _, usual, rows_before = before[rule]
            changed = sum(after.get(row) != told for row, told in rows_before.items())
            said = f"{usual} significant pairs, {pairs} after; {changed} rows changed, {rejected} results refused"
            print(f"  {name:12} {rule:8} {said}", flush=True)
        for folder in results.glob("*/forged-*"):
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
