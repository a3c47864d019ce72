"""Keys stand in nothing that commands store, send or print, and what users write with a key in it is refused."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from base64 import b64encode
from pathlib import Path
from typing import Any
from urllib.parse import quote, quote_plus

import pyarrow.parquet as pq
import pytest
from kit.chatserver import ChatServer, status
from kit.processes import Command, forked
from kit.searchservice import Request, Service

import bench as api
from bench.__main__ import run
from bench.base import secrets
from bench.base.errors import UsageError
from bench.base.keys import refuse

#: Signs that each form writes in another way; the white space around it is of a file that `export` has read.
KEY = 'sk-a/b+c"d&12=='
BEARER, PRINTED = KEY + "-bearer", KEY + "-printed\\'é"

COMMAND = r"""
import base64, json, os, sys, urllib.parse
key = os.environ["ACME_SECRET"].strip()
for line in sys.stdin:
    question = json.loads(line)
    coded = base64.b64encode(f"user:{key}".encode()).decode()
    print(key, repr(key), urllib.parse.quote(key), json.dumps(key), coded, file=sys.stderr, flush=True)
    tools = [] if question["id"] % 3 else [{"id": "banterline.dm_send", "description": key}, key]
    print(json.dumps({"id": question["id"], "tools": tools, "version": key, key: key}), flush=True)
