"""The base installation: what it does without models, and what it says where an extra is needed.

Every installed module is hidden that is neither a base dependency of `pyproject.toml` nor needed by one. `make light`
does the same in an environment where nothing else is installed.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import distribution, packages_distributions
from pathlib import Path
from typing import Any

import pytest
from kit.commands import write_example
from kit.interpreter import Interpreter
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bench.__main__ import run as bench
from bench.base.errors import EXTRAS, PACKAGES, UnavailableError
from bench.base.spec import Spec
from bench.evaluation.plan import Plan
from bench.evaluation.rescore import rescore
from bench.evaluation.runner import Runner
from bench.metrics import parse_metrics
from bench.registry import build_method, load_dataset
from bench.results.store import StoredResult

ROOT = Path(__file__).resolve().parent.parent
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
OPTIONAL: dict[str, list[str]] = PROJECT["optional-dependencies"]

Light = Callable[..., subprocess.CompletedProcess[str]]


def base_distributions() -> set[str]:
    """Names of the base dependencies, and of what they depend on."""
    distinct: set[str] = set()
    todo = [Requirement(text) for text in PROJECT["dependencies"]]
    while todo:
        wanted = todo.pop()
        name = canonicalize_name(wanted.name)
        if name not in distinct:
            distinct.add(name)
            inner = map(Requirement, distribution(name).requires or [])
            todo += [each for each in inner if each.marker is None or each.marker.evaluate({"extra": ""})]
    return distinct


#: In place of the finder of installed modules: one that finds the base alone, and its metadata.
FINDER = """
import json, sys
from importlib.machinery import PathFinder
from packaging.utils import canonicalize_name
hidden, base = map(set, json.loads(sys.argv.pop(1)))
class BaseFinder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return None if name.partition(".")[0] in hidden else PathFinder.find_spec(name, path, target)
    @staticmethod
    def find_distributions(context):
        return (one for one in PathFinder.find_distributions(context) if canonicalize_name(one.name) in base)
sys.meta_path = [BaseFinder if finder is PathFinder else finder for finder in sys.meta_path]
for name in [name for name in sys.modules if name.partition(".")[0] in hidden]:
    del sys.modules[name]
"""


@pytest.fixture(scope="session")
def parts() -> str:
    """The installed modules that a base installation does not have, and the distributions that it has, as JSON."""
    base = {*base_distributions(), canonicalize_name(PROJECT["name"])}
    owners = packages_distributions().items()
    hidden = [module for module, names in owners if not base & set(map(canonicalize_name, names))]
    return json.dumps([hidden, sorted(base)])


@pytest.fixture
def light_python(interpreter: Interpreter, parts: str, tmp_path: Path) -> Light:
    """Run a program in an interpreter, in an empty folder, to which nothing but the base is installed."""

    def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        return interpreter(FINDER + program, parts, *arguments, folder=tmp_path, code=None, COLUMNS="250")

    return run


#: Runs commands one after the other, each with variables of the environment, and prints what each said.
COMMANDS = """
import contextlib, io, os
from bench.__main__ import run
for words, variables in json.loads(sys.argv[1]):
    os.environ.update(variables)
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = run(words)
    print(json.dumps([code, out.getvalue(), " ".join(err.getvalue().split())]))
