"""The recipes, claims and artefacts as shipped: whole, and in names that bench knows; and how recipes are filled in."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.errors import DataError, UsageError
from bench.metrics import parse_metric
from bench.registry import dataset_entries, method_names
from bench.registry.methods import method_class
from bench.reproduce.artefacts import artefacts, resolved
from bench.reproduce.cells import Cell, cells, papers
from bench.reproduce.claims import check_printed, claims
from bench.reproduce.laboratory import is_fact
from bench.reproduce.recipes import Recipe, read_recipes, recipes, recipes_of
from bench.spec import Spec, parse

CELL = Cell("tgr-2", "PMLM-L3-v2", "API-Bank", "", "recall@5", "0.659", "share")
#: Named by recipes although nobody can have it: the paper has not published it.
UNPUBLISHED = {"tdi300k"}


def specs_of(recipe: Recipe) -> list[str]:
    own = recipe.standard.method if recipe.standard else None
    return [text for text in (recipe.method, recipe.minus, recipe.rival, own) if text is not None]


def filled() -> list[tuple[Cell, Recipe]]:
    return [(cell, recipe) for cell in cells() for recipe in recipes_of(cell)]


def parameters(spec: Spec) -> list[tuple[str, str]]:
    """(method, parameter) pairs of a spec and of those inside it."""
    found = [(spec.name, name) for name, _ in spec.arguments]
    return found + [pair for _, value in spec.arguments if isinstance(value, Spec) for pair in parameters(value)]


# As shipped ----------------------------------------------------------------------------------------------------------


def test_every_cell_has_a_recipe() -> None:
    assert [str(cell) for cell in cells() if not recipes_of(cell)] == []


def test_every_row_and_place_that_a_recipe_names_is_printed() -> None:
    rows = {(cell.table, cell.row) for cell in cells()}
    places = {(cell.table, cell.place) for cell in cells()}
    for recipe in recipes():
        assert {(recipe.table, row) for row in recipe.rows} <= rows
        assert {(recipe.table, place) for place in recipe.places} <= places


def test_every_recipe_measures_some_cell() -> None:
    used = [recipe for recipe in recipes() if any(recipe.covers(cell) for cell in cells())]
    assert len(used) == len(recipes())


def test_every_spec_parses_and_names_parameters_that_its_method_has() -> None:
    texts = {text for _, recipe in filled() for text in specs_of(recipe)}
    texts |= {text for claim in claims() for test in claim.tests for text in (test.better, test.worse)}
    for text in sorted(texts):
        spec = parse(resolved(text))
        for name, parameter in parameters(spec):
            # A method that is not part of this installation says so when it is asked for.
            if name in method_names():
                assert parameter in method_class(name).Parameters.model_fields, f"{text}: {name} has no {parameter}"


def test_every_dataset_is_one_that_bench_has_a_card_for() -> None:
    named = {parse(text).name for _, recipe in filled() for text in recipe.on}
    named |= {parse(text).name for claim in claims() for test in claim.tests for text in test.on}
    named |= {parse(item.dataset).name for item in artefacts().values()}
    assert named - UNPUBLISHED <= set(dataset_entries())


def test_every_metric_is_one_of_ours_or_a_fact() -> None:
    asked = {recipe.measure.get(cell.metric, cell.metric) for cell, recipe in filled()}
    asked |= {metric for claim in claims() for test in claim.tests for metric in test.metrics}
    for metric in asked:
        assert is_fact(metric) or str(parse_metric(metric)) == metric


def test_the_row_that_a_direction_is_taken_to_is_printed() -> None:
    for cell, recipe in filled():
        if recipe.against is not None and not cell.is_difference:
            assert recipe.opponent(cell).metric == cell.metric


def test_what_stands_in_for_another_model_or_graph_says_so() -> None:
    for _, recipe in filled():
        if recipe.rival is not None:
            assert {"other model", "other training data"} & set(recipe.differences)
        if "graph=rules" in recipe.method:
            assert "other graph" in recipe.differences
        if recipe.method.startswith("ptr(") and "llm=" not in recipe.method:
            assert "coverage=false" in recipe.method


def test_rules_for_a_language_model_are_named() -> None:
    for claim in claims():
        for test in claim.tests:
            rules = "llm=rules" in test.better + test.worse
            assert rules == ("rules for a language model" in test.differences)
            if rules:
                assert "Rules stand in" in claim.note


def test_what_needs_a_model_data_or_an_endpoint_says_which() -> None:
    for _, recipe in filled():
        texts = " ".join(specs_of(recipe))
        lacks = (
            "$" in texts or "encoder=" in texts or any(name in recipe.on for name in ("toolbench-g1", "apibank-full"))
        )
        if lacks:
            assert recipe.needs, recipe.method


def test_claims_have_ids_of_their_own_and_something_to_go_by() -> None:
    assert len({claim.id for claim in claims()}) == len(claims())
    for claim in claims():
        assert claim.paper in papers()
        assert claim.tests or claim.needs
        check_printed(claim.printed)


def test_the_printed_cells_of_some_claims_by_hand() -> None:
    found = {claim.id: check_printed(claim.printed) for claim in claims()}
    # Table 2 of PTR, models open-mistral-7b and GPT-4o: 11 pairs of rows, 9 columns; five cells go the other way.
    bundles = found["ptr-beats-its-bundle"]
    assert bundles is not None
    assert (bundles.agree, bundles.cells) == (94, 99)
    assert "ptr-2, BM25, PTR+open-mistral-7b, RecTools, tracc 0.355, and BM25, bundle alone 0.382" in bundles.against
    # Zero-shot loses 9 of 10 cells to the utterance, SFT 3, alignment none.
    generated = found["generated-queries-beat-the-utterance"]
    assert generated is not None
    assert (generated.agree, generated.cells) == (18, 30)


# How they are filled in ----------------------------------------------------------------------------------------------


def test_words_of_row_and_place_are_filled_in() -> None:
    recipe = Recipe.model_validate(
        {
            "table": "tgr-2",
            "rows": {"PMLM-L3-v2": {"encoder": "small", "lack": "the encoder small"}},
            "places": {"API-Bank": {"on": ["a", "b"], "kind": ""}},
            "method": "dense(encoder={encoder})",
            "on": ["{on}"],
            "slices": {"kind": "{kind}"},
            "needs": ["{lack}"],
            "standard": {"method": "bm25(k={encoder})"},
        }
    )
    assert recipe.covers(CELL)
    one = recipe.filled(CELL)
    assert one.method == "dense(encoder=small)"
    assert one.on == ("a", "b")
    assert one.slices == {}
    assert one.needs == ("the encoder small",)
    assert one.standard is not None
    assert one.standard.method == "bm25(k=small)"
    assert one.covers(CELL)


def test_a_measure_names_all_that_is_measured() -> None:
    recipe = Recipe.model_validate(
        {"table": "tgr-2", "rows": ["PMLM-L3-v2"], "method": "dense", "on": ["a"], "measure": {"ndcg@5": "ndcg@10"}}
    )
    assert not recipe.covers(CELL)


def test_a_file_s_words_are_filled_in_first_and_a_missing_word_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.toml"
    path.write_text(
        'words = { small = "minilm" }\n[[recipe]]\ntable = "tgr-2"\nmethod = "{method}"\non = ["a"]\n'
        '[recipe.rows]\nPMLM-L3-v2 = { method = "dense(encoder={small}{more})" }\n'
        '[recipe.places]\nAPI-Bank = { more = ", x={small}" }\nToolBench-I1 = {}\n'
    )
    (recipe,) = read_recipes(path)
    assert recipe.filled(CELL).method == "dense(encoder=minilm, x=minilm)"
    with pytest.raises(DataError, match="no word for 'more'"):
        recipe.filled(replace(CELL, dataset="ToolBench-I1"))


def test_an_opponent_may_stand_in_another_table() -> None:
    more = {"method": "dense", "rival": "bm25", "on": ["a"], "rows": ["PMLM-L3-v2"], "table": "tgr-2"}
    own = Recipe.model_validate({**more, "against": "BM25"})
    assert own.opponent(CELL).printed == "0.391"
    other = Recipe.model_validate({**more, "against": "tgr-5: PMLM-L3-v2+TGR-m"})
    assert other.opponent(CELL).printed == "0.745"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[[recipe]]\ntable = "tgr-2"\nrows = ["BM25"]\non = ["a"]\nmethod = "x"\nagainst = "y"\n', "go together"),
        ('[[recipe]]\ntable = "tgr-2"\nrows = ["BM25"]\non = []\nmethod = "x"\n', "at least 1 item"),
        ('[[recipe]]\ntable = "tgr-2"\nrows = ["BM25"]\non = ["a"]\nmethod = "x"\ndifferences = ["taste"]\n', "taste"),
        ("[[recipe]\n", "cannot read the recipes"),
    ],
)
def test_a_damaged_recipe_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(DataError, match=sentence):
        read_recipes(path)


def test_an_unknown_artefact_is_named_with_the_nearest() -> None:
    from bench.reproduce.artefacts import named_in

    with pytest.raises(UsageError, match="did you mean 'unseen-reranker'"):
        named_in("rerank(reranker=$unseen-rerankr)")
