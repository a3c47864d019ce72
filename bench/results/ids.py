"""The id of a result: a hash of what was asked, of which data, by which rules, of which method with which code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from bench.base.spec import Spec
from bench.data.template import Template
from bench.interface import Method
from bench.interface.parts import methods_of, revisions
from bench.results.code_versions import cut_hash, method_code, template_hash

#: `Field(..., json_schema_extra={"added": True})`: the parameter came after results had been stored, and its default is
#: what they were made with. Ids cover it where a spec sets another value, so that those results keep theirs.
_ADDED = {"added": True}
#: The version of the rules that a ranking depends on: what a method may see, depth, ties, text. Protocol 2.0 changed
#: only what is computed from a ranking, so a ranking of 1.0 is scored again, not made again.
RANKING_RULES = "1.0"


@dataclass(frozen=True)
class Conditions:
    """What a method is asked: the part of a result's identity that is none of the method's.

    Attributes:
        content_hash: of the dataset.
        split: which queries are asked.
        limit: at most this many of them; None for all.
        depth: the most tools a query gets.
        template: the text of a tool.
        cut, cut_at: how a set is cut from a ranking, and where; None to learn it from past queries.
        repeats: how often every query is answered.
    """

    content_hash: str
    split: str
    limit: int | None
    depth: int
    template: Template
    cut: str = "none"
    cut_at: float | None = None
    repeats: int = 1


def method_hash(method: Method, code: str | None = None, models: Mapping[str, str] | None = None) -> str:
    """sha256 over name, parameters (defaults included, but for those of `_ADDED`), model revisions and code (rule 7).

    The methods and models it is built of take part with all of theirs.

    Args:
        method: the method.
        code: the hash of its code, where it is known.
        models: model revisions, where the models need not be at hand; None to ask the method.
    """
    specs = [str(hashed_spec(part)) for part in methods_of(method)]
    known = revisions(method) if models is None else dict(models)
    return _sha256({"specs": specs, "revisions": known, "code": code or method_code(method)})


def hashed_spec(method: Method) -> Spec:
    """The full spec that a result stores and its id covers: without parameters of `_ADDED` at their defaults."""
    given, full = dict(method.spec.arguments), method.full_spec
    fields = type(method.parameters).model_fields
    kept = {name: value for name, value in full.arguments if name in given or fields[name].json_schema_extra != _ADDED}
    return Spec.of(full.name, kept)


def result_id(conditions: Conditions, method: str) -> str:
    """Twelve hexadecimal digits that two runs share only if they must give the same rankings.

    (Up to the last bits of embeddings, which depend on the texts that were encoded together.)

    Args:
        conditions: what the method is asked.
        method: the hash of the method.
    """
    identity: dict[str, object] = {
        "protocol": RANKING_RULES,
        "dataset": conditions.content_hash,
        "split": conditions.split,
        "limit": conditions.limit,
        "depth": conditions.depth,
        "template": conditions.template,
        "texts": template_hash(conditions.template),
        "cut": [conditions.cut, cut_hash()] if conditions.cut != "none" else conditions.cut,
        "method": method,
    }
    if conditions.repeats > 1:
        identity["repeats"] = conditions.repeats
    if conditions.cut_at is not None:
        identity["cut_at"] = conditions.cut_at
    return _sha256(identity)[:12]


def _sha256(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
