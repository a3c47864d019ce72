"""`bench data import`, from the file to the result, and `--template` with a Jinja file."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bench as api
from bench.base.paths import data_folder
from bench.registry import load_dataset
from bench.show.numbers import several

Bench = Callable[..., Any]

SCHEMA = {
    "type": "object",
    "properties": {"place": {"type": "string", "description": "A town."}},
    "required": ["place"],
}
TOOLS = [
    {"name": "forecast", "description": "Tells the weather of tomorrow.", "inputSchema": SCHEMA},
    {"name": "route", "description": "Finds a way.", "inputSchema": {"type": "object"}},
    {"name": "letter", "description": "Posts a letter.", "inputSchema": {"type": "strng"}, "annotations": {"a": 1}},
]
QUERIES = "query,tools\nWill it rain tomorrow?,forecast\nHow do I get to the mill?,route\nPost it,letter\n"


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A file of tools, with queries beside it."""
    (tmp_path / "tools.json").write_text(json.dumps({"tools": TOOLS}))
    (tmp_path / "queries.csv").write_text(QUERIES)
    return tmp_path / "tools.json"


def findings(bench: Bench, name: str) -> dict[str, Any]:
    return {row["check"]: row for row in bench("data", "audit", name, "--json").json["findings"]}


def test_a_catalogue_with_queries_is_imported_audited_and_run(bench: Bench, tools: Path) -> None:
    said = bench("data", "import", "mine", tools, "--queries", tools.with_name("queries.csv"))
    assert (said.out, said.err) == ("imported mine: 3 tools, 3 queries; next: bench data audit mine\n", "")
    assert findings(bench, "mine")["invalid-schema"]["count"] == 1
    assert "letter: type: 'strng' is not valid" in findings(bench, "mine")["invalid-schema"]["examples"][0]
    (result,) = bench("run", "-m", "bm25", "-d", "mine", "--json").json
    assert result["metrics"]["n"] == 3
    data = load_dataset("mine")
    assert data.tools == api.load_dataset("mine").tools
    assert (data.tools[0].schema(), data.tools[1].annotations) == (SCHEMA, '{"a": 1}')
    assert (data.card.licence, data.card.redistribution, data.unit) == ("not stated", False, "gold")


def test_one_tool_and_one_query_are_counted_in_the_singular(bench: Bench, tools: Path) -> None:
    tools.write_text(json.dumps({"tools": TOOLS[:1]}))
    tools.with_name("queries.csv").write_text(QUERIES[:50].partition("\nHow")[0])
    said = [bench("data", "import", "mine", tools, "--queries", tools.with_name("queries.csv"))]
    said.append(bench("run", "-m", "bm25", "-d", "mine"))
    one = ["show bm25@mine --all", "tools bm25@mine", "data info mine", "data fetch mine --verify", "data audit mine"]
    said += [bench(*command.split()) for command in one]
    said.append(bench("bless", "bm25@mine", "--out", "mine.json"))
    text = "\n".join(each.out + each.err for each in said)
    assert "1 tool, 1 query" in text
    plural = r"(?<![\d.,@-])1 (?:judged |more )?(?:tools|queries|files|groups|units|checks|metrics|results|rows)\b"
    assert re.findall(plural, text) == []


@pytest.mark.parametrize("form", ["beir", "parquet"])
def test_an_import_is_exported_and_added_again_whole(bench: Bench, tools: Path, form: str) -> None:
    bench("data", "import", "mine", tools, "--queries", tools.with_name("queries.csv"))
    bench("data", "import", "library", tools)
    for name in ("mine", "library"):
        bench("data", "export", name, "--out", f"{name}-{form}", "--format", form)
        bench("data", "add", f"{name}-again", "--from", f"{name}-{form}")
        first, again = load_dataset(name), load_dataset(f"{name}-again")
        assert (again.content_hash, again.tools, again.queries) == (first.content_hash, first.tools, first.queries)


def test_a_library_without_queries_can_be_looked_at_and_not_run(bench: Bench, tools: Path) -> None:
    said = bench("data", "import", "mine", tools)
    assert said.out == "imported mine: 3 tools, 0 queries; next: bench data audit mine\n"
    assert set(findings(bench, "mine")) == {
        *("empty-description", "duplicate-description", "identical-tools", "shared-name", "invalid-schema"),
        "confusable",
    }
    assert "invalid-schema" in bench("data", "audit", "mine").out
    assert "0 judged queries" in bench("data", "info", "mine").out
    assert bench("data", "info", "mine", "--all", "--json").json["statistics"]["tools"] == 3
    assert "mine" in bench("list", "datasets").out
    said = bench("run", "-m", "bm25", "-d", "mine", code=2)
    assert (
        "mine is a catalogue without queries; import it again with --queries FILE --replace, or add its tools"
        in said.err
    )
    for command in (["score", tools, "-d", "mine"], ["tune", "bm25", "-d", "mine"], ["check", "method", "bm25"]):
        assert "Traceback" not in bench(*command, code=0 if command[0] == "check" else 2).err


