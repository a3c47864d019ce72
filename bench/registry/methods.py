"""Find and build methods by name: modules of `bench.methods`, entry points of the group `bench.methods`, `module:NAME`.

`module:NAME` names a method class or a search function. Every command that runs a method builds it here.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from functools import cache
from importlib.metadata import EntryPoint
from pathlib import Path

import bench
from bench.base.config import join_session
from bench.base.errors import BenchError, MethodError, UsageError, raised_at
from bench.base.keys import refuse
from bench.base.parameters import check_parameters, full_spec, short_spec, suggestion
from bench.base.plugins import installed_points
from bench.base.progress import QUIET, Progress
from bench.base.spec import Spec, Value, parse
from bench.identity.used import user_file, watch_use
from bench.interface.method import Context, Method


@cache
def built_in_methods() -> dict[str, str]:
    """Name -> module, from the file names: `methods/nearest_query.py` is `nearest-query`.

    A method with stages is a folder, `methods/tgr/`, with its class in `method.py`.
    """
    places = [Path(place) / "methods" for place in bench.__path__]
    files = {path.stem: f"bench.methods.{path.stem}" for place in places for path in place.glob("*.py")}
    folders = {
        path.parent.name: f"bench.methods.{path.parent.name}.method"
        for place in places
        for path in place.glob("*/method.py")
    }
    return {name.replace("_", "-"): module for name, module in {**files, **folders}.items() if not name.startswith("_")}


@cache
def _plugins() -> dict[str, EntryPoint]:
    return {point.name: point for point in installed_points(group="bench.methods")}


def method_names() -> list[str]:
    """Names of all methods, sorted, without importing them."""
    return sorted({*built_in_methods(), *_plugins()})


def method_class(name: str) -> type[Method]:
    """The class of a method.

    Raises:
        UsageError: no such method; the message names the nearest one.
        MethodError: its module cannot be imported, or contains no method.
    """
    if name in built_in_methods():
        return _class_in(built_in_methods()[name], name)
    if name in _plugins():
        try:
            with watch_use():
                loaded = _plugins()[name].load()
        except Exception as error:
            raise MethodError(f"the plug-in method {name!r} cannot be loaded: {error}.") from error
        return _check_class(loaded, name)
    if ":" in name:
        return _class_at(name)
    raise UsageError(
        f"there is no method {name!r}{suggestion(name, method_names())}; `bench list methods` "
        "lists them; name your own as package.module:Class, or package.module:function."
    )


def _class_at(name: str) -> type[Method]:
    """Import `package.module:Class` or `package.module:function`, also from the working folder."""
    module_name, _, class_name = name.partition(":")
    # The working folder may have been removed.
    with suppress(FileNotFoundError):
        if str(Path.cwd()) not in sys.path:
            sys.path.insert(0, str(Path.cwd()))
    try:
        with watch_use():
            module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(error.name + ".")):
            raise UsageError(f"there is no module {module_name!r} to import for the method {name!r}.") from None
        raise MethodError(f"the method {name!r} cannot be imported: {error}.") from error
    except (Exception, SystemExit) as error:
        at = raised_at(error, [module_name])
        raise MethodError(f"the method {name!r} cannot be imported: {type(error).__name__}: {error}{at}.") from error
    if not hasattr(module, class_name):
        raise UsageError(f"the module {module_name} has no class or function {class_name!r}.")
    target = getattr(module, class_name)
    if callable(target) and not inspect.isclass(target):
        from bench.registry.functions import function_method  # most methods are classes

        return _check_class(function_method(target, name, module.__name__), name)
    return _check_class(target, name)


def _class_in(module_name: str, name: str) -> type[Method]:
    module = importlib.import_module(module_name)
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value)
        and issubclass(value, Method)
        and value.__module__ == module_name
        and not value.__name__.startswith("_")
    ]
    concrete = [value for value in classes if not inspect.isabstract(value)]
    if len(concrete) == 1:
        return _check_class(concrete[0], name)
    if concrete:
        found = f"it has {', '.join(value.__name__ for value in concrete)}. Keep one, or begin other names with _"
    else:
        lacks = [f"{item.__name__} lacks {_missing(item)}" for item in classes]
        found = "; ".join(lacks) or "write a class that is derived from bench.interface.Method"
    raise MethodError(f"{module_name} has {'more than one' if concrete else 'no'} concrete Method: {found}.")


def _missing(kind: type[Method]) -> str:
    return ", ".join(f"{name}()" for name in sorted(kind.__abstractmethods__))


def _check_class(value: object, name: str) -> type[Method]:
    if not (inspect.isclass(value) and issubclass(value, Method)):
        raise MethodError(f"{name} is not a method: it must be a subclass of bench.interface.Method.")
    if inspect.isabstract(value):
        raise MethodError(f"the method {name} lacks {_missing(value)}.")
    if not isinstance(value.batch_size, int) or value.batch_size < 1:
        raise MethodError(f"the method {name} has the batch_size {value.batch_size!r}; it must be 1 or more.")
    return value


def build_method(spec: Spec | str, sets: Mapping[str, Value] | None = None, progress: Progress = QUIET) -> Method:
    """Build a fresh instance from a spec, with its arguments updated from `sets`; all parameters are checked first.

    Raises:
        UsageError: unknown method or parameter, or a value that has the wrong type or contains a key, here or in a
            nested spec.
        MethodError: a method cannot be imported or built.
    """
    spec = parse(spec) if isinstance(spec, str) else spec
    spec = spec.with_arguments(sets or {})
    check_spec(spec)
    return _make_method(spec, progress)


def check_spec(spec: Spec) -> Spec:
    """Check a spec and its nested specs without building a method; return the spec without default arguments.

    Raises:
        UsageError, MethodError: as `build_method`, except for errors that the method itself raises when built.
    """
    refuse("the method", str(spec))
    parameters = check_parameters(method_class(spec.name).Parameters, spec, "method")
    for nested in _nested_methods(full_spec(spec.name, parameters)):
        check_spec(nested)
    return short_spec(spec.name, parameters)


def is_registered(spec: Spec) -> bool:
    """Whether a method and all methods in its arguments are built-in or plug-ins, without importing other modules.

    Raises:
        UsageError, MethodError: as `check_spec`.
    """
    if spec.name not in method_names():
        return False
    parameters = check_parameters(method_class(spec.name).Parameters, spec, "method")
    return all(is_registered(nested) for nested in _nested_methods(full_spec(spec.name, parameters)))


def _make_method(spec: Spec, progress: Progress) -> Method:
    """Build a method from a spec with valid parameters; sub-methods it creates are checked too."""
    kind = method_class(spec.name)
    parameters = check_parameters(kind.Parameters, spec, "method")
    context = Context(lambda inner: _make_method(inner, progress), progress)
    try:
        # One session for the encoders of a method and its sub-methods, so that they share a model in memory.
        with join_session(), watch_use() if user_file(kind.__module__) else nullcontext():
            method = kind(parameters, context)
    except BenchError:
        raise
    except (Exception, SystemExit) as error:
        at = raised_at(error, [kind.__module__])
        raise MethodError(f"the method {spec} cannot be built: {type(error).__name__}: {error}{at}.") from error
    method.name = spec.name
    context.close()
    return method


def _nested_methods(spec: Spec) -> list[Spec]:
    """The methods that are parameters of a method: `dense` in tgr, `bm25` and `dense` in rrf."""
    values = (value for _, value in spec.arguments)
    flat = (item for value in values for item in (value if isinstance(value, tuple) else (value,)))
    return [item for item in flat if isinstance(item, Spec)]
