"""Run files: TREC and JSON lines out and in again, what they may hold, and the line of what is wrong in one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from kit.datasets import make_dataset

from bench.data.dataset import Dataset
from bench.data.tables import Query, Tool
from bench.data.tool_names import NameRecord
from bench.evaluation.ask import Answers
from bench.evaluation.external import score_run_file
from bench.evaluation.run_files import parse_run, write_jsonl, write_trec
from bench.interface import Library, Method, Queries, Ranking, ToolSets
from bench.results.store import StoredResult
from bench.search.topk import top_k

Run = Callable[..., StoredResult]
Score = Callable[..., StoredResult]

#: Ids that a line of TREC cannot hold as they are, or that look as if they were written for one.
HARD = [
    "plain",
    "with blank",
    "two  blanks",
    "50%",
    "%20",
    "a%20b",
    "a b",
    "a%2520b",
    "größe",
    "订单 🙂",
    "-",
    "Q0",
    '"q"',
]


@pytest.fixture(scope="session")
def odd() -> Dataset:
    """Tools and queries whose ids are hard to write."""
    tools = [Tool(name, f"n{i}", f"words w{i} w{i % 3}") for i, name in enumerate(HARD)]
    queries = [
        Query(name, f"words w{i} w{i % 2}", {} if i == 4 else {name: 1, HARD[i - 1]: 1}) for i, name in enumerate(HARD)
    ]
    return make_dataset(tools, queries, id="odd", template="name_description")


@pytest.fixture
def scored(tmp_path: Path, tiny: Dataset) -> Score:
    """Score a text as a run file."""

    def scored(text: str | bytes, dataset: Dataset = tiny, **options: object) -> StoredResult:
        data = text if isinstance(text, bytes) else text.encode()
        given = {"name": "mine", "command": "bench score my.run", **options}
        return score_run_file(data, "my.run", dataset, tmp_path / "scored", **given)  # type: ignore[arg-type]

    return scored


def read(text: str, dataset: Dataset) -> Answers:
    return parse_run(text.encode(), "read.run", dataset, dataset.rows("test"), NameRecord(), [])


def ids(answers: Answers, dataset: Dataset, row: int) -> list[str]:
    return [dataset.tools[code].tool_id for code in answers.ranking.tools[row] if code >= 0]


# Round trip ---------------------------------------------------------------------------------------------------------


def numbers(queries: Queries) -> list[int]:
    """i of the query `qi`, which is in its text: what `rows` tells is the order of asking."""
    return [int(text.split()[1].rstrip(":")) for text in queries.texts]


class Abstains(Method):
    """Recommends the first two tools of a level ranking; returns nothing at all for every seventh query."""

    def index(self, library: Library) -> None:
        self._size = len(library)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        scores = np.tile(-np.arange(self._size, dtype=np.float64) // 2, (len(queries), 1))
        scores[np.array(numbers(queries)) % 7 == 6] = -np.inf
        return top_k(scores, depth)

    def recommend(self, queries: Queries) -> ToolSets:
        return ToolSets.of([[] if number % 7 == 6 else [0, 1] for number in numbers(queries)])


class Fails(Abstains):
    """Marks every fifth query as failed."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        ranking = super().rank(queries, depth)
        return Ranking(ranking.tools, ranking.scores, np.array(numbers(queries)) % 5 == 0)


@pytest.mark.parametrize(
    "method", ["bm25", "bm25-okapi", "random", "oracle", "rrf(methods=[bm25, random])", Abstains, Fails]
)
@pytest.mark.parametrize("write", [write_trec, write_jsonl])
def test_a_written_run_scores_as_the_result_it_was_written_from(
    run: Run, scored: Score, method: str | type[Method], write: Callable[[StoredResult], list[str]]
) -> None:
    result = run(method)
    again = scored("".join(write(result)))
    names = [name for name in again.metrics.metrics if name in result.metrics.metrics]
    # TREC has no place for recommended sets.
    assert set(result.metrics.metrics) - set(names) <= (
        {name for name in result.metrics.metrics if name.startswith("set_")}
        | {"tracc", "size_diff", "abstained", "answered", "false_returns", "choice"}
        if write is write_trec
        else set()
    )
    assert len(names) > 40
    if write is write_trec and method is Fails:
        # Nor for the failure of a query that no tool answers, which reads as an empty answer.
        names = [name for name in names if name not in {"abstained@5", "auroc", "aurc@1", "aurc@5"}]
    for name in names:
        np.testing.assert_array_equal(again.values(name), result.values(name), err_msg=name)
    assert again.metrics.n_failed == result.metrics.n_failed
    assert again.run["tool_id"].to_pylist() == result.run["tool_id"].to_pylist()


