"""Catalogue against catalogue: what a team types after a description was edited, a tool added, removed or renamed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from kit.once import Once
from kit.results import LOCKS, of_this_run

import bench as api
from bench.__main__ import run as run_command
from bench.base.errors import UnavailableError, UsageError
from bench.cli.schemas import shipped_schema
from bench.gating.baseline import read_baseline, write_baseline
from bench.lookup.finding import find_result
from bench.registry import load_dataset
from bench.registry.added import current_content
from bench.registry.versions import MOST_EARLIER, load_version
from bench.results.across_catalogues import take_snapshot, values_as_asked
from bench.results.store import StoredResult

Bench = Callable[..., Any]
Write = Callable[..., None]

TOOLS = {
    "forecast": "Tells the weather of tomorrow, such as rain and wind.",
    "route": "Finds the shortest way between two places.",
    "letter": "Writes and posts a letter to an address.",
    "invoice": "Prints an invoice for a customer.",
    "calendar": "Shows appointments of a day.",
    "parcel": "Tracks where a parcel is.",
    "translate": "Translates a text into another language.",
}
QUERIES: list[dict[str, Any]] = [
    {"id": "rain", "query": "Will there be rain or wind tomorrow?", "tools": ["forecast"]},
    {"id": "mill", "query": "Which is the shortest way to the mill?", "tools": ["route"], "forbidden": ["parcel"]},
    {"id": "mail", "query": "Post a letter with the invoice", "tools": ["letter", "invoice"]},
    {"id": "where", "query": "On which way is my parcel?", "tools": [["parcel", "route"]]},
    {"id": "none", "query": "How old is the universe?", "tools": []},
]
RULES = '[[rule]]\nmetric = "mrr@10"\nmax_broken = 0\n[[rule]]\nmetric = "pass@1"\nmax_broken = 0\n'
POLICY = f'catalogue = "may change"\n{RULES}'


def write_catalogue(queries: list[dict[str, Any]] = QUERIES, **edited: str | None) -> None:
    """Write the catalogue into the working folder, with other descriptions or without tools (None), and the queries."""
    tools = {name: text for name, text in (TOOLS | edited).items() if text is not None}
    listed = [{"name": name, "description": text, "inputSchema": {"type": "object"}} for name, text in tools.items()]
    Path("tools.json").write_text(json.dumps({"tools": listed}))
    Path("queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))


@pytest.fixture
def write(bench: Bench) -> Write:
    """Write the catalogue, in the test's own folder."""
    return write_catalogue


def run(bench: Bench, name: str, *more: str) -> None:
    bench("data", "import", name, "tools.json", "--queries", "queries.jsonl", *more)
    bench("run", "-q", "-m", "bm25", "-d", name, "--metric", "pass@1")


@pytest.fixture(scope="module")
def first(once: Once, shared_cache: Path) -> Path:
    """The catalogue as the dataset `mine`, a result of bm25 on it and a baseline, made once in a run."""

    def make(folder: Path) -> None:
        with of_this_run(shared_cache), pytest.MonkeyPatch.context() as patch:
            patch.setenv("BENCH_DATA", str(folder / "bench-data"))
            patch.setenv("BENCH_RESULTS", str(folder / "results"))
            (folder / "work").mkdir()
            patch.chdir(folder / "work")
            write_catalogue()
            for command in (
                ["data", "import", "mine", "tools.json", "--queries", "queries.jsonl"],
                ["run", "-q", "-m", "bm25", "-d", "mine", "--metric", "pass@1"],
                ["bless", "bm25@mine", "--out", "b.json", "--by", "a person", "--metric", "pass@1"],
            ):
                assert run_command(command) == 0

    return once("first-catalogue", make)


@pytest.fixture
def measured(bench: Bench, first: Path, tmp_path: Path) -> None:
    """The dataset and the result, as this test's own."""
    for name in ("bench-data", "results"):
        shutil.copytree(first / name, tmp_path / name, ignore=LOCKS)


