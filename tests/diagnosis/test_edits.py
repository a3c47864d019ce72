"""`bench tools`: readable with long ids, the words that decide, and `--try`: what an edit would do."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from kit.commands import write_example
from kit.results import edit

from bench.cli.schemas import shipped_schema
from bench.importing.tools.tool import as_listed
from bench.registry import load_dataset

Bench = Callable[..., Any]
OPEN = re.compile(r"Open a new support ticket.*new ticket\.")


def valid(name: str, report: dict[str, Any]) -> dict[str, Any]:
    jsonschema.Draft202012Validator(shipped_schema(name)).validate(report)
    return report


@pytest.fixture
def desk(bench: Bench) -> Path:
    """The example of `bench init` as the dataset desk, with a result of bm25."""
    write_example(Path("desk"))
    bench("data", "import", "desk", "desk/tools", "--queries", "desk/queries.csv")
    bench("run", "-q", "-m", "bm25", "-d", "desk")
    return Path("desk")


def edited(folder: Path, text: str = "Handles input.") -> Path:
    """The file of tools of one server, with another description of create_ticket."""
    there = (folder / "tools" / "tickets.json").read_text()
    assert OPEN.search(there)
    path = folder / "edited" / "tickets.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(OPEN.sub(text, there))
    return path


# Long ids -----------------------------------------------------------------------------------------------------------

SERVERS = ("mcp__github-enterprise-server", "mcp__internal_customer_support_desk")


@pytest.fixture
def long_ids(bench: Bench) -> list[str]:
    """Ids of tools as gateways write them; no query finds its tool first."""
    nouns = ("pull_request_review_comment", "calendar_event_attendee", "customer_support_ticket_attachment")
    names = [f"{server}__{verb}_{noun}" for server in SERVERS for verb in ("create", "list", "get") for noun in nouns]
    tools = [{"name": name, "description": f"Use it to {name.split('__')[2].replace('_', ' ')}."} for name in names]
    Path("tools.json").write_text(json.dumps({"tools": tools}))
    lines = [
        f"please {name.split('__')[2].split('_', 1)[1].replace('_', ' ')} {i},{name}" for i, name in enumerate(names)
    ]
    Path("q.csv").write_text("query,tools\n" + "\n".join(lines) + "\n")
    bench("data", "import", "long", "tools.json", "--queries", "q.csv")
    bench("run", "-q", "-m", "bm25", "-d", "long")
    return names


@pytest.mark.parametrize("width", [80, 100, 132])
def test_an_id_is_never_broken_by_a_column(
    bench: Bench, long_ids: list[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr("bench.cli.output._NO_TERMINAL_WIDTH", width)
    said = bench("tools", "bm25@long", "--k", "1").out
    report = bench("tools", "bm25@long", "--k", "1", "--json").json
    shown = [row for row in report["tools"][:15] if row["found"] < row["wanted"] or row["unwanted"]]
    assert len(shown) > 5
    for row in shown:
        assert row["tool_id"] in said
        assert all(f"loses to {pair['tool_id']} {pair['queries']}\n" in said for pair in row["loses_to"][:2])
    # Whatever is broken at the width holds no id: each of those lines has one id and little else.
    for line in said.splitlines():
        assert len(line) <= width or any(name in line for name in long_ids)
    assert not re.search(r"^ tool +found", said, re.M)


def test_short_ids_stay_in_a_table(bench: Bench, desk: Path) -> None:
    assert re.search(r"^ tool +found .*loses to", bench("tools", "bm25@desk", "--k", "1").out, re.M)


# Words --------------------------------------------------------------------------------------------------------------


def test_a_word_that_decides_is_one_without_which_the_other_tool_is_ahead(bench: Bench) -> None:
    tools = [
        {"name": "agenda", "description": "shows who sees the agenda, and lets you see you you"},
        {"name": "stock", "description": "shows the price of a stock"},
        {"name": "mail", "description": "sends a letter"},
        {"name": "room", "description": "books a room"},
    ]
    Path("tools.json").write_text(json.dumps({"tools": tools}))
    Path("q.csv").write_text(
        "query,tools\n" + "".join(f"can you tell who sees the price {i},stock\n" for i in range(3))
    )
    bench("data", "import", "mine", "tools.json", "--queries", "q.csv", "--unit", "none")
    bench("run", "-q", "-m", "bm25", "-d", "mine", "--template", "description")
    report = valid("tools-report", bench("tools", "bm25@mine", "--k", "1", "--json").json)
    (pair,) = report["confused"]
    assert (pair["missed"], pair["shown"], pair["queries"], pair["explained"]) == ("stock", "agenda", 3, 3)
    # Function words are not named, and count together.
    assert (pair["by"], pair["both"], pair["missing"]) == ("method", ["shows"], ["tell"])
    assert {effect["word"] for effect in pair["for_shown"]} == {"sees"}
    (price,) = [effect for effect in pair["for_missed"] if effect["word"] == "price"]
    assert (pair["common"]["queries"], pair["common"]["decides"], price["queries"]) == (3, 3, 3)
    # The sums are those of the stored scores.
    run = json.loads(bench("show", "bm25@mine", "--format", "jsonl").out.splitlines()[0])
    scores = dict(zip(run["tools"], run["scores"], strict=True))
    for_shown = [*pair["for_shown"], pair["common"]]
    gaps = sum(effect["adds"] for effect in for_shown) - sum(effect["adds"] for effect in pair["for_missed"])
    assert gaps == pytest.approx(scores["agenda"] - scores["stock"], abs=1e-4)
    said = bench("tools", "bm25@mine", "--k", "1").out
    assert re.search(r"^stock behind agenda \(3 queries; best in \S+, rank 2\)$", said, re.M)
    assert re.search(r"^  it loses by 'sees' \d\.\d\d in 3.*, common words \d\.\d\d in 3 \(decides 3\)", said, re.M)
    assert re.search(r"^  stand in no description: 'tell' *$", said, re.M)
    # Leaving the word out does what is said.
    Path("e.json").write_text(json.dumps({"agenda": "shows the agenda and lets see"}))
    tried = bench("tools", "bm25@mine", "--k", "1", "--try", "e.json", "--json").json
    assert tried["n_found"] == 3


def test_twenty_pairs_are_listed_those_of_most_queries_first(bench: Bench, lexical: Path) -> None:
    pairs = bench("tools", "bm25@starter", "--json").json["confused"]
    assert len(pairs) == 20
    counts = [pair["queries"] for pair in pairs]
    assert counts == sorted(counts, reverse=True)
    rows = {row["tool_id"]: row for row in bench("tools", "bm25@starter", "--json").json["tools"]}
    for pair in pairs:
        (listed,) = [other for other in rows[pair["missed"]]["loses_to"] if other["tool_id"] == pair["shown"]] or [None]
        assert listed is None or (listed["queries"], listed["example"]) == (pair["queries"], pair["example"])


# Trying an edit -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["bm25", "tfidf", "bm25-fields", "names"])
def test_a_tried_edit_has_the_numbers_of_the_edit_imported_and_compared(bench: Bench, desk: Path, method: str) -> None:
    bench("run", "-q", "-m", method, "-d", "desk", "--name", "before")
    path = edited(desk)
    tried = valid("tools-edit", bench("tools", "before", "--try", str(path), "--json").json)
    assert [(tool["tool_id"], tool["fields"]) for tool in tried["tools"] if tool["fields"]] == [
        ("tickets/create_ticket", ["description"])
    ]
    # As it is done by hand.
    before = bench("show", "before", "--json").json["manifest"]["result_id"]
    (desk / "tools" / "tickets.json").write_text(path.read_text())
    bench("data", "import", "desk", str(desk / "tools"), "--queries", str(desk / "queries.csv"), "--replace")
    bench("run", "-q", "-m", method, "-d", "desk")
    metrics = [argument for change in tried["metrics"] for argument in ("--metric", change["metric"])]
    compared = bench("compare", before, f"{method}@desk", "--across", "catalogues", *metrics, "--json").json
    assert len(tried["metrics"]) == 3
    for change, other in zip(tried["metrics"], compared["datasets"][0]["metrics"], strict=True):
        (difference,) = other["differences"]
        assert other["metric"] == change["metric"]
        for name in ("difference", "low", "high"):
            assert change[name] == pytest.approx(difference[name], abs=1e-12), name
        assert change["p"] == pytest.approx(difference["corrected"], abs=1e-12)
        assert (change["better"], change["worse"]) == (difference["wins"], difference["losses"])


def test_nothing_is_stored_and_no_dataset_changes(bench: Bench, desk: Path) -> None:
    def everything() -> dict[str, bytes]:
        places = [path for path in Path().rglob("*") if path.is_file() and ".locks" not in path.parts]
        return {str(path): path.read_bytes() for path in places}

    path = edited(desk)
    before = everything()
    said = bench("tools", "bm25@desk", "--try", str(path)).out
    assert everything() == before
    assert "tickets/create_ticket (edited: description)\n  found 3 to 0 of 3" in re.sub(r" +\n", "\n", said)
    assert re.search(r"^ recall@5 +0\.935 +0\.848 +-0\.087 +-\d\.\d+ to \+\d\.\d+ ", said, re.M)
    assert "Lost (3)" in said
    assert "  tickets/create_ticket: rank 1 to 12" in said
    assert max(map(len, said.splitlines())) <= 100


def test_a_dense_method_encodes_the_edited_texts_alone(
    bench: Bench, desk: Path, tiny_models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench.models.encoders import Encoder

    dense = f'dense(encoder="{tiny_models["encoder"]}")'
    bench("run", "-q", "-m", dense, "-d", "desk", "--name", "dense-one")
    asked: list[str] = []
    compute = Encoder._compute

    def watched(self: Any, missing: dict[bytes, str], progress: Any) -> Any:
        asked.extend(missing.values())
        return compute(self, missing, progress)

    monkeypatch.setattr(Encoder, "_compute", watched)
    tried = bench("tools", "dense-one", "--try", str(edited(desk)), "--json").json
    assert [text for text in asked if "Handles input." in text] == asked
    assert len(asked) == 1
    assert tried["metrics"][0]["n"] == 23


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("texts.json", {"create_ticket": "Handles input."}, ""),
        ("texts.json", {"tickets/create_ticket": "Handles input."}, ""),
        ("tools.json", {"tools": [{"name": "create_ticket", "description": "Handles input."}]}, ""),
        (
            "tools.json",
            [{"type": "function", "function": {"name": "create_ticket", "description": "Handles input."}}],
            "",
        ),
        (
            "tools.json",
            [{"name": "create_ticket", "description": "Handles input.", "input_schema": {"type": "object"}}],
            "",
        ),
        ("texts.json", {"create_ticket": ""}, ""),
        ("texts.json", {"creat_ticket": "x"}, "edited tools of desk: there is no tool 'creat_ticket' (near: "),
        ("texts.json", {"": "x"}, "there is no tool ''"),
        ("texts.json", {"create_ticket": "a", "tickets/create_ticket": "b"}, "has two tools that are"),
        ("texts.json", {}, "bench"),
        ("texts.json", {"create_ticket": 3}, "texts.json"),
        ("texts.json", {"create_ticket": {"description": "x"}}, "texts.json"),
        ("texts.json", {"create_ticket": "\ud800"}, "texts.json"),
    ],
)
def test_edits_are_read_as_people_have_them_or_refused_in_a_sentence(
    bench: Bench, desk: Path, name: str, text: Any, said: str
) -> None:
    Path(name).write_text(json.dumps(text))
    for code in (0,) if not said else (2, 3):
        try:
            done = bench("tools", "bm25@desk", "--try", name, "--json", code=code)
        except AssertionError:
            continue
        break
    else:
        pytest.fail("it ended otherwise")
    if not said:
        assert [tool["tool_id"] for tool in done.json["tools"] if tool["fields"]] == ["tickets/create_ticket"]
        return
    assert said in done.err
    assert "Traceback" not in done.err
    assert done.err.count("\n") == 1
    assert len(done.err) < 700


def test_what_cannot_be_tried_says_why(bench: Bench, desk: Path) -> None:
    path = str(edited(desk))
    same = bench("tools", "bm25@desk", "--try", str(desk / "tools"), code=2).err
    assert "no tool of desk/tools differs from desk: edit a description there" in same
    assert "cannot read nowhere.json" in bench("tools", "bm25@desk", "--try", "nowhere.json", code=2).err
    Path("twice.json").write_text('{"create_ticket": "a", "create_ticket": "b"}')
    assert "has 'create_ticket' twice" in bench("tools", "bm25@desk", "--try", "twice.json", code=2).err
    assert "has a report of its own" in bench("tools", "bm25@desk", "--try", path, "--tool", "x", code=2).err
    assert "have at most 17 tools" in bench("tools", "bm25@desk", "--try", path, "--k", "99", code=2).err
    run = bench("show", "bm25@desk", "--format", "jsonl").out
    Path("theirs.jsonl").write_text(run)
    assert "A run file has only ranks" in bench("tools", "theirs.jsonl@desk", "--try", path, code=2).err
    # A search that is not given the tools, alone or as a part; also where its result does not say so.
    Path("search.py").write_text("for line in open(0):\n    print('[\"create_ticket\"]', flush=True)\n")
    search = f'command(run="{sys.executable} search.py")'
    for name, method in (("alone", search), ("part", f"rrf(methods=[bm25, {search}])")):
        result = bench("run", "-q", "-m", method, "-d", "desk", "--name", name, "--json").json[0]
        for _ in range(2):
            said = bench("tools", name, "--try", path, code=2).err
            assert "which did not read the file of BENCH_TOOLS and has its own catalogue: edited desc" in said
            assert "; send the tools, with http(catalogue=ADDRESS) or a command that reads the file of BEN" in said
            edit(Path(result["folder"]), method__marks=[])
    # The names alone are indexed: a description changes nothing.
    Path("name.j2").write_text("{{ name }}")
    bench("run", "-q", "-m", "bm25", "-d", "desk", "--template", "name.j2", "--name", "by-name")
    assert "nothing would change" in bench("tools", "by-name", "--try", path, code=2).err
    # Two servers with a tool of one name.
    tools = {"tools": [{"name": "read", "description": "reads"}]}
    for server in ("fs", "mail"):
        Path(f"{server}.json").write_text(json.dumps(tools))
    Path("q.csv").write_text("query,tools\nread it,fs/read\n")
    bench("data", "import", "two", "fs=fs.json", "mail=mail.json", "--queries", "q.csv")
    bench("run", "-q", "-m", "bm25", "-d", "two")
    Path("fs.json").write_text(json.dumps(tools).replace("reads", "reads a file"))
    said = bench("tools", "bm25@two", "--k", "1", "--try", "fs.json", code=2).err
    assert "'read' may mean fs/read, mail/read; use the id. Name the server as SERVER=fs.json" in said
    tried = bench("tools", "bm25@two", "--k", "1", "--try", "fs=fs.json", "--json").json
    assert [tool["tool_id"] for tool in tried["tools"] if tool["fields"]] == ["fs/read"]


def test_parameters_that_a_file_has_are_edited_and_those_that_it_leaves_out_stay(bench: Bench, desk: Path) -> None:
    bench("run", "-q", "-m", "bm25", "-d", "desk", "--template", "full", "--name", "whole")
    schema = {"type": "object", "properties": {"room": {"type": "string", "description": "which meeting room"}}}
    Path("e.json").write_text(
        json.dumps([{"name": "create_ticket", "description": "Opens one.", "inputSchema": schema}])
    )
    tried = bench("tools", "whole", "--try", "e.json", "--json").json
    (tool,) = [tool for tool in tried["tools"] if tool["fields"]]
    assert tool["fields"] == ["description", "parameters", "input_schema"]
    Path("e.json").write_text(json.dumps({"create_ticket": "Opens one."}))
    tried = bench("tools", "whole", "--try", "e.json", "--json").json
    assert [tool["fields"] for tool in tried["tools"] if tool["fields"]] == [["description"]]
    # The order of keys is none.
    (old,) = [tool for tool in load_dataset("desk").tools if tool.name == "create_ticket"]
    turned = json.loads(json.dumps(as_listed(old)), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    Path("e.json").write_text(json.dumps([turned]))
    assert "no tool of e.json differs" in bench("tools", "whole", "--try", "e.json", code=2).err
