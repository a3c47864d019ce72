"""Reports per tool of stored results: they agree with the metrics, and say why as the method does or by words."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import bench
from bench.base.errors import ResultError, UsageError
from bench.data.card import Card
from bench.data.dataset import Dataset
from bench.data.tables import Query, Tables, Tool
from bench.diagnosis.confusions import WordStatistics
from bench.diagnosis.explain import explain
from bench.diagnosis.tool_report import (
    Place,
    ToolRow,
    ToolsReport,
    count_ranking,
    tool_named,
    tool_texts,
    tools_report,
)
from bench.evaluation.external import score_run_file
from bench.interface import Library, Method, Queries, Ranking
from bench.metrics.goldranks import MISSING
from bench.results.store import StoredResult
from bench.search.topk import top_k

CARD = Card(id="made", title="Made", summary="", licence="CC0-1.0", redistribution=True, template="description")
Run = Callable[..., StoredResult]
#: Tools of a library that a report must not compare pair by pair.
MANY = 20_000

TOOLS = [
    Tool("mail.send", "send", "sends a letter to a person", parent="mail"),
    Tool("post.send", "send", "a person sends a letter to", parent="post"),
    Tool("map.find", "find", "finds the way to a place", parent="map"),
    Tool("shop.find", "find", "finds a thing to buy", parent="shop"),
    Tool("box.clear", "clear", "", parent="box"),
]
QUERIES = [
    # bm25 ranks by shared words: post.send and mail.send tie, so mail.send comes first.
    Query("q1", "sends a letter", {"post.send": 1}),
    Query("q2", "letter to a person", {"mail.send": 1}, any_of={"mail.send": ("post.send",)}),
    Query("q3", "the way", {"map.find": 1}, forbidden=("shop.find",)),
    Query("q4", "finds a thing", {"map.find": 1}, forbidden=("shop.find",)),
    Query("q5", "clear it", {"box.clear": 1}),
    Query("q6", "finds", {}),
]


@pytest.fixture
def made() -> Dataset:
    """The tools and queries above as a dataset."""
    return Dataset.build("made", CARD, Tables(TOOLS, QUERIES))


def row(report: ToolsReport, tool: str) -> ToolRow:
    return next(item for item in report.tools if item.tool_id == tool)


def test_an_example_by_hand(run: Run, made: Dataset) -> None:
    report = tools_report(count_ranking(run("bm25", dataset=made), made, 1))
    assert (report.queries, report.judged, report.requirements, report.found) == (6, 5, 5, 2)
    assert (report.library, report.wanted_tools, report.never_found) == (5, 4, ["box.clear"])
    # Equally often missed, and never shown unwanted: by id.
    assert [item.tool_id for item in report.tools][:3] == ["box.clear", "map.find", "post.send"]
    lost = row(report, "map.find")
    assert (lost.wanted, lost.found, lost.absent, lost.median_rank) == (2, 1, 0, 1.5)
    (pair,) = lost.loses_to
    assert (pair.tool_id, pair.queries, pair.example, pair.rank, pair.why_by) == ("shop.find", 1, "q4", 2, "method")
    # Function words are not named.
    assert pair.why is not None
    assert re.fullmatch(r"both have 'finds'; it loses by 'thing' \d\.\d\d, 'finds' \d\.\d\d", pair.why)
    # An alternative that stands in is neither wanted nor unwanted.
    post = row(report, "post.send")
    assert (post.wanted, post.found, post.accepted, post.shown) == (1, 0, 1, 0)
    assert [pair.tool_id for pair in post.loses_to] == ["mail.send"]
    mail = row(report, "mail.send")
    assert (mail.wanted, mail.found, mail.shown, mail.unwanted) == (1, 1, 2, 1)
    assert mail.unwanted_share == pytest.approx(1 / 5)
    # Two orders of the same words.
    assert (mail.near_duplicates, mail.nearest, mail.nearest_cosine) == (1, "post.send", pytest.approx(1.0))
    assert report.near_duplicate_tools == 2
    shop = row(report, "shop.find")
    assert (shop.forbidden, shop.forbidden_shown, shop.unwanted) == (2, 1, 2)
    assert report.forbidden_shown == 1
    assert row(report, "box.clear").loses_to == []
    assert not report.why_note
    assert all(item.low is None for item in report.tools), "so few queries have no interval"


def test_the_detail_of_a_tool_lists_its_queries(run: Run, made: Dataset) -> None:
    counts = count_ranking(run("bm25", dataset=made), made, 1)
    report = tools_report(counts, tool="map.find")
    assert [item.tool_id for item in report.tools] == ["map.find"]
    assert report.detail is not None
    (missed,) = report.detail.missed
    assert (missed.query_id, missed.rank, missed.first) == ("q4", 2, [Place(tool_id="shop.find", wanted=False)])
    assert missed.why == report.tools[0].loses_to[0].why
    post = tools_report(counts, tool="post").detail
    assert post is not None
    assert post.alternatives == ["mail.send"]
    mail = tools_report(counts, tool="mail.send").detail
    assert mail is not None
    assert not mail.missed
    (wrong,) = mail.unwanted
    assert (wrong.query_id, wrong.rank, wrong.forbidden, wrong.wanted) == ("q1", 1, False, ["post.send"])
    shop = tools_report(counts, tool="shop.find").detail
    assert shop is not None
    assert [(item.query_id, item.forbidden, item.wanted) for item in shop.unwanted] == [
        ("q4", True, ["map.find"]),
        ("q6", False, []),
    ]


@pytest.mark.parametrize("method", ["bm25", "random", "popularity"])
@pytest.mark.parametrize("k", [1, 3, 5])
def test_shares_weighted_by_query_are_recall(run: Run, tiny: Dataset, method: str, k: int) -> None:
    result = run(method, metrics=[f"recall@{k}"])
    counts = count_ranking(result, tiny, k).counts
    wanted = np.bincount(counts.query, minlength=len(result.per_query))
    hits = (counts.rank <= k) / wanted[counts.query]
    assert hits.sum() / (wanted > 0).sum() == pytest.approx(result.metrics.metrics[f"recall@{k}"].mean)
    ranks = np.array(result.run["rank"].to_pylist())
    assert counts.shown.sum() == (ranks <= k).sum()


def test_reasons_of_a_method_that_ranks_by_no_words_are_those_of_explain(run: Run, tiny: Dataset) -> None:
    result = run("dense")
    counts = count_ranking(result, tiny, 1)
    checked = 0
    for item in tools_report(counts).tools:
        for pair in item.loses_to[:1]:
            explained = explain(result, tiny, pair.example)
            assert explained.answer is not None
            code = tiny.tool_codes[item.tool_id]
            # With k = 1 the tool that is shown instead is the one that `explain` compares with.
            if explained.ranking[0] == pair.tool_id and pair.why_by == "method":
                assert pair.why == explained.answer.explanation.reasons[code].because
                checked += 1
    assert checked >= 5


def test_only_as_many_as_asked_are_explained_and_listed(run: Run, tiny: Dataset) -> None:
    counts = count_ranking(run("random"), tiny, 2)
    assert len(tools_report(counts, most=3).tools) == 3
    some = tools_report(counts, explained=2)
    assert len(some.tools) == 12
    assert sum(pair.why is not None for item in some.tools for pair in item.loses_to) == 2
    none = tools_report(counts, explained=0)
    assert all(pair.why is None for item in none.tools for pair in item.loses_to)
    assert none.why_note == ""


def test_a_run_file_is_compared_by_words(made: Dataset, tmp_path: Path) -> None:
    lines = [
        {"query_id": "q1", "tools": ["map.find", "mail.send"]},
        {"query_id": "q2", "tools": ["box.clear"]},
        {"query_id": "q3", "tools": ["shop.find", "map.find"]},
        {"query_id": "q4", "tools": ["box.clear", "map.find"]},
    ]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    result = score_run_file(content, "run.jsonl", made, tmp_path / "results", name="theirs", command="bench score")
    report = tools_report(count_ranking(result, made, 1))
    assert report.why_note == "A run file has only ranks and scores: its method is unknown."
    whys = {item.tool_id: item.loses_to[0].why for item in report.tools if item.loses_to}
    assert whys == {
        "map.find": "it alone has 'finds'",
        "post.send": "it alone has 'letter', 'sends'",
        "mail.send": "it alone has 'letter', 'person'",
    }
    # A query that nobody answered misses its tool behind nobody.
    assert row(report, "box.clear").loses_to == []
    assert (row(report, "box.clear").wanted, row(report, "box.clear").absent) == (1, 1)


class Gone(Method):
    """Ranks by code; no registry knows it."""

    def index(self, library: Library) -> None:
        self.tools = len(library)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return top_k(np.tile(np.arange(self.tools, dtype=np.float64), (len(queries), 1)), depth)


def test_a_method_that_is_gone_is_compared_by_words(run: Run, made: Dataset) -> None:
    report = tools_report(count_ranking(run(Gone, dataset=made), made, 1))
    assert "The method cannot be made again: there is no method 'gone'" in report.why_note
    # shop.find comes first for all: of the queries that want map.find, the first is q3, "the way".
    (pair,) = row(report, "map.find").loses_to
    assert (pair.tool_id, pair.queries, pair.example, pair.why_by) == ("shop.find", 2, "q3", "words")
    assert pair.why == "both have 'finds'; it lacks 'thing' in 1; it alone has 'way' in 1"


def wording(texts: Sequence[str], *asked: tuple[str, str]) -> WordStatistics:
    """What words say of tools `t0`, `t1`, ... with these texts, and of (query, the tool that it wants)."""
    tools = [Tool(f"t{i}", "", text) for i, text in enumerate(texts)]
    queries = [Query(f"q{i}", text, {tool: 1}) for i, (text, tool) in enumerate(asked)]
    dataset = Dataset.build("made", CARD, Tables(tools, queries))
    return WordStatistics(tool_texts(dataset, "description"), dataset, range(len(queries)))


VERBS = ("öffnet", "schließt", "druckt", "löscht", "sendet", "kopiert")


@pytest.mark.parametrize(
    ("texts", "common", "telling"),
    [
        (
            ["sends a letter", "books a room"],
            ["a", "the", "The", "I'm", "of the", "?"],
            ["letter", "letters", "a room"],
        ),
        # Of other languages, what most descriptions have.
        ([f"{verb} die Datei" for verb in VERBS], ["die", "Datei", "the"], ["öffnet", "und"]),
        ([f"{sign}的服务" for sign in "查改删发读写"], ["服务", "的服"], ["查的", "天气"]),
        # In a small library that says nothing: both tools of a pair may have the word that is their domain's.
        (["opens the issue", "closes the issue"], ["the"], ["issue", "opens"]),
        ([*["opens the issue", "closes the issue"] * 2, *["sends mail"] * 8], ["the", "sends"], ["issue"]),
    ],
)
def test_words_that_tell_no_tool_from_another(texts: list[str], common: list[str], telling: list[str]) -> None:
    known = wording(texts)
    assert [word for word in common if not known.is_common(word)] == []
    assert [word for word in telling if known.is_common(word)] == []


def test_words_that_stand_in_no_description() -> None:
    texts = [f"{verb} die Datei" for verb in VERBS]
    asked = [(f"bitte {verb.removesuffix('t')}en, und 3 mal", f"t{i}") for i, verb in enumerate(VERBS)]
    asked += [("bitte die Rechnung, Rechnung", "t0"), ("die Rechnung von 2024", "t0"), ("die Mahnung", "t0")]
    known = wording(texts, *asked)
    # What is asked of every tool is missed by none; what is asked of one is, however often it is asked.
    assert known.missing([text for text, _ in asked[6:]]) == ["rechnung", "von", "mahnung"]
    assert known.missing([asked[0][0]]) == ["öffneen"]
    assert known.missing([]) == []


def test_a_query_of_several_searches_is_compared_by_words(run: Run) -> None:
    queries = [replace(query, calls=("finds", "a thing")) if query.query_id == "q4" else query for query in QUERIES]
    dataset = Dataset.build("made", CARD, Tables(TOOLS, queries))
    report = tools_report(count_ranking(run("bm25", dataset=dataset), dataset, 1))
    pairs = {item.tool_id: item.loses_to[0] for item in report.tools if item.loses_to}
    assert {name: (pair.example, pair.why_by) for name, pair in pairs.items()} == {
        "map.find": ("q4", "words"),
        "post.send": ("q1", "method"),
    }


def test_one_repeat_is_counted(run: Run, tiny: Dataset) -> None:
    result = run("random", repeats=3)
    reports = [tools_report(count_ranking(result, tiny, 3, repeat)) for repeat in (1, 2, 3)]
    assert [report.repeat for report in reports] == [1, 2, 3]
    assert len({report.model_dump_json() for report in reports}) == 3
    metric = result.metrics.repeats
    assert metric is not None
    # The metric is the mean over the queries, of which all that are judged want two tools or one.
    for report, mean in zip(reports, metric.metrics["recall@5"].means, strict=True):
        deeper = count_ranking(result, tiny, 5, report.repeat or 1).counts
        wanted = np.bincount(deeper.query, minlength=len(result.per_query))
        assert ((deeper.rank <= 5) / wanted[deeper.query]).sum() / (wanted > 0).sum() == pytest.approx(mean)
    with pytest.raises(UsageError, match="there is no repeat 4"):
        count_ranking(result, tiny, 3, 4)


def test_what_cannot_be_counted_is_refused(run: Run, tiny: Dataset, made: Dataset) -> None:
    result = run("bm25", depth=4)
    with pytest.raises(UsageError, match="k is 5, but the rankings of bm25 @ tiny have at most 4 tools"):
        count_ranking(result, tiny, 5)
    with pytest.raises(ResultError, match="was made on tiny as it was then"):
        count_ranking(result, made)
    for name, message in (("t", "12 tools of tiny begin with 't'"), ("t1", "2 tools"), ("zz", "has no tool 'zz'")):
        with pytest.raises(UsageError, match=message):
            tool_named(tiny, name)
    assert tool_named(tiny, "t03") == tiny.tool_codes["t03"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tool_id": ["nowhere"]}, "has the tool 'nowhere', which is not among those of tiny"),
        ({"query_id": ["nowhere"]}, "has the query 'nowhere'"),
        ({"rank": pa.array([2_000_000_000], pa.int32())}, "has ranks that no ranking of it can have"),
    ],
)
def test_a_ranking_of_somebody_s_making_is_refused(
    run: Run, tiny: Dataset, change: dict[str, Any], message: str
) -> None:
    result = run("bm25")
    table = result.run.slice(0, 1)
    for name, values in change.items():
        table = table.set_column(table.column_names.index(name), name, pa.chunked_array([values]))
    vars(result)["run"] = pa.concat_tables([result.run.slice(1), table])
    with pytest.raises(ResultError, match=message):
        count_ranking(result, tiny)


def test_values_of_unknown_queries_are_refused(run: Run, tiny: Dataset) -> None:
    result = run("bm25")
    values = result.per_query
    names = pa.chunked_array([["nowhere", *values["query_id"].to_pylist()[1:]]])
    vars(result)["per_query"] = values.set_column(values.column_names.index("query_id"), "query_id", names)
    with pytest.raises(ResultError, match="has the query 'nowhere'"):
        count_ranking(result, tiny)


@pytest.mark.slow("simulations")
def test_many_tools_are_reported(tmp_path: Path) -> None:
    tools = [Tool(f"t{i:06}", f"tool {i}", f"does {i % 997} with {i // 13}", parent=f"p{i % 50}") for i in range(MANY)]
    queries = [Query(f"q{i:03}", f"do {i}", {f"t{i * 91:06}": 1}) for i in range(200)]
    dataset = Dataset.build("made", CARD, Tables(tools, queries))
    random = np.random.default_rng(0)
    lines = [
        {"query_id": query.query_id, "tools": [f"t{code:06}" for code in random.choice(MANY, 50, replace=False)]}
        for query in queries
    ]
    content = "".join(json.dumps(line) + "\n" for line in lines).encode()
    result = score_run_file(content, "run.jsonl", dataset, tmp_path / "results", name="theirs", command="bench score")
    counts = count_ranking(result, dataset)
    report = tools_report(counts, most=20)
    assert (report.library, len(report.tools), report.requirements) == (MANY, 20, 200)
    assert len(report.never_found) == (counts.counts.rank == MISSING).sum()


@pytest.mark.usefixtures("isolated")
def test_the_report_is_a_table_in_python() -> None:
    report = bench.run("bm25", "starter").tools(k=3)
    assert report.k == 3
    assert len(report.table) == 179
    assert report.table["found"].sum() == report.found
    assert (report.pairs.groupby("missed")["queries"].first() >= 1).all()
    assert "never found, though wanted" in str(report)
    assert repr(report).startswith("<ToolsReport bm25 @ starter (test), 179 tools, found in the first 3: ")
    assert "<table>" in report._repr_html_()
    with pytest.raises(UsageError, match="k is 0; it must be a whole number"):
        bench.load_result("bm25@starter").tools(k=0)
