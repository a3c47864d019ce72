"""bench: an evaluation harness for tool retrieval.

One protocol for every dataset, method and metric: real data in, rankings out,
every number stored with what is needed to check it.
"""

from pathlib import Path as _Path

__version__ = "0.1.0"

# Installed, `bench.methods`, `bench.datasets` and `bench.leaderboard` lie inside this package
# (setuptools maps the four top-level folders there). In a source checkout they lie beside it, so
# the checkout's root joins the search path. `pyproject.toml` beside us is the sign of a checkout.
_root = _Path(__file__).resolve().parent.parent
if (_root / "pyproject.toml").is_file() and (_root / "datasets").is_dir():
    __path__.append(str(_root))
del _root
