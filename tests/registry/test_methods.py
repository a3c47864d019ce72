"""Methods by name: built-in ones, nested specs, and `module:Class` from the working folder."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import numpy as np
import pytest

from bench.base.errors import MethodError, UsageError
from bench.base.spec import Spec
from bench.interface import Library, Method, Queries
from bench.registry import build_method, load_dataset, method_class, method_names
from bench.registry.methods import _class_in

HEADER = """
import numpy as np
from pydantic import Field
from bench.base.parameters import ParameterSet
from bench.interface import Method, Ranking
from bench.search.topk import top_k
"""
LOUDEST = (
    HEADER
    + """
class Loudest(Method):
    class Parameters(ParameterSet):
        weight: float = Field(1.0, gt=0)

    def index(self, library):
        self.loudness = np.array([text.count("!") for text in library.texts], dtype=np.float64)

    def rank(self, queries, depth):
        return top_k(np.tile(self.loudness * self.parameters.weight, (len(queries), 1)), depth)
"""
)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Write a file into a working folder of this test; modules from there are forgotten afterwards."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    known = set(sys.modules)

    def write(name: str, text: str) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
        importlib.invalidate_caches()

    yield write
    for name in sys.modules.keys() - known:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


# Built-in methods ---------------------------------------------------------------------------------------------------


def test_names_are_the_file_names_with_hyphens_sorted() -> None:
    names = method_names()
    assert names == sorted(set(names))
    assert {"bm25", "bm25-okapi", "dense", "nearest-query", "oracle", "random", "rrf", "tfidf", "tgr"} <= set(names)
    assert not any("_" in name for name in names)


@pytest.mark.parametrize("name", method_names())
def test_every_method_builds_with_its_defaults_and_describes_its_parameters(name: str) -> None:
    method = build_method(name)
    assert str(method.spec) == method.name == name
    assert method.full_spec.name == name
    assert {key for key, _ in method.full_spec.arguments} == set(method.Parameters.model_fields)
    assert all(field.description for field in method.Parameters.model_fields.values())
    assert method.__doc__
    # The full spec makes the same method.
    assert build_method(method.full_spec).full_spec == method.full_spec
    assert build_method(str(method.full_spec)).full_spec == method.full_spec


def test_listing_methods_imports_none_of_them() -> None:
    program = """
import sys
from bench.registry import method_names
assert "bm25" in method_names()
heavy = {"torch", "sentence_transformers", "datasets", "pandas", "scipy", "transformers"}
loaded = {name for name in sys.modules if name.startswith("bench.methods.") or name in heavy}
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    ("name", "hint"),
    [("bm52", " (did you mean 'bm25'?)"), ("nearest_query", " (did you mean 'nearest-query'?)"), ("qqqqq", "")],
)
def test_an_unknown_method_is_told_with_the_nearest_one(name: str, hint: str) -> None:
    for use in (method_class, build_method):
        with pytest.raises(UsageError) as caught:
            use(name)
        assert str(caught.value) == (
            f"there is no method {name!r}{hint}; `bench list methods` lists them; "
            "name your own as package.module:Class, or package.module:function."
        )


# Parameters and nested specs ----------------------------------------------------------------------------------------


def test_nested_specs_build_the_methods_they_name() -> None:
    method = build_method("rrf(methods=[tgr(base=bm25(k1=0.9), layers=2), tfidf, random(seed=4)], pool=7)")
    assert str(method.full_spec) == (
        "rrf(constant=60.0, methods=[tgr(base=bm25(k1=0.9), layers=2), tfidf(), random(seed=4)], pool=7)"
    )
    library = Library.of(load_dataset("starter"), "name_description")
    method.index(library)
    ranking = method.rank(Queries(("send a letter",), np.array([0])), 5)
    assert ranking.tools.shape == (1, 5)


