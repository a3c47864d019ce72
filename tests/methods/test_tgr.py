"""Tool Graph Retriever by hand: equation 3 on three tools, directions, layers, graphs, bases, ties."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from kit.datasets import loaded
from kit.rankings import make_queries, scores_by_code
from numpy.typing import NDArray

from bench.base.errors import BenchError, DataError, UsageError
from bench.base.parameters import ParameterSet
from bench.data.dataset import Dataset
from bench.data.gold import Gold
from bench.interface import Context, Library, Method, Queries, Ranking
from bench.interface.method import Similarity
from bench.interface.parts import needs_history, revisions
from bench.metrics import parse_metrics
from bench.metrics.ties import UnseenTies, tie_band
from bench.registry import build_method, method_class
from bench.results.ids import method_hash

Make = Callable[..., Dataset]
Prepared = Callable[..., Method]
Planted = Callable[[Mapping[str, Sequence[float]]], None]

TOOLS = {"a": "text a", "b": "text b", "c": "text c"}


class Vectors(Method):
    """An embedding method with given vectors: one row for each tool, and one for every query."""

    similarity: Similarity = "cosine"

    def __init__(self, tools: Sequence[Sequence[float]], query: Sequence[float]) -> None:
        super().__init__(ParameterSet(), Context(build_method))
        self.tools, self.query = np.array(tools, dtype=np.float32), np.array(query, dtype=np.float32)

    def index(self, library: Library) -> None:
        return None

    def tool_vectors(self) -> NDArray[np.float32]:
        return self.tools

    def query_vectors(self, queries: Queries) -> NDArray[np.float32]:
        return np.tile(self.query, (len(queries), 1))

    def rank(self, queries: Queries, depth: int) -> Ranking:
        raise NotImplementedError


def tgr(base: Method, **parameters: object) -> Method:
    kind = method_class("tgr")
    return kind(kind.Parameters.model_validate(parameters), Context(lambda spec: base))


# Equation 3 by hand -------------------------------------------------------------------------------------------------
# b needs a; c is alone. With α = 1 the degrees are 2, 2, 1, so a and b both become (x_a + x_b) / 2 and c stays.
# x_a = (1, 0), x_b = (0, 1), x_c = (3, 4); the query points along (1, 0).
X = [(1, 0), (0, 1), (3, 4)]
EDGE = [("b", "a")]


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        # Both (1/2, 1/2), of length 1 once normalised: cosine 1/sqrt(2). c: 3/5.
        ({}, (1 / sqrt(2), 1 / sqrt(2), 0.6)),
        # Only the prerequisite a takes in its dependent; b keeps half of its own vector, which is (0, 1) normalised.
        ({"direction": "prerequisite"}, (1 / sqrt(2), 0, 0.6)),
        # Only the dependent b takes in its prerequisite.
        ({"direction": "dependent"}, (1, 1 / sqrt(2), 0.6)),
        # α = 3: degrees 4, 4; a = 3/4 x_a + 1/4 x_b = (3, 1) / 4, b = (1, 3) / 4.
        ({"alpha": 3.0}, (3 / sqrt(10), 1 / sqrt(10), 0.6)),
        # α = 3, two layers: a = 3/4 (3, 1)/4 + 1/4 (1, 3)/4 = (10, 6) / 16, b = (6, 10) / 16.
        ({"alpha": 3.0, "layers": 2}, (10 / sqrt(136), 6 / sqrt(136), 0.6)),
    ],
)
def test_vectors_are_smoothed_and_normalised(
    make: Make, prepared: Prepared, parameters: dict[str, object], expected: tuple[float, ...]
) -> None:
    method = prepared(tgr(Vectors(X, (1, 0)), graph="manual", **parameters), make(TOOLS, edges=EDGE))
    ranking = method.rank(make_queries("x"), 3)
    assert scores_by_code(ranking) == pytest.approx(dict(enumerate(expected)), abs=1e-6)
    order = sorted(range(3), key=lambda code: (-np.float32(expected[code]), code))
    assert ranking.tools[0].tolist() == order
    assert method.facts() == {"graph": "manual", "edges": 1, "connected_share": round(2 / 3, 4)}


def test_rows_are_normalised_after_the_smoothing_not_before(make: Make, prepared: Prepared) -> None:
    # x_b is ten times as long, so it outweighs x_a in both: (1, 10) / 2, cosine with (1, 0) = 1/sqrt(101). The dot
    # product of the base shows that rows have length 1 afterwards: c gives 3/5 and not 3.
    base = Vectors([(1, 0), (0, 10), (3, 4)], (1, 0))
    base.similarity = "dot"
    method = prepared(tgr(base, graph="manual"), make(TOOLS, edges=EDGE))
    expected = {0: 1 / sqrt(101), 1: 1 / sqrt(101), 2: 0.6}
    assert scores_by_code(method.rank(make_queries("x"), 3)) == pytest.approx(expected, abs=1e-6)


# a and b become (x_a + x_b) / 2 = (1/2, 5); c stays (3, 4). The query is (1, 0).
@pytest.mark.parametrize(
    ("similarity", "expected"),
    [
        ("dot", (0.5, 0.5, 3)),
        ("l1", (-5.5, -5.5, -6)),
        ("l2", (-sqrt(25.25), -sqrt(25.25), -sqrt(20))),
        # Cosine sees no lengths: it is what `scale=unit` gives.
        ("cosine", (1 / sqrt(101), 1 / sqrt(101), 0.6)),
    ],
)
def test_the_equation_as_printed_leaves_vectors_their_length(
    make: Make, prepared: Prepared, similarity: Similarity, expected: tuple[float, ...]
) -> None:
    base = Vectors([(1, 0), (0, 10), (3, 4)], (1, 0))
    base.similarity = similarity
    method = prepared(tgr(base, graph="manual", scale="none"), make(TOOLS, edges=EDGE))
    assert scores_by_code(method.rank(make_queries("x"), 3)) == pytest.approx(dict(enumerate(expected)), abs=1e-6)


def test_results_made_before_there_was_a_scale_keep_their_ids() -> None:
    full = 'tgr(alpha=1.0, base=dense(), direction=symmetric, discriminator="", graph=rules, layers=1, most_producers=3'
    specs = [f"{full}, nearest=5, within=library)", str(build_method("dense").full_spec)]
    text = json.dumps({"specs": specs, "revisions": {"some": "1"}, "code": "2"}, sort_keys=True)
    before = hashlib.sha256(text.encode()).hexdigest()
    scales = {scale: method_hash(build_method(f"tgr(scale={scale})"), "2", {"some": "1"}) for scale in ("unit", "none")}
    assert scales["unit"] == before == method_hash(build_method("tgr"), "2", {"some": "1"})
    assert scales["none"] != before


def test_the_similarity_of_the_base_is_kept(make: Make, prepared: Prepared) -> None:
    base = Vectors(X, (1, 0))
    base.similarity = "l1"
    method = prepared(tgr(base, graph="manual"), make(TOOLS, edges=EDGE))
    # |1 - 1/sqrt(2)| + |1/sqrt(2)| = 1 for a and b; |1 - 0.6| + 0.8 = 1.2 for c.
    assert scores_by_code(method.rank(make_queries("x"), 3)) == pytest.approx({0: -1.0, 1: -1.0, 2: -1.2}, abs=1e-6)


def test_the_dense_base_is_smoothed_in_its_embeddings(make: Make, prepared: Prepared, planted: Planted) -> None:
    planted({"text a": (1, 0), "text b": (0, 1), "text c": (3, 4), "asked": (1, 0)})
    method = prepared("tgr(graph=manual)", make(TOOLS, edges=EDGE))
    expected = {0: 1 / sqrt(2), 1: 1 / sqrt(2), 2: 0.6}
    assert scores_by_code(method.rank(make_queries("asked"), 3)) == pytest.approx(expected, abs=1e-6)


def test_a_tool_without_edges_scores_as_the_base_does(make: Make, prepared: Prepared, planted: Planted) -> None:
    planted({"text a": (1, 0), "text b": (0, 1), "text c": (3, 4), "asked": (0.3, 0.2)})
    made = make(TOOLS)
    plain, smoothed = (prepared(spec, made).rank(make_queries("asked"), 3) for spec in ("dense", "tgr"))
    assert scores_by_code(smoothed) == pytest.approx(scores_by_code(plain), abs=1e-6)


# Ties ---------------------------------------------------------------------------------------------------------------


def test_two_tools_that_have_only_each_other_tie_exactly_and_the_band_shows_it(make: Make, prepared: Prepared) -> None:
    random = np.random.default_rng(0)
    base = Vectors(random.normal(size=(3, 384)).tolist(), random.normal(size=384).tolist())
    method = prepared(tgr(base, graph="manual"), make(TOOLS, edges=EDGE))
    ranking = method.rank(make_queries("x"), 3)
    scores = scores_by_code(ranking)
    assert scores[0] == scores[1]
    places = {code: place for place, code in enumerate(ranking.tools[0].tolist())}
    assert places[1] == places[0] + 1, "the tie goes by id"
    # With b as gold, recall just above the pair is 0 by the rule; it could be 1, and is 1/2 in expectation.
    assert ranking.scores is not None
    metric = parse_metrics([f"recall@{places[0] + 1}"])
    band = tie_band(ranking.tools, ranking.scores, Gold.of([{1: 1}]), UnseenTies.none(1), metric)
    assert band is not None
    assert (band.low[0], band.high[0]) == (0, 1)
    assert 0.3 < band.expected[0] < 0.7
    # α other than 1 parts them.
    parted = scores_by_code(
        prepared(tgr(base, graph="manual", alpha=1.5), make(TOOLS, edges=EDGE)).rank(make_queries("x"), 3)
    )
    assert parted[0] != parted[1]


# Bases with scores --------------------------------------------------------------------------------------------------


def test_a_base_with_scores_is_smoothed_by_the_weighted_mean(make: Make, prepared: Prepared) -> None:
    # The path a - b - c: degrees of A + I are 2, 3, 2. Weights of a: 1/2 of itself, 1/sqrt(6) of b, of b: 1/3 of
    # itself, 1/sqrt(6) of each neighbour; each row divided by its sum.
    texts = {"a": "send letters", "b": "find street", "c": "buy stamps"}
    made = make(texts, edges=[("a", "b"), ("b", "c")])
    result = prepared("bm25", made).score(make_queries("send stamps"))[0]  # type: ignore[attr-defined]
    side = 1 / sqrt(6)
    expected = {
        0: (result[0] / 2 + side * result[1]) / (1 / 2 + side),
        1: (side * result[0] + result[1] / 3 + side * result[2]) / (1 / 3 + 2 * side),
        2: (side * result[1] + result[2] / 2) / (1 / 2 + side),
    }
    smoothed = scores_by_code(prepared("tgr(base=bm25, graph=manual)", made).rank(make_queries("send stamps"), 3))
    assert smoothed == pytest.approx(expected, rel=1e-5)
    # b shares no word with the query and takes in what its neighbours have.
    assert result[1] == 0
    assert smoothed[1] > 0
    # As printed, rows are not divided by their sums.
    sums = {0: 1 / 2 + side, 1: 1 / 3 + 2 * side, 2: 1 / 2 + side}
    printed = scores_by_code(
        prepared("tgr(base=bm25, graph=manual, scale=none)", made).rank(make_queries("send stamps"), 3)
    )
    assert printed == pytest.approx({tool: score * sums[tool] for tool, score in expected.items()}, rel=1e-5)


@pytest.mark.parametrize("base", ["random", "popularity", "oracle", "rrf"])
def test_a_base_with_neither_vectors_nor_scores_is_refused(base: str) -> None:
    with pytest.raises(UsageError, match=f"tgr cannot use base={base}: it has neither vectors nor scores"):
        build_method(f"tgr(base={base})")


def test_it_learns_where_its_base_learns() -> None:
    assert needs_history(build_method("tgr(base=nearest-query)"))
    assert not needs_history(build_method("tgr(base=bm25)"))


# Graphs -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    """A file with one edge."""
    path = tmp_path / "edges.tsv"
    path.write_text("dependent\tprerequisite\nb\ta\n")
    return path


def test_a_graph_of_a_file_is_the_graph_it_holds(make: Make, prepared: Prepared, graph_file: Path) -> None:
    base = Vectors(X, (1, 0))
    of_file = prepared(tgr(base, graph=str(graph_file)), make(TOOLS)).rank(make_queries("x"), 3)
    manual = prepared(tgr(base, graph="manual"), make(TOOLS, edges=EDGE)).rank(make_queries("x"), 3)
    assert scores_by_code(of_file) == scores_by_code(manual)


def test_the_content_of_the_graph_file_is_part_of_the_revision(graph_file: Path) -> None:
    before = revisions(build_method(f"tgr(base=bm25, graph={graph_file})"))
    graph_file.write_text("dependent\tprerequisite\na\tb\n")
    after = revisions(build_method(f"tgr(base=bm25, graph={graph_file})"))
    assert before.keys() == after.keys() == {str(graph_file)}
    assert before != after
    assert revisions(build_method("tgr(base=bm25)")) == {}


def test_the_graph_of_rules_follows_most_producers(prepared: Prepared) -> None:

    made = loaded("starter")
    few, many = (prepared(f"tgr(base=bm25, most_producers={most})", made).facts()["edges"] for most in (1, 3))
    assert 0 < int(few) < int(many)


@pytest.mark.parametrize(
    ("text", "error", "sentence"),
    [
        (None, UsageError, "is neither `rules`, `manual`, `discriminator` nor an existing file."),
        ("b\ta\n", DataError, "the first line must be the tab-separated header"),
        ("dependent\tprerequisite\nb\tnowhere\n", DataError, "the edge b -> nowhere names the unknown tool 'nowhere'"),
        ("dependent\tprerequisite\nb\n", DataError, "line 2: expected 2 tab-separated values"),
        ("dependent\tprerequisite\nb\tb\n", DataError, "points at itself"),
    ],
)
def test_a_graph_file_that_does_not_fit_is_refused_before_anything_runs(
    make: Make, prepared: Prepared, tmp_path: Path, text: str | None, error: type[BenchError], sentence: str
) -> None:
    path = tmp_path / "graph.tsv"
    if text is not None:
        path.write_text(text)
    method = tgr(Vectors(X, (1, 0)), graph=str(path))
    made = make(TOOLS)
    with pytest.raises(error) as caught:
        method.preflight(Library.of(made, "description"), None)  # type: ignore[arg-type]
    assert sentence in str(caught.value)


def test_manual_needs_annotated_edges(make: Make, prepared: Prepared) -> None:
    with pytest.raises(UsageError, match="graph=manual needs a dataset with annotated edges; this one has none"):
        prepared("tgr(base=bm25, graph=manual)", make(TOOLS))
