"""Edits of users' code: what changes a ranking, and what does not.

Each case is the files of a method `mine:Mine` that answers every query with the tool number `NUMBER`, and what is
written after it ran (None removes a file). In `SEEN` the edit gives another number; in `NEUTRAL` it changes nothing
that is used, so the result is kept; in `PRICE` it changes no ranking either, and the method runs again.
"""

from __future__ import annotations

Files = dict[str, str | None]
Case = tuple[Files, Files]


def mine(top: str = "", number: str = "NUMBER", before: str = "pass") -> str:
    """The module of a method."""
    return (
        f"from bench import Method\nfrom bench.interface import Ranking\n{top}\n\n"
        "class Mine(Method):\n"
        f"    def index(self, library):\n        self.n = len(library)\n        {before}\n\n"
        "    def rank(self, queries, depth):\n"
        f"        return Ranking.of_lists([[int({number}) % self.n]] * len(queries))\n"
    )


def of(top: str, number: str = "NUMBER", before: str = "pass", /, **files: str) -> Files:
    """Files of a case; `a__b_py` is `a/b.py`."""
    named = {name.replace("__", "/").replace("_", "."): text for name, text in files.items()}
    return {"mine.py": mine(top, number, before), **named}


ONE, TWO = "NUMBER = 1\n", "NUMBER = 2\n"
REGISTRY = "TABLE = {}\ndef register(value):\n    TABLE['n'] = value\n    return value\n"
BASE = "class Base:\n    kinds = []\n    def __init_subclass__(cls, **k):\n        Base.kinds.append(cls)\n"
META = "class Meta(type):\n    made = {}\n    def __new__(m, name, bases, space):\n        Meta.made[name] = cls = super().__new__(m, name, bases, space)\n        return cls\n"
CALL = "import functools\nimport json\nimport os\nfrom pathlib import Path\nHERE = Path(__file__).parent\n"