@pytest.fixture
def blessed(measured: None, first: Path) -> None:
    """A baseline of bm25 on the catalogue, and a policy by which it may change."""
    shutil.copy(first / "work" / "b.json", "b.json")
    Path("gate.toml").write_text(POLICY)


def gate(bench: Bench, *more: object, code: int, candidate: str = "bm25@mine") -> Any:
    return bench("gate", candidate, "--baseline", "b.json", "--policy", "gate.toml", *more, code=code)


def test_a_worsened_description_fails_and_the_report_names_the_tool_and_the_queries(
    bench: Bench, write: Write, blessed: None
) -> None:
    gate(bench, code=0)
    write(forecast="Does things.")
    bench("data", "import", "mine", "tools.json", "--queries", "queries.jsonl", "--replace")
    # Not the numbers of before, which would pass.
    assert "as it was before it was replaced; run it again" in gate(bench, code=3).out
    bench("run", "-q", "-m", "bm25", "-d", "mine", "--metric", "pass@1")
    said = gate(bench, "--json", "--out", "c.md", code=1)
    jsonschema.validate(said.json, shipped_schema("gate-report"))
    report = said.json
    assert report["catalogue"]["edited"] == [{"tool_id": "forecast", "fields": ["description"]}]
    assert (report["catalogue"]["added"], report["catalogue"]["removed"]) == ([], [])
    assert [(rule["verdict"], rule["broken"]) for rule in report["rules"]] == [("regression", 1)] * 2
    (query,) = report["moved"][0]["failing"]
    assert (query["query_id"], query["text"]) == ("rain", QUERIES[0]["query"])
    assert (query["before"], query["after"]) == (1, 0)
    (moved,) = query["tools"]
    assert (moved["tool_id"], moved["before"], moved["removed"]) == ("forecast", 1, False)
    assert moved["after"] is None or moved["after"] > 1
    assert moved["instead"] != "forecast"
    assert report["tools"][0] == {
        "tool_id": "forecast", "lower": 1, "higher": 0, "edited": ["description"], "removed": False,
    }  # fmt: skip
    shown = gate(bench, code=1).out
    for words in (
        "across catalogues: 1 tool edited, 0 added, 0 removed since mine",
        "edited forecast: description",
        "newly failing (mrr@10, pass@1): 1",
        "forecast: rank 1 to",
        "forecast: lower in 1 query, higher in 0; edited: description",
    ):
        assert words in shown
    comment = Path("c.md").read_text()
    assert comment.startswith("## Gate: regression\n\nRegression: a rule is violated")
    assert "- edited `forecast` `description`" in comment
    assert "The same on your machine: `bench gate bm25@mine --baseline b.json --policy gate.toml`" in comment


def test_the_catalogue_as_it_was_passes_again_and_a_better_description_is_told(
    bench: Bench, write: Write, blessed: None
) -> None:
    write(forecast="Does things.")
    run(bench, "mine", "--replace")
    bench("bless", "bm25@mine", "--out", "b.json", "--reason", "to see it become better", "--metric", "pass@1")
    write()
    run(bench, "mine", "--replace")
    report = gate(bench, "--json", code=0).json
    assert [query["query_id"] for query in report["moved"][0]["fixed"]] == ["rain"]
    assert report["moved"][0]["fixed"][0]["tools"][0]["instead"] is None
    assert report["tools"][0]["higher"] == 1


def test_without_the_line_in_the_policy_another_catalogue_is_not_comparable(
    bench: Bench, write: Write, blessed: None
) -> None:
    Path("gate.toml").write_text(RULES)
    write(forecast="Does things.")
    run(bench, "mine", "--replace")
    said = gate(bench, code=9).out
    assert "the tools differ: 1 tool edited, 0 added, 0 removed since the baseline" in said
    assert '`catalogue = "may change"` in the policy compares across catalogues' in said
    # The order of keys is no edit, and neither is another order of the tools.
    write()
    tools = json.loads(Path("tools.json").read_text())["tools"]
    turned = [{name: tool[name] for name in ("inputSchema", "description", "name")} for tool in reversed(tools)]
    Path("tools.json").write_text(json.dumps({"tools": turned}))
    run(bench, "mine", "--replace")
    gate(bench, code=0)


