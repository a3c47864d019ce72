"""The campaign of abuse: `python benchmarks/abuse/campaign.py [--part inputs] [--scale 0.1]`.

Prints a table of what was tried and what failed; exits with 1 if anything did. At scale 1 it takes hours.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import inputs
import many
import processes
import services

Row = tuple[str, int, list[str]]
PARTS = ("inputs", "kills", "disks", "crowd", "services", "preview", "many")


def _bench(*arguments: object) -> str:
    line = [sys.executable, "-m", "bench", *map(str, arguments)]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"cannot prepare: {' '.join(line)}: {done.stderr}")
    return done.stdout


def _part(name: str, folder: Path, scale: float, seed: int, commands: Sequence[str]) -> list[Row]:
    def count(whole: int) -> int:
        return max(1, round(whole * scale))

    folder.mkdir()
    match name:
        case "inputs":
            return inputs.campaign(folder, count(100), seed, _bench)
        case "kills":
            return processes.killed(folder, count(34), seed, commands)
        case "disks":
            return processes.disks(folder, count(20), commands)
        case "crowd":
            return processes.crowd(folder, count(10))
        case "services":
            return services.hostile(folder, min(1.0, scale))
        case "preview":
            return services.preview(folder, count(200), count(50))
        case _:
            return many.results(folder, count(5000))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", action="append", choices=PARTS, help="one part; repeatable [default: all]")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full counts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--command", action="append", help="only this command is killed; repeatable [default: all]")
    parser.add_argument("--work", type=Path, help="folder to keep, with the inputs that failed")
    given = parser.parse_args()
    work = given.work or Path(tempfile.mkdtemp())
    work.mkdir(parents=True, exist_ok=True)
    os.environ.update(BENCH_DATA=str(work / "data"), BENCH_RESULTS=str(work / "results"), BENCH_OFFLINE="")
    rows: list[Row] = []
    for part in given.part or PARTS:
        rows += _part(part, work / part, given.scale, given.seed, given.command or ())
    print("| what | tried | failed |\n|---|---|---|")
    for name, tried, failed in rows:
        print(f"| {name} | {tried} | {len(failed)} |")
    for name, _, failed in rows:
        for text in failed:
            print(f"\n{name}: {text}")
    sys.exit(1 if any(failed for _, _, failed in rows) else 0)


if __name__ == "__main__":
    main()