SEEN: dict[str, Case] = {
    # Code that finds code.
    "a constant of a helper": (of("from helper import NUMBER", helper_py=ONE), {"helper.py": TWO}),
    "a registry filled by __init_subclass__": (
        of("import plug\nfrom base import Base", "Base.kinds[-1].number", base_py=BASE, plug_py="from base import Base\nclass A(Base):\n    number = 1\n"),
        {"plug.py": "from base import Base\nclass A(Base):\n    number = 2\n"},
    ),
    "a metaclass": (
        of("import plug\nfrom meta import Meta", "Meta.made['A'].number", meta_py=META, plug_py="from meta import Meta\nclass A(metaclass=Meta):\n    number = 1\n"),
        {"plug.py": "from meta import Meta\nclass A(metaclass=Meta):\n    number = 2\n"},
    ),
    "__subclasses__": (
        of("import plug\nfrom base import Base", "Base.__subclasses__()[0].number", base_py="class Base:\n    pass\n", plug_py="from base import Base\nclass A(Base):\n    number = 1\n"),
        {"plug.py": "from base import Base\nclass A(Base):\n    number = 2\n"},
    ),
    "a name given to what a call returns": (
        of("import plug\nfrom registry import TABLE", "TABLE['n']", registry_py=REGISTRY, plug_py="from registry import register\n_ = register(1)\n"),
        {"plug.py": "from registry import register\n_ = register(2)\n"},
    ),
    "a decorator that registers": (
        of("import plug\nfrom registry import TABLE", "TABLE['n']()", registry_py=REGISTRY, plug_py="from registry import register\n@register\ndef f():\n    return 1\n"),
        {"plug.py": "from registry import register\n@register\ndef f():\n    return 2\n"},
    ),
    "two modules that exchange values": (
        of("import setter\nfrom holder import get", "get()", holder_py="value = 0\ndef get():\n    return value\n", setter_py="import holder\nholder.value = 1\n"),
        {"setter.py": "import holder\nholder.value = 2\n"},
    ),
    "getattr by a computed name": (
        of("import helper", "getattr(helper, 'num' + 'ber')()", helper_py="def number():\n    return 1\n"),
        {"helper.py": "def number():\n    return 2\n"},
    ),
    "a module by a computed name": (
        of("import importlib", "importlib.import_module('hel' + 'per').NUMBER", helper_py=ONE), {"helper.py": TWO},
    ),
    "a module by __import__": (of("", "__import__('hel' + 'per').NUMBER", helper_py=ONE), {"helper.py": TWO}),
    "sys.modules": (of("import sys\nimport helper", "sys.modules['helper'].NUMBER", helper_py=ONE), {"helper.py": TWO}),
    "globals()": (of("from helper import *", "globals()['NUM' + 'BER']", helper_py=ONE), {"helper.py": TWO}),
    "a helper called as a module of Python": (of("import profile", "profile.NUMBER", profile_py=ONE), {"profile.py": TWO}),
    "the order of effects": (
        of("import one, two\nfrom registry import TABLE", "TABLE['n']", registry_py=REGISTRY, one_py="from registry import register\nregister(1)\n", two_py="from registry import register\nregister(2)\n"),
        {"mine.py": mine("import two, one\nfrom registry import TABLE", "TABLE['n']")},
    ),
    "a relative import of a package": (
        of("from pack.inner import NUMBER", pack____init___py="", pack__inner_py="from .deep import NUMBER\n", pack__deep_py=ONE) | {"pack/__init__.py": ""},
        {"pack/deep.py": TWO},
    ),
    "what the package around a module does": (
        {"mine.py": mine("from pack import inner", "inner.NUMBER"), "pack/__init__.py": "from . import inner\ninner.NUMBER = 1\n", "pack/inner.py": "NUMBER = 0\n"},
        {"pack/__init__.py": "from . import inner\ninner.NUMBER = 2\n"},
    ),
    "a package that imports when it is asked": (
        {"mine.py": mine("import pack", "pack.NUMBER"), "pack/__init__.py": "import importlib\ndef __getattr__(name):\n    return getattr(importlib.import_module('pack.inner'), name)\n", "pack/inner.py": ONE},
        {"pack/inner.py": TWO},
    ),
    "modules of a folder that are all imported": (
        {"mine.py": mine("import pkgutil, importlib, plugs\nfor found in pkgutil.iter_modules(plugs.__path__):\n    importlib.import_module('plugs.' + found.name)", "plugs.TOTAL"), "plugs/__init__.py": "TOTAL = 0\n", "plugs/a.py": "import plugs\nplugs.TOTAL += 1\n"},
        {"plugs/b.py": "import plugs\nplugs.TOTAL += 1\n"},
    ),
    "a plug-in that goes": (
        {"mine.py": mine("import pkgutil, importlib, plugs\nfor found in pkgutil.iter_modules(plugs.__path__):\n    importlib.import_module('plugs.' + found.name)", "plugs.TOTAL"), "plugs/__init__.py": "TOTAL = 1\n", "plugs/a.py": "import plugs\nplugs.TOTAL += 1\n"},
        {"plugs/a.py": None},
    ),
    "files that are executed": (
        of(CALL, "space['NUMBER']", "global space; space = {}; exec((HERE / 'conf.py').read_text(), space)", conf_py=ONE), {"conf.py": TWO},
    ),
    "runpy, as %run of a notebook": (
        of(CALL + "import runpy", "runpy.run_path(str(HERE / 'conf.py'))['NUMBER']", conf_py=ONE), {"conf.py": TWO},
    ),
    "a module loaded by its file": (
        of(CALL + "import importlib.util\ndef load():\n    spec = importlib.util.spec_from_file_location('x', HERE / 'conf.py')\n    made = importlib.util.module_from_spec(spec)\n    spec.loader.exec_module(made)\n    return made", "load().NUMBER", conf_py="import helper\nNUMBER = helper.NUMBER\n", helper_py=ONE),
        {"helper.py": TWO},
    ),
    "functools.singledispatch": (
        of("import functools\n@functools.singledispatch\ndef number(x):\n    return 0\nimport kinds", "number(1)", kinds_py="import mine\n@mine.number.register\ndef _(x: int):\n    return 1\n"),
        {"kinds.py": "import mine\n@mine.number.register\ndef _(x: int):\n    return 2\n"},
    ),
    "a dataclass in a registry": (
        of("import plug\nfrom registry import TABLE", "TABLE['n']().value", registry_py=REGISTRY, plug_py="from dataclasses import dataclass\nfrom registry import register\n@register\n@dataclass\nclass C:\n    value: int = 1\n"),
        {"plug.py": "from dataclasses import dataclass\nfrom registry import register\n@register\n@dataclass\nclass C:\n    value: int = 2\n"},
    ),
    "a property of a mixin": (
        of("from mixin import Mixin\nMethod = type('M', (Mixin, Method), {})", "self.number", mixin_py="class Mixin:\n    @property\n    def number(self):\n        return 1\n"),
        {"mixin.py": "class Mixin:\n    @property\n    def number(self):\n        return 2\n"},
    ),
    "a class that is made by a call": (
        of("from make import make\nMade = make(1)", "Made.number", make_py="def make(n):\n    return type('T', (), {'number': n})\n"),
        {"make.py": "def make(n):\n    return type('T', (), {'number': n + 1})\n"},
    ),
    "a default of a parameter": (of("from helper import f", "f()", helper_py="def f(n=1):\n    return n\n"), {"helper.py": "def f(n=2):\n    return n\n"}),
    "a docstring that is a prompt": (
        of("import helper", "len(helper.__doc__)", helper_py='"""one"""\n'), {"helper.py": '"""three"""\n'},
    ),
    "an annotation that is read": (
        of("import helper", "len(helper.f.__annotations__)", helper_py="def f(a: int): pass\n"), {"helper.py": "def f(a: int, b: int): pass\n"},
    ),
    "a message of an error that is read": (
        of("import helper\ndef number():\n    try:\n        helper.f()\n    except ValueError as e:\n        return len(str(e))", "number()", helper_py="def f():\n    raise ValueError('a')\n"),
        {"helper.py": "def f():\n    raise ValueError('ab')\n"},
    ),
    "the name of a function": (of("import helper", "len(helper.f.__name__)", helper_py="def g(): pass\nf = g\n"), {"helper.py": "def gg(): pass\nf = gg\n"}),
    "a context manager": (
        of("from helper import number\ndef get():\n    with number() as n:\n        return n", "get()", helper_py="import contextlib\n@contextlib.contextmanager\ndef number():\n    yield 1\n"),
        {"helper.py": "import contextlib\n@contextlib.contextmanager\ndef number():\n    yield 2\n"},
    ),
    "a lazy import inside a function": (of("def get():\n    import helper\n    return helper.NUMBER", "get()", helper_py=ONE), {"helper.py": TWO}),
    "a thread that imports": (
        of("import concurrent.futures, importlib\ndef get():\n    with concurrent.futures.ThreadPoolExecutor() as pool:\n        return pool.submit(importlib.import_module, 'helper').result().NUMBER", "get()", helper_py=ONE),
        {"helper.py": TWO},
    ),
    "a module that comes in place of another": (
        of("try:\n    from fast import NUMBER\nexcept ImportError:\n    from slow import NUMBER", slow_py=ONE), {"fast.py": TWO},
    ),
    "one that comes and is asked for late": (
        of("def get():\n    try:\n        from fast import NUMBER\n    except ImportError:\n        NUMBER = 1\n    return NUMBER", "get()"), {"fast.py": TWO},
    ),
    "one that comes before a module of Python": (
        of("def get():\n    import colorsys\n    return getattr(colorsys, 'NUMBER', 1)", "get()"), {"colorsys.py": TWO},
    ),
    "a package that comes before a module": (
        of("from helper import NUMBER", helper_py=ONE), {"helper/__init__.py": TWO},
    ),
    "a folder that code puts on the path": (
        of(CALL + "import sys\nsys.path.insert(0, str(HERE / 'more'))\nfrom extra import NUMBER", more__extra_py=ONE), {"more/extra.py": TWO},
    ),
    "a subclass of bench's own method": (
        {"mine.py": "from bench.methods.random import Random as R\nimport helper\nclass Mine(R):\n    def rank(self, queries, depth):\n        r = super().rank(queries, depth)\n        return type(r).of_lists([[helper.NUMBER]] * len(queries))\n", "helper.py": ONE},
        {"helper.py": TWO},
    ),
    "entry points by a table of texts": (
        of("import importlib\ndef load(text):\n    module, _, name = text.partition(':')\n    return getattr(importlib.import_module(module), name)\nfrom conf import TARGET", "load(TARGET)()", conf_py="TARGET = 'impl:one'\n", impl_py="def one():\n    return 1\ndef two():\n    return 2\n"),
        {"conf.py": "TARGET = 'impl:two'\n"},
    ),
    "a target that a file of settings names": (
        of(CALL + "import importlib\ndef load():\n    text = json.loads((HERE / 'conf.json').read_text())['_target_']\n    module, _, name = text.rpartition('.')\n    return getattr(importlib.import_module(module), name)()", "load()", conf_json='{"_target_": "impl.one"}', impl_py="def one():\n    return 1\n"),
        {"impl.py": "def one():\n    return 2\n"},
    ),
    # Files.
    "a file by a path with a dot": (of("", "open('./weights.txt').read()", weights_txt="1"), {"weights.txt": "2"}),
    "a file beside the code": (of(CALL, "(HERE / 'weights.txt').read_text()", weights_txt="1"), {"weights.txt": "2"}),
    "a file of importlib.resources": (
        {"mine.py": mine("from importlib import resources", "resources.files('pack').joinpath('w.txt').read_text()"), "pack/__init__.py": "", "pack/w.txt": "1"},
        {"pack/w.txt": "2"},
    ),
    "a file of pkgutil": (
        {"mine.py": mine("import pkgutil", "pkgutil.get_data('pack', 'w.txt')"), "pack/__init__.py": "", "pack/w.txt": "1"}, {"pack/w.txt": "2"},
    ),
    "JSON by a name that is put together": (of(CALL, "json.load(open(HERE / ('conf' + '.json')))['n']", conf_json='{"n": 1}'), {"conf.json": '{"n": 2}'}),
    "JSON that is kept": (
        of(CALL + "@functools.cache\ndef load():\n    return json.loads((HERE / 'conf.json').read_text())", "load()['n']", conf_json='{"n": 1}'), {"conf.json": '{"n": 2}'},
    ),
    "a file that is read when a helper is imported": (
        of("from helper import NUMBER", helper_py=CALL + "NUMBER = (HERE / 'w.txt').read_text()\n", w_txt="1"), {"w.txt": "2"},
    ),
    "a pickle": (of("import pickle", "pickle.load(open('w.pkl', 'rb'))", w_pkl="I1\n."), {"w.pkl": "I2\n."}),
    "an array of numpy": (of("import numpy as np", "np.loadtxt('w.txt')", w_txt="1"), {"w.txt": "2"}),
    "a memory map": (of("import numpy as np", "np.memmap('w.bin', dtype='uint8', mode='r')[0]", w_bin="\x01"), {"w.bin": "\x02"}),
    "a table of pandas": (of("import pandas as pd", "pd.read_csv('w.csv')['n'][0]", w_csv="n\n1\n"), {"w.csv": "n\n2\n"}),
    "TOML": (of("import tomllib", "tomllib.load(open('c.toml', 'rb'))['n']", c_toml="n = 1"), {"c.toml": "n = 2"}),
    "a template of Jinja": (
        of("import jinja2", "jinja2.Environment(loader=jinja2.FileSystemLoader('t')).get_template('n.txt').render()", t__n_txt="1"), {"t/n.txt": "2"},
    ),
    "a database": (
        of("import sqlite3\ndef get():\n    with sqlite3.connect('d.db') as d:\n        return d.execute('pragma user_version').fetchone()[0]", "get()") | {"d.db": "SQLITE 1"}, {"d.db": "SQLITE 2"},
    ),
    "a folder that is listed": (of("import os", "len(os.listdir('prompts'))", prompts__a_txt="x"), {"prompts/b.txt": "y"}),
    "a folder that is walked": (of(CALL, "len(list((HERE / 'prompts').rglob('*.txt')))", prompts__deep__a_txt="x"), {"prompts/deep/b.txt": "y"}),
    "a file that is there or not": (of("import os", "1 + os.path.exists('flag')"), {"flag": ""}),
    "one that goes": (of(CALL, "1 + (HERE / 'flag').exists()") | {"flag": ""}, {"flag": None}),
    "one that is opened in vain": (
        of("def get():\n    try:\n        return open('w.txt').read()\n    except OSError:\n        return 1", "get()"), {"w.txt": "2"},
    ),
    "a file of a folder above": (of("", "open('../above.txt').read()") | {"../above.txt": "1"}, {"../above.txt": "2"}),
    "a link to another file": (of("", "open('link').read()", a_txt="1", b_txt="2") | {"link": "-> a.txt"}, {"link": "-> b.txt"}),
    "what a link leads to": (of("", "open('link').read()", a_txt="1") | {"link": "-> a.txt"}, {"a.txt": "2"}),
    "a file opened by os": (of("import os", "os.read(os.open('w.txt', os.O_RDONLY), 9)", w_txt="1"), {"w.txt": "2"}),
    "a file that a library opens": (of("import linecache", "linecache.getline('w.txt', 1)", w_txt="1\n"), {"w.txt": "2\n"}),
    "a thread that reads": (
        of("import threading\ndef get(into):\n    t = threading.Thread(target=lambda: into.append(open('w.txt').read()))\n    t.start(); t.join()\n    return into[0]", "get([])", w_txt="1"), {"w.txt": "2"},
    ),
    "a shelf": (of("import shelve\ndef get():\n    with open('s.json') as f:\n        return f.read()", "get()", s_json="1"), {"s.json": "2"}),
    "a file of settings by configparser": (
        of("import configparser\nc = configparser.ConfigParser()\nc.read('c.ini')", "c['a']['n']", c_ini="[a]\nn = 1\n"), {"c.ini": "[a]\nn = 2\n"},
    ),
    "one of several files": (
        of("import glob", "sum(int(open(f).read()) for f in glob.glob('w/*.txt'))", w__a_txt="1", w__b_txt="0"), {"w/b.txt": "1"},
    ),
}

