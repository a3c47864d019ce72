"""A method by itself: made with its parameters, fitted to a dataset, asked for a text; and methods that users write."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.interpreter import Interpreter
from kit.tiny import CARD

import bench
from bench.base.errors import UsageError
from bench.base.parameters import ParameterSet
from bench.base.spec import parse
from bench.data.dataset import Dataset
from bench.data.tables import Query, Tables, Tool
from bench.interface import Context, Method
from bench.methods.bm25 import BM25
from bench.methods.nearest_query import NearestQuery
from bench.methods.oracle import Oracle
from bench.methods.popularity import Popularity
from bench.methods.rrf import ReciprocalRankFusion
from bench.methods.tfidf import TfIdf
from bench.registry import build_method

ROOT = Path(__file__).resolve().parents[2]

#: Classes with a constructor or a `fit` of their own: type checkers know no other.
RRF: Any = ReciprocalRankFusion
POPULARITY: Any = Popularity
NEAREST: Any = NearestQuery
ABSTRACT: Any = Method


@pytest.fixture
def desk() -> Dataset:
    """Three tools, two past queries that want the last, and a test query."""
    texts = {"a": ("open ticket", "Opens a ticket."), "b": ("read mail", "Reads mail."), "c": ("pay", "Pays.")}
    tools = [Tool(name, *text, "", "") for name, text in texts.items()]
    queries = [
        Query("1", "pay the bill", {"c": 1}, "train"),
        Query("2", "settle the bill", {"c": 1}, "train"),
        Query("3", "open a ticket", {"a": 1}, "test"),
    ]
    return Dataset.build("tiny", CARD, Tables(tools, queries))


def test_a_method_is_made_with_its_parameters_fitted_and_asked(desk: Dataset) -> None:
    found = BM25(k1=1.5).fit(desk).search("open the ticket", k=2)
    # Three tools, so only the first has the words: two of its two words, the others none.
    assert [tool for tool, _ in found] == ["a"]
    assert found[0][1] is not None
    assert found[0][1] > 0
    assert found == BM25(k1=1.5).fit(desk).search("open the ticket", k=np.int64(2))


def test_the_ranking_is_that_of_the_harness() -> None:
    data = bench.load_dataset("starter")
    method = build_method("bm25(k1=1.5)")
    library = bench.Library.of(data, data.card.template)
    method.index(library)
    text = "who is our contact at the bakery?"
    ranking = method.rank(bench.Queries((text,), np.zeros(1, dtype=np.int64)), 5)
    expected = [library.tools[code].tool_id for code in ranking.tools[0]]
    assert ranking.scores is not None
    found = BM25(k1=1.5).fit("starter").search(text, k=5)
    assert found == list(zip(expected, map(float, ranking.scores[0]), strict=True))


def test_a_method_that_learns_does_so_from_past_queries_alone(desk: Dataset) -> None:
    # c is gold twice in the past; a only for the test query, which is not history.
    found = POPULARITY().fit(desk).search("whatever", k=3)
    assert found[0][0] == "c"
    assert dict(found)["c"] == 2.0
    assert dict(found).get("a", 0.0) == 0.0


def test_fit_still_takes_past_queries_alone(desk: Dataset) -> None:
    library = bench.Library.of(desk, desk.card.template)
    history = bench.History.of(desk, library, desk.rows("test"))
    method = build_method("popularity")
    assert method.fit(history) is None
    with pytest.raises(UsageError, match="has no tools to search yet"):
        method.search("pay")
    method.fit(history=history)
    method.index(library)


@pytest.mark.parametrize(
    ("make", "spec"),
    [
        (lambda: BM25(), "bm25"),
        (lambda: BM25(k1=1.5, tokens="whitespace"), "bm25(k1=1.5, tokens=whitespace)"),
        (lambda: BM25(k1=np.float64(1.2)), "bm25"),
        (
            lambda: RRF(methods=[BM25(k1=1.5), "tfidf", TfIdf]),
            "rrf(methods=[bm25(k1=1.5), tfidf(), tfidf()])",
        ),
    ],
)
def test_a_method_prints_as_its_spec(make: Callable[[], Any], spec: str) -> None:
    method = make()
    assert build_method(str(method)).spec == method.spec == build_method(spec).spec
    assert parse(str(method)) == method.spec
    assert repr(method) == str(method)
    assert str(method).startswith(spec.partition("(")[0])


def test_a_notebook_shows_the_parameters_and_nothing_that_runs() -> None:
    shown = BM25(k1=1.5)._repr_html_()
    assert "<td>k1</td><td>1.5</td><td>1.2</td>" in shown
    marked = bench.build_method("dense", encoder="<script>x</script>")
    assert "<script" not in marked._repr_html_()
    assert "&lt;script&gt;" in marked._repr_html_()
    assert "\n" not in repr(marked)


def test_the_constructor_of_the_harness_is_unchanged() -> None:
    context = Context(build_method)
    plain = BM25(BM25.Parameters(k1=2.0), context)
    named = BM25(parameters=BM25.Parameters(), context=context)
    assert (plain.parameters.k1, plain.context, plain.name) == (2.0, context, "")
    assert named.parameters.k1 == 1.2
    assert repr(plain) == "BM25"


def test_a_constructor_of_an_author_s_own_is_called_as_it_is_written() -> None:
    class Own(BM25):
        def __init__(self, **options: Any) -> None:
            super().__init__(BM25.Parameters(), Context(build_method))
            self.options = options

    assert Own().options == {}
    assert Own(k1=3).options == {"k1": 3}


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: BM25().search("x"), "bm25 has no tools to search yet; call fit(data) with a dataset first."),
        (lambda: BM25().fit("starter").search("x", k=0), "search takes a text and a whole number k of 1 or more"),
        (lambda: BM25().fit("starter").search("x", k=1.5), "search takes a text and a whole number k of 1 or more"),
        (lambda: BM25().fit("starter").search(["x"]), "search takes a text and a whole number k of 1 or more"),
        (lambda: BM25().fit("startr"), "there is no dataset 'startr' (did you mean 'starter'?)"),
        (lambda: Oracle().fit("starter"), "oracle needs the gold of the queries"),
        (lambda: BM25(k2=1), "method bm25 has no parameter 'k2'; its parameters: k1, b, tokens."),
        (lambda: BM25(b=2), "parameter 'b' of method bm25 is 2: input should be less than or equal to 1."),
        (lambda: ABSTRACT(), "lacks index(), rank()."),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(call: Callable[[], Any], sentence: str) -> None:
    with pytest.raises(bench.BenchError) as caught:
        call()
    assert sentence in str(caught.value)


def test_a_method_that_needs_past_queries_says_so(desk: Dataset) -> None:
    asked = [query for query in desk.queries if query.split == "test"]
    without = Dataset.build("tiny", CARD, Tables(desk.tools, asked))
    with pytest.raises(UsageError, match="needs past queries, but tiny has none"):
        NEAREST().fit(without)


# Methods that users write -------------------------------------------------------------------------------------------

OWN = """
import numpy as np
import bench
from bench import EmbeddingMethod, ParameterSet, ScoringMethod