def test_sets_are_laid_over_the_arguments_of_the_spec() -> None:
    method = build_method("random(seed=1)", {"seed": 5})
    assert str(method.spec) == "random(seed=5)"
    base = Spec.of("random", {"seed": 3})
    assert str(build_method("rrf", {"methods": (base,)}).spec) == "rrf(methods=[random(seed=3)])"
    # The parameters that have their default are left out.
    assert str(build_method("random(seed=1)", {"seed": 0}).spec) == "random"


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("random(sed=1)", "method random has no parameter 'sed' (did you mean 'seed'?); its parameters: seed."),
        ("popularity(x=1)", "method popularity has no parameter 'x'; its parameters: none."),
        ("random(seed=many)", "parameter 'seed' of method random is 'many': input should be a valid integer"),
        ("tgr(layers=0)", "parameter 'layers' of method tgr is 0: input should be greater than or equal to 1."),
        ("tgr(base=nosuch)", "there is no method 'nosuch'"),
        ("tgr(base=bm25(k9=1))", "method bm25 has no parameter 'k9'"),
        ("tgr(base=tgr(base=tgr(base=bm52)))", "there is no method 'bm52' (did you mean 'bm25'?)"),
        ("rrf(methods=[bm25, tfdif])", "there is no method 'tfdif' (did you mean 'tfidf'?)"),
        ("rrf(methods=[bm25, random(seed=x)])", "parameter 'seed' of method random is 'x'"),
        ("rrf(methods=[])", "rrf needs at least one method"),
        ("rrf(methods=bm25)", "parameter 'methods' of method rrf is 'bm25': input should be a valid tuple."),
        ("tgr(base=3)", "parameter 'base' of method tgr is 3: must name a method"),
        ("tgr(base=popularity)", "tgr cannot use base=popularity"),
        ("bm25(", "cannot read 'bm25(': expected an argument's name at character 6."),
    ],
)
def test_what_is_wrong_at_any_depth_is_told_before_anything_runs(spec: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        build_method(spec)
    assert str(caught.value).startswith(sentence)


# module:Class -------------------------------------------------------------------------------------------------------


def test_a_method_of_a_file_in_the_working_folder_is_used(write: Callable[[str, str], None]) -> None:
    write("my_methods.py", LOUDEST)
    method = build_method("my_methods:Loudest(weight=2)")
    assert str(method.spec) == "my_methods:Loudest(weight=2.0)"
    library = Library.of(load_dataset("starter"), "description")
    method.index(library)
    ranking = method.rank(Queries(("hello",), np.array([0])), 3)
    # Python's sort is stable: ties stay in code order.
    loudest = sorted(range(len(library)), key=lambda code: -library.texts[code].count("!"))
    assert ranking.tools.tolist() == [loudest[:3]]
    with pytest.raises(UsageError, match="parameter 'weight' of method my_methods:Loudest is 0: input should be great"):
        build_method("my_methods:Loudest(weight=0)")


def test_a_method_of_a_package_and_one_inside_another_are_used(write: Callable[[str, str], None]) -> None:
    write("my_package/__init__.py", "")
    write("my_package/inner.py", LOUDEST)
    assert issubclass(method_class("my_package.inner:Loudest"), Method)
    assert str(build_method("rrf(methods=[my_package.inner:Loudest, bm25])").spec) == (
        "rrf(methods=[my_package.inner:Loudest(), bm25()])"
    )


@pytest.mark.parametrize(
    ("name", "error", "sentence"),
    [
        ("nowhere:X", UsageError, "there is no module 'nowhere' to import for the method 'nowhere:X'."),
        ("nowhere.at.all:X", UsageError, "there is no module 'nowhere.at.all' to import for the method"),
        ("mine.nowhere:X", UsageError, "there is no module 'mine.nowhere' to import for the method"),
        ("mine:Absent", UsageError, "the module mine has no class or function 'Absent'."),
        ("mine:", UsageError, "the module mine has no class or function ''."),
        (":X", MethodError, "the method ':X' cannot be imported: "),
        (".mine:X", MethodError, "the method '.mine:X' cannot be imported: "),
        ("mine:number", MethodError, "mine:number is not a method: it must be a subclass of bench.interface.Method."),
        ("mine:Other", MethodError, "mine:Other is not a method: it must be a subclass of bench.interface.Method."),
        ("mine:Half", MethodError, "the method mine:Half lacks index()."),
        ("mine:Method", MethodError, "the method mine:Method lacks index(), rank()."),
        (
            "broken:X",
            MethodError,
            "the method 'broken:X' cannot be imported: ZeroDivisionError: division by zero (broken.py:",
        ),
        ("unread:X", MethodError, "the method 'unread:X' cannot be imported: SyntaxError: "),
        ("lacking:X", MethodError, "the method 'lacking:X' cannot be imported: No module named 'not_installed'."),
    ],
)
def test_a_module_or_class_that_is_no_method_is_told(
    write: Callable[[str, str], None], name: str, error: type[Exception], sentence: str
) -> None:
    write(
        "mine.py",
        HEADER
        + """
number = 3

class Other:
    pass

class Half(Method):
    def rank(self, queries, depth):
        raise NotImplementedError
""",
    )
    write("broken.py", "1 / 0")
    write("unread.py", "def (")
    write("lacking.py", "import not_installed")
    with pytest.raises(error) as caught:
        method_class(name)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "write a class that is derived from bench.interface.Method."),
        ("class Half(Method):\n    pass\n", "mine has no concrete Method: Half lacks index(), rank()."),
        ("class A(Random): pass\nclass B(A): pass\n", "mine has more than one concrete Method: it has A, B. Keep one"),
    ],
)
def test_a_file_without_one_method_is_told_with_what_its_classes_lack(
    write: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch, text: str, sentence: str
) -> None:
    monkeypatch.syspath_prepend(".")
    write("mine.py", f"{HEADER}\nfrom bench.methods.random import Random\n\n{text}")
    with pytest.raises(MethodError, match=re.escape(sentence.rstrip("."))):
        _class_in("mine", "mine")