RAIN = QUERIES[0]
NEW = {"id": "new", "query": "Translate this", "tools": ["translate"]}


@pytest.mark.parametrize(
    ("queries", "change", "words"),
    [
        ([*QUERIES, NEW], {"added": ["new"]}, "5 shared queries are judged; 1 query is new (new)"),
        (QUERIES[1:], {"removed": ["rain"]}, "4 shared queries are judged; 1 query is gone (rain)"),
        (
            [{**RAIN, "query": "Sunny?"}, *QUERIES[1:]],
            {"reworded": ["rain"]},
            "1 query is worded differently (rain)",
        ),
        (
            [{**RAIN, "tools": ["route"]}, *QUERIES[1:]],
            {"regraded": ["rain"]},
            "1 query is given other tools (rain)",
        ),
        (
            [NEW, {**QUERIES[2], "query": "Post it"}, *QUERIES[:2], *QUERIES[4:]],
            {"added": ["new"], "removed": ["where"], "reworded": ["mail"]},
            "1 query is new (new), 1 is gone (where), 1 is worded differently (mail)",
        ),
    ],
)
def test_the_queries_that_are_the_same_are_judged_and_the_others_are_counted(
    bench: Bench, write: Write, blessed: None, queries: list[dict[str, Any]], change: dict[str, Any], words: str
) -> None:
    # Whether tools may change has no part in it.
    Path("gate.toml").write_text(RULES)
    write(queries)
    run(bench, "mine", "--replace")
    said = gate(bench, "--out", "c.md", code=0)
    assert words in said.out
    assert words in Path("c.md").read_text()
    report = gate(bench, "--json", code=0).json
    jsonschema.validate(report, shipped_schema("gate-report"))
    assert {name: ids for name, ids in report["queries"].items() if ids and name != "shared"} == change
    assert report["catalogue"] is None
    # Queries that came beside the others are no loss.
    assert report["warnings"] == (
        [] if set(change) == {"added"} else [f"not all queries of the baseline are judged: {words.rpartition('; ')[2]}"]
    )
    (most,) = [sum(map(len, change.values()))]
    Path("gate.toml").write_text(f"max_changed_queries = {most}\n{RULES}")
    gate(bench, code=0)
    Path("gate.toml").write_text(f"max_changed_queries = {most - 1}\n{RULES}")
    assert "max_changed_queries" in gate(bench, code=9).out
    # A regression among the shared queries is one, whatever came beside them.
    Path("gate.toml").write_text(POLICY)
    write(queries, route="Does things.", forecast="Does things.", letter="Does things.")
    run(bench, "mine", "--replace")
    report = gate(bench, "--json", code=1).json
    assert report["queries"]["shared"] == 5 - sum(
        len(change.get(name, [])) for name in ("removed", "reworded", "regraded")
    )
    assert {rule["n"] for rule in report["rules"]} <= {1, 2, 3, 4}


def test_queries_without_ids_are_known_by_their_texts(bench: Bench, write: Write, tmp_path: Path) -> None:
    write()
    rows = [f"{query['query']}\t{'; '.join(query['tools'])}" for query in QUERIES[:3]]

    def measure(*lines: str) -> None:
        Path("queries.tsv").write_text("\n".join(["query\ttools", *lines]) + "\n")
        bench("data", "import", "mine", "tools.json", "--queries", "queries.tsv", "--replace")
        bench("run", "-q", "-m", "bm25", "-d", "mine", "--metric", "pass@1")

    measure(*rows)
    bench("bless", "bm25@mine", "--out", "b.json", "--by", "a person", "--metric", "pass@1")
    Path("gate.toml").write_text(POLICY)
    measure("Translate this\ttranslate", *rows)
    report = gate(bench, "--json", code=0).json
    assert report["queries"] == {"shared": 3, "added": ["q1"], "removed": [], "reworded": [], "regraded": []}
    write(forecast="Does things.")
    measure("Translate this\ttranslate", *rows)
    report = gate(bench, "--json", code=1).json
    (query,) = report["moved"][0]["failing"]
    # The id and the text that it has today.
    assert (query["query_id"], query["text"]) == ("q2", QUERIES[0]["query"])
    measure("Something else\ttranslate")
    assert "no query is the same as in the baseline" in gate(bench, code=9).out