class Loud(ScoringMethod):
    class Parameters(ParameterSet):
        weight: float = 1.0

    def index(self, library):
        self.loudness = np.array([len(text) for text in library.texts], dtype=np.float64)

    def score(self, queries):
        return np.tile(self.parameters.weight * self.loudness, (len(queries), 1))


class Letters(EmbeddingMethod):
    similarity = "dot"

    def index(self, library):
        self.vectors = self.counts(library.texts)

    def counts(self, texts):
        return np.array([[text.lower().count(sign) for sign in "abc"] for text in texts], dtype=np.float32)

    def tool_vectors(self):
        return self.vectors

    def query_vectors(self, queries):
        return self.counts(queries.texts)
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The module of a user's, in the working folder."""
    (tmp_path / "loud_methods.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("loud_methods", None)
    import loud_methods  # type: ignore[import-not-found]

    yield loud_methods
    sys.modules.pop("loud_methods", None)


def test_a_subclass_of_the_scoring_method_needs_a_score_alone(own: Any, desk: Dataset) -> None:
    lengths = {tool.tool_id: float(len(tool.text(desk.card.template))) for tool in desk.tools}
    found = own.Loud(weight=2.0).fit(desk).search("x", k=3)
    assert dict(found) == {tool: 2 * length for tool, length in lengths.items()}
    assert [score for _, score in found] == sorted((score for _, score in found), reverse=True)


def test_a_subclass_of_the_embedding_method_needs_vectors_alone(own: Any, desk: Dataset) -> None:
    def counts(text: str) -> list[int]:
        return [text.lower().count(sign) for sign in "abc"]

    asked = "back cab"
    products = {
        tool.tool_id: float(np.dot(counts(asked), counts(tool.text(desk.card.template)))) for tool in desk.tools
    }
    assert dict(own.Letters().fit(desk).search(asked, k=3)) == products


def test_subclasses_run_as_instances_as_classes_and_by_module_and_class(own: Any) -> None:
    for name in ("Loud", "Letters"):
        kind = getattr(own, name)
        by_instance = bench.run(kind(), "starter", limit=10)
        assert by_instance.method == f"loud_methods:{name}"
        assert bench.run(kind, "starter", limit=10).id == by_instance.id
        assert bench.run(f"loud_methods:{name}", "starter", limit=10).id == by_instance.id
    assert bench.run(own.Loud(weight=2.0), "starter", limit=10).method == "loud_methods:Loud(weight=2.0)"


def test_what_scores_is_a_scoring_method_whatever_it_derives_from(own: Any) -> None:
    from bench.methods.dense import Dense

    assert issubclass(BM25, bench.ScoringMethod)
    assert not issubclass(BM25, bench.EmbeddingMethod)
    assert issubclass(Dense, bench.EmbeddingMethod)
    assert not issubclass(NearestQuery, bench.EmbeddingMethod)
    assert not issubclass(Popularity, bench.EmbeddingMethod)
    assert issubclass(own.Letters, bench.ScoringMethod)
    assert not issubclass(BM25, own.Loud), "a class of the user's is that class alone"
    with pytest.raises(bench.BenchError, match=r"lacks index\(\), score\(\)"):
        bench.build_method(bench.ScoringMethod)


def test_others_can_be_built_on_a_user_s_method(own: Any) -> None:
    result = bench.run(RRF(methods=[own.Loud(), "bm25"]), "starter", limit=5)
    assert "loud_methods:Loud" in result.method


SCRIPT = (
    OWN
    + """

result = bench.run(Loud(weight=2.0), "starter", limit=10)
if __name__ == "__main__":
    print(result.method, result.id)
"""
)


def test_a_class_of_the_program_that_runs_is_known_by_its_file(interpreter: Interpreter, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SCRIPT)
    done = subprocess.run([sys.executable, "program.py"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    method, identifier = done.stdout.rsplit(maxsplit=1)
    assert method == "program:Loud(weight=2.0)"
    words = ["run", "-m", method, "-d", "starter", "--limit", "10", "--overwrite", "missing", "--json"]
    command = "import sys; from bench.__main__ import run; sys.exit(run(sys.argv[1:]))"
    again = interpreter(command, *words, folder=tmp_path, path=(ROOT,))
    (found,) = json.loads(again.stdout)
    assert found["manifest"]["result_id"] == identifier, "the same code by either name"


class Named(Method):
    """Has parameters of its own by the names that the harness uses."""

    class Parameters(ParameterSet):
        method: str = "a"
        context: str = "b"

    def index(self, library: bench.Library) -> None: ...

    def rank(self, queries: bench.Queries, depth: int) -> bench.Ranking:
        return bench.Ranking.empty(len(queries))


def test_parameters_may_have_the_names_of_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "named_method_of_test"
    kind: Any = type("Named", (Named,), {"__module__": module, "__qualname__": "Named"})
    monkeypatch.setitem(sys.modules, module, type(sys)(module))
    monkeypatch.setattr(sys.modules[module], "Named", kind, raising=False)
    made = kind(method="x", context="y")
    assert (made.parameters.method, made.parameters.context) == ("x", "y")
    assert str(made) == f"{module}:Named(context=y, method=x)"