@pytest.mark.parametrize("write", [write_trec, write_jsonl])
@pytest.mark.parametrize("method", ["bm25", "bm25-okapi", "oracle"])
def test_ids_with_blanks_percent_signs_and_other_scripts_come_back(
    run: Run, scored: Score, odd: Dataset, method: str, write: Callable[[StoredResult], list[str]]
) -> None:
    result = run(method, dataset=odd)
    lines = list(write(result))
    if write is write_trec:
        assert all(len(line.split()) == 6 for line in lines)
    again = scored("".join(lines), odd)
    expected = result.run.select(["query_id", "rank", "tool_id"]).to_pylist()
    assert again.run.select(["query_id", "rank", "tool_id"]).to_pylist() == expected
    np.testing.assert_array_equal(again.values("ndcg@5"), result.values("ndcg@5"))


names = st.text(
    st.characters(codec="utf-8", exclude_categories=["C", "Z"], include_characters=" %"), min_size=1, max_size=6
)


@given(st.lists(names.filter(str.isprintable), min_size=1, max_size=6, unique=True))
@example(["a b", "a%20b", "a%2520b"])
@settings(deadline=None, derandomize=True, max_examples=60)
def test_ids_written_as_in_a_url_are_read_back(texts: list[str]) -> None:
    dataset = make_dataset([Tool(t, t, "") for t in texts], [Query(t, "", {t: 1}) for t in texts])
    lines = [f"{quote(q)} Q0 {quote(t, safe='')} 1 {-i}.5 tag\n" for q in texts for i, t in enumerate(texts)]
    answers = read("".join(lines), dataset)
    for row in range(len(texts)):
        assert ids(answers, dataset, row) == texts


class Thirds(Abstains):
    """Scores that need every bit of a double, some of them one bit apart."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        codes = np.arange(self._size, dtype=np.int32)
        scores = np.nextafter(1 / 3, codes % 3)
        return Ranking(np.tile(codes, (len(queries), 1)), np.tile(scores, (len(queries), 1)))


@pytest.mark.parametrize("write", [write_trec, write_jsonl])
def test_scores_keep_every_bit(run: Run, scored: Score, write: Callable[[StoredResult], list[str]]) -> None:
    result = run(Thirds)
    expected = result.run["score"].to_pylist()
    assert len(set(expected)) == 2
    assert len({np.float32(score) for score in expected}) == 1
    again = scored("".join(write(result)))
    assert again.run["score"].to_pylist() == expected
    assert again.run["tool_id"].to_pylist() == result.run["tool_id"].to_pylist()
    assert again.metrics.n_tied == result.metrics.n_tied


def test_json_lines_hold_every_query_with_its_set(run: Run) -> None:
    rows = [json.loads(line) for line in write_jsonl(run(Abstains))]
    assert [row["query_id"] for row in rows] == [f"q{i:02}" for i in range(22)]
    assert rows[0]["recommended"] == ["t00", "t01"]
    assert rows[6]["tools"] == rows[6]["recommended"] == []
    assert len(rows[0]["scores"]) == len(rows[0]["tools"]) == 12


# Reading ------------------------------------------------------------------------------------------------------------


def test_the_order_is_by_score_then_id_whatever_the_lines_and_ranks_say(tiny: Dataset) -> None:
    text = """
q01 Q0 t05 1 1.5 tag
q00 Q0 t07 1 0.5 tag
q00 Q0 t03 9 2e0 tag

