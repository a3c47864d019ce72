"""Whether a stored result is what the same command would store today, and renaming it if only its code is older.

The id of a result is a hash of its settings, data and the method's code and models (`bench.results.ids`). This module
computes it from a manifest with today's code, so that a result of older code is never taken for a current one.

If old code is known to give the same rankings as today's (`SAME_METHODS`), its result can take today's name.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass

from bench.base.config import config_context
from bench.base.errors import BenchError
from bench.base.spec import Spec, Value, parse
from bench.interface import Method
from bench.interface.parts import revisions, tree
from bench.lookup.consistency import resolved_settings
from bench.registry import build_method, method_class, method_names
from bench.registry.methods import is_registered
from bench.results.code_versions import method_code, same_methods, template_hash
from bench.results.ids import hashed_spec, method_hash, result_id
from bench.results.manifest import Manifest
from bench.results.settings import RunSettings

#: Parameters for methods that call a service, when only its version is requested.
_BRIEFLY: dict[str, float | int] = {"timeout": 2.0, "tries": 1}
#: Maximum characters of a method's spec that the user did not choose.
_LONGEST = 4000
_SHA256 = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Today:
    """The identity of the result that the command of a stored result would make today.

    Attributes:
        content_hash: of the data that it was made on.
        settings: with split and template filled in.
        method: the method as built today.
        code: the hash of its code.
        models: model revisions.
    """

    content_hash: str
    settings: RunSettings
    method: Method
    code: str
    models: dict[str, str]

    @property
    def method_hash(self) -> str:
        """The hash of the method."""
        return method_hash(self.method, self.code, self.models)

    @property
    def identifier(self) -> str:
        """The id of the result."""
        return result_id(self.content_hash, self.settings, self.method_hash)


#: Spec, and whether the user named it -> the method with the hash of its code, built once for many results; None if it
#: cannot be built.
Built = dict[tuple[str, bool], tuple[Method, str] | None]


def today(manifest: Manifest, *, named: bool = False, built: Built | None = None) -> Today | None:
    """What the command of a result would make today on the same data; nothing is run or downloaded.

    Args:
        manifest: the manifest of the result.
        named: whether the user has named the method. The author of a manifest chooses its content, so only then are
            modules imported, model folders read and services asked for their versions; otherwise the models are those
            of the manifest.
        built: methods already built for other results.

    Returns:
        None if unknown: for a run file, and for a method that is missing or has other parameters.
    """
    settings, spec, used = resolved_settings(manifest), manifest.method.spec, manifest.method.used
    if settings is None:
        return None
    built = {} if built is None else built
    with config_context(offline=True):
        if (spec, named) not in built:
            built[spec, named] = _build(spec, named)
        entry = built[spec, named]
        if entry is None:
            return None
        method, code = entry
        code = code if used is None else method_code(method, used)
    models = _models(method, manifest) if named else manifest.method.revisions
    return Today(manifest.dataset.content_hash, settings, method, code, models)


def _build(spec: str, named: bool) -> tuple[Method, str] | None:
    with suppress(BenchError):
        if named or (len(spec) <= _LONGEST and is_registered(parse(spec))):
            method = build_method(spec)
            return method, method_code(method)
    return None


def _models(method: Method, manifest: Manifest) -> dict[str, str]:
    """The current models of a method; those of the manifest if one is unavailable.

    A service is asked for its version once, with a short time limit; no program is started.
    """
    then = manifest.method.revisions
    # The version of a model is the hash of its files; a service states its own, or none.
    asks = any(mark.text == "remote" for mark in manifest.marks) or not all(map(_SHA256.fullmatch, then.values()))
    try:
        if not asks:
            with config_context(offline=True):
                return revisions(method)
        method = build_method(_impatient(parse(manifest.method.spec)))
        starts_program = any(getattr(part, "starts_program", False) for part in tree(method))
        return then if starts_program else revisions(method) or then
    except BenchError:
        return then


def is_of_today(manifest: Manifest, *, named: bool = False, built: Built | None = None) -> bool | None:
    """Whether a result is what its command would store today (see `today`); None if unknown."""
    if manifest.method.run_file is not None:
        return True
    current = today(manifest, named=named, built=built)
    return None if current is None else (current.identifier, current.code) == (manifest.result_id, manifest.method.code)


def adopt_name(manifest: Manifest, built: Built | None = None) -> Manifest | None:
    """The manifest under today's name, if its older code is known to give the same rankings; else None.

    The method must be unchanged except for its code, and new parameters must be at their defaults. Its models are those
    of the run.
    """
    current = today(manifest, built=built)
    # The records of equal code do not cover cuts.
    if current is None or current.settings.cut != "none":
        return None
    method, template, known = manifest.method, manifest.dataset.template, same_methods()
    if method.code == current.code:
        # Only parameters of the method may be new.
        same = result_id(current.content_hash, current.settings, method.hash) == manifest.result_id
    else:
        on_this_data = manifest.dataset.content_hash in known.only.get(method.code, [manifest.dataset.content_hash])
        same = known.methods.get(method.code) == current.code and on_this_data
        same = same and known.texts.get(template) == template_hash(template)
    full = hashed_spec(current.method)
    try:
        if not same or not _extends(full, parse(method.full_spec)):
            return None
    except BenchError:
        return None
    update = {"full_spec": str(full), "code": current.code, "hash": current.method_hash}
    if method.code != current.code:
        update["ranked_by"] = method.ranked_by or method.code
    return manifest.model_copy(
        update={"result_id": current.identifier, "method": method.model_copy(update=update)}
    ).sealed()


def _impatient(spec: Spec) -> Spec:
    """The spec with a short time limit for services, and without retries."""
    parameters = method_class(spec.name).Parameters.model_fields if spec.name in method_names() else {}
    brief: dict[str, Value] = {name: value for name, value in _BRIEFLY.items() if name in parameters}
    inner = {name: _impatient(value) for name, value in spec.arguments if isinstance(value, Spec)}
    return spec.with_arguments({**brief, **inner})


def _extends(new: object, old: object) -> bool:
    """Whether a full spec equals the older one, except for parameters that only it has; a bare name means defaults."""
    if isinstance(new, Spec) and isinstance(old, Spec):
        ours, theirs = dict(new.arguments), dict(old.arguments)
        return new.name == old.name and all(name in ours and _extends(ours[name], theirs[name]) for name in theirs)
    if isinstance(new, tuple) and isinstance(old, tuple) and len(new) == len(old):
        return all(map(_extends, new, old))
    return new == old