def test_a_method_whose_constructor_refuses_is_told_as_it_says(write: Callable[[str, str], None]) -> None:
    write(
        "picky.py",
        LOUDEST
        + """
from bench.base.errors import UsageError

class Picky(Loudest):
    def __init__(self, parameters, context):
        super().__init__(parameters, context)
        raise UsageError("picky needs a quieter library.")
""",
    )
    with pytest.raises(UsageError, match=r"^picky needs a quieter library\.$"):
        build_method("picky:Picky")


def test_a_method_whose_constructor_fails_is_told_with_its_name(write: Callable[[str, str], None]) -> None:
    write(
        "faulty.py",
        LOUDEST
        + """
class Faulty(Loudest):
    def __init__(self, parameters, context):
        super().__init__(parameters, context)
        self.share = 1 / 0
""",
    )
    with pytest.raises(MethodError, match=r"faulty:Faulty.*division by zero"):
        build_method("faulty:Faulty")


@pytest.mark.parametrize("size", ["0", "-1", "None", "2.5", "'64'"])
def test_a_batch_size_that_is_no_number_of_queries_is_told(write: Callable[[str, str], None], size: str) -> None:
    write("batches.py", LOUDEST + f"\n    batch_size = {size}\n")
    for use in (method_class, build_method):
        with pytest.raises(MethodError) as caught:
            use("batches:Loudest")
        assert str(caught.value) == (f"the method batches:Loudest has the batch_size {size}; it must be 1 or more.")


def test_a_method_may_take_queries_one_by_one(write: Callable[[str, str], None]) -> None:
    write("single.py", LOUDEST + "\n    batch_size = 1\n")
    assert build_method("single:Loudest").batch_size == 1
    assert Method.batch_size >= 1


# What a method does with the process --------------------------------------------------------------------------------


def test_a_module_that_ends_the_process_is_told(write: Callable[[str, str], None]) -> None:
    write("leaves.py", "import sys\nsys.exit(0)\n")
    with pytest.raises(
        MethodError, match=r"^the method 'leaves:X' cannot be imported: SystemExit: 0 \(leaves\.py:\d+\)\.$"
    ):
        method_class("leaves:X")


def test_a_constructor_that_ends_the_process_is_told(write: Callable[[str, str], None]) -> None:
    write("quits.py", LOUDEST + "\n    def __init__(self, parameters, context):\n        raise SystemExit('bye')\n")
    with pytest.raises(
        MethodError, match=r"^the method quits:Loudest cannot be built: SystemExit: bye \(quits\.py:\d+\)\.$"
    ):
        build_method("quits:Loudest")


def test_methods_are_found_from_a_working_folder_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[str, str], None]
) -> None:
    write("still.py", LOUDEST)
    monkeypatch.syspath_prepend(str(tmp_path / "work"))
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert build_method("bm25").name == "bm25"
    assert build_method("still:Loudest").name == "still:Loudest"
    with pytest.raises(UsageError, match="there is no module 'nowhere' to import"):
        method_class("nowhere:X")