"""


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str


@pytest.fixture
def light(light_python: Light) -> Callable[..., list[Said]]:
    """Run commands there, in one process; a command may come with variables of the environment."""

    def run(*commands: list[str] | tuple[list[str], dict[str, str]]) -> list[Said]:
        pairs = [command if isinstance(command, tuple) else (command, {}) for command in commands]
        done = light_python(COMMANDS, json.dumps(pairs))
        assert done.returncode == 0, done.stderr
        return [Said(*json.loads(line)) for line in done.stdout.splitlines()]

    return run


Bench = Callable[..., list[Said]]

# What it does -------------------------------------------------------------------------------------------------------


def test_none_of_the_extras_is_in_it(light_python: Light) -> None:
    done = light_python("from bench.base.errors import EXTRAS, is_installed; print(*filter(is_installed, EXTRAS))")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


def test_results_are_made_compared_and_gated_and_what_publishes_them_is_an_extra(light: Bench, tmp_path: Path) -> None:
    gate = ["gate", "bm25@starter", "--baseline", "b.json", "--policy"]
    (tmp_path / "recall.toml").write_text('[[rule]]\nmetric = "recall@5"\nmargin = 0.02\n')
    (tmp_path / "tokens.toml").write_text("[tokens]\ntop_5 = 400\n")
    run, show, compare, tools, bless, recall, tokens, site = light(
        ["run", "-m", "bm25", "-m", "bm25-okapi", "-m", "tfidf", "--quiet"],
        ["show", "bm25@starter"],
        ["compare", "bm25@starter", "tfidf@starter"],
        ["tools", "bm25@starter"],
        ["bless", "bm25@starter", "--out", "b.json", "--by", "a person"],
        [*gate, "recall.toml"],
        [*gate, "tokens.toml"],
        ["leaderboard", "build", "--out", "site"],
    )
    done = (run, show, compare, tools, bless, recall)
    assert [said.code for said in done] == [0] * 6, done
    metrics = [json.loads(path.read_text("utf-8")) for path in (tmp_path / "results").rglob("metrics.json")]
    assert len(metrics) == 3
    assert all(found["tokens"] == {} and found["metrics"]["recall@5"] for found in metrics)
    assert "tokens of tool text: not counted" in show.out
    assert "recall@5" in compare.out
    assert "rolobox.find_contact behind larderly.find_recipes" in tools.out
    assert " tokens " not in tools.out
    # What cannot be counted has not been held to its budget.
    assert tokens.code == 3
    assert "tokens were not counted" in tokens.out
    assert "tool-retrieval-bench[models]" in tokens.out
    assert site.code == 4
    assert "needs the package latex2mathml" in site.err
    assert 'pip install "tool-retrieval-bench[leaderboard]"' in site.err
    assert not (tmp_path / "site").exists()
    assert bench(["leaderboard", "build", "--results", str(tmp_path / "results"), "--out", str(tmp_path / "site")]) == 0
    (page,) = (tmp_path / "site/d").glob("starter-*.html")
    assert "Results whose tokens were not counted (made without the tokenizer): 3." in page.read_text("utf-8")


def test_a_run_file_is_scored(light: Bench, tmp_path: Path) -> None:
    queries = [json.loads(line) for line in (ROOT / "datasets/starter/queries.jsonl").read_text("utf-8").splitlines()]
    tool = json.loads((ROOT / "datasets/starter/tools.jsonl").read_text("utf-8").splitlines()[0])["tool_id"]
    (tmp_path / "run.trec").write_text("".join(f"{query['query_id']} Q0 {tool} 1 1.0 mine\n" for query in queries))
    (said,) = light(["score", "run.trec", "-d", "starter", "--split", "all"])
    assert said.code == 0, said.err
    assert "recall@5" in said.out


def test_a_catalogue_is_imported_and_searched(light: Bench, tmp_path: Path) -> None:
    tools = [{"name": name, "description": f"{name} a letter", "inputSchema": {"type": 3}} for name in ("send", "find")]
    (tmp_path / "tools.json").write_text(json.dumps({"tools": tools}))
    (tmp_path / "queries.csv").write_text("query,tools\nfind the letter,find\n")
    imported, audited, ran = light(
        ["data", "import", "mine", "tools.json", "--queries", "queries.csv"],
        ["data", "audit", "mine"],
        ["run", "-m", "bm25", "-d", "mine", "--template", "full", "--json"],
    )
    assert imported.out == "imported mine: 2 tools, 1 query; next: bench data audit mine\n"
    # What cannot be checked is not said to be right.
    assert "tool-retrieval-bench[catalogues]" in audited.out.replace("\n", "")
    assert json.loads(ran.out)[0]["metrics"]["metrics"]["recall@5"]["mean"] == 1


def test_the_example_s_gate_fails_on_a_worsened_description(light: Bench, tmp_path: Path) -> None:
    write_example(tmp_path / "desk")
    write_example(tmp_path / "worse")
    tools = tmp_path / "worse" / "tools" / "tickets.json"
    tools.write_text(re.sub(r"Open a new support ticket.*new ticket\.", "Handles input.", tools.read_text()))
    add = ["data", "import", "desk-example", "--queries", "desk/queries.csv"]
    run = ["run", "-q", "-m", "bm25", "-d", "desk-example"]
    *_, failed = said = light(
        [*add, "desk/tools"],
        run,
        ["bless", "bm25@desk-example", "--out", "baseline.json", "--by", "a person"],
        (gate := ["gate", "bm25@desk-example", "--baseline", "baseline.json", "--policy", "desk/gate.toml"]),
        [*add, "worse/tools", "--replace"],
        run,
        gate,
    )
    assert [each.code for each in said] == [0, 0, 0, 0, 0, 0, 1], said[3]
    assert "edited tickets/create_ticket: description" in failed.out


def test_sizes_are_shown_and_methods_are_listed(light: Bench) -> None:
    sizes, as_json, methods = light(
        ["data", "info", "starter", "--all"], ["data", "info", "starter", "--all", "--json"], ["list", "methods"]
    )
    assert "tokenizer is not installed" in " ".join(sizes.out.split())
    assert not any("tokens" in name for name in json.loads(as_json.out))
    assert {"bm25", "dense", "tgr", "ptr", "toolrerank", "query-generation"} <= set(methods.out.split())


# Results that travel between a base and a full installation ----------------------------------------------------------


def test_a_result_gets_its_token_counts_where_they_can_be_had_and_keeps_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made() -> StoredResult:
        runner = Runner(tmp_path, load_dataset, build_method)
        (result,) = runner.run([Plan(Spec.of("starter"), Spec.of("bm25"))])
        assert isinstance(result, StoredResult)
        return result

    def tokenizer(here: bool) -> None:
        for module in ("evaluation.scoring", "models.tokens"):
            monkeypatch.setattr(f"bench.{module}.can_count_tokens", lambda: here)

    tokenizer(False)
    assert made().metrics.tokens == {}
    tokenizer(True)
    counted = made().metrics.tokens
    assert counted.keys() == {"library", "top_5", "top_10", "definitions", "definitions_top_5"}
    tokenizer(False)
    result = made()
    assert result.metrics.tokens == counted
    # Scored again where nothing can be counted: the answers are the same, and so are the counts.
    again = rescore(result, load_dataset("starter"), parse_metrics(["recall@7"]))
    assert "recall@7" in again.metrics.metrics
    assert again.metrics.tokens == counted


# What it refuses ----------------------------------------------------------------------------------------------------

ENDPOINT = {"BENCH_LLM_URL": "http://127.0.0.1:9/v1", "BENCH_OFFLINE": ""}
REFUSED: list[tuple[list[str], dict[str, str], str]] = [
    (["run"], {}, "models"),
    (["run", "-m", "bm25", "-m", "dense"], {}, "models"),
    (["run", "-m", "nearest-query"], {}, "models"),
    (["run", "-m", "rrf"], {}, "models"),
    (["run", "-m", "query-generation(llm=local:nowhere, base=bm25)"], {}, "models"),
    (["run", "-m", "rerank(reranker=nowhere, base=bm25)"], {}, "models"),
    (["train", "retriever", "--dataset", "starter", "--out", "model"], {}, "models"),
    (["train", "generator", "--dataset", "starter", "--out", "model"], {}, "models"),
    (["data", "export", "starter", "--out", "exported", "--format", "hf"], {}, "hub"),
    (["data", "import", "mine", "api.yaml"], {}, "catalogues"),
    (["data", "import", "mine", "--mcp", "no-such-program"], {}, "mcp"),
    (["run", "-m", "mcp(server=no-such-program, tool=search)"], {}, "mcp"),
    (["run", "-m", "query-generation(llm=gpt-x, base=bm25)"], ENDPOINT, "llm"),
    (["run", "-m", "rankgpt(llm=gpt-x, base=bm25)"], ENDPOINT, "llm"),
    (["run", "-m", "regex"], {}, "regex"),
    (["run", "-m", "bm25", "-m", "dense(encoder=openai:text-embedding)"], ENDPOINT, "llm"),
]


def test_what_is_missing_is_said_in_one_sentence_before_anything_runs(light: Bench, tmp_path: Path) -> None:
    (tmp_path / "api.yaml").write_text("openapi: 3.0.0")
    answers = light(*((words, variables) for words, variables, _ in REFUSED))
    for (words, _, extra), said in zip(REFUSED, answers, strict=True):
        command = rf'install it with `pip install "tool-retrieval-bench\[{extra}\]"`\.'
        assert re.fullmatch(rf"bench: .+ needs the package [\w-]+, which is not installed; {command}", said.err), words
        assert said.code == UnavailableError.exit_code == 4
        assert said.out == ""
    assert not list(tmp_path.rglob("metrics.json"))
    assert not (tmp_path / "exported").exists()


def test_a_data_frame_needs_pandas(light_python: Light) -> None:
    done = light_python("from bench.registry import load_dataset; load_dataset('starter').to_pandas()")
    assert 'pip install "tool-retrieval-bench[pandas]"' in done.stderr


# The lists ----------------------------------------------------------------------------------------------------------


def distributions(extra: str) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in OPTIONAL[extra]}


@pytest.mark.parametrize("module", EXTRAS)
def test_each_module_is_brought_by_the_extra_that_the_sentence_names(module: str) -> None:
    package = canonicalize_name(PACKAGES.get(module, module))
    assert package in distributions(EXTRAS[module])
    assert package not in base_distributions()


def test_all_is_every_extra_that_is_named() -> None:
    (everything,) = map(Requirement, OPTIONAL["all"])
    assert everything.extras == set(EXTRAS.values())
    assert any("all" in Requirement(text).extras for text in OPTIONAL["dev"])


def imports(tree: ast.AST, inside: bool = False) -> Iterator[tuple[str, bool]]:
    """Each imported top-level module, and whether a function imports it; blocks for type checkers are passed over."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            continue
        if isinstance(node, ast.Import):
            yield from ((name.name.partition(".")[0], inside) for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module.partition(".")[0], inside
        yield from imports(node, inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


@pytest.mark.parametrize("folder", ["bench", "datasets", "leaderboard", "methods"])
def test_libraries_outside_the_base_are_imported_late_and_have_an_extra(folder: str) -> None:
    base = base_distributions()
    for path in sorted((ROOT / folder).rglob("*.py")):
        for module, late in imports(ast.parse(path.read_text("utf-8"))):
            if module in sys.stdlib_module_names or module == "bench" or canonicalize_name(module) in base:
                continue
            # The pytest plug-in is imported by pytest, and compiled loops where numba was found.
            if (module, path.name) in {("pytest", "pytest_plugin.py"), ("numba", "postings.py")}:
                continue
            assert late, f"{path.relative_to(ROOT)} imports {module} at its top"
            known = {name.partition(".")[0] for name in EXTRAS}
            assert module in known or module in OPTIONAL, f"{path.relative_to(ROOT)} imports {module}"
