"""Load and import datasets, and build methods by name: part of `import bench`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from bench.base.config import current_session
from bench.base.errors import UsageError
from bench.base.paths import expand_path
from bench.base.spec import Spec, Value, parse
from bench.data.dataset import Dataset
from bench.data.units import parse_unit
from bench.importing.reading import Document, check_json
from bench.importing.tools.forms import FORMS, Form
from bench.importing.tools.objects import as_json
from bench.interface.method import Method
from bench.interface.parts import is_oracle, needs_history, preflight
from bench.interface.views import History, Library
from bench.registry import datasets, methods

#: A method in the API: a spec, a class, an instance (only its name and parameters are used), or a search function
#: (`bench.registry.functions`).
MethodLike: TypeAlias = str | type[Method] | Method | Callable[..., Any]
#: A dataset in the API: a spec or a loaded dataset.
DatasetLike: TypeAlias = str | Dataset


def load_dataset(spec: str) -> Dataset:
    """Load a dataset: tools, queries and relevance judgements.

    Upstream files are downloaded once, checked against their sha256 and stored in the cache. `bench.config_context`
    sets whether bench downloads them, and from where.

    Args:
        spec: id or alias, with options in parentheses: `starter`, `rectools(split=bundle-disjoint)`.

    Returns:
        The dataset. `dataset.to_pandas()` gives its tables as DataFrames.

    Raises:
        UsageError: there is no such dataset or option.
        UnavailableError: a file is missing and cannot be downloaded.
        DataError: a file is corrupt, or differs from the dataset's card.

    Examples:
        >>> dataset = bench.load_dataset("starter")
        >>> len(dataset.tools) > 100
        True
    """
    return datasets.load_dataset(spec, current_session().progress)


def import_tools(
    name: str,
    tools: object,
    queries: str | Path | Sequence[Mapping[str, object]] | None = None,
    *,
    form: Form | None = None,
    drop_duplicates: bool = False,
    drop_unknown_gold: bool = False,
    replace: bool = False,
    unit: str | None = None,
    fields: Mapping[str, str] | None = None,
) -> Dataset:
    """Import your tools as a dataset that `bench.run`, `bench data` and the other functions find by name.

    The dataset is stored where `bench data import` stores it. Without queries, it has only tools.

    Args:
        name: the id of the dataset.
        tools: a file or folder as a `Path`, a string or `"SERVER=PATH"`, or a list of these. Or the tools themselves:
            JSON data (the reply of an MCP server, functions for OpenAI, Anthropic or Gemini, an OpenAPI document), or
            a list of tool objects from LangChain, LlamaIndex, pydantic-ai or the MCP SDK.
        queries: a file with `query` and `tools`, or a list of such objects: `{"query": "...", "tools": ["send"]}`.
        form: `mcp`, `openai`, `anthropic`, `gemini` or `openapi`; None to detect the form of each source.
        drop_duplicates: if different tools have the same id, keep the first.
        drop_unknown_gold: drop gold that names tools outside the sources, instead of raising an error.
        replace: replace a dataset that was added under the same name.
        unit: what makes queries dependent, as for `bench data add`; the same gold set if None.
        fields: names of fields in the queries, as in `--field` of `bench data import`: `{"text": "prompt"}`.

    Raises:
        UsageError: the name is taken, a source cannot be read, or an object is not a tool.
        DataError: a source or the queries are malformed, or two tools have the same id.
        UnavailableError: a file is YAML and PyYAML is not installed.

    Examples:
        >>> tools = [{"name": "forecast", "description": "The weather of a place.", "inputSchema": {"type": "object"}}]
        >>> queries = [{"query": "Will it rain tomorrow?", "tools": ["forecast"]}]
        >>> bench.import_tools("mine", tools, queries, replace=True).tools[0].tool_id
        'forecast'
    """
    from bench.registry.catalogues import import_sources

    if form is not None and form not in FORMS:
        raise UsageError(f"form is {form!r}; it must be {', '.join(FORMS[:-1])} or {FORMS[-1]}.")
    listed = [tools] if isinstance(tools, str | Path) else tools
    if not (isinstance(listed, list | tuple) and listed and all(isinstance(each, str | Path) for each in listed)):
        listed = [Document(check_json(as_json(tools), "the tools"), "the tools", "a Python program")]
    return import_sources(
        name,
        listed,
        expand_path(queries) if isinstance(queries, str | Path) else queries,
        form=form,
        drop_duplicates=drop_duplicates,
        drop_unknown_gold=drop_unknown_gold,
        replace=replace,
        unit=None if unit is None else parse_unit(unit),
        fields=(fields or {}).items(),
    )


def build_method(method: MethodLike, /, **parameters: object) -> Method:
    """Build a method from a spec and check it. Calling a class does the same: `BM25(k1=1.5)`.

    `bench.run` uses the name and parameters of the method and builds a fresh one for each run.

    Args:
        method: a spec such as `"bm25"`, `"dense(similarity=dot)"` or `"package.module:Class"`; a `Method` class; or an
            instance, to build one with changed parameters.
        parameters: values of the method's parameters. A parameter that is itself a method takes a spec or an instance.

    Raises:
        UsageError: there is no such method or parameter, a value has the wrong type, or the class cannot be imported
            by name, because it is defined in a notebook or inside a function.
        MethodError: the method cannot be imported or built.

    Examples:
        >>> bench.build_method("bm25", k1=1.5)
        bm25(k1=1.5)
    """
    values = {name: value_of(name, value) for name, value in parameters.items()}
    return methods.build_method(_spec(method), values, current_session().progress)


def fit_method(method: Method, data: str | Dataset) -> Method:
    """Fit a method to the past queries of a dataset as a run does, and index its library: `BM25().fit(data)`.

    Raises:
        UsageError: it is an oracle, or needs past queries and the dataset has none.
    """
    dataset = load_dataset(data) if isinstance(data, str) else data
    library = Library.of(dataset, dataset.card.template)
    history = History.of(dataset, library, dataset.rows(dataset.card.split))
    if is_oracle(method):
        raise UsageError(f"{method} needs the gold of the queries, so it can only be run: bench.run({method!r}).")
    if needs_history(method) and not history.gold.counts.any():
        raise UsageError(f"{method} needs past queries, but {dataset.spec} has none.")
    preflight(method, library, history)
    if len(history):
        method.fit(history)
    method.index(library)
    method._searched = library
    return method


def method_spec(method: MethodLike) -> Spec:
    """The canonical spec of a method; raises as `build_method` does."""
    return build_method(method).spec


def dataset_spec(dataset: DatasetLike) -> Spec:
    """The canonical spec of a dataset.

    Raises:
        UsageError: it is neither a spec nor a `Dataset`, or there is no such dataset.
    """
    if isinstance(dataset, Dataset):
        return parse(dataset.spec)
    if not isinstance(dataset, str):
        raise UsageError(f"a dataset is a name such as 'starter' or a loaded Dataset, not {_kind(dataset)}.")
    return parse(datasets.resolve(dataset)[2])


def ensure_loaded(dataset: DatasetLike) -> Dataset:
    """Return the dataset, loading it if it is a spec."""
    return dataset if isinstance(dataset, Dataset) else load_dataset(str(dataset_spec(dataset)))


def _spec(method: MethodLike) -> Spec:
    """The spec of a method, with unchecked parameters."""
    if isinstance(method, str):
        return parse(method)
    if isinstance(method, Method):
        # The name from the registry: the name in the class may belong to another method.
        return Spec.of(vars(method).get("name") or _class_name(type(method)), dict(method.spec.arguments))
    if isinstance(method, type) and issubclass(method, Method):
        return Spec.of(_class_name(method))
    if isinstance(method, type):
        raise UsageError(f"the class {method.__name__} is not a method; derive it from bench.Method.")
    if inspect.isfunction(method):
        return Spec.of(_place(method))
    raise UsageError(
        f"a method is a name such as 'bm25', a Method class or an instance of one, or a search function, not "
        f"{_kind(method)}."
    )


def _class_name(kind: type[Method]) -> str:
    """The name from which any process can import the class: a method's registered name, or `module:Class`.

    Raises:
        UsageError: there is no such name.
    """
    module = kind.__module__
    name = module.removeprefix("bench.methods.").removesuffix(".method").replace("_", "-")
    if module.startswith("bench.methods.") and name in methods.method_names() and methods.method_class(name) is kind:
        return name
    return _place(kind)


def _place(value: type[Method] | Callable[..., Any]) -> str:
    """`module:NAME` of a class or a function.

    Raises:
        UsageError: it cannot be imported by this name.
    """
    module, name = value.__module__, value.__qualname__
    if module == "__main__":
        module = _script(name)
    if "." in name:
        raise UsageError(
            f"the method {name} is defined inside a function or a class; move it to the top level of {module}."
        )
    if getattr(sys.modules.get(module), name, None) is not value:
        raise UsageError(f"the module {module} holds another {name} by now; import it again.")
    return f"{module}:{name}"


def _script(name: str) -> str:
    """The module name of the running program, from its file.

    Raises:
        UsageError: it is a notebook, or a file whose name is not a module name.
    """
    program = sys.modules["__main__"]
    file = Path(getattr(program, "__file__", None) or "")
    if file.suffix != ".py" or not file.stem.isidentifier() or file.stem == "__main__":
        place = f"{file}, which is run and not imported" if file.suffix == ".py" else "a notebook"
        raise UsageError(
            f"the method {name} is defined in {place}, from which a stored result cannot import it; move it "
            f"to a module of its own, such as {name.lower()}.py, and import it."
        )
    # Register the module name, so that the registry finds this class without running the program a second time.
    sys.modules.setdefault(file.stem, program)
    return file.stem


def value_of(name: str, value: Any) -> Value:
    """A Python value, or a number of NumPy, as a value of a spec."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str | Spec):
        return value
    if isinstance(value, Method) or (isinstance(value, type) and issubclass(value, Method)):
        return _spec(value)
    if isinstance(value, list | tuple):
        return tuple(value_of(name, item) for item in value)
    raise UsageError(
        f"the parameter {name!r} is {_kind(value)}; give a number, a string, a boolean, None, a method, or a list of "
        "these."
    )


def _kind(value: object) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"