CODE = of("from helper import NUMBER, f", "NUMBER + f()", helper_py='"""Words."""\n\nNUMBER = 1  # one\n\n\ndef f(a=0, *, b=0):\n    return (a + b) * 2 if a else 0\n', unused_py=ONE, notes_md="x")


def helper(text: str) -> Case:
    """An edit of the helper alone."""
    return CODE, {"helper.py": text}


NEUTRAL: dict[str, Case] = {
    "nothing": (CODE, {}),
    "a comment": helper('"""Words."""\n\nNUMBER = 1  # another\n\n\ndef f(a=0, *, b=0):\n    return (a + b) * 2 if a else 0\n'),
    "a comment on a line of its own": helper('"""Words."""\n\nNUMBER = 1\n# more\n\n\ndef f(a=0, *, b=0):\n    # here\n    return (a + b) * 2 if a else 0\n'),
    "empty lines": helper('"""Words."""\nNUMBER = 1\ndef f(a=0, *, b=0):\n\n    return (a + b) * 2 if a else 0\n\n\n\n'),
    "spaces": helper('"""Words."""\n\nNUMBER=1\n\n\ndef f( a = 0,*, b = 0 ):\n      return (a+b)*2 if a else 0\n'),
    "brackets": helper('"""Words."""\n\nNUMBER = (1)\n\n\ndef f(a=0, *, b=0):\n    return ((a + b) * 2) if (a) else (0)\n'),
    "lines that are broken": helper('"""Words."""\n\nNUMBER = 1\n\n\ndef f(\n    a=0,\n    *,\n    b=0,\n):\n    return (\n        (a + b)\n        * 2\n        if a\n        else 0\n    )\n'),
    "quotes": helper("'''Words.'''\n\nNUMBER = 1\n\n\ndef f(a=0, *, b=0):\n    return (a + b) * 2 if a else 0\n"),
    "line ends": helper('"""Words."""\r\n\r\nNUMBER = 1\r\n\r\n\r\ndef f(a=0, *, b=0):\r\n    return (a + b) * 2 if a else 0\r\n'),
    "a number written otherwise": helper('"""Words."""\n\nNUMBER = 0x1\n\n\ndef f(a=0, *, b=0):\n    return (a + b) * 2 if a else 0\n'),
    "a semicolon": helper('"""Words.""";NUMBER = 1;\n\n\ndef f(a=0, *, b=0):\n    return (a + b) * 2 if a else 0\n'),
    "a mark of the encoding": helper('# -*- coding: utf-8 -*-\n"""Words."""\n\nNUMBER = 1\n\n\ndef f(a=0, *, b=0):\n    return (a + b) * 2 if a else 0\n'),
    "a comment of a type checker": helper('"""Words."""\n\nNUMBER = 1  # type: int\n\n\ndef f(a=0, *, b=0):  # noqa\n    return (a + b) * 2 if a else 0\n'),
    "a module that is not used": (CODE, {"unused.py": TWO}),
    "a module that comes": (CODE, {"new.py": TWO}),
    "a module that goes": (CODE, {"unused.py": None}),
    "a package that comes": (CODE, {"pack/__init__.py": TWO}),
    "a file that is not read": (CODE, {"notes.md": "y"}),
    "a file that comes": (CODE, {"data.json": "{}"}),
    "a file that goes": (CODE, {"notes.md": None}),
    "a test beside it": (CODE, {"test_mine.py": "def test():\n    assert True\n"}),
    "settings of tools": (CODE, {"pyproject.toml": "[project]\n", ".gitignore": "x\n"}),
    "a compiled file": (CODE, {"__pycache__/other.cpython-311.pyc": "x"}),
    "a history": (CODE, {".git/HEAD": "x"}),
    "the time of a file": (CODE, {"helper.py": CODE["helper.py"]}),
    "a file beside one that is read": (of("", "open('w/a.txt').read()", w__a_txt="1"), {"w/b.txt": "2"}),
    "a file with the same bytes": (of("", "open('w.txt').read()", w_txt="1"), {"w.txt": "1"}),
    "a link to the same bytes": (of("", "open('link').read()", a_txt="1", b_txt="1") | {"link": "-> a.txt"}, {"link": "-> b.txt"}),
    "another method beside it": (CODE, {"other.py": mine("from helper import NUMBER")}),
    "what a file says that is only looked for": (of("import os", "1 + os.path.exists('flag')") | {"flag": ""}, {"flag": "more"}),
    "the file that it writes": (of(CALL, "NUMBER", "(HERE / 'log.txt').write_text('x')", ) | {"mine.py": mine(CALL + ONE, "NUMBER", "(HERE / 'log.txt').write_text('x')")}, {"log.txt": "y"}),
    "the cache that it makes": (
        {"mine.py": mine(CALL + "def get():\n    path = HERE / 'cache.json'\n    if not path.exists():\n        path.write_text('1')\n    return path.read_text()", "get()")}, {},
    ),
    "a package without a file": ({"mine.py": mine("from space import inner", "inner.NUMBER"), "space/inner.py": ONE}, {"space/notes.txt": ""}),
    "what a module says if it is the program": (CODE, {}),
    "a comment in a package": ({"mine.py": mine("from pack import NUMBER"), "pack/__init__.py": ONE}, {"pack/__init__.py": ONE + "# x\n"}),
    "a comment in a file that is executed": (of(CALL + "import runpy", "runpy.run_path(str(HERE / 'conf.py'))['NUMBER']", conf_py=ONE), {"conf.py": ONE + "# x\n"}),
    "a comment in a module that is found by its text": (of("import inspect, helper", "len(inspect.getsource(helper.f)) * 0 + helper.NUMBER", helper_py=ONE + "def f(): pass\n"), {"helper.py": ONE + "# x\ndef f(): pass\n"}),
    "a folder beside one that is listed": (of("import os", "len(os.listdir('prompts'))", prompts__a_txt="x"), {"other/b.txt": "y"}),
    "a file below one that is listed": (of("import os", "len(os.listdir('prompts'))", prompts__a__x_txt="x"), {"prompts/a/y.txt": "y"}),
    "what a listed file says": (of("import os", "len(os.listdir('prompts'))", prompts__a_txt="x"), {"prompts/a.txt": "y"}),
}

PRICE: dict[str, Case] = {
    "a local variable that is renamed": (of("from helper import f", "f()", helper_py="def f():\n    a = 1\n    return a\n"), {"helper.py": "def f():\n    b = 1\n    return b\n"}),
    "a function that nobody calls": (CODE, {"helper.py": str(CODE["helper.py"]) + "def g():\n    pass\n"}),
    "another docstring": helper('"""Other words."""\n\nNUMBER = 1\n\n\ndef f(a=0, *, b=0):\n    return (a + b) * 2 if a else 0\n'),
}
