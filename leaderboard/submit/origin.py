"""Whether a registered method can have made a submission, by what its manifest says; nothing of the method runs.

Who has the gold can write a ranking under any name, and a board tests others against the registered methods. So what
follows from a method's spec, data and code must be what the manifest says: an id, hashes, settings that the method and
the data allow. That the method makes this ranking, only a re-run shows.
"""

from __future__ import annotations

from bench.base.config import config_context
from bench.base.errors import BenchError, UsageError
from bench.base.spec import Spec, parse
from bench.data.dataset import Dataset
from bench.evaluation.external import run_file_id
from bench.evaluation.plan import Plan
from bench.evaluation.runner import check_plan, views
from bench.interface import Method, RecommendingMethod
from bench.interface.parts import has_chance, is_oracle, learns, methods_of, needs_llm, revisions
from bench.leaderboard.submit.archive import quote
from bench.leaderboard.submit.code import values
from bench.registry import build_method, method_names
from bench.registry.methods import check_spec, is_registered
from bench.results.code_versions import method_code, method_use
from bench.results.ids import hashed_spec, method_hash, result_id
from bench.results.manifest import Manifest


def origin_faults(manifest: Manifest, plan: Plan, dataset: Dataset, has_sets: bool) -> tuple[list[str], list[str]]:
    """What a manifest says of a registered method, or of a run file, that cannot be; of other methods nothing.

    Args:
        manifest: as submitted; its conditions are those of the plan.
        plan: normal on the dataset.
        dataset: the data.
        has_sets: whether every query has a recommended set.

    Returns:
        The faults, and notes of what could not be checked.
    """
    method = manifest.method
    if method.run_file is not None:
        known = run_file_id(plan.model_copy(update={"method": Spec.of(method.spec)}), dataset, method.hash)
        right = manifest.result_id == known
        faults = [] if right else [f"the id of this run file is {known}, not {manifest.result_id}."]
        if method.spec.partition("(")[0].strip().casefold() in method_names():
            faults.append(
                f"it is a scored run file by the name {quote(method.spec)}, which is that of a method of bench; submit "
                "the system under a name of its own."
            )
        return faults, []
    try:
        spec = parse(method.spec)
        # A name of the form module:Class, even within it, would be imported.
        if spec.name not in method_names() or (":" in method.spec and not is_registered(spec)):
            return [], []
        if (canonical := str(check_spec(spec))) != method.spec:
            return [f"its method is {quote(method.spec)}, which this bench calls {quote(canonical)}."], []
    except BenchError as error:
        return [f"its method cannot have run: {quote(str(error), 300)[1:-1]}"], []
    try:
        with config_context(offline=True):
            made = build_method(spec)
            made.context.close()
            models = _models(made, manifest)
    except BenchError as error:
        why = quote(str(error), 200)[1:-1].rstrip(".")
        return [], [f"its method cannot be made here, so its id and hashes were not checked ({why})"]
    code = method_code(made, method.used)
    hashed = method_hash(made, code, method.revisions)
    stated = (
        ("files", "of a user" if method.used else "of bench", "of a user" if method_use(made) else "of bench"),
        ("parameters", method.full_spec, str(hashed_spec(made))),
        ("the code hash", method.code[:12], code[:12]),
        ("the models", str(method.revisions), str(models)),
        ("the method hash", method.hash[:12], hashed[:12]),
        ("the id", manifest.result_id, result_id(dataset.content_hash, plan.resolve(dataset), hashed)),
    )
    others = [
        f"the manifest has {what} {quote(said)}, and {spec.name} has {quote(known)} here: run it with this version of "
        "bench."
        for what, said, known in stated
        if said != known
    ]
    return [*_setting_faults(made, manifest, plan, dataset, has_sets), *others[:1]], []


def _models(made: Method, manifest: Manifest) -> dict[str, str]:
    """The models of a method, where they are its own; those of the manifest where it names files or asks a service."""
    texts = [value for value in values(parse(manifest.method.spec)) if isinstance(value, str)]
    try:
        return manifest.method.revisions if texts or needs_llm(made) else revisions(made)
    except BenchError:
        return manifest.method.revisions


def _setting_faults(made: Method, manifest: Manifest, plan: Plan, dataset: Dataset, has_sets: bool) -> list[str]:
    """Settings, and what is said of the method, that the method or the data do not allow."""
    method, name, faults = manifest.method, manifest.method.spec, []
    _, history = views(plan, dataset)
    try:
        check_plan(plan, made, dataset, history)
    except UsageError as error:
        faults.append(f"its method cannot have run: {quote(str(error), 300)[1:-1]}")
    if plan.repeats > 1 and not has_chance(made):
        faults.append(f"the manifest has {plan.repeats} repeats, and chance has no part in {name}.")
    recommends = isinstance(made, RecommendingMethod) or plan.cut != "none"
    if has_sets != recommends:
        faults.append(
            f"it has {'' if has_sets else 'no '}recommended sets, and {name} makes {'some' if recommends else 'none'}."
        )
    learnt = len(history) > 0 and any(map(learns, methods_of(made)))
    for word, said, known in (
        ("an oracle", method.oracle, is_oracle(made)),
        ("one that asks a language model", method.needs_llm, needs_llm(made)),
        ("one that learns from past queries here", method.learns, learnt),
    ):
        if said not in (None, known):
            hides = f"{word}, and the manifest hides it" if known else f"not {word}, but the manifest says it is"
            faults.append(f"the method {name} is {hides}.")
    return faults
