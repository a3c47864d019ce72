"""A result that is there: kept if it is whole, scored again where its numbers are not those of today, rerun if it
is damaged."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import ClassVar, Protocol

import numpy as np
import pytest
from kit.results import scored_by

from bench.base.errors import MethodError
from bench.data.card import Unit
from bench.data.dataset import Dataset
from bench.evaluation.external import score_run_file
from bench.evaluation.rescore import rescore, stored_answers
from bench.evaluation.up_to_date import up_to_date
from bench.interface import Library, Method, Queries, Ranking, ToolSets
from bench.metrics import Metric, get_measure, parse_metrics
from bench.metrics.goldranks import GoldRanks
from bench.metrics.measure import Counts, RankingMeasure, Values
from bench.results.code_versions import interval_hash, measure_hash, scoring_code, token_hash
from bench.results.manifest import ScoringCode
from bench.results.store import StoredResult, to_json, write_result
from bench.search.topk import top_k

Run = Callable[..., StoredResult]
FILES = ("metrics.json", "run.parquet", "per_query.parquet")


class Notes(Protocol):
    """What a run told its user."""

    lines: list[str]


class Asked(Method):
    """Counts how often it is asked. Many ties, some beyond the depth; failed or silent where the text says so."""

    calls: ClassVar[int] = 0
    scored: ClassVar[bool] = True

    def index(self, library: Library) -> None:
        self._size = len(library)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        Asked.calls += 1
        numbers = [int(text.split()[1].rstrip(":")) for text in queries.texts]
        scores = np.array([[(number * code) % 5 for code in range(self._size)] for number in numbers], dtype=np.float64)
        scores[[number % 6 == 5 for number in numbers]] = -np.inf
        ranking = top_k(scores + 1e-9, depth)
        failed = np.array([number % 9 == 8 for number in numbers])
        return Ranking(ranking.tools, ranking.scores if self.scored else None, failed, ranking.tied_beyond)


class Unscored(Asked):
    """The same order without scores."""

    scored: ClassVar[bool] = False


class Mute(Asked):
    """Answers nothing, and has no scores."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return Ranking.empty(len(queries))


class Recommends(Asked):
    """Recommends sets of none, one, two, ... tools in turn."""

    def recommend(self, queries: Queries) -> ToolSets:
        return ToolSets.of([list(range(int(text.split()[1].rstrip(":")) % 4)) for text in queries.texts])


@pytest.fixture(autouse=True)
def _fresh() -> None:
    """Each test counts calls from zero."""
    Asked.calls = 0


def outdated(result: StoredResult) -> StoredResult:
    """As if the result had been scored by another version of the code, with other numbers."""
    metrics = result.metrics.model_copy(update={"n_failed": 99})
    manifest = result.manifest.model_copy(update={"scoring": ScoringCode(**scored_by("0" * 64, metrics.metrics))})
    return write_result(result.folder, manifest, metrics, result.run, result.per_query)


def tables(result: StoredResult) -> dict[str, bytes]:
    return {name: (result.folder / name).read_bytes() for name in FILES}


# Kept ---------------------------------------------------------------------------------------------------------------


def test_a_result_that_is_there_is_kept_and_its_age_is_told(run: Run, notes: Notes) -> None:
    first = run(Asked)
    stamps = {path: path.stat().st_mtime_ns for path in first.folder.iterdir()}
    calls = Asked.calls
    again = run(Asked, progress=notes)
    assert Asked.calls == calls
    assert again.manifest == first.manifest
    assert {path: path.stat().st_mtime_ns for path in first.folder.iterdir()} == stamps
    made = first.manifest.environment.created
    assert notes.lines == [f"asked @ tiny: kept from {made}; use --overwrite always to run it again"]


