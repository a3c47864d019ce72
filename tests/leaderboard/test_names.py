"""Display names: whose they are, what they say, and that no two rows read the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.leaderboard.boards.names import Title, apart, declared_names, title_of
from bench.leaderboard.boards.registered import describe_method
from bench.registry.methods import built_in_methods
from bench.results.manifest import MethodIdentity


def method(spec: str, run_file: bool = False) -> MethodIdentity:
    facts = {"hash": "0" * 64, "revisions": {}, "code": "0" * 64, "oracle": False, "needs_llm": False}
    return MethodIdentity(spec=spec, full_spec=spec, run_file="run.jsonl 00" if run_file else None, **facts)


def test_each_method_of_the_repository_has_a_name_of_its_own() -> None:
    assert set(declared_names()) == set(built_in_methods())
    for names in (
        [row.name.casefold() for row in declared_names().values()],
        [str(title_of(method(name))).casefold() for name in declared_names()],
    ):
        assert len(set(names)) == len(names)


def test_names_speak_of_parameters_that_exist() -> None:
    for name, values in declared_names().items():
        facts = describe_method(name)
        assert facts is not None
        assert {*values.say, *values.quiet, *values.words} <= {item.name for item in facts.parameters}, name
        assert set(values.words) <= set(values.say), name


@pytest.mark.parametrize(
    ("spec", "title"),
    [
        ("dense", "Dense, MiniLM-L6"),
        ("dense(encoder=models/toollens-retriever)", "Dense, toollens-retriever"),
        ("bm25(k1=0.5)", "BM25 (k1=0.5)"),
        ("ptr", "PTR, hand-written rules instead of an LLM"),
        ("query-generation(llm=local:models/generator)", "Query generation, generator"),
        ("tgr", "TGR, rule graph"),
        ("tgr(base=dense(encoder=e), graph=discriminator)", "TGR, learned graph (TGR-d), as in the paper, on Dense, e"),
        ("rrf(methods=[bm25(k1=2), dense, other])", "Reciprocal rank fusion, BM25 (k1=2) + Dense + other"),
        ("somebody:Else(k=1)", "somebody:Else(k=1)"),
    ],
)
def test_a_title_says_the_method_and_its_configuration(spec: str, title: str) -> None:
    assert str(title_of(method(spec))) == title


@pytest.mark.parametrize(
    "name",
    ["dense", "Dense, MiniLM-L6", "dense - minilm-l6", "BM25", "\uff22\uff2d25", "Bm25 (k1=0.5)", "TGR,rule graph"],
)
def test_a_submission_cannot_take_a_name(name: str) -> None:
    # A run file may have any name; it has no entry, and does not read like what has.
    assert str(title_of(method(name, run_file=True))) == f"“{name}”"


def test_other_names_stay_as_they_are() -> None:
    assert str(title_of(method("dense-of-ours", run_file=True))) == "dense-of-ours"
    # The class of a stranger, which has the name of a method in other letters.
    assert str(title_of(method("BM25"))) == "“BM25”"


_words = st.sampled_from(["", "A", "a", "A, 1", "A, x", "A, x, 1", "B (k=1)"])


@given(st.lists(st.tuples(_words, _words, _words), max_size=12))
def test_no_two_rows_read_the_same(rows: list[tuple[str, str, str]]) -> None:
    titles, settings, specs = ([row[i] for row in rows] for i in range(3))
    names = apart([Title(text) for text in titles], settings, specs, [str(i) for i in range(len(rows))])
    assert len({name.casefold() for name in names}) == len(rows)
    # A name that no other row has stays as it is.
    for title, name in zip(titles, names, strict=True):
        if [row.casefold() for row in titles].count(title.casefold()) == 1:
            assert name.startswith(title)


def test_rows_show_names_with_the_spec_behind_them_and_variants_fold(ready_site: Any) -> None:
    for path in ("index.html", f"d/{ready_site.board.slug}.html"):
        text = ready_site.page(path).text
        assert 'title="bm25(k1=0.5)">BM25 (<wbr>k1=<wbr>0.5)</a>' in text
        # Folded under the defaults, whichever of the two is better.
        rows = {row.split('title="')[1].split('"')[0]: row.split(">")[0] for row in text.split("<tr data-f")[1:]}
        assert "data-u=1" in rows["bm25(k1=0.5)"]
        assert "data-w=1" in rows["bm25"]
        assert sum("data-u" in head for head in rows.values()) == 1
    assert 'title="bm25(k1=0.5)"' in ready_site.only("m/bm25.html").text


def test_two_runs_of_one_method_name_their_settings(marked_site: Any) -> None:
    titles = [row.title for row in marked_site.board.rows]
    assert {"BM25", "BM25, depth 50"} <= set(titles)
    assert len(set(titles)) == len(titles)
