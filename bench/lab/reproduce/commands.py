"""Commands that would run what cannot run on this machine."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from bench.base.errors import BenchError
from bench.base.spec import parse
from bench.data.entries import dataset_entry
from bench.lab.reproduce.artefacts import artefact, is_there, names_in, resolve_references, with_needed
from bench.lab.reproduce.recipes import RecipeQuestion, is_fact
from bench.metrics import DEFAULT_METRICS


def commands_for(methods: Sequence[str], question: RecipeQuestion, metrics: Sequence[str]) -> list[str]:
    """What to type before these methods can be measured: add the data, train the models.

    What is there already is left out. Where nothing of the kind is lacking, it is the run itself, which says what is.
    """
    datasets = [resolve_references(text) for text in question.on]
    names = with_needed([name for method in methods for name in names_in(method)])
    missing = [name for name in names if not is_there(name)]
    run = ["bench", "run"]
    for method in methods:
        run += ["--method", str(parse(resolve_references(method)))]
    for dataset in datasets:
        run += ["--dataset", dataset]
    if question.template is not None:
        run += ["--template", question.template]
    if question.split is not None:
        run += ["--split", question.split]
    for metric in dict.fromkeys(metrics):
        if metric not in DEFAULT_METRICS and not is_fact(metric):
            run += ["--metric", metric]
    needed = dict.fromkeys([*datasets, *(artefact(name).dataset for name in missing)])
    added = [line for dataset in needed if (line := adding_command(dataset))]
    trained = [shlex.join(["bench", "reproduce", "train", *missing])] if missing else []
    return [*added, *trained] or [shlex.join(run)]


def adding_command(dataset: str) -> str | None:
    """The command that adds a dataset whose files the user must bring and has not; None for any other."""
    try:
        entry = dataset_entry(parse(dataset).name)
    except BenchError:
        return None
    missing = entry.card.obtain and entry.module is not None
    return f"bench data add {entry.card.id} --from FOLDER" if missing else None
