"""The method `command`, end to end with real programs, in Python, JavaScript, TypeScript, bash and Go."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from kit.datasets import loaded
from kit.runs import ran
from kit.validation import assert_conforms

from bench.base.errors import UnavailableError, UsageError
from bench.base.spec import Spec, Value
from bench.interface.marks import CATALOGUE_NOT_KNOWN, OWN_CATALOGUE
from bench.results.store import RUN, StoredResult

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "docs" / "examples"
#: tsx and the compiler of TypeScript: `make typescript` puts them there.
NODE_MODULES = Path(os.environ.get("BENCH_TYPESCRIPT") or ROOT / "build" / "typescript") / "node_modules"
PYTHON = (EXAMPLES / "search.py").read_text("utf-8")


def run(results: Path, command: str, limit: int = 20, **more: Value) -> StoredResult:
    return ran(results, Spec.of("command", {"run": command, **more}), limit)


def assert_same(expected: StoredResult, other: StoredResult) -> None:
    """The same run file, of another method."""
    assert expected.folder.name != other.folder.name
    assert (expected.folder / RUN).read_bytes() == (other.folder / RUN).read_bytes()


def test_a_program_ranks_the_tools_that_it_is_given(example: str, expected: StoredResult, tmp_path: Path) -> None:
    assert expected.metrics.n_failed == 0
    assert expected.metrics.metrics["recall@10"].mean > 0.2
    assert [mark.text for mark in expected.manifest.marks] == ["remote"]
    named = run(tmp_path / "r", example, revision="abc")
    assert named.manifest.method.revisions == {example: "abc"}
    assert named.manifest.marks == []


@pytest.mark.parametrize(("language", "file"), [("node", "search.js"), ("bash", "search.sh")])
def test_a_program_in_another_language_gives_the_same(
    expected: StoredResult, tmp_path: Path, language: str, file: str
) -> None:
    if shutil.which(language) is None:
        pytest.skip(f"no {language}")
    assert_same(expected, run(tmp_path / "r", f"{language} {EXAMPLES / file}"))


@pytest.fixture
def typescript() -> Path:
    """The folder with the programs `tsx` and `tsc`."""
    result = NODE_MODULES / ".bin"
    if shutil.which("node") is None or not (result / "tsx").exists():
        reason = "no TypeScript: make typescript (with npm), or name its folder in BENCH_TYPESCRIPT"
        if os.environ.get("BENCH_REQUIRE_TYPESCRIPT"):
            pytest.fail(reason)
        pytest.skip(reason)
    return result


@pytest.mark.slow("Node and Go")
def test_a_program_in_typescript_gives_the_same(expected: StoredResult, typescript: Path, tmp_path: Path) -> None:
    assert_same(expected, run(tmp_path / "r", f"{typescript / 'tsx'} {EXAMPLES / 'search.ts'}"))


@pytest.mark.slow("Node and Go")
def test_the_program_in_typescript_is_typed(typescript: Path, tmp_path: Path) -> None:
    source = (EXAMPLES / "search.ts").read_text("utf-8")
    types = ["--types", "node", "--typeRoots", str(NODE_MODULES / "@types")]
    # What Node 22 runs by itself has types that can be left out, and nothing else of TypeScript.
    strict = ["--strict", "--noEmit", "--target", "es2022", "--module", "nodenext", "--erasableSyntaxOnly"]

    def check(text: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "search.ts").write_text(text, "utf-8")
        command = [str(typescript / "tsc"), *types, *strict, str(tmp_path / "search.ts")]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)

    result = check(source)
    assert result.returncode == 0, result.stdout
    assert "any" not in source.split()
    wrong = check(source.replace("{ id: string; text: string }", "{ id: number; text: string }"))
    assert wrong.returncode != 0
    assert "'number' is not assignable to type 'string'" in wrong.stdout


def test_a_program_in_bash_reads_and_writes_any_json(tmp_path: Path) -> None:
    hostile = {"id": 'a", "name": "b\\', "name": "\ttext", "parameters": [{"default": {"text": "Ünrelated"}}]}
    tools = [{**hostile, "text": 'Send\na "quoted" \\n ü mail'}, {"id": "other", "name": "o", "text": "nothing"}]
    (tmp_path / "tools.jsonl").write_text("".join(json.dumps(tool) + "\n" for tool in tools))
    questions = ['a "quoted" mail', '", "limit": 7', "", "\\", "ü\nSEND ü", "unrelated"]
    lines = [json.dumps({"id": i, "query": text, "limit": 2}) + "\n" for i, text in enumerate(questions)]
    environment = {**os.environ, "BENCH_TOOLS": str(tmp_path / "tools.jsonl")}
    command = ["bash", str(EXAMPLES / "search.sh")]
    told = subprocess.run(command, input="".join(lines), env=environment, capture_output=True, text=True, check=True)
    result = [json.loads(line)["tools"] for line in told.stdout.splitlines()]
    assert result == [[hostile["id"], "other"]] * len(questions)
    assert told.stderr == ""


@pytest.mark.slow("Node and Go")
def test_a_program_in_go_ranks_the_tools_that_it_is_given(tmp_path: Path) -> None:
    if shutil.which("go") is None:
        if os.environ.get("BENCH_REQUIRE_GO"):
            pytest.fail("BENCH_REQUIRE_GO is set, and go is not installed")
        pytest.skip("no go")
    build = ["go", "build", "-o", str(tmp_path / "search"), str(EXAMPLES / "search.go")]
    subprocess.run(build, check=True, timeout=300, env={**os.environ, "GOCACHE": str(tmp_path / "cache")})
    result = run(tmp_path / "r", str(tmp_path / "search"))
    assert result.metrics.n_failed == 0
    assert result.metrics.metrics["recall@10"].mean > 0.1
    spec = Spec.of("command", {"run": str(tmp_path / "search")})
    assert_conforms(spec, loaded("starter"))


@pytest.mark.parametrize(
    "file", ["search.py", "search.js", "search.ts", "search.sh", "search.go", "server.py", "server.js"]
)
def test_an_example_is_short(file: str) -> None:
    lines = [line for line in (EXAMPLES / file).read_text("utf-8").splitlines() if line.strip()]
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 120


def test_the_tokens_of_an_answer_are_those_of_the_line_that_came_back(expected: StoredResult, tmp_path: Path) -> None:
    search = tmp_path / "search.py"
    search.write_text(PYTHON.replace("print(json.dumps({", 'print(json.dumps({"note": "word " * 100, '))
    more = run(tmp_path / "r", f"{sys.executable} {search}")
    # The same tools, and a hundred words beside them.
    assert_same(expected, more)
    assert 100 <= more.metrics.tokens["answer"] - expected.metrics.tokens["answer"] <= 110
    assert {**more.metrics.tokens, "answer": 0} == {**expected.metrics.tokens, "answer": 0}


def test_a_program_that_dies_fails_its_query_alone_and_is_not_started_for_ever(tmp_path: Path) -> None:
    dying = PYTHON.replace("    query =", "    if asked['id'] == 5: sys.exit(1)\n    query =")
    (tmp_path / "search.py").write_text(dying)
    result = run(tmp_path / "r", f"{sys.executable} {tmp_path / 'search.py'}")
    (reason,) = result.manifest.failures
    assert (reason.text, reason.count) == ("no answer: the process ended with 1", 1)
    assert result.metrics.n_failed <= 1
    (tmp_path / "search.py").write_text("import sys\nfor line in sys.stdin: print('[]', flush=True); sys.exit(1)\n")
    with pytest.raises(UnavailableError, match="ended or had to be stopped 4 times"):
        run(tmp_path / "s", f"{sys.executable} {tmp_path / 'search.py'}")


READS = "open(os.environ['BENCH_TOOLS']).read()"
CHILD = "import subprocess; subprocess.run(['cat', os.environ['BENCH_TOOLS']], stdout=subprocess.DEVNULL)"


@pytest.mark.parametrize(
    ("reads", "own"), [("pass", True), (READS, False), (CHILD, False), ("os.stat(os.environ['BENCH_TOOLS'])", True)]
)
def test_a_program_that_never_reads_the_tools_has_its_own_catalogue(tmp_path: Path, reads: str, own: bool) -> None:
    answer = "    print('[\"crateful.get_catalogue\"]', flush=True)\n"
    (tmp_path / "search.py").write_text(f"import os, sys\nfor line in sys.stdin:\n    {reads}\n{answer}")
    result = run(tmp_path / "r", f"{sys.executable} {tmp_path / 'search.py'}", 3, revision="1")
    marks = {mark.text: mark.why for mark in result.manifest.marks}
    assert (OWN_CATALOGUE in marks) == own
    assert CATALOGUE_NOT_KNOWN not in marks
    if own:
        assert "search.py', which did not read the file of BENCH_TOOLS and has its own" in marks[OWN_CATALOGUE]


def test_where_readings_are_not_recorded_it_is_not_known_whether_the_tools_were_read(
    example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a file system that is mounted with `noatime`.
    monkeypatch.setattr("bench.methods.command.method.was_read", lambda file: None)
    (mark,) = run(tmp_path, example, 3, revision="1").manifest.marks
    assert mark.text == CATALOGUE_NOT_KNOWN
    assert "it is not known whether the command" in mark.why


def test_the_error_output_of_a_program_is_part_of_the_reason(tmp_path: Path) -> None:
    def failing(code: str) -> str:
        (tmp_path / "search.py").write_text("import json, sys\n" + code)
        with pytest.raises(UnavailableError) as caught:
            run(tmp_path / "r", f"{sys.executable} {tmp_path / 'search.py'}")
        return str(caught.value)

    start = "for line in sys.stdin:\n    asked = json.loads(line)\n"
    said = failing("sys.stderr.write('x' * 1_000_000 + '\\nno index here\\n'); sys.exit(3)\n")
    assert "4 times, the last time with no answer: the process ended with 3; it said 'x" in said
    assert "no index here'; the answers so far" in said
    # What was said of an earlier query is no reason of a later one.
    say = "    sys.stderr.write(f'KeyError {asked[\"id\"]}\\n'); sys.stderr.flush(); print('{}', flush=True)\n"
    said = failing(start + say)
    assert "the last with an answer without a list of tools ('{}'); it said 'KeyError 10'; finished" in said


def test_a_program_passes_the_conformance_kit(example: str) -> None:
    spec = Spec.of("command", {"run": example})
    assert_conforms(spec, loaded("starter"))


def test_what_cannot_work_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs a command"):
        run(tmp_path, "")
    with pytest.raises(UnavailableError, match="cannot start the command 'no-such-program'"):
        run(tmp_path, "no-such-program")