def test_a_faster_backend_is_offered_after_encoding_by_torch(
    own_cache: Path, run: Run, notes: Notes, tiny_models: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.models.compiled.offer_backend", lambda encoded: f"{encoded > 0}")
    spec = f"dense(encoder={tiny_models['encoder']})"
    run(spec, progress=notes)
    assert notes.lines == [f"{spec}: True"]
    run("bm25", progress=notes)
    assert len(notes.lines) == 1


def test_a_new_result_is_made_without_a_word(run: Run, notes: Notes) -> None:
    run(Asked, progress=notes)
    run(Asked, progress=notes, overwrite="always")
    assert notes.lines == []


def test_the_manifest_names_the_code_that_scored(run: Run) -> None:
    result = run("bm25")
    scoring = result.manifest.scoring
    assert isinstance(scoring, ScoringCode)
    names = {name.partition("@")[0] for name in result.metrics.metrics}
    assert scoring.measures == {name: measure_hash(get_measure(name)) for name in names}
    assert (scoring.intervals, scoring.tokens) == (interval_hash(), token_hash())


class Told(Asked):
    """Has it from a search, which answers with two words."""

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return replace(super().rank(queries, depth), replies=("two words",) * len(queries))


def test_the_tokens_of_replies_stay_as_long_as_the_code_that_counts_tokens_does(run: Run, tiny: Dataset) -> None:
    result = run(Told)
    assert result.metrics.tokens["answer"] == 2
    scoring = result.manifest.scoring
    assert isinstance(scoring, ScoringCode)
    older = {"scoring": scoring.model_copy(update={"intervals": "0" * 64})}
    again = write_result(
        result.folder, result.manifest.model_copy(update=older), result.metrics, result.run, result.per_query
    )
    assert run(Told).metrics == again.metrics
    assert "answer" not in rescore(outdated(result), tiny, []).metrics.tokens


# Scored again -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "plan"),
    [
        *((method, {}) for method in (Asked, Unscored, Recommends, "bm25", "oracle", "random")),
        *((method, {"depth": 5}) for method in (Asked, Unscored, Recommends)),
        *((method, {"limit": 7, "split": "all"}) for method in (Asked, Unscored, Recommends)),
        # What recommends sets has nothing to cut.
        *((method, {"cut": "size"}) for method in (Asked, Unscored, "random")),
    ],
)
def test_a_result_scored_again_is_that_of_a_fresh_run_byte_for_byte(
    run: Run, notes: Notes, method: str | type[Method], plan: dict[str, object]
) -> None:
    metrics = ["ndcg@4", "map@2"]
    old = outdated(run(method, **plan))
    again = run(method, metrics=metrics, progress=notes, **plan)
    assert notes.lines == [f"{old.label}: ranking kept from {old.manifest.environment.created}, re-scored"]
    assert again.manifest.scoring == scoring_code(again.metrics.metrics)
    assert set(metrics) <= set(again.metrics.metrics)
    stored = tables(again)
    assert stored == tables(run(method, metrics=metrics, overwrite="always", **plan))


def test_a_result_without_a_single_answer_is_scored_again_as_in_a_fresh_run(run: Run) -> None:
    outdated(run(Mute))
    again = run(Mute)
    stored = tables(again)
    # An order without scores has no ties, also where nothing is in it.
    assert again.metrics.n_tied is None
    assert stored == tables(run(Mute, overwrite="always"))


def test_a_metric_that_is_missing_is_added_without_asking(run: Run) -> None:
    first = run(Asked)
    calls = Asked.calls
    again = run(Asked, metrics=["ndcg@7", "recall@5"])
    assert Asked.calls == calls
    assert set(again.metrics.metrics) == {*first.metrics.metrics, "ndcg@7"}
    for name, value in first.metrics.metrics.items():
        assert again.metrics.metrics[name] == value
    assert again.run.equals(first.run)
    # Only the sha256 of the files changed, and with them the digest of the manifest.
    assert again.manifest == first.manifest.model_copy(update={"files": again.manifest.files}).sealed()
    assert StoredResult.read(again.folder).manifest == again.manifest
    # It is there now.
    assert run(Asked, metrics=["ndcg@7"]).manifest == again.manifest
    assert run(Asked).manifest == again.manifest


def test_other_code_that_scores_is_reason_to_score_again(run: Run) -> None:
    first = run(Asked)
    old = outdated(first)
    assert StoredResult.read(first.folder).metrics.n_failed == 99
    calls = Asked.calls
    again = run(Asked)
    assert Asked.calls == calls
    assert again.metrics == first.metrics
    assert again.manifest == first.manifest
    assert old.manifest.scoring != again.manifest.scoring


def test_a_result_is_up_to_date_if_it_has_the_metrics_by_the_code_of_today(run: Run, tiny: Dataset) -> None:
    result = run("bm25", metrics=["ndcg@7"])
    assert up_to_date(result, tiny)
    assert up_to_date(result, tiny, parse_metrics(["ndcg@7", "recall@5"]))
    assert not up_to_date(result, tiny, parse_metrics(["ndcg@7", "ndcg@8"]))
    assert not up_to_date(outdated(result), tiny)


def test_a_result_is_not_up_to_date_under_another_protocol_or_in_other_units(run: Run, tiny: Dataset) -> None:
    result = run("bm25")
    older = replace(result, manifest=result.manifest.model_copy(update={"protocol": "1.0"}))
    assert not up_to_date(older, tiny)
    card = tiny.card.model_copy(update={"unit": Unit(by=[], reason="all differ")})
    assert not up_to_date(result, replace(tiny, card=card))
    # Of the same rule, but other groups: these are no part of the content.
    grouped = [replace(query, group="all") for query in tiny.queries]
    unit = Unit(by=["gold", "group"], reason="one script")
    plain = replace(tiny, card=tiny.card.model_copy(update={"unit": unit}))
    scored = rescore(result, plain, ())
    assert up_to_date(scored, plain)
    assert not up_to_date(scored, replace(plain, queries=tuple(grouped)))