def test_edited_tools_that_never_reached_the_search_are_told(bench: Bench, write: Write, blessed: None) -> None:
    line = {"query_id": "rain", "tools": ["forecast"]}
    Path("run.jsonl").write_text(json.dumps(line) + "\n")
    bench("bless", "run.jsonl@mine", "--out", "b.json", "--by", "a person", "--reason", "a run file")
    policy = 'catalogue = "may change"\n[[rule]]\nmetric = "mrr@10"\nmax_broken = 0\n'
    Path("gate.toml").write_text(policy)
    assert "WARNING" not in gate(bench, candidate="run.jsonl", code=0).out
    write(forecast="Does things.")
    bench("data", "import", "mine", "tools.json", "--queries", "queries.jsonl", "--replace")
    said = gate(bench, "--out", "c.md", "--github", candidate="run.jsonl", code=0).out
    assert (
        "WARNING: the edited tools never reached run @ mine through bench (1 tool edited, 0 added, 0 removed)" in said
    )
    assert "pass, with a warning: every rule holds (exit code 0)" in said
    assert "::warning title=bench gate" in said
    assert "> **Warning** `the edited tools never reached" in Path("c.md").read_text()
    Path("gate.toml").write_text(f"require_tools_given = true\n{POLICY}")
    assert (
        "require_tools_given, and the candidate was not given the tools"
        in gate(bench, candidate="run.jsonl", code=3).out
    )
    bench("run", "-q", "-m", "bm25", "-d", "mine")
    assert "not given the tools" not in gate(bench, code=1).out


def test_a_removed_tool_is_named_and_what_needs_it_is_missed(bench: Bench, write: Write, blessed: None) -> None:
    write(forecast=None, invoice=None, parcel=None)
    refused = bench("data", "import", "mine", "tools.json", "--queries", "queries.jsonl", "--replace", code=3)
    assert "there is no tool 'forecast'" in refused.err
    said = bench(
        "data", "import", "mine", "tools.json", "--queries", "queries.jsonl", "--replace", "--drop-unknown-gold"
    )
    assert "rain: there is no tool 'forecast'; left out" in said.err
    bench("run", "-q", "-m", "bm25", "-d", "mine", "--metric", "pass@1")
    Path("gate.toml").write_text('catalogue = "may change"\n[[rule]]\nmetric = "recall@5"\nmax_broken = 0\n')
    report = gate(bench, "--json", code=1).json
    assert report["catalogue"]["removed"] == ["forecast", "invoice", "parcel"]
    assert report["catalogue"]["gold_removed"] == ["forecast", "invoice", "parcel"]
    # rain needs the forecast alone; mail finds one of two; route still meets what parcel did.
    assert [query["query_id"] for query in report["moved"][0]["failing"]] == ["rain"]
    assert report["rules"][0]["candidate"] == pytest.approx((0 + 1 + 0.5 + 1) / 4)
    assert report["rules"][0]["n"] == 4
    assert "removed forecast: a query needs it" in gate(bench, code=1).out


def test_a_rule_on_a_slice_is_not_run_if_a_query_may_have_left_it(bench: Bench, write: Write, blessed: None) -> None:
    write(forecast=None)
    bench("data", "import", "mine", "tools.json", "--queries", "queries.jsonl", "--replace", "--drop-unknown-gold")
    bench("run", "-q", "-m", "bm25", "-d", "mine", "--metric", "pass@1")
    rule = '[[rule]]\nmetric = "recall@5"\nmax_broken = 0\nslice = { name = "gold", value = "1" }\n'
    Path("gate.toml").write_text(f'catalogue = "may change"\n{rule}')
    said = gate(bench, "--json", code=3).json
    assert [item["verdict"] for item in said["rules"]] == ["not run"]
    assert "it is not known which queries are in this slice" in said["rules"][0]["note"]


