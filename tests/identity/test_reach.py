"""What the hash of a definition covers: each way in which code reaches other code, and what takes no part."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from bench.base.paths import cache_folder
from bench.identity import reach as bench_reach
from bench.identity.reach import Definition, Reached, reach

Files = Mapping[str, str]


@pytest.fixture
def reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Reached]:
    """What `root` in `root.py` of a package reaches, whose files are given; `PACKAGE` in them is its name."""
    monkeypatch.syspath_prepend(tmp_path)
    package = f"bench_reach_{tmp_path.name.replace('-', '_')}"

    def reached(files: Files, *called: str) -> Reached:
        shutil.rmtree(tmp_path / package, ignore_errors=True)
        for name, text in {"__init__.py": "", **files}.items():
            path = tmp_path / package / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(text.replace("PACKAGE", package).encode())
        bench_reach._KNOWN.clear()
        return reach([Definition(f"{package}.root", "root")], called)

    return reached


USED = "def used():\n    return 1\n"

#: What leads from `root` to a number 1 in another file.
FOLLOWED: dict[str, Files] = {
    "a name": {"root.py": "from .other import used\ndef root():\n    return used()\n", "other.py": USED},
    "another name": {"root.py": "from .other import used as u\ndef root():\n    return u()\n", "other.py": USED},
    "a module": {"root.py": "from . import other\ndef root():\n    return other.used()\n", "other.py": USED},
    "a package": {"root.py": "import PACKAGE as p\ndef root():\n    return p.other.used()\n", "other.py": USED},
    "a late import": {"root.py": "def root():\n    from .other import used\n    return used()\n", "other.py": USED},
    "a late module": {
        "root.py": "def root():\n    import PACKAGE.other as o\n    return o.used()\n",
        "other.py": USED,
    },
    "a star": {"root.py": "from .other import *\ndef root():\n    return used()\n", "other.py": USED},
    "a name that is passed on": {
        "root.py": "from . import face\ndef root():\n    return face.used()\n",
        "face.py": "from .other import used\n",
        "other.py": USED,
    },
    "an import that may fail": {
        "root.py": (
            "try:\n    from .other import used\nexcept ImportError:\n    used = None\ndef root():\n    return used\n"
        ),
        "other.py": USED,
    },
    "a condition at the top": {
        "root.py": (
            "from .other import FAST\nif FAST:\n    SIZE = 5\nelse:\n    SIZE = 6\ndef root():\n    return SIZE\n"
        ),
        "other.py": "FAST = 1\n",
    },
    "a default": {"root.py": "from .other import used\ndef root(x=used()):\n    return x\n", "other.py": USED},
    "a decorator": {"root.py": "from .other import used\n@used\ndef root():\n    pass\n", "other.py": USED},
    "a base class": {
        "root.py": "from .other import Base\nclass root(Base):\n    pass\n",
        "other.py": "class Base:\n    size = 1\n",
    },
    "a metaclass": {
        "root.py": "from .other import Meta\nclass root(metaclass=Meta):\n    pass\n",
        "other.py": "class Meta(type):\n    def __call__(self): return 1\n",
    },
    "a closure": {
        "root.py": (
            "from .other import used\ndef root():\n    def inner():\n        return lambda: [used() for x in ()]\n"
        ),
        "other.py": USED,
    },
    "a member of a class that it makes": {
        "root.py": "from .other import Kind\ndef root():\n    return Kind().size()\n",
        "other.py": "class Kind:\n    def size(self): return 1\n",
    },
    "a member by name of a class that another part makes": {
        "root.py": "from . import more\ndef root(made):\n    return made.size, more.make\n",
        "more.py": "from .other import Kind\ndef make():\n    return Kind()\n",
        "other.py": "class Kind:\n    @property\n    def size(self): return 1\n",
    },
    "a member of a base class": {
        "root.py": "from .other import Kind\ndef root():\n    return Kind().size()\n",
        "other.py": "class Base:\n    def size(self): return 1\nclass Kind(Base):\n    pass\n",
    },
    "a member that Python calls": {
        "root.py": "from .other import Kind\ndef root():\n    return Kind() < 2\n",
        "other.py": "class Kind:\n    def __lt__(self, other): return 1\n",
    },
    "a member that another package calls": {
        "root.py": "from .other import Kind\ndef root():\n    return Kind()\n",
        "other.py": "import json\nclass Kind(json.JSONEncoder):\n    def default(self, o): return 1\n",
    },
    "a member that a decorator registers": {
        "root.py": "from .other import Kind\ndef root():\n    return Kind(x=3)\n",
        "other.py": (
            "from pydantic import BaseModel, field_validator\nclass Kind(BaseModel):\n    x: int\n"
            "    @field_validator('x')\n    @classmethod\n    def other(cls, x): return 1\n"
        ),
    },
    "the type of a field": {
        "root.py": "from .other import Kind\ndef root():\n    return Kind(x=3)\n",
        "other.py": (
            "from typing import Annotated\nfrom pydantic import BaseModel, Field\n"
            "class Kind(BaseModel):\n    x: Annotated[int, Field(ge=1)]\n"
        ),
    },
    "a member by a text": {
        "root.py": "from .other import Kind\ndef root():\n    return getattr(Kind(), 'size')\n",
        "other.py": "class Kind:\n    size_ = 0\n    def size(self): return 1\n",
    },
    "a name that is computed": {
        "root.py": "import PACKAGE.other\ndef root(name):\n    return getattr(PACKAGE.other, 'us' + name)\n",
        "other.py": USED,
    },
    "a name that is computed in its own module": {
        "root.py": "from .other import find\ndef root(name):\n    return find(name)\n",
        "other.py": "def find(name):\n    return globals()['us' + name]\n" + USED,
    },
    "a member that is computed in its own module": {
        "root.py": "from .other import Kind\ndef root():\n    return Kind().find('us')\n",
        "other.py": (
            "class Kind:\n    def find(self, name): return getattr(self, name + 'ed')\n    def used(self): return 1\n"
        ),
    },
    "a module as a value": {
        "root.py": "from . import other\ndef root():\n    return list(map(len, [other]))\n",
        "other.py": USED,
    },
    "a registry that another module fills": {
        "root.py": "from . import registry, more\ndef root(name):\n    return registry.TABLE[name]\n",
        "registry.py": "TABLE = {}\ndef register(f):\n    TABLE[f.__name__] = f\n    return f\n",
        "more.py": "from .registry import register\n@register\ndef anything():\n    return 1\n",
    },
    "a registry that an import of an import fills": {
        "root.py": "from . import registry, more\ndef root(name):\n    return registry.TABLE[name]\n",
        "registry.py": "TABLE = {}\n",
        "more.py": "import PACKAGE.last\n",
        "last.py": "from . import registry\nregistry.TABLE['a'] = 1\n",
    },
    "a class that tells its base": {
        "root.py": "from . import more\nfrom .base import Base\ndef root(name):\n    return Base.kinds[name]\n",
        "base.py": (
            "class Base:\n    kinds = {}\n    def __init_subclass__(cls, name):\n        Base.kinds[name] = cls\n"
        ),
        "more.py": "from .base import Base\nclass Kind(Base, name='a'):\n    size = 1\n",
    },
    "a function replaced by another": {
        "root.py": "from . import more, base\ndef root():\n    return base.used()\n",
        "base.py": "def used():\n    return 0\n",
        "more.py": "from . import base\ndef better():\n    return 1\nbase.used = better\n",
    },
    "a setting of another package": {
        "root.py": "from . import more\ndef root():\n    return more.X\n",
        "more.py": "import decimal\nX = 0\ndecimal.getcontext().prec = 1\n",
    },
    "a call at the top": {
        "root.py": "from . import more\ndef root():\n    return more.X\n",
        "more.py": "import random\nX = 0\nrandom.seed(1)\n",
    },
    "a package around it": {
        "root.py": "from .inner.leaf import x\ndef root():\n    return x\n",
        "inner/leaf.py": "x = 5\n",
        "inner/__init__.py": "import random\nrandom.seed(1)\n",
    },
    "a function for a type": {
        "root.py": "from .other import shown\ndef root(x):\n    return shown(x)\n",
        "other.py": (
            "from functools import singledispatch\n@singledispatch\ndef shown(x):\n    return 0\n"
            "@shown.register\ndef _(x: int):\n    return 1\n"
        ),
    },
    "a file beside it": {
        "root.py": (
            "from pathlib import Path\ndef root():\n    return Path(__file__).with_name('weights.json').read_text()\n"
        ),
        "weights.json": "[1]",
    },
    "a package that imports from itself": {
        "root.py": "import PACKAGE as p\ndef root():\n    return p.other.used(), p.name_of_none\n",
        "__init__.py": "from . import other\nfrom .more import *\n",
        "more.py": "from PACKAGE import *\nfrom .again import *\n",
        "again.py": "from .more import *\n",
        "other.py": "from . import root\n" + USED,
    },
    "a pattern": {
        "root.py": "from .other import Kind\ndef root(x):\n    match x:\n        case Kind(size=2): return 3\n",
        "other.py": "class Kind:\n    @property\n    def size(self): return 1\n",
    },
    "a constant changed later": {
        "root.py": "SIZES = []\ndef root():\n    return SIZES\nSIZES.append(1)\n",
    },
}


@pytest.mark.parametrize("files", FOLLOWED.values(), ids=FOLLOWED.keys())
def test_what_leads_to_other_code_is_followed(reached: Callable[..., Reached], files: Files) -> None:
    last = list(files)[-1]
    assert files[last].count("1") == 1
    other = {**files, last: files[last].replace("1", "2")}
    one, two, same = (reached(each).hash() for each in (files, other, files))
    assert one != two
    assert one == same


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("from .other import first as f", "from .other import second as f"),
        ("import math as m", "import cmath as m"),
        ("from . import other as o", "from . import more as o"),
    ],
)
def test_which_definition_a_name_stands_for_counts(reached: Callable[..., Reached], old: str, new: str) -> None:
    # Both are reached in any case.
    root = (
        "from .other import first as f\nimport math as m\nimport cmath\nfrom . import other as o\nfrom . import more\n"
        "from .other import first, second\n"
        "def root():\n    return f() + m.sqrt(2) + o.first() + more.first(), first, second, cmath.sqrt\n"
    )
    files = {"root.py": root, "other.py": "def first():\n    return 1\ndef second():\n    return 2\n"}
    files["more.py"] = "def first():\n    return 3\n"
    assert reached(files).hash() != reached({**files, "root.py": root.replace(old, new, 1)}).hash()


BASE = '''\
"""A module."""

from typing import TYPE_CHECKING
from .other import used, Kind

if TYPE_CHECKING:
    from .other import Typed

SIZE = 3


def root(x: int, *more: "Typed") -> str:
    """Says something."""
    number: int = used(x)
    if number < 0:
        raise ValueError(f"{number} is below 0.")
    return Kind(number=number).told()


def first() -> int:
    return 1


def second() -> int:
    return 2
'''
OTHER = '''\
from pydantic import BaseModel, Field

LIMIT = 3


class Kind(BaseModel):
    """A record."""

    number: int = Field(1, ge=0, description="a number")

    def told(self) -> str:
        return str(self.number)

    def explain(self) -> str:
        """Why."""
        return "because"


def used(x: int) -> int:
    # A comment.
    return x + LIMIT


if __name__ == "__main__":
    print(used(3))
'''
NEUTRAL = {
    "a comment": ("other.py", "# A comment.", "# Another."),
    "a docstring": ("root.py", '"""Says something."""', '"""Says something else."""'),
    "the docstring of a module": ("root.py", '"""A module."""', '"""The module."""'),
    "the docstring of a class": ("other.py", '"""A record."""', ""),
    "blank lines and brackets": ("other.py", "return x + LIMIT", "return (\n        x\n        + LIMIT\n    )"),
    "the annotation of an argument": ("root.py", "x: int, *more", "x: float, *more"),
    "the annotation of a result": ("other.py", "def used(x: int) -> int:", "def used(x):"),
    "the annotation of a variable": ("root.py", "number: int = used", "number = used"),
    "an import for types alone": ("root.py", "import Typed", "import Another"),
    "a function that nothing uses": ("other.py", "LIMIT = 3\n", "LIMIT = 3\n\n\ndef unused():\n    return LIMIT\n"),
    "a constant that nothing uses": ("other.py", "LIMIT = 3\n", "LIMIT = 3\nMORE = LIMIT + 1\n"),
    "a declaration": ("other.py", "LIMIT = 3\n", "LIMIT = 3\ndeclared: int\n"),
    "another import": ("other.py", "from pydantic", "import json\nfrom pydantic"),
    "the order of definitions": (
        "root.py",
        "def first() -> int:\n    return 1\n\n\ndef second() -> int:\n    return 2\n",
        "def second() -> int:\n    return 2\n\n\ndef first() -> int:\n    return 1\n",
    ),
    "the order of members": (
        "other.py",
        "    def told(self) -> str:\n        return str(self.number)\n\n"
        '    def explain(self) -> str:\n        """Why."""\n        return "because"\n',
        '    def explain(self) -> str:\n        return "because"\n\n'
        "    def told(self) -> str:\n        return str(self.number)\n",
    ),
    "a member that nothing calls": ("other.py", 'return "because"', 'return "therefore"'),
    "a new member": ("other.py", "    def told", "    def more(self):\n        return 1\n\n    def told"),
    "a description": ("other.py", 'description="a number"', 'description="the number"'),
    "the words of an error": ("root.py", "is below 0.", "is negative."),
    "what a script does": ("other.py", "print(used(3))", "print(used(4))"),
    "an unused file": ("more.py", "", "import random\nrandom.seed(1)\n"),
}


@pytest.mark.parametrize(("file", "old", "new"), NEUTRAL.values(), ids=NEUTRAL.keys())
def test_what_changes_nothing_does_not_count(reached: Callable[..., Reached], file: str, old: str, new: str) -> None:
    files = {"root.py": BASE, "other.py": OTHER, "more.py": ""}
    assert old in files[file]
    assert reached(files).hash() == reached({**files, file: files[file].replace(old, new, 1)}).hash()


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("other.py", "x + LIMIT", "x - LIMIT"),
        ("other.py", "LIMIT = 3", "LIMIT = 4"),
        ("other.py", "ge=0", "ge=1"),
        ("other.py", "str(self.number)", "repr(self.number)"),
        ("root.py", "number < 0", "number <= 0"),
        ("root.py", "raise ValueError", "raise KeyError"),
        # A name of its own counts, too: to tell that its new name changes nothing would take more than reading.
        ("other.py", "def used(x: int) -> int:\n    # A comment.\n    return x +", "def used(y):\n    return y +"),
    ],
)
def test_what_may_change_something_counts(reached: Callable[..., Reached], file: str, old: str, new: str) -> None:
    files = {"root.py": BASE, "other.py": OTHER}
    assert old in files[file]
    assert reached(files).hash() != reached({**files, file: files[file].replace(old, new, 1)}).hash()


#: One way to bind a name in a function; `{0}` is the name, and `one` and `two` are variables besides.
BINDINGS = {
    "an assignment": "{0} = one\n    return {0} + two",
    "parts of a value": "({0}, *rest), last = one, two\n    return {0}, rest, last",
    "a loop": "for {0} in one:\n        two += {0}\n    return two",
    "with": "with one as {0}:\n        return {0}",
    "an exception": "try:\n        one()\n    except ValueError as {0}:\n        return {0}",
    "a comprehension": "return [{0} + two for {0} in one if {0}]",
    "a comprehension in another": "return {{other: [{0} + two for {0} in other] for other in one}}",
    "an assignment expression": "return [two for part in one if ({0} := part)], {0}",
    "a pattern": "match one:\n        case [{0}, *_]:\n            return {0}",
    "the rest of a pattern": "match one:\n        case {{'a': 1, **{0}}}:\n            return {0}",
    "nonlocal": (
        "{0} = one\n    def inner():\n        nonlocal {0}\n        {0} += 1\n        return {0}\n    return inner"
    ),
    "a closure": "{0} = one\n    return lambda x: x + {0}",
    "the body of a class": "{0} = one\n    class Kind:\n        size = {0}\n    return Kind",
    "a text with values": "{0} = one\n    return f'{{{0}:>{{two}}}}'",
}


def _function(binding: str, name: str) -> Files:
    return {"root.py": f"SIZE = 1\ndef root(one, two):\n    {binding.format(name)}\n"}


@pytest.mark.parametrize("binding", BINDINGS.values(), ids=BINDINGS.keys())
def test_the_name_of_a_local_variable_does_not_count(reached: Callable[..., Reached], binding: str) -> None:
    assert reached(_function(binding, "found")).hash() == reached(_function(binding, "results")).hash()
    # Which variable is meant does count.
    assert reached(_function(binding, "found")).hash() != reached(_function(binding, "two")).hash()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a = x\n    b = y\n    return a - b", "a = x\n    b = y\n    return b - a"),
        ("a = x\n    return a + SIZE", "SIZE = x\n    return SIZE + SIZE"),
        ("return [a for a in x]", "return [y for a in x]"),
        ("global SIZE\n    SIZE = x", "global SIZES\n    SIZES = x"),
        ("a = x\n    return dict(a=a)", "a = x\n    return dict(b=a)"),
        ("a = x\n    return locals()", "b = x\n    return locals()"),
        ("a = x\n    return f'{a=}'", "b = x\n    return f'{b=}'"),
        ("class A:\n        a = x\n    return A", "class A:\n        b = x\n    return A"),
        ("def a(b): return b\n    return a", "def a(c): return c\n    return a"),
    ],
)
def test_a_name_that_code_elsewhere_may_see_counts(reached: Callable[..., Reached], old: str, new: str) -> None:
    one, other = ({"root.py": f"SIZE = SIZES = 1\ndef root(x, y):\n    {body}\n"} for body in (old, new))
    assert reached(one).hash() != reached(other).hash()


def test_where_an_import_stands_does_not_count(reached: Callable[..., Reached]) -> None:
    other = {"other.py": "def used():\n    return 1\n"}
    top = "from .other import used\nimport math\ndef root():\n    return used() + math.pi\n"
    late = "def root():\n    import math\n    from .other import used\n    return used() + math.pi\n"
    assert reached({"root.py": top, **other}).hash() == reached({"root.py": late, **other}).hash()
    moved = {"root.py": late.replace(".other", ".more"), "more.py": other["other.py"]}
    assert reached(moved).hash() == reached({"root.py": top, **other}).hash()
    changed = {"other.py": other["other.py"].replace("1", "2")}
    assert reached({"root.py": late, **changed}).hash() != reached({"root.py": late, **other}).hash()


def test_line_ends_do_not_count(reached: Callable[..., Reached]) -> None:
    files = {"root.py": BASE, "other.py": OTHER}
    assert reached(files).hash() == reached({name: text.replace("\n", "\r\n") for name, text in files.items()}).hash()


@pytest.mark.parametrize("text", ["print('was run')", "raise SystemExit('was run')"])
def test_what_is_hashed_is_not_run(reached: Callable[..., Reached], text: str) -> None:
    files = {"root.py": "def root():\n    from .other import x\n    return x\n", "other.py": text}
    assert reached(files).hash() != reached({**files, "other.py": text + "\nx = 1\n"}).hash()


def test_what_no_python_can_read_is_an_error(reached: Callable[..., Reached]) -> None:
    with pytest.raises(SyntaxError):
        reached(
            {"root.py": "from .other import x\ndef root():\n    return x\n", "other.py": "this is no Python"}
        ).hash()
    with pytest.raises(LookupError, match="no top-level definition 'root'"):
        reached({"root.py": "pass\n"}).hash()


def answers() -> list[Path]:
    """The kept answers, among what is kept of modules."""
    return [path for path in (cache_folder() / "code").glob("*.json") if path.read_text().startswith("[")]


def later(monkeypatch: pytest.MonkeyPatch) -> None:
    """The files of a test are as old as those of a checkout are: what was found from new ones is not kept."""
    now = time.time_ns
    monkeypatch.setattr("bench.identity.reach.time.time_ns", lambda: now() + 10**10)


def test_what_was_found_is_kept_and_a_damaged_cache_costs_time_alone(
    reached: Callable[..., Reached], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    later(monkeypatch)
    followed: list[object] = []
    follow = Reached._follow
    monkeypatch.setattr(Reached, "_follow", lambda *given: followed.append(given) or follow(*given))
    result = reached({"root.py": BASE, "other.py": OTHER})
    first = result.hash()
    (path,) = answers()
    whole = path.read_text()
    for module in {*path.parent.glob("*.json")} - {path}:
        module.write_text("{" + module.read_text()[:99])
    for text, times in ((whole, 1), (whole[: len(whole) // 2], 2), (whole.replace("[", "{"), 3)):
        path.write_text(text)
        bench_reach._KNOWN.clear()
        bench_reach._parse_module.cache_clear()
        assert result.hash() == result.hash() == first
        assert len(followed) == times
    # Another process has found something else since.
    bench_reach._KNOWN.clear()
    other = reach(result.roots, ["told"])
    other.hash()
    bench_reach._KNOWN.clear()
    assert (result.hash(), other.hash()) == (first, other.hash())
    assert len(followed) == 4


def test_of_a_file_of_this_moment_nothing_is_kept(
    reached: Callable[..., Reached], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It may change once more without another time.
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    reached({"root.py": BASE, "other.py": OTHER}).hash()
    assert not answers()


#: Code that reads files beside it, and imports what may be there.
DATA_ROOT = (
    "from .other import used\nfrom pathlib import Path\n"
    "def root():\n    here = Path(__file__).parent\n"
    "    names = ['words.txt', 'lists/deep/words.txt', 'held']\n"
    "    return extra, used(), [here / name for name in names]\n"
)
COMES = {"root.py": "try:\n    from . import extra\nexcept ImportError:\n    extra = None\n" + DATA_ROOT}


@pytest.mark.parametrize(
    "change",
    {
        "a file of the same size and time": lambda place: rewritten(place / "other.py", "return 1", "return 2"),
        "a module that comes": lambda place: (place / "extra.py").write_text("X = 1\n"),
        "a data file that comes": lambda place: (place / "words.txt").write_text("more"),
        "a file in a folder that comes": lambda place: written(place / "lists" / "deep" / "words.txt"),
    }.items(),
    ids=lambda item: item[0],
)
def test_a_kept_answer_does_not_outlive_what_it_was_found_from(
    reached: Callable[..., Reached],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: tuple[str, Callable[[Path], object]],
) -> None:
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    later(monkeypatch)
    result = reached({**COMES, "other.py": USED, "held/inner/a.txt": "a"})
    before = result.hash()
    assert result.hash() == before
    change[1](next(tmp_path.glob("bench_reach_*")))
    # As in another process, which has only what is kept.
    bench_reach._KNOWN.clear()
    bench_reach._parse_module.cache_clear()
    assert result.hash() != before


def rewritten(path: Path, old: str, new: str) -> None:
    times = path.stat().st_mtime_ns
    path.write_text(path.read_text().replace(old, new))
    os.utime(path, ns=(times, times))


def written(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("words")


def test_a_place_that_cannot_be_written_costs_time_alone(
    reached: Callable[..., Reached], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "file" / "cache"))
    files: dict[str, Any] = {"root.py": BASE, "other.py": OTHER}
    assert reached(files).hash() == reached(files).hash()


def test_threads_find_the_same(
    reached: Callable[..., Reached], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench_reach, "_GLANCE", 0)
    expected = reached({"root.py": BASE, "other.py": OTHER}).hash()
    (root,) = tmp_path.glob("bench_reach_*")

    def once(number: int) -> str:
        # A file with another time has all be read again.
        os.utime(root / "other.py", ns=(number, number))
        return reach([Definition(f"{root.name}.root", "root")]).hash()

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(once, range(200))) == {expected}
