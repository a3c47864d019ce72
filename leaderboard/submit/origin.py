"""Whether a registered method can have made a submission, by its manifest. No code of the method runs. `check` calls
it.

Anyone with the gold can write a ranking under any name, and a board tests others against the registered methods. So
whatever follows from a method's spec, data and code must match the manifest: the id, hashes, and settings that method
and data allow. Only a re-run shows that the method makes this ranking.
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
    """What the manifest wrongly claims of a registered method or a run file; other methods are not checked.

    Args:
        manifest: as submitted; its settings are those of the plan.
        plan: the plan on the dataset, in normal form.
        dataset: the data.
        has_sets: whether every query has a recommended set.

    Returns:
        The faults, and notes about what could not be checked.
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
        # A name of the form module:Class would be imported, even inside a spec.
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
        return [], [f"its method cannot be built here, so its id and hashes were not checked ({why})"]
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
    """The method's own models; those of the manifest if the method reads files or calls a service."""
    texts = [value for value in values(parse(manifest.method.spec)) if isinstance(value, str)]
    try:
        return manifest.method.revisions if texts or needs_llm(made) else revisions(made)
    except BenchError:
        return manifest.method.revisions


def _setting_faults(made: Method, manifest: Manifest, plan: Plan, dataset: Dataset, has_sets: bool) -> list[str]:
    """Settings and claims about the method that the method or the data do not allow."""
    method, name, faults = manifest.method, manifest.method.spec, []
    _, history = views(plan, dataset)
    try:
        check_plan(plan, made, dataset, history)
    except UsageError as error:
        faults.append(f"its method cannot have run: {quote(str(error), 300)[1:-1]}")
    if plan.repeats > 1 and not has_chance(made):
        faults.append(f"the manifest has {plan.repeats} repeats, but {name} is deterministic.")
    recommends = isinstance(made, RecommendingMethod) or plan.cut != "none"
    if has_sets != recommends:
        faults.append(
            f"it has {'' if has_sets else 'no '}recommended sets, but {name} makes {'some' if recommends else 'none'}."
        )
    learnt = len(history) > 0 and any(map(learns, methods_of(made)))
    for word, said, known in (
        ("an oracle", method.oracle, is_oracle(made)),
        ("one that calls a language model", method.needs_llm, needs_llm(made)),
        ("one that learns from past queries here", method.learns, learnt),
    ):
        if said not in (None, known):
            hides = f"{word}, but the manifest hides it" if known else f"not {word}, but the manifest says it is"
            faults.append(f"the method {name} is {hides}.")
    return faults