def test_a_renamed_tool_is_removed_and_added(bench: Bench, write: Write, blessed: None) -> None:
    write(forecast=None, weather=TOOLS["forecast"])
    run(bench, "mine", "--replace", "--drop-unknown-gold")
    report = gate(bench, "--json", code=1).json
    assert (report["catalogue"]["removed"], report["catalogue"]["added"]) == (["forecast"], ["weather"])
    assert report["moved"][0]["failing"][0]["tools"][0]["removed"]


def test_a_new_tool_that_takes_the_place_of_another_is_named(bench: Bench, write: Write, blessed: None) -> None:
    write(storm="Rain and wind tomorrow: will there be rain, will there be wind?")
    run(bench, "mine", "--replace")
    report = gate(bench, "--json", code=1).json
    assert report["catalogue"]["added"] == ["storm"]
    (moved,) = report["moved"][0]["failing"][0]["tools"]
    assert moved == {"tool_id": "forecast", "before": 1, "after": 2, "instead": "storm", "removed": False}


def test_two_datasets_compare_across_catalogues(bench: Bench, write: Write, measured: None) -> None:
    write(forecast="Does things.")
    run(bench, "edited")
    names = ("bm25@mine", "bm25@edited")
    assert "give --across catalogues if only their tools differ" in bench("compare", *names, code=2).err
    said = bench("compare", *names, "--across", "catalogues", "-m", "pass@1", "--json")
    jsonschema.validate(said.json, shipped_schema("comparison"))
    (dataset,) = said.json["datasets"]
    assert [system["name"] for system in dataset["systems"]] == ["bm25 @ mine", "bm25 @ edited"]
    assert dataset["systems"][1]["marks"] == ["another catalogue: 1 tool edited, 0 added, 0 removed"]
    (result,) = dataset["catalogues"]
    assert result["change"]["edited"] == [{"tool_id": "forecast", "fields": ["description"]}]
    (lost,) = dataset["moves"][0]["lost"]
    assert (lost["query_id"], lost["baseline"], lost["system"]) == ("rain", 1, 0)
    assert lost["tools"][0]["before"] == 1
    for form in ("table", "markdown"):
        shown = bench("compare", *names, "--across", "catalogues", "-m", "pass@1", "--format", form).out
        assert "bm25 @ edited: another catalogue: 1 tool edited, 0 added, 0 removed" in shown
        assert "forecast: rank 1 to" in shown
    turned = bench("compare", *reversed(names), "--across", "catalogues", "-m", "pass@1", "--json").json
    assert [move["query_id"] for move in turned["datasets"][0]["moves"][0]["gained"]] == ["rain"]


def test_results_from_before_and_after_a_replacement_compare(
    bench: Bench, write: Write, tmp_path: Path, measured: None
) -> None:
    write(forecast="Does things.")
    run(bench, "mine", "--replace")
    ids = {item["id"] for item in bench("list", "results", "--json").json["results"]}
    now = find_result(tmp_path / "results", "bm25@mine").manifest.result_id
    (before,) = ids - {now}
    assert "`--across catalogues`" in bench("compare", before, now, code=6).err
    dataset = bench("compare", before, now, "--across", "catalogues", "-m", "pass@1", "--json").json["datasets"][0]
    assert dataset["moves"][0]["lost"][0]["text"] == QUERIES[0]["query"]
    assert dataset["catalogues"][0]["change"]["content_hash"] != current_content("mine")
    # Removed gold is missed, whichever way it is compared.
    write(forecast=None)
    run(bench, "mine", "--replace", "--drop-unknown-gold")
    last = find_result(tmp_path / "results", "bm25@mine").manifest.result_id
    dataset = bench("compare", before, last, "--across", "catalogues", "-m", "recall@5", "--json").json["datasets"][0]
    assert dataset["moves"][0]["lost"][0]["tools"][0]["removed"]
    assert dataset["metrics"][0]["standings"][1]["mean"] == 0.75
    assert "1 query is new (rain)" in bench("compare", last, before, "--across", "catalogues", code=6).err


