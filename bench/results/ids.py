"""The id of a result: a hash of its settings, data, rules, method and code (rule 7). The runner names results by it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from bench.base.spec import Spec
from bench.interface import Method
from bench.interface.parts import methods_of, revisions
from bench.results.code_versions import cut_hash, method_code, template_hash
from bench.results.settings import RunSettings

#: `Field(..., json_schema_extra={"added": True})`: the parameter was added after results had been stored, and its
#: default is the value they were made with. Ids cover it only if a spec sets another value, so that older results keep
#: their ids.
_ADDED = {"added": True}
#: The version of the rules that a ranking depends on: what a method may see, depth, ties, text. Protocol 2.0 changed
#: only what is computed from a ranking, so a ranking of 1.0 is scored again, not made again.
RANKING_RULES = "1.0"


def method_hash(method: Method, code: str | None = None, models: Mapping[str, str] | None = None) -> str:
    """sha256 over name, parameters (defaults included, except those of `_ADDED`), model revisions and code (rule 7).

    The methods and models that it is built of are covered in the same way.

    Args:
        method: the method.
        code: the hash of its code, if known.
        models: model revisions, if the models need not be available; None to ask the method.
    """
    specs = [str(hashed_spec(part)) for part in methods_of(method)]
    known = revisions(method) if models is None else dict(models)
    return _sha256({"specs": specs, "revisions": known, "code": code or method_code(method)})


def hashed_spec(method: Method) -> Spec:
    """The full spec that a result stores and its id covers, without parameters of `_ADDED` at their defaults."""
    given, full = dict(method.spec.arguments), method.full_spec
    fields = type(method.parameters).model_fields
    kept = {name: value for name, value in full.arguments if name in given or fields[name].json_schema_extra != _ADDED}
    return Spec.of(full.name, kept)


def result_id(content_hash: str, settings: RunSettings, method: str) -> str:
    """Twelve hexadecimal digits that two runs share only if they must give the same rankings.

    (Up to the last bits of embeddings, which depend on the texts that were encoded together.)

    Args:
        content_hash: the content hash of the dataset.
        settings: with split and template filled in, and without a limit that has no effect.
        method: the hash of the method.
    """
    if settings.split is None or settings.template is None:
        raise ValueError("the split and the template of a dataset must be named")
    identity: dict[str, object] = {
        "protocol": RANKING_RULES,
        "dataset": content_hash,
        "split": settings.split,
        "limit": settings.limit,
        "depth": settings.depth,
        "template": settings.template,
        "texts": template_hash(settings.template),
        "cut": [settings.cut, cut_hash()] if settings.cut != "none" else settings.cut,
        "method": method,
    }
    # Settings that were added later count only if they differ from their defaults, so that older results keep their
    # ids.
    return _sha256(settings.non_defaults() | identity)[:12]


def _sha256(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
