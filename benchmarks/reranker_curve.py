"""Learning curves of rerankers on validation queries, beside the retriever that they correct.

    python benchmarks/reranker_curve.py OUT --retriever FOLDER [--crossencoder FOLDER] [--only NAME ...]
        [--queries 6000] [--every 125] [--picture docs/reranker-curve.svg] [--dataset toollens-unseen]

Trains one reranker per row of `CONFIGURATIONS` into OUT/NAME and prints recall@5 of 100 dev queries after reranking 20
tools at every evaluation; step 0 is the retriever. A model that is finished is then judged on all dev queries at three
depths: the difference from the retriever, with an interval by units. Test queries are never looked at. The same command
goes on where it was interrupted, and skips what is finished. `--crossencoder` is a trained cross-encoder to begin with,
as `crossencoder_of_onnx.py` makes one. A core needs about half an hour for 6,000 queries from MiniLM's size.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from bench.base.progress import QUIET
from bench.base.spec import Spec, Value, parse
from bench.data.dataset import Dataset
from bench.interface import History, Library, Queries
from bench.interface.parts import preflight
from bench.lab.training.train import train_model
from bench.metrics import evaluate, parse_metrics
from bench.models.encoders import EMBEDDED
from bench.models.trainingcard import TrainingCard, read_card
from bench.registry import build_method, load_dataset
from bench.results.units import number_units
from bench.show import figures
from bench.stats.bounded import Span
from bench.stats.paired import compare

#: Name -> where it begins (`retriever`: with its weights; `crossencoder`: the one that is given), and settings.
CONFIGURATIONS: dict[str, tuple[str, dict[str, Value]]] = {
    "retriever": ("retriever", {}),
    "minilm": (EMBEDDED, {}),
    # Of twelve layers the last four learn, as of MiniLM's six.
    "crossencoder": ("crossencoder", {"frozen_layers": 8}),
    # Negatives from where recall@5 is decided.
    "nearest": ("retriever", {"mining_depth": 10}),
    # The same number of lists, the second half of them with negatives of the model's own.
    "refreshed": ("retriever", {"epochs": 2}),
}
_DEPTHS = (10, 20, 30)
_COLOURS = ("#1f6f8b", "#b5541c", "#4b7f2b", "#7a4b94", "#8a6d1a")


def curve(card: TrainingCard) -> list[tuple[int, float]]:
    """(step, recall@5) from the retriever on."""
    return [(0, float(card.facts["retriever_recall"])), *((seen.step, seen.value) for seen in card.evaluations)]


def report(name: str, card: TrainingCard) -> None:
    print(f"{name}: {card.facts['queries']} queries, {card.seconds:.0f} s")
    losses = {seen.step: f"  loss {seen.loss:.4f}" for seen in card.evaluations}
    for step, value in curve(card):
        best = "  best" if step == card.best_step else ""
        print(f"  step {step:5}  recall@5 {value:.4f}{losses.get(step, '')}{best}", flush=True)


def recalls(dataset: Dataset, spec: str) -> NDArray[np.float64]:
    """(judged dev queries,) recall@5 of a method."""
    rows = judged(dataset)
    library = Library.of(dataset, dataset.card.template)
    history = History.of(dataset, library, rows)
    method = build_method(parse(spec))
    preflight(method, library, history)
    method.fit(history)
    method.index(library)
    (metric,) = parse_metrics(["recall@5"])
    ranked = method.rank(Queries.of(dataset, rows), 100).tools
    return evaluate(ranked, dataset.gold.take(rows), (metric,)).column(metric)


def judged(dataset: Dataset) -> NDArray[np.int64]:
    rows = dataset.rows("dev")
    return rows[dataset.gold.counts[rows] > 0]


def judge(dataset: Dataset, retriever: str, reranker: Path) -> None:
    """Print how much a reranker adds to its retriever on all dev queries."""
    base = f'dense(encoder="{retriever}")'
    before = recalls(dataset, base)
    units = number_units(dataset.units[judged(dataset)])
    print(f"  {len(before)} dev queries in {units.max() + 1} units: the retriever has recall@5 {before.mean():.4f}")
    for depth in _DEPTHS:
        after = recalls(dataset, f'rerank(base={base}, reranker="{reranker}", depth={depth})')
        pair = compare((after - before)[:, None], units=units, span=Span(-1, 1))[0]
        interval = f"{pair.difference:+.4f} [{pair.low:+.4f}, {pair.high:+.4f}]"
        print(f"  depth {depth}: {after.mean():.4f}, {interval}, p {pair.p:.4f}", flush=True)


def picture(cards: dict[str, TrainingCard], path: Path) -> None:
    """A line per configuration, from the retriever's recall on."""
    curves = {name: curve(card) for name, card in cards.items()}
    values = [value for points in curves.values() for _, value in points]
    low, high = figures.pad_range(min(values), max(values), 0.15)
    last = max(step for points in curves.values() for step, _ in points)
    x, y = figures.linear(0, last, 60, 560), figures.linear(low, high, 270, 50)
    parts = [*figures.columns(figures.ticks(0, last), x, 50, 270), *figures.rows(figures.ticks(low, high), y, 60, 560)]
    begin = next(iter(curves.values()))[0][1]
    parts.append(f'<path d="M60,{y(begin):.1f}H560" stroke="#1a1a1a" stroke-dasharray="5 4"/>')
    ends = sorted([(y(points[-1][1]), name) for name, points in curves.items()] + [(y(begin), "the retriever alone")])
    places = figures.apart([place for place, _ in ends], 16, 50, 270)
    for i, points in enumerate(curves.values()):
        line = figures.path([(x(step), y(value)) for step, value in points])
        parts.append(f'<path d="{line}" fill="none" stroke="{_COLOURS[i % len(_COLOURS)]}" stroke-width="2"/>')
    parts += [figures.text(568, place + 4, name) for place, (_, name) in zip(places, ends, strict=True)]
    parts.append(figures.text(310, 308, "steps", "note middle"))
    title = "recall@5 of 100 dev queries while a reranker is trained"
    path.write_text(figures.document(title, parts, 720, 320), "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--dataset", default="toollens-unseen")
    parser.add_argument("--retriever", default=EMBEDDED, help="the retriever that is corrected")
    parser.add_argument("--crossencoder", help="a cross-encoder to begin with")
    parser.add_argument("--queries", type=int, default=6000, help="training queries")
    parser.add_argument("--every", type=int, default=125, help="steps between evaluations")
    parser.add_argument("--picture", type=Path, help="where the curves are drawn as SVG")
    parser.add_argument("--only", nargs="*", choices=CONFIGURATIONS, help="these configurations alone")
    given = parser.parse_args()
    dataset = load_dataset(given.dataset)
    cards = {}
    for name in given.only or CONFIGURATIONS:
        start, chosen = CONFIGURATIONS[name]
        base = {"retriever": given.retriever, "crossencoder": given.crossencoder}.get(start, start)
        if base is None:
            print(f"{name}: left out, since no --crossencoder is given")
            continue
        folder = given.out / name
        card = read_card(folder) if folder.is_dir() else None
        if card is None:
            settings: dict[str, Value] = {
                "retriever": given.retriever,
                "most_queries": given.queries // int(str(chosen.get("epochs", 1))),
                "evaluate_every": given.every,
                **chosen,
            }
            card = train_model(
                "reranker", dataset, folder, base=base, settings=Spec.of("reranker", settings), progress=QUIET
            )
        report(name, card)
        judge(dataset, given.retriever, folder)
        cards[name] = card
    if given.picture and cards:
        picture(cards, given.picture)


if __name__ == "__main__":
    main()