def test_a_name_means_the_result_on_the_data_of_today(
    bench: Bench, write: Write, tmp_path: Path, measured: None
) -> None:
    first = find_result(tmp_path / "results", "bm25@mine")
    write(forecast="Does things.")
    run(bench, "mine", "--replace")
    second = find_result(tmp_path / "results", "bm25@mine")
    assert second.manifest.dataset.content_hash == current_content("mine") != first.manifest.dataset.content_hash
    assert find_result(tmp_path / "results", first.manifest.result_id).folder == first.folder
    write(route="Does things, too.")
    bench("data", "import", "mine", "tools.json", "--queries", "queries.jsonl", "--replace")
    with pytest.raises(UsageError, match="as it was before it was replaced"):
        find_result(tmp_path / "results", "bm25@mine")


def test_a_baseline_without_a_catalogue_says_so(bench: Bench, write: Write, blessed: None) -> None:
    bench("run", "-q", "-m", "bm25", "-d", "starter")
    bench("bless", "bm25@starter", "--out", "starter.json")
    assert '"asked"' not in Path("starter.json").read_text()
    older = read_baseline(Path("b.json")).model_copy(update={"asked": None, "gold_ranks": None}).sealed()
    write_baseline(Path("b.json"), older)
    gate(bench, code=0)
    write(forecast="Does things.")
    run(bench, "mine", "--replace")
    assert "does not record its catalogue" in gate(bench, code=9).out


def test_a_query_that_an_edit_leaves_without_an_answer_is_a_regression_unless_the_policy_limits_failures(
    bench: Bench, write: Write, blessed: None
) -> None:
    write(**dict.fromkeys(TOOLS, "x"))
    run(bench, "mine", "--replace")
    said = gate(bench, code=1).out
    assert " failed or were not answered: 2, and 0 in the baseline; they count as missed" in said
    Path("gate.toml").write_text("max_failed = 0\n" + POLICY)
    assert "find the cause and run it again" in gate(bench, code=3).out


def test_a_baseline_has_ids_and_digests_and_no_text(bench: Bench, write: Write, blessed: None) -> None:
    text = Path("b.json").read_text()
    jsonschema.validate(json.loads(text), shipped_schema("baseline"))
    for words in [*TOOLS.values(), *(str(query["query"]) for query in QUERIES)]:
        assert words not in text
    requests = read_baseline(Path("b.json")).asked
    assert requests is not None
    assert requests.tools == sorted(TOOLS)
    assert requests.requirements(4) == [frozenset({"parcel", "route"})]


def test_scoring_by_what_was_asked_gives_a_run_s_own_values(
    bench: Bench, write: Write, tmp_path: Path, measured: None
) -> None:
    (path,) = (tmp_path / "results").glob("mine/*")
    result = StoredResult.read(path)
    ids = result.per_query["query_id"].to_pylist()
    requests = take_snapshot(load_dataset("mine"), ids)
    metrics = list(result.metrics.metrics)
    again = values_as_asked(result.run, result.per_query, requests, ids, metrics)
    assert {"auroc", "forbidden@5", "recall@5"} <= set(metrics)
    for metric in metrics:
        assert again[metric].to_pylist() == result.per_query[metric].to_pylist(), metric
    assert again["n_gold"].to_pylist() == result.per_query["n_gold"].to_pylist()


def test_the_last_earlier_contents_are_kept_and_others_are_said_to_be_gone(bench: Bench, write: Write) -> None:
    contents = []
    for number in range(MOST_EARLIER + 2):
        write(forecast=f"Edition {number}.")
        bench("data", "import", "mine", "tools.json", "--queries", "queries.jsonl", *["--replace"][: number > 0])
        contents.append(current_content("mine") or "")
    texts = [load_version("mine", content).tools[1].description for content in contents[1:]]
    assert texts == [f"Edition {number}." for number in range(1, MOST_EARLIER + 2)]
    for gone in (contents[0], "0" * 64, "../../etc", ""):
        with pytest.raises(UnavailableError, match="is not on this machine"):
            load_version("mine", gone)


