"""Learning curves of rerankers, on the validation queries: what keeps a reranker below the retriever it reorders?

    python benchmarks/reranker_curve.py OUT [--dataset toollens-unseen] [--retriever FOLDER] [--only NAME ...]

Trains one reranker per row of `CONFIGURATIONS` into OUT/NAME and prints recall@5 after reranking 20 tools, beside the
retriever's own, at every evaluation. Test queries are never looked at. Each training can be interrupted: the same
command goes on where it stopped, and skips what is finished. Two cores take hours per configuration.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from bench.base.progress import QUIET
from bench.base.spec import Spec, Value
from bench.lab.training.train import train_model
from bench.models.encoders import EMBEDDED
from bench.models.trainingcard import TrainingCard, read_card
from bench.registry import load_dataset

#: What all share: the settings of the recipe in `bench reproduce train unseen-reranker`.
SHARED: dict[str, Value] = {"learning_rate": 0.0002, "positives": 2, "hard_negatives": 4}
#: Name -> whether it begins with the retriever's weights (else with MiniLM), and settings.
CONFIGURATIONS: dict[str, tuple[bool, dict[str, Value]]] = {
    # As the documentation's numbers were trained: pairs, binary cross-entropy.
    "binary": (True, {}),
    "binary-minilm": (False, {}),
    # Data: negatives from nearer the top, where reranking at depth 10 decides; and more of them.
    "binary-top10": (True, {"mining_depth": 10}),
    "binary-negatives7": (True, {"hard_negatives": 7}),
    # Loss.
    "listwise": (True, {"loss": "listwise", "hard_negatives": 7, "batch_size": 4}),
    "listwise-positives3": (True, {"loss": "listwise", "positives": 3, "hard_negatives": 7, "batch_size": 4}),
    # The retriever as a teacher.
    "distilled": (True, {"loss": "listwise", "hard_negatives": 7, "batch_size": 4, "distillation": 0.05}),
    "distilled-more": (True, {"loss": "listwise", "hard_negatives": 7, "batch_size": 4, "distillation": 0.5}),
}


def report(name: str, card: TrainingCard) -> None:
    retriever = card.facts["retriever_recall"]
    print(f"{name}: {card.facts['queries']} queries, {card.seconds:.0f} s; the retriever alone has {retriever}")
    for seen in card.evaluations:
        best = "  best" if seen.step == card.best_step else ""
        print(f"  step {seen.step:6}  loss {seen.loss:8.4f}  recall@5 {seen.value:.4f}{best}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--dataset", default="toollens-unseen")
    parser.add_argument("--retriever", default=EMBEDDED, help="finds the negatives; its weights are the start")
    parser.add_argument("--examples", type=int, default=36_000, help="maximum number of (query, tool) pairs")
    parser.add_argument("--most-steps", type=int, default=0, help="maximum number of steps; 0: no limit")
    parser.add_argument("--evaluate-every", type=int, default=375)
    parser.add_argument("--only", nargs="*", choices=CONFIGURATIONS, help="these configurations alone")
    given = parser.parse_args()
    dataset = load_dataset(given.dataset)
    for name in given.only or CONFIGURATIONS:
        warm, chosen = CONFIGURATIONS[name]
        folder = given.out / name
        card = read_card(folder) if folder.is_dir() else None
        if card is None:
            settings: dict[str, Value] = {
                "retriever": given.retriever,
                "most_examples": given.examples,
                "most_steps": given.most_steps,
                "evaluate_every": given.evaluate_every,
                **SHARED,
                **chosen,
            }
            base = given.retriever if warm else EMBEDDED
            card = train_model(
                "reranker", dataset, folder, base=base, settings=Spec.of("reranker", settings), progress=QUIET
            )
        report(name, card)


if __name__ == "__main__":
    main()