def test_a_metric_that_the_result_cannot_have_is_no_reason_to_score_again(run: Run, notes: Notes) -> None:
    # bm25 recommends no sets.
    first = run("bm25", metrics=["tracc", "set_f1"])
    stamp = (first.folder / "metrics.json").stat().st_mtime_ns
    run("bm25", metrics=["tracc", "set_f1"], progress=notes)
    assert (first.folder / "metrics.json").stat().st_mtime_ns == stamp
    assert "kept from" in notes.lines[0]


def test_what_was_answered_is_read_back_from_a_stored_result(run: Run, tiny: Dataset) -> None:
    result = run(Recommends, depth=5)
    rows, answers = stored_answers(StoredResult.read(result.folder), tiny)
    assert [tiny.queries[row].query_id for row in rows] == result.per_query["query_id"].to_pylist()
    assert answers.sets is not None
    assert answers.ranking.scores is not None
    for i, row in enumerate(rows):
        number = int(tiny.queries[row].query_id[1:])
        silent = number % 6 == 5 or number % 9 == 8
        codes = sorted(range(12), key=lambda code, number=number: (-((number * code) % 5), code))[:5]  # type: ignore[misc]
        assert answers.ranking.tools[i].tolist() == ([-1] * 5 if silent else codes)
        wanted = [] if number % 9 == 8 else list(range(number % 4))
        assert answers.sets.row(i).tolist() == wanted
    ties = dict(zip(rows.tolist(), answers.beyond.counts.tolist(), strict=True))
    # Request 0 gives all twelve tools the same score, of which five fit.
    assert ties[tiny.query_codes["q00"]] == 7


def test_a_scored_run_file_can_be_scored_again(tiny: Dataset, tmp_path: Path) -> None:
    lines = [{"query_id": f"q{i:02}", "tools": [f"t{(i + k) % 12:02}" for k in range(i % 4)]} for i in range(0, 22, 2)]
    data = "\n".join(map(json.dumps, lines)).encode()
    options = {"name": "mine", "command": "bench score my.run", "metrics": parse_metrics(["ndcg@7"])}
    fresh = score_run_file(data, "my.run", tiny, tmp_path, **options)  # type: ignore[arg-type]
    stored = tables(fresh)
    # Its ranking is at most three tools deep, but that is the system's answer and no cut: every metric is taken.
    assert {"recall@100", "ndcg@7"} <= set(fresh.metrics.metrics)
    again = rescore(outdated(fresh), tiny, parse_metrics(["ndcg@7"]))
    assert tables(again) == stored
    assert again.manifest == fresh.manifest


def test_a_scoring_that_fails_leaves_the_result_as_it_was(run: Run, tiny: Dataset) -> None:
    def broken(gold: GoldRanks, k: Counts) -> Values:
        raise ZeroDivisionError

    measure = RankingMeasure("broken", function=broken, definition="", edge_cases="", source="")
    result = run(Asked)
    stored = tables(result)
    with pytest.raises(MethodError, match=r"broken@3 failed: ZeroDivisionError"):
        rescore(result, tiny, [Metric(measure, 3)])
    assert tables(result) == stored
    assert [path.name for path in result.folder.parent.iterdir()] == [result.folder.name]


# Rerun ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*FILES, "manifest.json"])
@pytest.mark.parametrize("damage", ["cut", "empty", "removed"])
def test_a_damaged_result_is_made_anew(run: Run, notes: Notes, name: str, damage: str) -> None:
    first = run(Asked)
    stored = tables(first)
    calls = Asked.calls
    path = first.folder / name
    if damage == "removed":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-1] if damage == "cut" else b"")
    again = run(Asked, progress=notes)
    # The last brace of a manifest is cut with its line end alone.
    whole = name == "manifest.json" and damage == "cut"
    assert Asked.calls == (calls if whole else 2 * calls)
    assert tables(again) == stored
    StoredResult.read(first.folder).verify()
    if (name, damage) == ("manifest.json", "removed"):
        # Without a manifest nothing says that a result was there.
        assert notes.lines == []
    elif not whole:
        (line,) = notes.lines
        assert name in line
        assert line.endswith(" Running it again.")


def test_a_result_of_another_version_of_the_schema_is_made_anew(run: Run, notes: Notes) -> None:
    first = run(Asked)
    calls = Asked.calls
    path = first.folder / "manifest.json"
    # Written before results said which code scored them.
    older = json.loads(to_json(first.manifest))
    del older["scoring"]
    path.write_text(json.dumps(older), "utf-8")
    again = run(Asked, progress=notes)
    assert Asked.calls == 2 * calls
    assert again.manifest.scoring == scoring_code(again.metrics.metrics)
    assert notes.lines == [f"{path} does not follow its schema (scoring: Field required). Running it again."]