def test_views_of_queries_compare_across_catalogues_too(bench: Bench, write: Write, blessed: None) -> None:
    queries = [{**query, "searches": [f"search {query['query']}", "again"]} for query in QUERIES]
    write(queries)
    for number in (0, 1):
        bench("data", "import", "seen", "tools.json", "--queries", "queries.jsonl", *["--replace"][: number > 0])
        bench("run", "-q", "-m", "bm25", "-d", "seen(view=searches)", "--metric", "pass@1")
        if not number:
            bench("bless", "bm25@seen(view=searches)", "--out", "b.json", "--metric", "pass@1", "--reason", "views")
            write(queries, forecast="Does things.")
    report = gate(bench, "--json", code=1, candidate="bm25@seen(view=searches)").json
    assert report["catalogue"]["edited"] == [{"tool_id": "forecast", "fields": ["description"]}]
    assert [query["query_id"] for query in report["moved"][0]["failing"]] == ["rain"]
    write(queries, forecast="Does other things.")
    bench("data", "import", "seen", "tools.json", "--queries", "queries.jsonl", "--replace")
    said = gate(bench, code=3, candidate="bm25@seen(view=searches)").out
    assert "as it was before it was replaced" in said
    first, second = [
        item["id"] for item in bench("list", "results", "--json").json["results"] if "seen" in item["dataset"]
    ]
    assert "another catalogue: 1 tool edited" in bench("compare", first, second, "--across", "catalogues").out


def test_run_files_and_search_functions_are_gated_across_catalogues(
    bench: Bench, write: Write, blessed: None, tmp_path: Path
) -> None:
    answers = {str(query["query"]): ["forecast", "parcel", "letter", "invoice", "route"] for query in QUERIES}
    answers[QUERIES[4]["query"]] = []
    write(forecast="Does things.")
    bench("data", "import", "mine", "tools.json", "--queries", "queries.jsonl", "--replace")
    lines = [{"query_id": query["id"], "tools": answers[query["query"]]} for query in QUERIES]
    Path("run.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    Path("gate.toml").write_text('catalogue = "may change"\n[[rule]]\nmetric = "mrr@10"\nmax_broken = 0\n')
    report = gate(bench, "--json", code=0, candidate="run.jsonl").json
    assert report["catalogue"]["edited"] == [{"tool_id": "forecast", "fields": ["description"]}]
    result = api.gate(answers.__getitem__, "b.json", "gate.toml").report
    assert result.catalogue is not None
    assert (result.catalogue.edited[0].tool_id, result.outcome) == ("forecast", "pass")
    # The ranks of the run and of the function are the same ones.
    assert [tool.model_dump() for tool in result.tools] == report["tools"]
    Path("gate.toml").write_text('[[rule]]\nmetric = "mrr@10"\nmax_broken = 0\n')
    assert api.gate(answers.__getitem__, "b.json", "gate.toml").outcome == "not comparable"


def test_python_compares_across_catalogues_as_the_command_does(
    bench: Bench, write: Write, tmp_path: Path, measured: None
) -> None:
    write(forecast="Does things.")
    run(bench, "edited")
    told = bench("compare", "bm25@mine", "bm25@edited", "--across", "catalogues", "--json").json
    comparison = api.compare("bm25@mine", "bm25@edited", across="catalogues", results=tmp_path / "results")
    assert json.loads(comparison.model_dump_json()) == told
    with pytest.raises(UsageError, match="across is 'tools'"):
        api.compare("bm25@mine", "bm25@edited", across="tools")  # type: ignore[arg-type]


def test_an_alias_is_judged_as_the_method_is(bench: Bench, write: Write, blessed: None) -> None:
    bench("run", "-q", "-m", "bm25", "-d", "mine", "--metric", "pass@1", "--name", "ours")
    gate(bench, candidate="ours", code=0)
    write(forecast="Does things.")
    bench("data", "import", "mine", "tools.json", "--queries", "queries.jsonl", "--replace")
    assert "as it was before it was replaced; run it again" in gate(bench, candidate="ours", code=3).out