def test_what_is_not_taken_over_is_told_kept_and_audited(bench: Bench, tools: Path) -> None:
    tools.write_text(json.dumps({"tools": [*TOOLS, {"description": "no name"}, 7]}))
    said = bench("data", "import", "mine", tools)
    nameless = "the tool has no name; its description is 'no name'"
    assert said.err == f"tools.json, /tools/3: {nameless}\ntools.json, /tools/4: it is not an object\n"
    import_remark = findings(bench, "mine")["import-remark"]
    assert (import_remark["count"], import_remark["total"]) == (2, 5)
    assert import_remark["examples"] == [
        f"tools.json, /tools/3: {nameless}",
        "tools.json, /tools/4: it is not an object",
    ]
    assert "Left out or not resolved on import: 2 parts" in bench("data", "info", "mine").out
    shown = bench("data", "import", "mine", tools, "--replace", "--json").json
    assert shown["remarks"][0] == {"place": "tools.json, /tools/3", "remark": nameless}


def test_tools_of_one_name_on_two_servers_are_counted(bench: Bench, tools: Path) -> None:
    said = bench("data", "import", "mine", f"one={tools}", f"two={tools}")
    assert said.out.startswith("imported mine: 6 tools of 2 servers, 0 queries")
    by_check = findings(bench, "mine")
    assert (by_check["shared-name"]["count"], by_check["shared-name"]["harmful"]) == (6, False)
    assert by_check["shared-name"]["examples"][0] == "one/forecast = two/forecast"
    assert by_check["duplicate-description"]["count"] == 6


def test_a_failed_import_leaves_what_was_there(bench: Bench, tools: Path) -> None:
    bench("data", "import", "mine", tools)
    before = load_dataset("mine").content_hash
    assert "use --replace to replace it" in bench("data", "import", "mine", tools, code=2).err
    whole = tools.read_text()
    tools.write_text(whole[:-3])
    said = bench("data", "import", "mine", tools, "--replace", code=3)
    assert said.err.startswith(f"bench: {tools} is not JSON: ")
    tools.write_text(whole)
    queries = tools.with_name("queries.csv")
    queries.write_text("query,tools\nx,forcast\n")
    said = bench("data", "import", "mine", tools, "--queries", queries, "--replace", code=3)
    assert said.err == f"bench: {queries}, line 2: tools: there is no tool 'forcast' (near: forecast).\n"
    assert load_dataset("mine").content_hash == before
    assert [path.name for path in (data_folder() / "datasets").iterdir()] == ["mine"]


def test_a_gold_tool_that_was_renamed_is_named(bench: Bench, tools: Path) -> None:
    queries = tools.with_name("queries.csv")
    bench("data", "import", "mine", tools, "--queries", queries)
    tools.write_text(tools.read_text().replace('"forecast"', '"tell_weather"'))
    said = bench("data", "import", "mine", tools, "--queries", queries, "--replace", code=3)
    sentence = "there is no tool 'forecast'; 'tell_weather' has its description"
    assert said.err == f"bench: {queries}, line 2: tools: {sentence}.\n"
    # What the dataset was before that is known, too.
    bench("data", "import", "mine", tools, "--replace")
    said = bench("data", "import", "mine", tools, "--queries", queries, "--replace", code=3)
    assert sentence in said.err
    # Under another name, nothing is known of it.
    assert "has its" not in bench("data", "import", "other", tools, "--queries", queries, code=3).err


