"""Inputs that once hung, took gigabytes, reached the terminal raw or ended as an error of bench itself."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
from kit.processes import Command, Ended, forked
from kit.results import folder_of
from kit.searchservice import Service

from bench.__main__ import run
from bench.base.errors import BenchError, DataError, ResultError, UsageError
from bench.base.parameters import check_parameters
from bench.base.paths import read_regular
from bench.base.records import toml_table
from bench.base.spec import parse
from bench.cli.output import print_json
from bench.data.edges import read_edges
from bench.lab.training.generated import read_functions
from bench.leaderboard.submit.code import source_files
from bench.lookup.finding import find_result
from bench.models.files import model_folder
from bench.registry import build_method
from bench.registry import methods as building
from bench.results.manifest import Manifest
from bench.results.store import MANIFEST, RUN, StoredResult

Bench = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[2]


def ended(*lines: tuple[object, ...], out: str = "", together: bool = False, loaded: Sequence[str] = ()) -> list[Ended]:
    """How commands ended, each in a process of its own, which is killed if it hangs."""
    commands = [Command([str(word) for word in line], out) for line in lines]
    return forked(commands, *loaded, together=together)


def beir(folder: Path, queries: dict[str, str], schema: str = "null") -> Path:
    """A dataset of two tools, all queries with the first as gold; `schema` is a JSON text of its input schema."""
    (folder / "qrels").mkdir(parents=True)
    fields = {"name": "a", "description": "one", "category": "", "parent": "p", "parameters": []}
    tool = {**fields, "returns": None, "source": None, "input_schema": None if schema == "null" else schema}
    rows: list[dict[str, Any]] = [
        {"_id": "t1", "title": "a", "text": "one", "metadata": {"tool": tool}},
        {"_id": "t2", "title": "b", "text": "two"},
    ]
    by_keies = [{"_id": name, "text": text} for name, text in queries.items()]
    for name, lines in (("corpus", rows), ("queries", by_keies)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    (folder / "qrels" / "test.tsv").write_text(
        "query-id\tcorpus-id\tscore\n" + "".join(f"{name}\tt1\t1\n" for name in queries)
    )
    return folder


# TOML ---------------------------------------------------------------------------------------------------------------

MANY = ".".join(["a"] * 5000)


@pytest.mark.parametrize(
    "text",
    [f"{MANY} = 1", f"[{MANY}]", f"[[ {MANY} ]]", f"x = {{ {MANY} = 1 }}", f"x = {{ b = 1, {MANY} = 1 }}",
     ".".join(['"a b"'] * 5000) + " = 1", " . ".join(["'a.b'"] * 5000) + " = 1",
     ".".join([r'"\""'] * 5000) + " = 1", rf'"\"".{MANY} = 1'],
    ids=["key", "table", "array", "inline", "second", "quoted", "spaced", "escaped", "after an escape"],
)  # fmt: skip
def test_a_key_of_many_parts_is_refused_before_it_is_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setattr(tomllib, "loads", lambda text: pytest.fail("parsed"))
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(DataError, match="a key has more than 32 parts"):
        toml_table(path, "the card", DataError)


def test_the_search_for_long_keys_is_linear(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text("#" + " " * 500_000 + "\n" + " " * 500_000 + "\n" + "," * 100_000 + "\n")
    begun = time.monotonic()
    with pytest.raises(DataError, match="is not TOML"):
        toml_table(path, "the card", DataError)
    assert time.monotonic() - begun < 10


def test_toml_of_ordinary_files_is_read(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_text('a.b."c.d" = "1.2.3.4 and e.g. more. Of. It."\n[x.y]\nz = [1.5, 2.5]\nt = { b.c = 1, d.e = 2 }\n')
    assert toml_table(path, "the card", DataError)["a"] == {"b": {"c.d": "1.2.3.4 and e.g. more. Of. It."}}
    path.write_text("a = " + "[" * 100_000)
    with pytest.raises(DataError, match="is not TOML"):
        toml_table(path, "the card", DataError)
    path.write_bytes(b"#" * ((4 << 20) + 1))
    with pytest.raises(DataError, match="larger than 4 MiB"):
        toml_table(path, "the card", DataError)


# Pipes and devices --------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_no_reader_waits_for_a_named_pipe(tmp_path: Path, waiting_fails: None, bench: Bench) -> None:
    folder = beir(tmp_path / "set", {"q": "one"})
    (folder / "queries.jsonl").unlink()
    os.mkfifo(folder / "queries.jsonl")
    pipe, tools, new = tmp_path / "pipe.toml", tmp_path / "tools.json", tmp_path / "new"
    os.mkfifo(pipe)
    tools.write_text('{"tools": [{"name": "find", "description": "Finds.", "inputSchema": {}}]}')
    requests: tuple[tuple[tuple[object, ...], int], ...] = (
        (("run", pipe), 2),
        (("data", "add", "mine", "--from", folder), 3),
        (("compare", f"{pipe}@starter", "bm25@starter"), 2),
        (("gate", pipe, "--baseline", pipe, "--policy", pipe), 3),
        (("run", "-m", f"tgr(graph={pipe}, base=bm25)", "-d", "starter"), 2),
        (("run", "-m", "bm25", "-d", "starter", "--template", pipe), 2),
        (("data", "import", "mine", pipe), 2),
        (("data", "import", "mine", tools, "--queries", pipe), 2),
        (("data", "import", "mine", "--mcp-config", pipe), 2),
        (("data", "from-traffic", pipe, "--out", new), 2),
        (("data", "write-queries", "starter", "--llm", "m", "--out", pipe), 2),
        (("submit", "check", pipe), 6),
        (("leaderboard", "build", "--ranking-set", pipe, "--out", new), 2),
        (("leaderboard", "build", "--reproduction", pipe, "--out", new), 2),
        (("leaderboard", "build", "--serve", "--reproduction", pipe, "--out", new), 2),
    )
    for arguments, code in requests:
        bench(*arguments, code=code)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_no_reader_waits_for_a_named_pipe_inside_a_folder(
    stored: Path, tmp_path: Path, waiting_fails: None, bench: Bench
) -> None:
    (result,) = (stored / "starter").glob("bm25-*")
    (result / RUN).unlink()
    os.mkfifo(result / RUN)
    requests: tuple[tuple[tuple[object, ...], int], ...] = (
        (("show", result, "--format", "trec"), 6),
        (("submit", "check", result), 6),
        (("leaderboard", "build", "--results", stored, "--out", tmp_path / "site"), 0),
    )
    for arguments, code in requests:
        said = bench(*arguments, code=code)
        assert "regular file" in said.out + said.err


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes on this system")
def test_no_reader_of_models_functions_or_code_waits_for_a_named_pipe(tmp_path: Path, waiting_fails: None) -> None:
    model, functions, module = tmp_path / "model", tmp_path / "functions.jsonl", tmp_path / "mine.py"
    model.mkdir()
    (model / "modules.json").write_text("[]")
    for pipe in (model / "config.json", functions, module):
        os.mkfifo(pipe)
    for read in (
        lambda: model_folder(str(model)),
        lambda: read_functions(functions),
        lambda: source_files(module, parse("mine:Method")),
    ):
        with pytest.raises(BenchError, match="pipe or a device"):
            read()


@pytest.fixture
def waiting_fails() -> Iterator[None]:
    """A test that waits for what never comes fails."""

    def waits(*_: object) -> None:
        pytest.fail("it waits")

    before = signal.signal(signal.SIGALRM, waits)
    signal.alarm(300)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def test_a_device_and_a_file_that_is_too_large_are_not_read(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="not a regular file"):
        read_regular(Path(os.devnull))
    path = tmp_path / "x"
    path.write_bytes(b"x" * 2048)
    assert read_regular(path, 2048) == b"x" * 2048
    with pytest.raises(OSError, match="larger than 1 KiB"):
        read_regular(path, 2047)


# Specs --------------------------------------------------------------------------------------------------------------


def test_a_nested_spec_is_built_once_for_each_level(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    true = check_parameters

    def counted(*arguments: Any) -> Any:
        made.append(arguments)
        return true(*arguments)

    monkeypatch.setattr(building, "check_parameters", counted)
    spec = "bm25"
    for _ in range(15):
        spec = f"tgr(base={spec})"
    build_method(spec)
    assert len(made) < 15 * 15


@pytest.mark.parametrize(
    "verb", [("run", "-d", "starter", "-m"), ("show",), ("explain",), ("check", "method"), ("gate",)]
)
def test_a_long_spec_is_not_repeated_in_full(capsys: pytest.CaptureFixture[str], verb: tuple[str, ...]) -> None:
    more = {"explain": ("q",), "gate": ("--baseline", "none.json", "--policy", "none.toml")}.get(verb[0], ())
    assert run([*verb, "bm25(x=" + "a" * 100_000 + ")", *more]) not in {0, 70}
    said = capsys.readouterr()
    assert len(said.err + said.out) < 6000


# Text from outside --------------------------------------------------------------------------------------------------

HOSTILE = "a\x1b[31m\x07\u202eb\x9b2J"


def test_messages_hold_no_sign_that_a_terminal_obeys(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edges = tmp_path / "edges.tsv"
    edges.write_text(f"dependent\tprerequisite\n{HOSTILE}\t{HOSTILE}\n")
    for arguments in (
        ("run", "-m", f"tgr(graph={edges}, base=bm25)", "-d", "starter"),
        ("run", "-m", f'dense(encoder="{HOSTILE}")', "-d", "starter"),
        ("run", "-m", HOSTILE, "-d", "starter"),
        ("show", HOSTILE),
        ("data", "add", HOSTILE, "--from", HOSTILE),
        (HOSTILE,),
        ("run", f"--{HOSTILE}"),
    ):
        assert run(list(arguments)) not in {0, 70}, arguments
        said = capsys.readouterr().err
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", said), said


def test_json_for_programs_is_safe_on_a_terminal_and_holds_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    value = {"name": f"{HOSTILE}\x7f\ud800 é 道 \U000e0001"}
    print_json(value)
    shown = capsys.readouterr().out
    assert all(line.isprintable() for line in shown.split("\n"))
    assert json.loads(shown) == value
    assert "é 道" in shown


def test_the_report_of_a_gate_is_safe_on_a_terminal(tmp_path: Path, bench: Bench) -> None:
    (tmp_path / "p.toml").write_text('margin = 0.1\n[[rule]]\nmetric = "recall@5"\n')
    bench("run", "-q", "-m", "random", "-d", "starter", "--limit", 30)
    bench("bless", "random@starter", "--out", tmp_path / "b.json", "--reason", "x\u202ey")
    gated = ("--baseline", tmp_path / "b.json", "--policy", tmp_path / "p.toml")
    said = bench("gate", "random@starter", *gated, "--json")
    assert all(line.isprintable() for line in said.out.split("\n"))
    assert said.json["baseline"]["reason"] == "x\u202ey"


def test_an_edge_may_have_a_long_note(tmp_path: Path) -> None:
    path = tmp_path / "edges.tsv"
    path.write_text("dependent\tprerequisite\treason\tnote\na\tb\tresult\t" + "x" * 200_000 + "\n")
    (edge,) = read_edges(path)
    assert len(edge.note) == 200_000
    path.write_text("dependent\tprerequisite\na\t" + "x" * 200_000 + "\textra\n")
    with pytest.raises(DataError) as caught:
        read_edges(path)
    assert len(str(caught.value)) < 500


# Accepted once, accepted everywhere ---------------------------------------------------------------------------------


def test_a_schema_nested_without_measure_is_refused_at_once(tmp_path: Path, bench: Bench) -> None:
    deep = '{"properties":{"a":' * 2000 + '{"type":"string"}' + "}}" * 2000
    said = bench("data", "add", "deep", "--from", beir(tmp_path / "deep", {"q": "one"}, deep), code=3)
    assert "nested deeper than 100 levels" in said.err
    flat = '{"properties":{"a":' * 40 + '{"type":"string"}' + "}}" * 40
    bench("data", "add", "flat", "--from", beir(tmp_path / "flat", {"q": "one"}, flat))
    bench("run", "-m", "bm25", "-d", "flat", "--template", "full")


@pytest.mark.parametrize("form", ["trec", "jsonl"])
@pytest.mark.parametrize("name", ["[]", "{}", "[1]", "#", "a b", '{"query_id"', "[", "%5B"])
def test_an_exported_run_is_read_back_whatever_its_ids(tmp_path: Path, bench: Bench, name: str, form: str) -> None:
    bench("data", "add", "odd", "--from", beir(tmp_path / "odd", {name: "one", "z": "two"}))
    bench("run", "-m", "bm25", "-d", "odd")
    exported = tmp_path / f"run.{form}"
    exported.write_text(bench("show", "bm25@odd", "--format", form).out)
    bench("score", exported, "-d", "odd")


# Stored results -----------------------------------------------------------------------------------------------------


def test_a_manifest_with_a_changed_letter_is_refused(tmp_path: Path, bench: Bench) -> None:
    bench("run", "-m", "bm25", "-d", "starter", "--limit", 20, "--results", tmp_path / "r")
    result = find_result(tmp_path / "r", "bm25@starter")
    path = result.folder / MANIFEST
    whole = path.read_text()
    Manifest.model_validate_json(whole)
    fields = json.loads(whole)
    environment = fields["environment"]
    free = [environment["created"], environment["command"], fields["warnings"][0]]
    for text in free:
        changed = text[:-1] + chr(ord(text[-1]) ^ 1)
        path.write_text(whole.replace(json.dumps(text), json.dumps(changed)))
        with pytest.raises(ResultError, match="its fields do not give its digest"):
            StoredResult.read(result.folder).verify()
        assert bench("submit", "check", result.folder, code=1).out
    path.write_text(whole)
    StoredResult.read(result.folder).verify()
    bench("submit", "check", result.folder)


def test_six_exports_to_one_folder_are_one_export(tmp_path: Path, bench: Bench) -> None:
    # Loaded once before, so that the six meet at the folder.
    bench("data", "info", "starter")
    done = ended(
        *[("data", "export", "starter", "--out", tmp_path / "out")] * 6,
        together=True,
        loaded=["bench.datasets.starter.loader"],
    )
    assert sorted(one.code for one in done) == [0, 2, 2, 2, 2, 2], done
    assert all("is not empty" in one.err for one in done if one.code)
    assert sorted(item.name for item in tmp_path.iterdir() if "out" in item.name) == ["out"]


@pytest.fixture
def stored(tmp_path: Path, starter_results: Path) -> Path:
    """A folder of results with one of bm25 on the starter dataset."""
    result = folder_of(starter_results, "bm25")
    shutil.copytree(result, tmp_path / "stored" / "starter" / result.name)
    return tmp_path / "stored"


def test_a_reader_who_has_seen_enough_is_no_failure(starter_results: Path) -> None:
    verbs = (("show", "bm25@starter"), ("compare", "bm25@starter", "random@starter"), ("list", "results"))
    for done in ended(
        *((*verb, "--results", starter_results) for verb in verbs), out="closed", loaded=["bench.cli.compare"]
    ):
        assert done.code == 0, done


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
def test_a_gate_that_cannot_print_says_so(stored: Path, tmp_path: Path, bench: Bench) -> None:
    baseline = tmp_path / "base.json"
    bench("bless", "bm25@starter", "--results", stored, "--out", baseline)
    policy = tmp_path / "gate.toml"
    shutil.copyfile(ROOT / "baselines" / "gate.toml", policy)
    line = ("gate", "bm25@starter", "--baseline", baseline, "--policy", policy, "--results", stored)
    (done,) = ended(line, out="/dev/full")
    assert done.code == 3
    assert "cannot print the report: No space left on device" in done.err


# Services -----------------------------------------------------------------------------------------------------------


def test_a_result_of_a_service_without_a_version_is_not_kept(service: Service, bench: Bench) -> None:
    service.answer = lambda request: request.reply(["rolobox.find_contact"])
    line = ("run", "-m", f"http(url={service.url})", "-d", "starter", "--limit", 5)
    bench(*line, "--json")
    count = len(service.seen)
    assert count
    bench(*line, "--json", "--overwrite", "missing")
    assert len(service.seen) == count
    bench(*line, "--json")
    assert len(service.seen) == 2 * count
    # One whose version is known is kept.
    known = ("run", "-m", f"http(url={service.url}, revision=v1)", "-d", "starter", "--limit", 5, "--json")
    bench(*known)
    count = len(service.seen)
    bench(*known)
    assert len(service.seen) == count


# Keys ---------------------------------------------------------------------------------------------------------------


def holding(folder: Path, text: str) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and text.encode() in path.read_bytes()]


@pytest.mark.parametrize("named", [True, False], ids=["in its version", "in its answers"])
def test_a_token_that_an_mcp_server_sends_back_is_masked(
    service: Service, bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    token = "tok-of-the-test-1234"
    monkeypatch.setenv("SEARCH_TOKEN", token)

    names = chain(["rolobox.find_contact"] * 2, repeat(token))

    def answer(request: Any) -> None:
        requests = request.sent or {}
        name = next(names) if requests.get("method") == "tools/call" else ""
        said = {
            "initialize": {
                "protocolVersion": "2025-06-18",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "w", "version": f"1 {token}" if named else "1"},
            },
            "tools/list": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("search", token)]},
            # A run in which no name means a tool is not stored.
            "tools/call": {"content": [{"type": "text", "text": json.dumps([name])}]},
        }.get(str(requests.get("method")))
        if "id" not in requests:
            request.reply(b"", 202)
        else:
            error = {"code": -32601, "message": "no"}
            body = {"jsonrpc": "2.0", "id": requests["id"], **({"error": error} if said is None else {"result": said})}
            request.reply(body, 200, {"Content-Type": "application/json"})

    service.answer = answer
    method = f"mcp(server={service.url}, tool=search, token=SEARCH_TOKEN)"
    line = ("run", "-d", "starter", "--limit", 5, "--results", tmp_path / "r")
    said = bench(*line, "-m", method, "--json")
    said_other = bench(*line, "-m", method.replace("tool=search", "tool=other"), code=2)
    assert "[the key]" in said.out
    assert "its tools are search, [the key]" in " ".join(said_other.err.split())
    assert token not in said.out + said.err + said_other.out + said_other.err
    assert holding(tmp_path / "r", token) == []


def test_a_key_is_masked_in_results_of_other_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    key = "sk-of-the-test-1234"
    monkeypatch.setenv("BENCH_LLM_KEY", key)
    program = tmp_path / "search.py"
    # A run in which no name means a tool is not stored.
    program.write_text(
        "import os, sys\nname = 'rolobox.find_contact'\nfor line in sys.stdin:\n"
        "    print('[\"' + name + '\"]', flush=True)\n    name = os.environ['BENCH_LLM_KEY']\n"
    )
    methods = [f'command(run="{sys.executable} {program}", timeout={seconds})' for seconds in (30, 31)]
    line = ("run", "-m", methods[0], "-m", methods[1], "-d", "starter", "--limit", "5", "--jobs", "2")
    assert run([*line, "--results", str(tmp_path / "r"), "--json"]) == 0
    said = capfd.readouterr()
    assert "[the key]" in said.out
    assert key not in said.out + said.err
    assert holding(tmp_path / "r", key) == []


# Names --------------------------------------------------------------------------------------------------------------


def test_a_result_is_found_however_its_spec_is_written(tmp_path: Path, bench: Bench) -> None:
    stored = tmp_path / "r"
    bench("run", "-m", "tgr(graph=manual, alpha=4, base=bm25)", "-d", "starter", "--limit", 5, "--results", stored)
    bench("run", "-m", "bm25", "-d", "starter", "--limit", 5, "--results", stored)
    expected = find_result(stored, "tgr(alpha=4.0, base=bm25(), graph=manual)@starter").folder
    for name in ("tgr(graph=manual, alpha=4, base=bm25)", "tgr( base=bm25(), layers=1,graph=manual,alpha=4.0 )"):
        assert find_result(stored, f"{name}@starter").folder == expected
    for name in ("tgr(graph=manual, alpha=5, base=bm25)", "tgr(grapf=manual)", "no-such-method(a=1)", "tgr(("):
        with pytest.raises(UsageError, match="there is no result"):
            find_result(stored, f"{name}@starter")


def test_a_blessed_run_file_is_not_called_the_same_code(stored: Path, tmp_path: Path, bench: Bench) -> None:
    exported = tmp_path / "run.jsonl"
    exported.write_text(bench("show", "bm25@starter", "--format", "jsonl", "--results", stored).out)
    baseline = tmp_path / "base.json"
    bench("bless", f"{exported}@starter", "--out", baseline, "--results", stored)
    policy = ROOT / "baselines" / "gate.toml"
    said = bench("gate", exported, "--baseline", baseline, "--policy", policy, "--results", stored).out
    assert "the candidate is the run file that was blessed" in said
    assert "same code" not in said


# Programs that bench starts -----------------------------------------------------------------------------------------


def test_results_of_two_datasets_are_told_apart_where_they_cannot_be_compared(tmp_path: Path, bench: Bench) -> None:
    bench("data", "add", "mine", "--from", beir(tmp_path / "mine", {"q": "one"}))
    stored = tmp_path / "r"
    bench("run", "-m", "bm25", "-d", "starter", "-d", "mine", "--limit", 5, "--results", stored)
    said = bench("compare", "bm25@starter", "bm25@mine", "--results", stored, code=2)
    assert "the results are of different datasets (starter, mine)" in " ".join(said.err.split())


#: `bench init` in a process that ends, as by kill -9, at the Nth time that it is about to change a file or folder.
ENDED = """
import os, sys
place, left = os.path.abspath(sys.argv[1]), [int(sys.argv[2])]