"""

METHOD = '''
"""A method that says its key wherever it can."""
import os
import sys

from bench import Method
from bench.methods.bm25 import BM25


class Talks(BM25):
    """Prints it."""

    def index(self, library):
        print(os.environ["ACME_SECRET"], file=sys.stderr)
        print(os.environ["ACME_SECRET"])
        super().index(library)

    def facts(self):
        return {"key": os.environ["ACME_SECRET"], os.environ["ACME_SECRET"]: 1}

    def marks(self):
        return {"keyed": os.environ["ACME_SECRET"]}


class Fails(BM25):
    """Raises it."""

    def rank(self, queries, depth):
        raise ValueError(os.environ["ACME_SECRET"])
'''


def forms(key: str) -> list[bytes]:
    """A key as files and outputs may write it."""
    texts = [key, json.dumps(key)[1:-1], json.dumps(key, ensure_ascii=False)[1:-1], repr(key)[1:-1]]
    texts += [form for text in (quote(key, safe=""), quote(key), quote_plus(key)) for form in (text, text.lower())]
    # Whatever stands around it, these signs of its base64 are the same.
    texts += [b64encode(before.encode() + key.encode())[4:-4].decode() for before in ("", "u:", "me:")]
    return [text.encode("utf-8", "surrogatepass") for text in texts]


def contents(place: Path) -> Any:
    """(name, bytes) of each file of a folder, tables, archives and arrays as texts."""
    for path in sorted(path for path in place.rglob("*") if path.is_file()):
        yield path.name, path.read_bytes()
        if path.suffix == ".parquet":
            yield path.name, json.dumps(pq.read_table(path).to_pylist(), ensure_ascii=False, default=str).encode()
        elif path.suffix in {".zip", ".npz"}:
            with zipfile.ZipFile(path) as archive:
                yield from ((name, archive.read(name)) for name in archive.namelist())


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """No keys of other tests."""
    monkeypatch.setattr(secrets, "_kept", set())
    monkeypatch.setattr(secrets, "_public", set())


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder, and a program in the environment that prints a key."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("ACME_SECRET", PRINTED + "\n")
    return work


def test_no_key_stands_in_anything_that_is_stored_sent_or_printed(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, service: Service, chat_server: ChatServer
) -> None:
    monkeypatch.setenv("BENCH_LLM_KEY", KEY + "\n")
    monkeypatch.setenv("SERVICE_PAT", f" {BEARER}\n")
    for name in ("results", "cache", "data"):
        monkeypatch.setenv(f"BENCH_{name.upper()}", str(tmp_path / name))
    (work / "talking.py").write_text(METHOD)
    (work / "search.py").write_text(COMMAND)

    def echo(request: Request) -> None:
        said = dict(request.headers.items())
        failing = request.path.startswith("/fails") or len(service.seen) % 4 == 0
        tools = [{"id": "banterline.dm_send", "said": said}, BEARER] if failing else ["banterline.dm_send"]
        request.reply({"tools": tools, **said, "version": BEARER, "x": quote(BEARER)}, 403 if failing else 200)

    service.answer = echo
    chat_server.answer = lambda body: f"{KEY} {quote(KEY)} {json.dumps(KEY)}"
    chat_server.faults.extend([None, status(500, f"{KEY} {b64encode(KEY.encode()).decode()}")])
    asks = f'http(url="{service.url}", token=SERVICE_PAT, unknown=drop, version="{service.url}#x")'
    program = f'command(run="{sys.executable} search.py", unknown=drop)'
    policy = work / "policy.toml"
    policy.write_text('margin = 0.5\n[[rule]]\nmetric = "recall@5"\n')
    limit = ["-d", "starter", "--limit", "12"]
    gate = "--baseline baseline.json --policy policy.toml --out gate.md --out gate.xml".split()
    codes = {
        ("run", "-m", asks.partition(", version")[0] + ")", *limit): 0,
        ("run", "-m", asks, *limit): 4,
        ("run", "-m", asks.replace("search", "fails"), *limit): 4,
        ("run", "-m", program, *limit): 0,
        ("run", "-m", "talking:Talks", *limit, "--json"): 0,
        ("run", "-m", "talking:Fails", *limit): 5,
        ("check", "method", "talking:Fails"): 1,
        ("choose", "talking:Talks@starter", "--model", "scripted", "--limit", "4", "--form", "json"): 0,
        ("show", "talking:Talks@starter", "--all"): 0,
        ("bless", "talking:Talks@starter", "--out", "baseline.json"): 0,
        ("gate", "talking:Talks@starter", *gate, "--json"): 0,
        ("tools", "talking:Talks@starter", "--html", "tools.html"): 0,
        ("submit", "pack", "talking:Talks@starter", "--code", "talking.py"): 0,
        ("list", "results", "--json"): 0,
        ("leaderboard", "build", "--out", "site"): 0,
    }
    modules = [f"bench.cli.{verb}" for verb in ("run", "gate", "bless")]
    modules += ["bench.validation.check_command", "bench.choices.command", "bench.leaderboard.command"]
    ended = forked([Command(words) for words in codes], *modules)
    monkeypatch.setenv("BENCH_DEBUG", "1")
    (debug,) = forked([Command(["run", "-m", "talking:Fails", *limit])])
    assert [one.code for one in ended] == list(codes.values()), [one.err[-500:] + one.out[-500:] for one in ended]
    assert "Traceback" in debug.err
    assert "[the key]" in debug.err
    texts = [(name, (one.out + one.err).encode()) for name, one in zip([*codes, "debug"], [*ended, debug], strict=True)]
    files = list(contents(tmp_path))
    assert {".html", ".jsonl", ".json", ".parquet", ".zip", ".xml", ".md"} <= {Path(name).suffix for name, _ in files}
    known = {key: forms(key) for key in (KEY, BEARER, PRINTED)}
    own = {"talking.py", "search.py"}
    found = [
        (name, form)
        for name, data in [*texts, *files]
        if name not in own
        for each in known.values()
        for form in each
        if form in data
    ]
    assert not found
    assert any(BEARER in seen[3].get("Authorization", "") for seen in service.seen), "the service got its token"
    assert f"Bearer {KEY}" in chat_server.keys


def coded(text: str) -> str:
    return b64encode(text.encode()).decode()


@pytest.mark.parametrize(
    "form",
    [
        KEY,
        f"  {KEY}\n",
        quote(KEY, safe=""),
        quote(KEY).lower().replace("%2b", "%2B"),
        quote(quote(KEY, safe=""), safe=""),
        quote_plus(KEY),
        json.dumps(KEY),
        KEY.replace("/", "\\/"),
        "'sk-a'/b+'c\"d&12=='",
        coded(KEY),
        coded(f"user:{KEY}"),
        quote(coded(f"u:{KEY}"), safe=""),
    ],
)
def test_a_key_is_refused_in_every_form(form: str, work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_API_TOKEN", f"{KEY}\r\n")
    with pytest.raises(
        UsageError, match=r"^the name holds the value of the environment variable ACME_API_TOKEN \("
    ) as error:
        refuse("the name", "harmless", f"https://host/{form}/x")
    assert not [each for each in forms(KEY) if each in str(error.value).encode()]


@pytest.mark.parametrize(
    "words",
    [
        ["run", "-m", f'http(url="https://host/search/{quote(KEY)}")'],
        ["run", "-m", f'http(url="https://host/search#{quote(KEY)}")'],
        ["run", "-m", "http", "--set", f"url=https://u:{quote(KEY)}@host"],
        ["run", "-m", "http", "--set", f"query={KEY}"],
        ["run", "-m", f'command(run="node s.js --key={KEY}")'.replace('c"', 'c\\"')],
        ["run", "-m", "bm25", "--name", KEY],
        ["run", "-d", f"starter(no_tool={quote(KEY)})"],
        ["run", "keyed.toml"],
        ["bless", "bm25@starter", "--reason", KEY],
        ["choose", "bm25@starter", "--model", KEY],
        ["tools", "bm25@starter", "--try", KEY],
        ["tune", "bm25", "--grid", KEY],
        ["check", "method", f"my:Method(a={quote(KEY)})"],
        ["score", KEY, "-d", "starter"],
        ["init", KEY],
        ["data", "add", "mine", "--from", KEY],
        ["data", "add", "mine", "--from", "brought"],
        ["data", "import", "mine", "tools.json"],
        ["data", "import", "mine", "--mcp", f"python s.py --key {quote(KEY)}"],
        ["results", "mv", "bm25@starter", KEY],
        ["submit", "pack", KEY],
        ["gate", KEY, "--baseline", "b.json", "--policy", "p.toml"],
    ],
)
def test_what_holds_a_key_is_refused_before_anything_runs(
    words: list[str], work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ACME_API_TOKEN", f"{KEY}\n")
    monkeypatch.setenv("BENCH_DATA", str(tmp_path / "data"))
    (work / "keyed.toml").write_text(f"methods = ['command(run=\"x {quote(KEY)}\")']\ndatasets = ['starter']\n")
    tool = {"name": "a", "description": f"Needs {KEY}.", "inputSchema": {"type": "object"}}
    (work / "tools.json").write_text(json.dumps({"tools": [tool]}))
    (work / "brought" / "qrels").mkdir(parents=True)
    (work / "brought" / "corpus.jsonl").write_text('{"_id": "a", "title": "a", "text": "b"}\n')
    (work / "brought" / "queries.jsonl").write_text('{"_id": "q", "text": "b"}\n')
    (work / "brought" / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\ta\t1\n")
    about = {"title": "a", "licence": f"https://host/{quote(KEY)}", "redistribution": False, "template": "full"}
    (work / "brought" / "about.json").write_text(json.dumps(about | {"known_issues": []}))
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert run(words) == (3 if words[0] == "gate" else 2)
    said = capsys.readouterr()
    assert "environment variable ACME_API_TOKEN" in said.err
    assert "[the key]" in said.err
    assert not [each for each in forms(KEY) if each in (said.out + said.err).encode()]
    assert {path for path in tmp_path.rglob("*") if path.is_file()} - before <= set(tmp_path.rglob("*.lock"))


def test_python_programs_may_not_write_a_key_either(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_API_TOKEN", KEY)
    monkeypatch.setenv("ACME_PAT", "abcdefgh-12345678")
    for refused in (
        lambda: api.run(api.build_method("command", run=f"x {quote(KEY)}"), "starter"),
        lambda: api.run(f"http(url=https://host/{quote(KEY, safe='')})", "starter"),
        lambda: api.run('http(url="https://host/abcdefgh-12345678", token=ACME_PAT)', "starter"),
        lambda: api.run("http(url=https://host, token=sk-live-1234)", "starter"),
        lambda: api.run("bm25", "starter", template=f"{{{{ name }}}} {KEY}"),
        lambda: api.score({}, "starter", name=KEY),
    ):
        with pytest.raises(UsageError, match=r"environment variable|which is not a key") as error:
            refused()
        assert not any(key in str(error.value) for key in (KEY, quote(KEY), "abcdefgh-12345678", "sk-live-1234"))
    monkeypatch.setenv("BENCH_LLM_URL", f"http://127.0.0.1:1/{quote(KEY)}/v1")
    with pytest.raises(UsageError, match=r"ACME_API_TOKEN \(.*LLM_URL=http://127.0.0.1:1/\[the key\]"):
        api.run("bm25", "starter")


@pytest.mark.parametrize(
    "value",
    "rectools metatool-single nearest-query /root/.ssh/id_rsa ~/.ssh/id_rsa here.pem work-of-mine none".split(),
)
def test_what_is_public_anyway_is_no_key(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = tmp_path / "work-of-mine"
    work.mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("PWD", str(work))
    monkeypatch.setenv("HOME", str(tmp_path))
    (work / "here.pem").touch()
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "id_rsa").touch()
    secrets._is_known_here.cache_clear()
    monkeypatch.setenv("MY_KEY", value)
    refuse("the name", f"a {value}")
    assert secrets.mask(value) == value
    monkeypatch.setenv("MY_KEY", "tenant_id")
    assert secrets.mask("a tenant_id") == "a [the key]"
    secrets.publish(["tenants.get_tenant_id", "x"])
    assert secrets.mask("a tenant_id") == "a tenant_id"
    secrets.keep("tenant_id")
    assert secrets.mask("a tenant_id") == "a [the key]"


def test_a_key_in_the_card_of_a_plug_in_is_refused_and_one_in_its_metadata_is_stored_nowhere(tmp_path: Path) -> None:
    """Cards of data that users add are looked at when they are added."""
    key, plugin, about = "sk-of-the-card-1", tmp_path / "plugin" / "mydata", tmp_path / "plugin" / "mydata-1.dist-info"
    shutil.copytree(Path(api.__path__[1], "datasets", "starter"), plugin)
    (plugin / "__init__.py").touch()
    card = (plugin / "card.toml").read_text().replace('id = "starter"', 'id = "mydata"', 1)
    about.mkdir()
    (about / "entry_points.txt").write_text("[bench.datasets]\nmydata = mydata\n")
    url = f"Project-URL: Home, https://user:{key}@example.org/x\n"
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: mydata\nVersion: 1\n{url}")
    paths = os.pathsep.join([str(Path(api.__path__[1])), str(plugin.parent)])
    variables = {**os.environ, "PYTHONPATH": paths, "ACME_KEY": key, "BENCH_RESULTS": str(tmp_path / "results")}
    command = [sys.executable, "-m", "bench", "run", "-m", "bm25", "-d", "mydata"]
    (plugin / "card.toml").write_text(card)
    done = subprocess.run(command, env=variables, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not [path for path in (tmp_path / "results").rglob("*.json") if key in path.read_text()]
    (plugin / "card.toml").write_text(card.replace('title = "Starter"', f'title = "Data by {key}"', 1))
    done = subprocess.run(command, env=variables, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    start = "bench: the card of the dataset mydata holds the value of the environment variable ACME_KEY ("
    assert done.stderr.startswith(start)
    assert key not in done.stderr
