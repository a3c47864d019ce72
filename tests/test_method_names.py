"""The harness names no built-in method, but for the places listed here: a new one needs no change in bench."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from bench.registry import method_names

ROOT = Path(__file__).resolve().parent.parent

#: File or folder under bench/, name -> why it may be named there.
ALLOWED = {
    ("cli/run.py", "tgr"): "the default of `bench run`",
    ("data/derive.py", "random"): "a way to split queries, not the method",
    (
        "validation/audit.py",
        "bm25",
    ): "`bench data audit` measures dependence with it: it needs no model and no past queries",
    (
        "validation/audit.py",
        "tfidf",
    ): "`bench data audit` measures dependence with it: it needs no model and no past queries",
    ("registry/listing.py", "oracle"): "whether a method is shown the gold, not the method",
    ("results/manifest.py", "oracle"): "the kind of that mark, not the method",
    ("models/llm/settings.py", "http"): "the scheme of a URL, not the method",
    ("remote/web.py", "http"): "the scheme of a URL, not the method",
    ("importing/tools/forms.py", "mcp"): "the form of a catalogue, not the method",
    ("cli/data_import.py", "mcp"): "the form of a catalogue, not the method",
    ("registry/catalogues.py", "mcp"): "the form of a catalogue, not the method",
    ("base/errors.py", "mcp"): "the SDK, not the method",
    ("evaluation/machine.py", "mcp"): "the SDK, not the method",
    ("cli/results.py", "recommended"): "a column of results, for recommended sets, not the method",
    ("evaluation", "recommended"): "a column of results, for recommended sets, not the method",
    ("diagnosis/explain.py", "recommended"): "a column of results, for recommended sets, not the method",
    ("gating/baseline.py", "recommended"): "a column of results, for recommended sets, not the method",
    ("results", "recommended"): "a column of results, for recommended sets, not the method",
    ("base/errors.py", "regex"): "the extra, not the method",
    ("traces/command.py", "mcp"): "the form of a log, not the method",
    ("traces/forms.py", "mcp"): "the form of a log, not the method",
    ("traces/opentelemetry.py", "names"): "a key of a table, not the method",
    ("traces/roles.py", "names"): "a key of a table, not the method",
    ("identity/reach.py", "names"): "a field of Python's syntax trees, not the method",
    ("results/choices.py", "choose"): "whose results are read",
    ("results/choices.py", "dense"): "the default of another method",
    ("results/choices.py", "oracle"): "the arm that shows the gold alone",
    ("results/choices.py", "random"): "the arm that shows the whole library, in any order",
    ("robustness/growth.py", "random"): "an order in which tools are left out",
    ("results/choices.py", "planted"): "whether the gold was left out",
    ("comparison/variants.py", "choose"): "whose tries are counted by model and by whose tools are shown",
    ("cli/bless.py", "names"): "an argument, not the method",
    ("cli/compare.py", "names"): "an argument, not the method",
    ("cli/list.py", "names"): "an argument, not the method",
    ("cli/rescore.py", "names"): "an argument, not the method",
    ("cli/stored.py", "names"): "an argument, not the method",
    ("importing/tools/clients.py", "command"): "a field of a configuration, not the method",
    ("remote/mcp.py", "mcp"): "the SDK, not the method",
    ("comparison/tables.py", "oracle"): "the mark of a method that is shown the gold, not the method",
    ("comparison/rows.py", "oracle"): "the mark of a method that is shown the gold, not the method",
}


def names_in(path: Path) -> Iterator[str]:
    """Built-in methods that a file names: in strings that are a spec, and in imports of their modules."""
    tree = ast.parse(path.read_text("utf-8"))
    names = "|".join(re.escape(name) for name in sorted(method_names(), key=len, reverse=True))
    spec = re.compile(rf"(?:{names})(?=[(@]|$)")
    documented = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        if node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documented:
            match = spec.match(node.value)
            if match:
                yield match[0]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("bench.methods."):
            yield (node.module or "").split(".")[2].replace("_", "-")


def test_bench_names_no_method_but_where_that_is_allowed() -> None:
    named = {
        (path.relative_to(ROOT / "bench").as_posix(), name)
        for path in sorted((ROOT / "bench").rglob("*.py"))
        # The laboratory and choices are about some methods.
        if path.relative_to(ROOT / "bench").parts[0] not in {"choices", "lab"}
        for name in names_in(path)
    }
    allowed = {
        (file, name): entry
        for file, name in named
        for entry in ALLOWED
        if entry[1] == name and (file == entry[0] or file.startswith(f"{entry[0]}/"))
    }
    assert not sorted(named - set(allowed)), "a method says it itself, through the protocol"
    assert set(allowed.values()) == set(ALLOWED), "an entry of the list has no use any more"


def test_names_are_found_in_imports_specs_and_tables(tmp_path: Path) -> None:
    path = tmp_path / "made.py"
    path.write_text(
        '"""bm25 is named in a docstring."""\n'
        "from bench.methods.query_generation.prompts import Prompt\n"
        'TABLE = {"toolrerank": 1, "words of dense": 2, "rrf(pool=3)": 3, "densely": 4}\n'
    )
    assert sorted(names_in(path)) == ["query-generation", "rrf", "toolrerank"]