def changes(event, arguments):
    if event == "open":
        return isinstance(arguments[1], str) and any(sign in arguments[1] for sign in "wxa+")
    return event in {"os.mkdir", "os.link", "os.rename", "os.remove"}

def look(event, arguments):
    if changes(event, arguments) and os.path.abspath(os.fspath(arguments[0])).startswith(place):
        left[0] -= 1
        if left[0] < 0:
            os._exit(9)

from pathlib import Path
from bench.example.write import write_example
sys.addaudithook(look)
write_example(Path(place))
"""


def example_files(folder: Path) -> dict[str, bytes]:
    """The files of an example; what a killed command left under another name is none of them."""
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".tmp"]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def test_an_example_whose_writing_was_killed_is_finished_by_the_same_command(tmp_path: Path, bench: Bench) -> None:
    bench("init", tmp_path / "whole")
    whole = example_files(tmp_path / "whole")
    codes = set()
    for number in (0, 2, 3, 4, 5, 6, 9, 14, 20, 99):
        place = tmp_path / f"killed-{number}"
        codes.add(code := subprocess.run([sys.executable, "-c", ENDED, place, str(number)]).returncode)
        assert all(whole[name] == data for name, data in example_files(place).items()), number
        bench("init", place, code=2 if code == 0 else 0)
        assert example_files(place) == whole, number
    assert codes == {0, 9}


def test_an_example_is_not_finished_over_a_file_of_somebody_else(tmp_path: Path, bench: Bench) -> None:
    bench("init", tmp_path)
    (tmp_path / "README.md").unlink()
    (tmp_path / "gate.toml").write_text("")
    assert "gate.toml already exists, and nothing was written" in bench("init", tmp_path, code=2).err
    assert not (tmp_path / "README.md").exists()


def test_a_template_with_a_number_of_thousands_of_digits_is_refused(tmp_path: Path, bench: Bench) -> None:
    (tmp_path / "tool.j2").write_text("{{ " + "9" * 5000 + " }}")
    done = bench("run", "-m", "bm25", "-d", "starter", "--template", tmp_path / "tool.j2", code=2)
    assert "tool.j2 is not Jinja" in " ".join(done.err.split())


def test_a_key_that_a_program_finds_in_its_environment_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    key = "sk-of-the-test-1234"
    monkeypatch.setenv("BENCH_LLM_KEY", key)
    program = tmp_path / "search.py"
    program.write_text(
        "import os, sys\nfor line in sys.stdin:\n    print('[\"' + os.environ['BENCH_LLM_KEY'] + '\"]', flush=True)\n"
    )
    method = f'command(run="{sys.executable} {program}")'
    assert run(["run", "-m", method, "-d", "starter", "--limit", "12"]) == 8
    said = capfd.readouterr()
    assert "[the key]" in said.err
    assert key not in said.out + said.err
