"""What a reader does not understand it names, with the place, and never skips.

Every module that reads something from outside is found by its source, and has a way in (`DOORS`) here: a valid file,
and three changes of it. A field that nobody knows, a kind that nobody knows and a contradiction must end in a refusal,
or in a line that names them. What reads nothing from outside is listed with the reason (`INSIDE`). Loaders under
`datasets/` read files whose sha256 is in their cards.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from kit.results import folder_of
from kit.trafficlogs import chat_log

from bench.__main__ import run
from bench.base import plugins, strict_json
from bench.base.errors import BenchError
from bench.data.card import read_cards
from bench.evaluation.experiment import read_experiment
from bench.gating.baseline import read_baseline
from bench.gating.policy import read_policy
from bench.models.llm.journal import Journal, JournalLine, JournalMessage, JournalRequest
from bench.models.trainingcard import read_card
from bench.remote.servers import servers_in

ROOT = Path(__file__).resolve().parent.parent

# Finding readers ------------------------------------------------------------------------------------------------------

#: What parses or reads, by the module that has it; where it does not count whose it is, by its name alone.
CALLS = {
    "json": {"load", "loads"}, "strict_json": {"loads"}, "tomllib": {"load", "loads"}, "pickle": {"load", "loads"},
    "csv": {"reader", "DictReader"}, "yaml": {"load", "safe_load", "parse"}, "ast": {"literal_eval"}, "np": {"load"},
    "torch": {"load"}, "pq": {"ParquetFile", "read_table"}, "ElementTree": {"parse", "fromstring"}, "": {
        "model_validate_json", "validate_json", "read_regular", "read_once", "open_regular", "read_text", "Reader",
        "read_toml", "toml_table", "metadata_load", "loads", "read_csv", "read_json", "read_parquet",
    },
}  # fmt: skip
#: Of these, what keeps the last of two answers to one question.
LENIENT = {"json.load", "json.loads", "model_validate_json", "validate_json"}


def ways(path: Path) -> Iterator[str]:
    """By what a module reads, as `json.loads` or `read_text`; what refuses a key twice by itself has a `*`."""
    code = path.read_text("utf-8")
    # Most modules have none of these names: parsing them would take most of the time.
    if not re.search(rf"\b({'|'.join(sorted(set().union(*CALLS.values())))})\b", code):
        return
    tree = ast.parse(code)
    told = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    strict = {id(node.func) for node in told if any(word.arg == "object_pairs_hook" for word in node.keywords)}
    for node in ast.walk(tree):
        owner = node.value.id if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) else ""
        name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
        if owner and name in CALLS.get(owner, ()):
            yield f"{owner}.{name}" + "*" * (id(node) in strict)
        elif name in CALLS[""] and not (name == "loads" and owner):
            yield name


@cache
def readers() -> dict[str, list[str]]:
    """Every module that parses or reads, and by what."""
    paths = [path for folder in ("bench", "methods", "leaderboard") for path in sorted((ROOT / folder).rglob("*.py"))]
    found = {path.relative_to(ROOT).with_suffix("").as_posix(): sorted(set(ways(path))) for path in paths}
    return {name: by for name, by in found.items() if by}


#: Why modules need no way in: they read nothing from outside, or somebody else answers for it.
INSIDE: dict[str, tuple[str, ...]] = {
    "it reads what is installed, a text that is passed on, or a manifest that `StoredResult.read` checks next": (
        *("bench/base/packages", "bench/cluster/cluster"),
    ),
    "others call it to parse, and are here": (
        *("bench/base/reading", "bench/base/records", "bench/base/strict_json", "bench/importing/reading"),
        *("bench/base/paths", "bench/base/spec"),
    ),
    "it parses the JSON text of a field that `Dataset.build` has checked": (
        *("bench/data/dataset", "bench/data/hints", "bench/data/tables", "bench/data/tool_names"),
        "bench/importing/tools/tool",
        *("bench/results/across_catalogues", "bench/models/llm/anthropic", "bench/models/llm/completion"),
        "bench/models/llm/gemini",
    ),
    "it reads what this process, or one that it has started or taken over from, has written": (
        *("bench/evaluation/checkpoints", "bench/evaluation/executors", "bench/evaluation/worker"),
        *("bench/identity/reach", "bench/lab/training/drafts"),
        *("bench/lab/training/generator", "bench/lab/training/loop", "bench/lab/training/mining"),
        *("bench/lab/synthesis/command", "bench/models/llm/local", "bench/lookup/unfinished"),
        *("leaderboard/buildcache", "leaderboard/writer", "leaderboard/submit/command", "leaderboard/submit/handover"),
        *("leaderboard/submit/reader", "leaderboard/submit/sandbox"),
    ),
    "it reads files of this package, which are valid as they are": (
        *("bench/cli/schemas/__init__", "bench/example/write", "bench/models/declared", "bench/registry/differences"),
        *("bench/importing/dialects", "bench/robustness/requests"),
        *("bench/lab/reproduce/artefacts", "bench/lab/reproduce/cells", "bench/lab/reproduce/claims"),
        *("bench/lab/reproduce/recipes", "bench/results/code_versions", "bench/results/scoring_code"),
        "leaderboard/boards/names",
    ),
    "it reads files of a model as the library does that runs the model, and their bytes are part of each result's id": (
        *("bench/models/classifiers", "bench/models/crossencoders", "bench/models/files"),
        *("bench/lab/training/pretrained", "methods/tgr/discriminator"),
    ),
    "it reads tables whose sha256 the manifest has, which is read strictly": (
        *("bench/choices/outcomes", "bench/results/failures", "leaderboard/boards/tables"),
    ),
    "it looks for an id or a name in files, without reading what they say": (
        *("bench/lookup/folder", "bench/lookup/removal", "bench/registry/added"),
    ),
    "it packs files as they are": ("leaderboard/exports/downloads", "leaderboard/submit/code"),
    "it reads what the system, the platform or pip has written": (
        *("bench/evaluation/machine", "bench/example/source", "bench/models/compiled"),
    ),
    "its loaders read files whose sha256 is in their cards": ("bench/data/files",),
    "a reply of a language model that is out of form is a failure, and counted": ("bench/models/llm/transport",),
    "the MCP SDK parses its messages, and what a search answers is read by bench/remote/answers": ("bench/remote/mcp",),
    "the version of a service is a text of its own, shown as it is": ("methods/http",),
}

# Ways in --------------------------------------------------------------------------------------------------------------

FIELD, KIND, CONTRADICTION = "an unknown field", "an unknown kind", "a contradiction"
#: A file, a text in it, what takes its place, and what must be named.
Change = tuple[str, str, str, tuple[str, ...]]
Content = Mapping[str, str | bytes]


@dataclass(frozen=True)
class Door:
    """A way in for what comes from outside.

    Attributes:
        modules: those that read it.
        files: valid ones, by name; or what makes them, of results, a baseline and a folder to write to.
        enter: reads them in a folder, and returns what is said; a valid one must not be refused.
        changes: by what is wrong with the changed file.
    """

    modules: tuple[str, ...]
    files: Content | Callable[[Path, Path, Path], Content]
    enter: Callable[[Path], str]
    changes: Mapping[str, Change]


class Refused(Exception):
    """Nothing was read; the text says why."""


def commands(*lines: str) -> Callable[[Path], str]:
    """Commands of bench; `{}` is the folder."""

    def enter(folder: Path) -> str:
        said = io.StringIO()
        for line in lines:
            words = [word.replace("{}", str(folder)) for word in shlex.split(line)]
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
                code = run(words)
            if code:
                raise Refused(said.getvalue())
        return said.getvalue()

    return enter


def function(read: Callable[[Path], object] | str, name: str = "") -> Callable[[Path], str]:
    """A function that takes the path of a file, or the folder; by its name where a plug-in has it."""

    def enter(folder: Path) -> str:
        try:
            return str((plugins.load(read) if isinstance(read, str) else read)(folder / name))
        except BenchError as error:
            raise Refused(str(error)) from None

    return enter


def servers(path: Path) -> list[str]:
    """What is said of a client's configuration."""
    said: list[str] = []
    servers_in(path, said.append)
    return said


