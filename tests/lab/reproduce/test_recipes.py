"""The recipes, claims and artefacts as shipped: whole, and in names that bench knows; and how recipes are filled in."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from kit.datasets import loaded

from bench.base.errors import DataError, UnavailableError, UsageError
from bench.base.spec import Spec, parse
from bench.data.dataset import Dataset
from bench.evaluation.plan import Plan
from bench.lab.reproduce.artefacts import artefacts, commands_for, resolve_references
from bench.lab.reproduce.cells import PrintedCell, cells, papers, table_cells, table_names
from bench.lab.reproduce.claims import check_printed, claims
from bench.lab.reproduce.claimtests import with_models
from bench.lab.reproduce.recipes import Recipe, is_fact, read_recipes, recipes, recipes_of
from bench.lab.reproduce.reproduction import reproduce
from bench.lab.reproduce.runs import MethodRuns, fact
from bench.metrics import parse_metric
from bench.registry import build_method, dataset_entries, method_names
from bench.registry.methods import method_class

CELL = PrintedCell("tgr-2", "PMLM-L3-v2", "API-Bank", "", "recall@5", "0.659", "share")
#: Named by recipes although nobody can have it: the paper has not published it.
UNPUBLISHED = {"tdi300k"}


def specs_of(recipe: Recipe) -> list[str]:
    method = recipe.standard.method if recipe.standard else None
    return [text for text in (recipe.method, recipe.minus, recipe.rival, method) if text is not None]


def filled() -> list[tuple[PrintedCell, Recipe]]:
    return [(cell, recipe) for cell in cells() for recipe in recipes_of(cell)]


def parameters(spec: Spec) -> list[tuple[str, str]]:
    """(method, parameter) pairs of a spec and of those inside it."""
    collected = [(spec.name, name) for name, _ in spec.arguments]
    return collected + [pair for _, value in spec.arguments if isinstance(value, Spec) for pair in parameters(value)]


# As shipped ----------------------------------------------------------------------------------------------------------


def test_every_cell_has_a_recipe() -> None:
    assert [str(cell) for cell in cells() if not recipes_of(cell)] == []


def test_every_cell_of_every_table_gets_its_verdict_where_nothing_is_here(tmp_path: Path) -> None:
    def nothing(spec: Spec) -> Dataset:
        raise UnavailableError(f"there is no dataset {spec} here.")

    runs = MethodRuns(tmp_path, load=nothing, build=build_method)
    report = reproduce(table_names(), [], runs, "bench reproduce all")
    places = Counter((cell.table, cell.row, cell.dataset, cell.split, cell.metric) for cell in report.cells)
    assert places == Counter((cell.table, cell.row, cell.dataset, cell.split, cell.metric) for cell in cells())
    assert {cell.verdict for cell in report.cells} == {"not run"}
    for table in report.tables:
        assert table.cells == sum(table.verdicts.values()) == len(table_cells(table.table))
    # None is without a reason, and none is a fault of ours.
    assert all(block.lacking for block in report.blocks)
    assert not [item.reason for block in report.blocks for item in block.lacking if item.failed]


def test_the_cells_that_nothing_of_ours_can_measure_are_counted() -> None:
    """The pairs of the discriminator, which no ranking of tools for queries answers; an agent that runs tools."""
    never = Counter(cell.table for cell in cells() if not any(recipe.runnable for recipe in recipes_of(cell)))
    # Exact solving, for which a command asks an endpoint; of ToolRerank's text, shuffled tools and a classifier.
    assert never == {"tgr-3": 6, "ptr-1": 3, "toolrerank-4": 14, "toolrerank-text": 2, "ptr-text": 2}


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
    tests = [test for claim in claims() for test in with_models(claim, {}).tests]
    texts |= {text for test in tests for text in (test.better, test.worse)}
    for text in sorted(texts):
        spec = parse(resolve_references(text))
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
    entries = {recipe.measure.get(cell.metric, cell.metric) for cell, recipe in filled() if recipe.runnable}
    entries |= {metric for claim in claims() for test in claim.tests for metric in test.metrics}
    for metric in entries:
        assert is_fact(metric) or str(parse_metric(metric)) == metric


def test_the_row_that_a_direction_is_taken_to_is_printed() -> None:
    for cell, recipe in filled():
        if recipe.against is not None and not cell.is_difference:
            assert recipe.opponent(cell).metric == cell.metric


def test_what_stands_in_for_another_model_or_graph_says_so() -> None:
    for _, recipe in filled():
        if recipe.rival is not None:
            assert {"other model", "other training data"} & set(recipe.differences)
        if "graph=rules" in recipe.method or "graph=manual" in recipe.method:
            assert "other graph" in recipe.differences
        if "$dependency-discriminator" in recipe.method:
            assert "other training data" in recipe.differences
        if recipe.method.startswith("ptr(") and "toollens" in recipe.on:
            assert {"other gold", "other library size"} <= set(recipe.differences)
        if recipe.method.startswith("ptr(") and "llm=" not in recipe.method:
            assert "coverage=false" in recipe.method


def test_what_a_claim_s_test_is_known_to_differ_in_is_said() -> None:
    for claim in claims():
        for test in claim.tests:
            texts = test.better + test.worse
            differences = set(test.differences)
            if "graph=rules" in texts or "graph=manual" in texts:
                assert "other graph" in differences, claim.id
            if "$dependency-discriminator" in texts:
                assert "other training data" in differences, claim.id
            if "ptr(" in texts and "toollens" in test.on:
                assert {"other gold", "other library size"} <= differences, claim.id
            if "ndcg_ptr@gold" in test.metrics:
                assert "non-standard NDCG" in differences, claim.id


def test_toolrerank_is_run_where_there_are_training_queries() -> None:
    """Without them no tool is a seen one, and seen from unseen is all that ToolRerank goes by."""
    asked = {on for _, recipe in filled() if recipe.method.startswith("toolrerank") for on in recipe.on}
    assert asked == {"toolbench-full", "toolbench(split=held-out)"}


def test_every_cell_of_toolrerank_has_a_recipe_for_those_who_bring_the_data_and_one_for_all_others() -> None:
    for cell in cells():
        if cell.table.startswith("toolrerank-") and any(recipe.runnable for recipe in recipes_of(cell)):
            full, small = recipes_of(cell)
            assert full.on == ("toolbench-full",)
            assert full.rival is None
            assert small.on == (("toolbench",) if cell.row == "BM25" else ("toolbench(split=held-out)",))


def test_an_agent_s_pass_rate_is_a_direction_of_choices_and_its_win_rate_is_never_measured() -> None:
    for cell in table_cells("toolrerank-4"):
        paper, *choices = recipes_of(cell, {"agent": "mine"})
        assert not paper.runnable
        assert recipes_of(cell) == [paper]
        if cell.metric == "win_rate":
            assert choices == []
            continue
        assert [recipe.on for recipe in choices] == [("toolbench-full",), ("toolbench(split=held-out)",)]
        for recipe in choices:
            assert recipe.measure == {"pass_rate": "set_pass"}
            for text in (recipe.method, recipe.rival):
                spec = parse(resolve_references(str(text)))
                assert (spec.name, dict(spec.arguments)["llm"]) == ("choose", "mine")
            # The two rows are shown in the same form, and differ in the base alone.
            assert recipe.opponent(cell).row == recipe.against != cell.row
    small = next(cell for cell in table_cells("toolrerank-4") if cell.row == "Rerank-10")
    _, _, direction = recipes_of(small, {"agent": "mine"})
    assert "$toolbench-small-reranker" in direction.method
    assert direction.rival == "choose(base=dense(encoder=$toolbench-small-retriever), llm=mine)"


@pytest.mark.parametrize("spec", ["toolbench", "toolbench(split=held-out)"])
def test_the_slices_that_recipes_ask_of_toolbench_have_queries(mirror: Path, spec: str) -> None:
    queries = [query for query in loaded(spec).queries if query.split == "test"]
    asked = {tuple(recipe.slices.items()) for _, recipe in filled() if recipe.on == (spec,)}
    assert len(asked) > 5
    for slices in asked:
        assert sum(dict(slices).items() <= query.slices.items() for query in queries) >= 36, slices


def test_the_notes_on_the_held_out_sets_are_counts(mirror: Path) -> None:
    notes = {recipe.slices["set"]: recipe.note for _, recipe in filled() if recipe.note.startswith("Of these")}
    assert len(notes) == 5
    for name, note in notes.items():
        tested = [
            q for q in loaded("toolbench(split=held-out)").queries if q.split == "test" and q.slices["set"] == name
        ]
        counts = Counter(query.slices["parent"] for query in tested)
        assert [int(word) for word in re.findall(r"\d+", note.replace("none of", "0 of"))] == [
            number
            for number in (counts["seen"], len(tested), counts["mixed"] if "some" in note else None)
            if number is not None
        ]


def test_the_places_of_a_file_fill_recipes_that_list_none(tmp_path: Path) -> None:
    path = tmp_path / "recipes.toml"
    path.write_text(
        '[words]\nkind = "any"\n[places]\n"API-Bank" = { kind = "small" }\n"Nowhere" = {}\n'
        '[[recipe]]\ntable = "tgr-2"\nrows = ["PMLM-L3-v2"]\nmethod = "bm25"\non = ["a"]\n'
        'slices = { kind = "{kind}" }\n'
        '[[recipe]]\ntable = "tgr-2"\nrows = ["PMLM-L3-v2"]\nplaces = ["API-Bank"]\nmethod = "x"\non = ["a"]\n'
        'slices = { kind = "{kind}" }\n'
    )
    first, second = read_recipes(path)
    # Only those that the table prints.
    assert set(first.places) == {"API-Bank"}
    assert first.fill(CELL).slices == {"kind": "small"}
    assert second.fill(CELL).slices == {"kind": "any"}


def test_every_fact_that_a_recipe_reads_is_one_that_its_method_states(runs: Callable[..., MethodRuns]) -> None:
    requests = {
        (parse(resolve_references(recipe.method)).name, recipe.measure.get(cell.metric, cell.metric))
        for cell, recipe in filled()
        if recipe.runnable
    }
    facts = {(method, name) for method, name in requests if is_fact(name)}
    assert {method for method, _ in facts} == {"tgr"}
    result = runs().result(Plan(parse("tiny"), parse("tgr(base=bm25, graph=rules)")))
    for _, name in facts:
        assert fact(result, name) >= 0


def test_a_claim_of_our_own_is_marked_as_ours() -> None:
    by_id = {claim.id: claim for claim in claims()}
    paper, ours = by_id["vectors-beat-words"], by_id["ours-vectors-beat-tokenised-words"]
    assert [test.worse for test in paper.tests] == ["bm25-okapi"]
    assert [test.worse for test in ours.tests] == ["bm25"]
    assert ours.claim.startswith("Ours:")
    assert "no claim of the paper" in ours.where
    assert ours.printed == ()
    assert all("ndcg@10" in test.metrics for claim in (paper, ours) for test in claim.tests)


def test_a_claim_of_several_rivals_is_tested_against_each() -> None:
    by_id = {claim.id: {test.worse.rpartition("depth=")[2] for test in claim.tests} for claim in claims()}
    assert {"30)", "50)"} <= by_id["more-candidates-hurt-the-seen"]
    against = {claim.id: {test.worse for test in claim.tests} for claim in claims()}
    assert "dense" in against["sft-best-in-domain"]
    retrievers = {parse(resolve_references(text)).arguments for text in against["ptr-beats-its-bundle"]}
    assert {str(dict(arguments)["retriever"]) for arguments in retrievers} == {"bm25-okapi", "dense", "random"}


def test_rules_for_a_language_model_are_named() -> None:
    for claim in claims():
        for test in claim.tests:
            rules = "llm=rules" in test.better + test.worse
            assert rules == ("rules for a language model" in test.differences)
            if rules:
                assert "Rules replace" in claim.note


def test_what_needs_a_model_data_or_an_endpoint_says_which() -> None:
    """By a command that makes or adds it, else in words."""
    for _, recipe in filled():
        texts = " ".join(specs_of(recipe))
        if re.search(r"encoder=(?!\$)", texts):
            assert recipe.needs, recipe.method
        if "$" in texts and not recipe.needs:
            assert commands_for(specs_of(recipe), recipe, [])[-1].startswith("bench reproduce train "), recipe.method
        if "toolbench-full" in recipe.on:
            assert commands_for(specs_of(recipe), recipe, [])[0] == "bench data add toolbench-full --from FOLDER"


def test_query_generation_judges_each_domain_against_its_own_column() -> None:
    seen = [(cell, recipe) for cell, recipe in filled() if cell.table.startswith("query-generation")]
    assert {cell.split for cell, _ in seen} == {"in-domain", "out-of-domain"}
    for cell, recipe in seen:
        assert recipe.slices == {"domain": cell.split.partition("-")[0]}, recipe.method


def test_query_generation_in_other_words_than_the_papers_says_so() -> None:
    for _, recipe in filled():
        # The models that are trained on ToolBench are trained with the paper's prompt.
        if recipe.method.startswith("query-generation("):
            papers = "prompt=paper" in recipe.method or "$toolbench-" in recipe.method
            assert ("other prompt" in recipe.differences) is not papers, recipe.method
    for name, made in artefacts().items():
        if name.startswith("toolbench-") and made.kind == "generator":
            assert str(made.settings["prompt"]).startswith("paper")


def test_claims_have_ids_of_their_own_and_something_to_go_by() -> None:
    assert len({claim.id for claim in claims()}) == len(claims())
    for claim in claims():
        assert claim.paper in papers()
        assert claim.tests or claim.needs
        check_printed(claim.printed)


def test_the_printed_cells_of_some_claims_by_hand() -> None:
    by_id = {claim.id: check_printed(claim.printed) for claim in claims()}
    # Table 2 of PTR, models open-mistral-7b and GPT-4o: 11 pairs of rows, 9 columns; five cells go the other way.
    bundles = by_id["ptr-beats-its-bundle"]
    assert bundles is not None
    assert (bundles.agree, bundles.cells) == (94, 99)
    assert "ptr-2, BM25, PTR+open-mistral-7b, RecTools, tracc 0.355, and BM25, bundle alone 0.382" in bundles.against
    # Zero-shot loses 9 of 10 cells to the utterance, SFT 3, alignment none.
    generated = by_id["generated-queries-beat-the-utterance"]
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
    one = recipe.fill(CELL)
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
    assert recipe.fill(CELL).method == "dense(encoder=minilm, x=minilm)"
    with pytest.raises(DataError, match="no word for 'more'"):
        recipe.fill(replace(CELL, dataset="ToolBench-I1"))


def test_an_opponent_may_stand_in_another_table() -> None:
    more = {"method": "dense", "rival": "bm25", "on": ["a"], "rows": ["PMLM-L3-v2"], "table": "tgr-2"}
    recipe = Recipe.model_validate({**more, "against": "BM25"})
    assert recipe.opponent(CELL).printed == "0.391"
    other = Recipe.model_validate({**more, "against": "tgr-5: PMLM-L3-v2+TGR-m"})
    assert other.opponent(CELL).printed == "0.745"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[[recipe]]\ntable = "tgr-2"\nrows = ["BM25"]\non = ["a"]\nmethod = "x"\nagainst = "y"\n', "go together"),
        ('[[recipe]]\ntable = "tgr-2"\nrows = ["BM25"]\non = []\nmethod = "x"\n', "at least 1 item"),
        ('[[recipe]]\ntable = "tgr-2"\nrows = ["BM25"]\non = ["a"]\nmethod = "x"\nrunnable = false\n', "is lacking"),
        (
            '[[recipe]]\ntable = "tgr-2"\nrows = ["BM25"]\non = ["a"]\nmethod = "x"\ncommands = ["y"]\n',
            "commands are for",
        ),
        (
            '[[recipe]]\ntable = "tgr-2"\nrows = ["BM25"]\non = ["a"]\nmethod = "x"\ndifferences = ["taste"]\n',
            r"recipe\.0\.differences\.0: Input should be 'other query view', 'other queries'",
        ),
        ("[[recipe]\n", "cannot read the recipes"),
    ],
)
def test_a_damaged_recipe_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "a.toml"
    path.write_text(text)
    with pytest.raises(DataError, match=sentence):
        read_recipes(path)


def test_an_unknown_artefact_is_named_with_the_nearest() -> None:
    from bench.lab.reproduce.artefacts import names_in

    with pytest.raises(UsageError, match="did you mean 'unseen-reranker'"):
        names_in("rerank(reranker=$unseen-rerankr)")