@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_a_library_of_a_few_tools_and_one_query_goes_through_all(bench: Bench, tmp_path: Path, count: int) -> None:
    (tmp_path / "t.json").write_text(json.dumps([{"name": f"tool{n}", "description": f"x{n}"} for n in range(count)]))
    (tmp_path / "q.csv").write_text("query,tools\nx0,tool0\n")
    said = bench("data", "import", "few", tmp_path / "t.json", "--queries", tmp_path / "q.csv")
    assert said.out.startswith(f"imported few: {several(count, 'tool')}, 1 query; ")
    for words in (["audit", "few"], ["info", "few", "--all"], ["fetch", "few", "--verify"]):
        bench("data", *words)
    for form in ("beir", "parquet"):
        bench("data", "export", "few", "--out", form, "--format", form)
        bench("data", "add", f"few-{form}", "--from", form)
    (result,) = bench("run", "-m", "bm25", "-d", "few", "--json").json
    assert result["metrics"]["metrics"]["recall@5"]["mean"] == 1


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["starter", "tools.json"], 2, "a dataset 'starter' already exists; choose another name."),
        (["../up", "tools.json"], 2, "'../up' is not a valid dataset id"),
        (["mine", "gone.json"], 2, "cannot read gone.json: No such file or directory."),
        (["mine", "tools.json", "--queries", "gone.csv"], 2, "cannot read gone.csv: No such file or directory."),
        (
            ["mine", "tools.json", "--as", "openapi"],
            3,
            "cannot be imported: it is not an OpenAPI document: it has no `paths`.",
        ),
        (["mine", "tools.json", "--as", "grpc"], 2, "'grpc' is not one of 'mcp', 'openai', 'anthropic'"),
        (["mine", "tools.json", "--unit", "what"], 2, "'what' is not a unit of independence"),
        (["mine"], 2, "there is nothing to import"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_kept(
    bench: Bench, tools: Path, arguments: list[str], code: int, sentence: str
) -> None:
    Path("tools.json").write_text(tools.read_text())
    said = bench("data", "import", *arguments, code=code)
    assert sentence in " ".join(said.err.split())
    assert not (data_folder() / "datasets").exists()


def test_queries_may_be_a_folder_in_beir_form(bench: Bench, tools: Path, tmp_path: Path) -> None:
    folder = tmp_path / "judged"
    (folder / "qrels").mkdir(parents=True)
    (folder / "queries.jsonl").write_text('{"_id": "a", "text": "rain?"}\n{"_id": "b", "text": "unjudged"}\n')
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\na\tforecast\t2\n")
    bench("data", "import", "mine", tools, "--queries", folder)
    data = load_dataset("mine")
    assert [(query.query_id, dict(query.gold)) for query in data.queries] == [("a", {"forecast": 2})]
    (issue,) = data.card.known_issues
    assert issue.startswith("Of the queries: left out 1 query that no split contains or whose gold was all ")
    (folder / "qrels" / "test.tsv").write_text("a\tforcast\t1\n")
    said = bench("data", "import", "mine", tools, "--queries", folder, "--replace", code=3)
    assert "query a is judged with 'forcast', which is not in the catalogue" in said.err


def test_a_program_imports_the_same(tools: Path, tmp_path: Path) -> None:
    queries = [{"query": "Will it rain tomorrow?", "tools": ["forecast"]}]
    one = api.import_tools("one", tools, queries, unit="none")
    assert (one.unit, api.import_tools("two", str(tools), queries).content_hash) == ("none", one.content_hash)
    assert api.import_tools("three", {"tools": TOOLS}, queries).content_hash == one.content_hash
    assert api.import_tools("four", [f"post={tools}"]).tools[0].tool_id == "post/forecast"
    with pytest.raises(api.BenchError, match=r"form is 'grpc'; it must be mcp, .* or openapi\."):
        api.import_tools("five", tools, form="grpc")  # type: ignore[arg-type]
    with pytest.raises(api.BenchError, match="entry 2: tools: there is no tool 'x'"):
        api.import_tools("five", tools, [*queries, {"query": "x", "tools": ["x"]}])
    with pytest.raises(api.BenchError, match="queries must be a path, or a list of objects"):
        api.import_tools("five", tools, {"query": "x"})  # type: ignore[arg-type]


# Templates ----------------------------------------------------------------------------------------------------------


def test_a_jinja_template_is_part_of_a_result(bench: Bench, tools: Path, tmp_path: Path) -> None:
    bench("data", "import", "mine", tools, "--queries", tools.with_name("queries.csv"))
    path = tmp_path / "names.j2"
    path.write_text("{{ name }}\n")

    def run(template: object) -> dict[str, Any]:
        result = bench("run", "-m", "bm25", "-d", "mine", "--template", template, "--json").json[0]
        manifest: dict[str, Any] = result["manifest"]
        return manifest

    first = run(path)
    assert first["dataset"]["template"] == "{{ name }}"
    # The text is the identity, not the place of the file; the command repeats the run without it.
    assert run("{{ name }}")["result_id"] == first["result_id"]
    assert "--template '{{ name }}'" in first["environment"]["command"]
    path.write_text("{{ name }} {{ title }}\n")
    assert len({first["result_id"], run(path)["result_id"], run("name_description")["result_id"]}) == 3
    shown = bench("show", first["result_id"]).out
    assert "3 tools as jinja-" in " ".join(shown.split())
    assert "{{" not in bench("list", "results").out
    assert bench("rescore").out
    refused = bench("run", "-m", "bm25", "-d", "mine", "--template", "{{ nam }}", code=2)
    assert "fails on the tool forecast (UndefinedError: 'nam' is undefined)." in refused.err
    assert "there is no template 'nam'; use" in bench("run", "-d", "mine", "--template", "nam", code=2).err


def test_an_experiment_and_a_program_take_a_jinja_file(bench: Bench, tools: Path, tmp_path: Path) -> None:
    bench("data", "import", "mine", tools, "--queries", tools.with_name("queries.csv"))
    (tmp_path / "names.j2").write_text("{{ name }}")
    (tmp_path / "e.toml").write_text(f'methods = ["bm25"]\ndatasets = ["mine"]\ntemplate = "{tmp_path}/names.j2"\n')
    made = bench("run", tmp_path / "e.toml", "--json").json[0]["manifest"]["result_id"]
    assert api.run("bm25", "mine", template=str(tmp_path / "names.j2")).id == made