def plugin(folder: Path) -> str:
    """What is wrong with a plug-in."""
    made = plugins._read(folder)
    if made.fault:
        raise Refused(made.fault)
    return ""


def prices(path: Path) -> object:
    """The table of prices that the environment names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BENCH_LLM_PRICES", str(path))
        return plugins.load("bench.choices.prices:price_table")()


BEIR = {
    "corpus.jsonl": '{"_id": "a", "title": "find", "text": "Finds."}\n{"_id": "b", "text": "Sends."}\n',
    "queries.jsonl": '{"_id": "q1", "text": "find it"}\n{"_id": "q2", "text": "send it"}\n',
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\ta\t1\nq2\tb\t1\n",
}
ADD = "data add mine --from {}"
ABOUT = {"title": "t", "licence": "l", "redistribution": False, "template": "full", "known_issues": []}
TOOLS = {
    "tools.json": '{"tools": [\n{"name": "find", "description": "Finds."},\n{"name": "send", "description": "Sends."}]}'
}
IMPORT = "data import mine {}/tools.json"


def export_starter(results: Path, baseline: Path, scratch: Path) -> Content:
    """`starter` as Parquet tables."""
    commands("data export starter --format parquet --out {}")(scratch)
    return {path.name: path.read_bytes() for path in scratch.iterdir()}


def add_starter(results: Path, baseline: Path, scratch: Path) -> Content:
    """The same where datasets are kept that a user has added."""
    return {
        f"BENCH_DATA/datasets/mine/{name}": data for name, data in export_starter(results, baseline, scratch).items()
    }


def store_result(results: Path, baseline: Path, scratch: Path) -> Content:
    """A stored result."""
    folder = folder_of(results, "bm25")
    return {f"results/starter/{folder.name}/{path.name}": path.read_bytes() for path in folder.iterdir()}


def store_stress(results: Path, baseline: Path, scratch: Path) -> Content:
    """What attackers do to a method."""
    effect = {"perturbation": "clone", "kind": "attack"}
    made = {"result_id": "0123456789ab", "label": "x", "method": "x", "dataset": "d", "content_hash": "0"}
    made |= {"metric": "recall@5", "code": "0"}
    return {"stress.json": json.dumps(made | {"k": 5, "seed": 0, "effects": [effect]})}


def bless(results: Path, baseline: Path, scratch: Path) -> Content:
    """A baseline."""
    return {"b.json": baseline.read_bytes()}


def write_journal(results: Path, baseline: Path, scratch: Path) -> Content:
    """A journal of one reply."""
    request = JournalRequest(
        messages=[JournalMessage(role="user", content="x")], temperature=0.0, top_p=1.0, max_tokens=9, sample=0
    )
    line = JournalLine(
        kind="reply", key="k", model="m", endpoint="e", request=request, text="yes", cost=0.5, made="now"
    )
    Journal(scratch / "journal.jsonl").append(line)
    return {"journal.jsonl": (scratch / "journal.jsonl").read_bytes()}


def in_json(file: str, key: str, *kind: str) -> dict[str, Change]:
    """Changes of a JSON object: a field more, an unknown kind (a text, its replacement, what is named), a key twice."""
    return {
        FIELD: (file, f'"{key}"', f'"colour": 1, "{key}"', (file, "colour")),
        KIND: (file, kind[0], kind[1], (file, *kind[2:])),
        CONTRADICTION: (file, f'"{key}"', f'"{key}": "x",\n"{key}"', (file, f"'{key}' in line ")),
    }


def in_toml(file: str, key: str, *kind: str) -> dict[str, Change]:
    """The same of a TOML table."""
    return {
        FIELD: (file, f"\n{key} =", f"\ncolour = 1\n{key} =", (file, "colour")),
        KIND: (file, kind[0], kind[1], (file, *kind[2:])),
        CONTRADICTION: (file, f"\n{key} =", f'\n{key} = "x"\n{key} =', (file, "at line ")),
    }


#: A decision of a board's maintainers; the name of its file follows from its content.
DECISION = "0123456789ab-retracted-24eb2b59.json"
DECIDED = """{
 "schema_name": "decision",
 "schema_version": 1,
 "what": "retracted",
 "result_id": "0123456789ab",
 "label": "bm25 @ starter",
 "dataset": "starter",
 "manifest": null,
 "made": "2026-11-28T12:00:00+00:00",
 "by": "a maintainer",
 "why": "A mistake.",
 "newer": null,
 "archive": null,
 "report": null
}
"""


def text(path: str) -> str:
    """A file of this repository."""
    return (ROOT / path).read_text("utf-8")


EDGES = "dependent\tprerequisite\treason\na\tb\tresult\n"
LINES = '{"query_id": "q1", "tools": ["a"]}\n{"query_id": "q2"}\n'
SEARCH = 'while read q; do cat "$(dirname "$0")/answer.json"; done\n'
EDITED = '{"postern.read_message": "x",\n"postern.move_message": "y"}'
MORE = '"text": "s", "metadata": {"more": {"calls": [], "colour": 1}}'
HELD_OUT = '"text": "s", "metadata": {"split": "held-out"}'
TRAINING = {
    **dict.fromkeys(("base", "base_revision", "dataset", "content_hash", "split", "template", "validation"), ""),
    **dict.fromkeys(("measure", "command", "created"), ""), "kind": "retriever", "queries": [], "tools": [],
    **dict.fromkeys(("examples", "best_step", "steps", "seconds", "resumed"), 1), "settings": {}, "evaluations": [],
    "packages": {}, "hardware": {},
}  # fmt: skip
DOORS: dict[str, Door] = {
    "corpus.jsonl": Door(("bench/data/beir",), BEIR, commands(ADD), {
        FIELD: ("corpus.jsonl", '"_id": "b"', '"_id": "b", "colour": 1', ("corpus.jsonl", "colour (line 2)")),
        KIND: ("corpus.jsonl", '"_id": "b"', '"_id": "b", "metadata": ["x"]', ("corpus.jsonl", "metadata (line 2)")),
        CONTRADICTION: ("corpus.jsonl", '"_id": "b"', '"_id": "a"', ("corpus.jsonl", "line 2: _id: 'a'", "line 1")),
    }),
    "queries.jsonl": Door(("bench/data/beir",), BEIR, commands(ADD), {
        FIELD: ("queries.jsonl", '"text": "send it"', MORE, ("queries.jsonl", "line 2: more.colour")),
        KIND: ("queries.jsonl", '"text": "send it"', HELD_OUT, ("queries.jsonl", "line 2: split", "'held-out'")),
        CONTRADICTION: ("queries.jsonl", '"_id": "q2"', '"text": "x", "_id": "q2"', ("'text' twice in line 2",)),
    }),
    "qrels": Door(("bench/data/beir",), BEIR, commands(ADD), {
        FIELD: ("qrels/test.tsv", "b\t1\n", "b\t1\tred\n", ("test.tsv, line 3",)),
        KIND: ("qrels/test.tsv", "b\t1\n", "b\thigh\n", ("test.tsv, line 3",)),
        CONTRADICTION: ("qrels/test.tsv", "b\t1\n", "b\t1\nq2 0 b 0\n", ("test.tsv, line 4", "test.tsv, line 3")),
    }),
    "about.json": Door(
        ("bench/data/beir",), {**BEIR, "about.json": json.dumps(ABOUT)}, commands(ADD),
        in_json("about.json", "title", '"full"', '"fuller"', "template", "'fuller'"),
    ),
    "edges.tsv": Door(
        ("bench/data/edges",), {**BEIR, "edges.tsv": EDGES}, commands(ADD), {
            FIELD: ("edges.tsv", "reason\n", "reason\tcolour\n", ("edges.tsv",)),
            KIND: ("edges.tsv", "b\tresult", "b\tguess", ("edges.tsv, line 2", "guess")),
            CONTRADICTION: ("edges.tsv", "result\n", "result\na\tb\tverification\n", ("edges.tsv, line 3", "a -> b")),
        },
    ),
    "dataset.json": Door(
        ("bench/data/parquet",), export_starter, commands(ADD),
        in_json("dataset.json", "spec", '"files": {', '"files": {"more.parquet": "0",', "more.parquet"),
    ),
    "an added dataset": Door(
        ("bench/data/entries",), add_starter, commands("list datasets"),
        in_json("dataset.json", "id", '"template": "', '"template": "x', "template"),
    ),
    "card.toml": Door(
        ("bench/data/card",), {"card.toml": text("datasets/github_mcp/card.toml")}, function(read_cards, "card.toml"),
        in_toml("card.toml", "title", "\ntemplate =", '\nsplit = "half"\ntemplate =', "split", "'half'"),
    ),
    "a template": Door(
        ("bench/data/template",), {**BEIR, "t.j2": "{{ name }}\n"},
        commands(ADD, "run -m bm25 -d mine --template {}/t.j2 -q"), {
            FIELD: ("t.j2", "{{ name }}", "{{ name }} {{ colour }}", ("'colour' is undefined",)),
            KIND: ("t.j2", "{{ name }}", "{% colour %} {{ name }}", ("colour",)),
            CONTRADICTION: ("t.j2", "{{ name }}", "{{ name }} {% endif %}", ("endif",)),
        },
    ),
    "a TREC run": Door(
        ("bench/evaluation/run_files",), {**BEIR, "r.run": "q1 Q0 a 1 2 x\nq1 Q0 b 2 1 x\n"},
        commands(ADD, "score {}/r.run --dataset mine"), {
            FIELD: ("r.run", "b 2 1 x", "b 2 1 x red", ("r.run, line 2", "this has 7")),
            KIND: ("r.run", "q1 Q0 b", "q1 Q1 b", ("r.run, line 2", "'Q1'")),
            CONTRADICTION: ("r.run", "b 2 1 x", "b 2 9 x", ("r.run: the ranks contradict the scores", "line 1)")),
        },
    ),
    "a run in JSON lines": Door(
        ("bench/evaluation/run_files",), {**BEIR, "r.jsonl": LINES},
        commands(ADD, "score {}/r.jsonl --dataset mine"), {
            FIELD: ("r.jsonl", '"q2"', '"q2", "colour": 1', ("r.jsonl, line 2: colour",)),
            KIND: ("r.jsonl", '["a"]', '["zebra"]', ("r.jsonl", "zebra")),
            CONTRADICTION: ("r.jsonl", '"q2"', '"q1"', ("r.jsonl, line 2", "q1 occurs twice; the first is in line 1")),
        },
    ),
    "manifest.json": Door(
        ("bench/results/store",), store_result, commands("list results --results {}/results"),
        in_json("manifest.json", "result_id", '"schema_version": 1', '"schema_version": 9', "version 9"),
    ),
    "metrics.json": Door(
        ("bench/results/store",), store_result, commands("list results --results {}/results"),
        in_json("metrics.json", "result_id", '"schema_name": "metrics"', '"schema_name": "x"', "schema_name"),
    ),
    "a submission": Door(
        ("leaderboard/submit/check", "leaderboard/submit/archive"), store_result, commands("submit check {}/results"),
        in_json("manifest.json", "result_id", '"schema_version": 1', '"schema_version": 9', "'9'"),
    ),
    "a baseline": Door(
        ("bench/gating/baseline",), bless, function(read_baseline, "b.json"),
        in_json("b.json", "result_id", '"schema_name": "baseline"', '"schema_name": "x"', "is not a baseline"),
    ),
    "baselines of a folder": Door(
        ("bench/gating/baseline",), bless, function("bench.leaderboard.boards.ledger:read_ledgers"),
        in_json("b.json", "result_id", '"schema_version": 2', '"schema_version": 9', "version 9"),
    ),
    "a policy": Door(
        ("bench/gating/policy",), {"gate.toml": '[[rule]]\nmetric = "ndcg@5"\nmargin = 0.1\n'},
        function(read_policy, "gate.toml"), in_toml("gate.toml", "margin", "ndcg@5", "nice@5", "nice"),
    ),
    "an experiment": Door(
        ("bench/evaluation/experiment",), {"e.toml": 'methods = ["bm25"]\ndatasets = ["starter"]\nsplit = "dev"\n'},
        function(read_experiment, "e.toml"), in_toml("e.toml", "split", '"dev"', '"half"', "split", "'half'"),
    ),
    "a client's servers": Door(
        ("bench/remote/servers",), {"mcp.json": '{"mcpServers": {\n"a": {"command": "x"},\n"b": {"url": "http://localhost"}}}'},
        function(servers, "mcp.json"), {
            FIELD: ("mcp.json", '"command"', '"envFile": "y", "command"', ("mcp.json, /mcpServers/a", "envFile")),
            KIND: ("mcp.json", '"command"', '"program"', ("mcp.json, /mcpServers/a", "`command`")),
            CONTRADICTION: ("mcp.json", '"command"', '"url": "http://x", "command"', ("mcp.json, /mcpServers/a",)),
        },
    ),
    "a training card": Door(
        ("bench/models/trainingcard",), {"training.json": json.dumps(TRAINING)}, function(read_card),
        in_json("training.json", "base", '"retriever"', '"x"', "kind", "'x'"),
    ),
    "stress.json": Door(
        ("bench/robustness/report",), store_stress, function("bench.robustness.report:read_stress"),
        in_json("stress.json", "result_id", '"kind": "attack"', '"kind": "storm"', "kind", "'storm'"),
    ),
    "a reproduction": Door(
        ("bench/lab/reproduce/page",), {"r.json": text("board/reproduction.json")},
        function("bench.lab.reproduce.page:read_reproduction", "r.json"),
        in_json("r.json", "schema_version", '"schema_name": "', '"schema_name": "x', "schema_name"),
    ),
    "a ranking set": Door(
        ("leaderboard/boards/rankingset",), {"set.toml": text("leaderboard/boards/ranking_set.toml")},
        function("bench.leaderboard.boards.rankingset:read_ranking_set", "set.toml"),
        in_toml("set.toml", "version", "\nversion", '\nsystems = ["(", "bm25"]\nversion', "systems"),
    ),
    "a decision": Door(
        ("leaderboard/boards/decisions",), {f"_decisions/{DECISION}": DECIDED},
        function("bench.leaderboard.submit.beside:read_board", "."),
        in_json(f"_decisions/{DECISION}", "label", '"what": "', '"what": "x', "what"),
    ),
    "a table of prices": Door(
        ("bench/choices/prices",), {"p.toml": text("bench/choices/prices.toml")}, function(prices, "p.toml"),
        in_toml("p.toml", "input", "\noutput =", '\noutput = "x"\nwas =', "prices.0.output"),
    ),
    "a plug-in": Door(
        ("bench/base/plugins",), {"plugin.toml": '[verbs]\nhello = { module = "a.b", help = "Hi." }\n'}, plugin, {
            FIELD: ("plugin.toml", "[verbs]", "colour = 1\n[verbs]", ("plugin.toml", "colour")),
            KIND: ("plugin.toml", "help", "advice", ("plugin.toml", "advice")),
            CONTRADICTION: ("plugin.toml", "hello", "hello = {}\nhello", ("plugin.toml", "line")),
        },
    ),
    "a journal": Door(
        ("bench/models/llm/journal",), write_journal, function(lambda path: Journal(path).find("k"), "journal.jsonl"), {
            FIELD: ("journal.jsonl", '"key"', '"colour":1,"key"', ("journal.jsonl", "line 1")),
            KIND: ("journal.jsonl", '"reply"', '"guess"', ("journal.jsonl", "line 1")),
            CONTRADICTION: ("journal.jsonl", '"key"', '"key":"x","key"', ("journal.jsonl", "line 1")),
        },
    ),
    "functions": Door(
        ("bench/lab/training/generated",), {"f.jsonl": json.dumps({"code": "def f():\n" + "    x = 1\n" * 9}) + "\n"},
        function("bench.lab.training.generated:read_functions", "f.jsonl"), {
            FIELD: ("f.jsonl", '"code"', '"colour"', ("f.jsonl, line 1",)),
            KIND: ("f.jsonl", "{", "[{", ("f.jsonl, line 1",)),
            CONTRADICTION: ("f.jsonl", '"code"', '"code": "x", "code"', ("f.jsonl, line 1", "'code' twice")),
        },
    ),
    "a catalogue": Door(("bench/importing/tools/forms",), TOOLS, commands(IMPORT), {
        FIELD: ("tools.json", '"name": "send"', '"name": "send", "colour": 1', ("tools.json", "colour")),
        KIND: ("tools.json", '"name": "send"', '"title": "send"', ("tools.json, /tools/1",)),
        CONTRADICTION: ("tools.json", '"name": "send"', '"name": "find"', ("/tools/0", "/tools/1", "'find'")),
    }),
    "a table of queries": Door(
        ("bench/importing/query_files",), {**TOOLS, "q.csv": "id,query,tools\na,find it,find\nb,send it,send\n"},
        commands(f"{IMPORT} --queries {{}}/q.csv"), {
            FIELD: ("q.csv", "id,query,tools\na,find it", "colour,query,tools\na,find it", ("q.csv", "colour")),
            KIND: ("q.csv", "it,send", "it,zebra", ("q.csv", "line 3", "zebra")),
            CONTRADICTION: ("q.csv", "b,send", "a,send", ("q.csv", "line 2", "line 3", "'a'")),
        },
    ),
    "queries in JSON": Door(
        ("bench/importing/query_files",), {**TOOLS, "q.jsonl": '{"query": "find it", "tools": ["find"]}\n'},
        commands(f"{IMPORT} --queries {{}}/q.jsonl"), {
            FIELD: ("q.jsonl", '"query"', '"colour": 1, "query"', ("q.jsonl", "colour")),
            KIND: ("q.jsonl", '["find"]', '{"find": "much"}', ("q.jsonl", "line 1")),
            CONTRADICTION: ("q.jsonl", '"query"', '"query": "x", "query"', ("q.jsonl", "'query' twice in line 1")),
        },
    ),
    "a log of traffic": Door(
        ("bench/traces/reading", "bench/traces/fields"),
        {"log.jsonl": "".join(json.dumps(line) + "\n" for line in chat_log())},
        commands("data from-traffic {}/log.jsonl --out {}/out.jsonl"), {
            FIELD: ("log.jsonl", '"role": "user"', '"role": "user", "colour": 1', ("log.jsonl", "colour")),
            KIND: ("log.jsonl", '"role": "user"', '"role": "martian"', ("log.jsonl", "line 1", "martian")),
            CONTRADICTION: ("log.jsonl", '"messages"', '"messages": [], "messages"', ("log.jsonl", "line 1")),
        },
    ),
    "edited tools": Door(
        ("bench/diagnosis/edits",), lambda *made: {**store_result(*made), "try.json": EDITED},
        commands("tools bm25@starter --try {}/try.json --results {}/results"), {
            FIELD: ("try.json", '"postern.move_message"', '"zebra"', ("try.json", "zebra")),
            KIND: ("try.json", '"y"', '["y"]', ("try.json",)),
            CONTRADICTION: ("try.json", "move_message", "read_message", ("try.json", "'postern.read_message'")),
        },
    ),
    "answers of a program": Door(
        ("bench/remote/answers", "methods/command/process"),
        {**BEIR, "answer.json": '{"tools": ["a", "b"]}\n', "search.sh": SEARCH},
        commands(ADD, """run -d mine -m 'command(run="sh {}/search.sh")'"""), {
            FIELD: ("answer.json", '"tools"', '"colour": 1, "tools"', ("colour",)),
            KIND: ("answer.json", '"tools"', '"colour"', ("colour",)),
            CONTRADICTION: ("answer.json", '"tools"', '"tools": ["b"], "tools"', ("'tools' twice",)),
        },
    ),
}  # fmt: skip
#: Modules with a way in that read otherwise, and why nothing is lost.
BESIDE = {
    "bench/data/template": "it parses the texts of fields that `Dataset.build` has checked",
    "bench/lab/training/generated": "it reads replies of a model that it has parsed before",
    "bench/models/llm/journal": "each line ends with a checksum of its bytes",
}


def test_what_reads_from_outside_has_a_way_in() -> None:
    inside = {name for names in INSIDE.values() for name in names}
    shown = {name for door in DOORS.values() for name in door.modules}
    twice = sorted(inside & shown)
    assert not twice, f"{', '.join(twice)} are in DOORS and in INSIDE; keep one of them."
    unknown = {module: by for module, by in readers().items() if module not in inside | shown}
    assert not unknown, (
        f"These modules read: {unknown}. Add a way in to DOORS in tests/test_readers.py, which shows what is said of "
        "an unknown field, an unknown kind and a contradiction; or, if they read nothing from outside, name and reason "
        "to INSIDE."
    )
    outside = readers().keys() - inside - BESIDE.keys()
    lenient = {module: found for module in outside if (found := sorted(LENIENT.intersection(readers()[module])))}
    assert not lenient, (
        f"These modules read what comes from outside by what keeps the last of two answers to one question: {lenient}. "
        "Use `bench.base.reading.Reader`, or `bench.base.strict_json.loads`."
    )


def test_what_is_listed_reads() -> None:
    listed = {name for names in (*INSIDE.values(), *(door.modules for door in DOORS.values())) for name in names}
    assert sorted(listed | BESIDE.keys() - readers().keys()) == sorted(listed), "remove them from tests/test_readers.py"
    assert sorted(listed - readers().keys()) == [], "remove them from tests/test_readers.py"


def test_models_know_each_of_their_fields() -> None:
    # Pydantic leaves out what it does not know, unless a model forbids it.
    lenient = []
    for path in (path for folder in ("bench", "methods", "leaderboard") for path in (ROOT / folder).rglob("*.py")):
        classes = re.findall(
            r"^class (\w+)\((.*?)\):\n(.*?)(?=^\S|\Z)", path.read_text("utf-8"), re.DOTALL | re.MULTILINE
        )
        for name, bases, body in classes:
            forbids = "BaseModel" not in bases.split(", ") or 'extra="forbid"' in body
            lenient += [name] if not forbids or re.search('extra="(ignore|allow)"', body) else []
    # A part of other models, and what a language model replies.
    assert sorted(lenient) == ["Sparing", "_ModelReply"]


@pytest.mark.parametrize("folder", ["bench", "leaderboard"])
def test_json_of_the_package_contradicts_nothing(folder: str) -> None:
    for path in (ROOT / folder).rglob("*.json"):
        strict_json.loads(path.read_bytes())


@pytest.mark.parametrize("name", DOORS)
def test_what_a_reader_does_not_understand_it_names(
    name: str,
    tmp_path: Path,
    starter_results: Path,
    starter_baseline: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    door = DOORS[name]
    made = (starter_results, starter_baseline, tmp_path / "made")
    made[2].mkdir()
    files = door.files if isinstance(door.files, Mapping) else door.files(*made)
    whole = {path: content.encode() if isinstance(content, str) else content for path, content in files.items()}

    def read(folder: Path, content: Mapping[str, bytes]) -> str:
        for path, data in content.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        monkeypatch.chdir(folder)
        for variable in ("BENCH_DATA", "BENCH_RESULTS"):
            monkeypatch.setenv(variable, str(folder / variable))
        return door.enter(folder)

    valid = read(tmp_path / "valid", whole)
    assert door.changes.keys() == {FIELD, KIND, CONTRADICTION}
    for wrong, (changed, before, after, named) in door.changes.items():
        content = dict(whole)
        for path in (path for path in whole if path.endswith(changed)):
            assert before.encode() in whole[path], f"{path} has no {before!r} to change"
            content[path] = whole[path].replace(before.encode(), after.encode(), 1)
        assert content != whole, f"{wrong}: no file is called {changed}"
        try:
            said = read(tmp_path / wrong.replace(" ", "-"), content)
        except Refused as refused:
            said = str(refused)
        assert all(text in said for text in named), f"{wrong}: {said}"
        assert not all(text in valid for text in named), f"{wrong}: {valid}"