q00 Q0 t01 2 0.5 tag
q01 Q0 t04 7 1.5 tag
"""
    answers = read(text, tiny)
    assert ids(answers, tiny, 0) == ["t03", "t01", "t07"]
    assert ids(answers, tiny, 1) == ["t04", "t05"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        # The column of ranks says another order than the scores.
        ("q00 Q0 t01 1 1 x\nq00 Q0 t02 2 3 x\nq01 Q0 t01 1 1 x\n", "the scores count (1 of 2"),
        ("q01 Q0 t01 1 1 x\nq00 Q0 t02 2 1 x\nq00 Q0 t01 1 0.5 x\n", "2 queries, the first in line 2)"),
        # Ties, ranks from 0, one rank for all, and lines in any order contradict nothing.
        ("q00 Q0 t01 2 1 x\nq00 Q0 t02 1 1 x\n", ""),
        ("q00 Q0 t01 1 1 x\nq00 Q0 t02 0 3 x\n", ""),
        ("q00 Q0 t01 1 1 x\nq00 Q0 t02 1 3 x\nq00 Q0 t03 2 0 x\n", ""),
        ('{"query_id": "q00", "tools": ["t01", "t02"], "scores": [1, 2]}', "ranks contradict the scores"),
        ('{"query_id": "q00", "tools": ["t01", "t02"], "scores": [2, 2]}', ""),
        ('{"query_id": "q00", "tools": ["t01", "t02"]}', ""),
        ('{"query_id": "q00", "tools": ["t01"], "failed": true}', "a failed query has tools, which do not count"),
    ],
)  # fmt: skip
def test_what_contradicts_itself_is_a_note_of_the_result(scored: Score, text: str, told: str) -> None:
    notes = [note for note in scored(text).manifest.warnings if "queries, the first in line" in note]
    assert len(notes) == bool(told)
    assert all(told in note for note in notes)


def test_scores_that_differ_beyond_float32_are_told_apart(tiny: Dataset) -> None:
    answers = read("q00 Q0 t01 1 1.00000000001 x\nq00 Q0 t00 2 1.0 x\n", tiny)
    assert ids(answers, tiny, 0) == ["t01", "t00"]


def test_tabs_byte_order_marks_and_line_ends_of_windows_are_read(tiny: Dataset) -> None:
    answers = read("\ufeffq00\tQ0\tt01\t1\t2\ttag\r\nq00 Q0  t02 2 1 tag\r\n", tiny)
    assert ids(answers, tiny, 0) == ["t01", "t02"]
    answers = read('\ufeff{"query_id": "q00", "tools": ["t01"]}\r\n\r\n', tiny)
    assert ids(answers, tiny, 0) == ["t01"]


def test_json_lines_without_scores_keep_their_order_and_have_no_tie_band(scored: Score) -> None:
    result = scored('{"query_id": "q00", "tools": ["t09", "t00", "t03"]}')
    assert result.run["tool_id"].to_pylist() == ["t09", "t00", "t03"]
    assert result.run["score"].to_pylist() == [None] * 3
    assert result.metrics.n_tied is None
    assert scored('{"query_id": "q00", "tools": ["t09", "t00"], "scores": [1, 1]}').metrics.n_tied == 1


def test_queries_that_the_file_does_not_mention_have_failed_and_score_zero(scored: Score) -> None:
    # q00 has the gold t00 and t03. 18 of the 19 judged queries are not mentioned.
    result = scored("q00 Q0 t00 1 2 x\nq00 Q0 t03 2 1 x\n")
    assert (result.metrics.n, result.metrics.n_failed) == (19, 18)
    assert result.metrics.metrics["recall@5"].mean == pytest.approx(1 / 19)
    assert result.metrics.metrics["mmrr@100"].mean == pytest.approx(1 / 19)
    without_gold = [count == 0 for count in result.per_query["n_gold"].to_pylist()]
    assert result.per_query["failed"].to_pylist() == [False, *(not none for none in without_gold[1:])]


def test_a_query_marked_as_failed_scores_zero_whatever_its_tools(scored: Score) -> None:
    result = scored('{"query_id": "q00", "tools": ["t00", "t03"], "failed": true}\n')
    assert result.metrics.n_failed == 19
    assert result.metrics.metrics["recall@5"].mean == 0


def test_recommended_sets_are_scored_and_one_that_is_missing_is_empty(scored: Score) -> None:
    lines = [
        {"query_id": "q00", "tools": ["t05"], "recommended": ["t03", "t00"]},
        {"query_id": "q01", "tools": ["t01"]},
        {"query_id": "q06", "tools": [], "recommended": []},
    ]
    result = scored("\n".join(map(json.dumps, lines)))
    assert result.per_query["recommended"].to_pylist()[:2] == [["t03", "t00"], []]
    assert result.values("tracc")[:2].tolist() == [1.0, 0.0]
    # q06 has no gold and is abstained from; q13 and q20 are not mentioned, which is no decision.
    assert result.values("abstained")[[6, 13, 20]].tolist() == [1.0, 0.0, 0.0]
    assert not any(name.startswith("set_") for name in scored('{"query_id": "q00", "tools": ["t05"]}').metrics.metrics)
