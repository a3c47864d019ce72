"""Finding stored results: by folder, by id, by `method@dataset`; which of several is meant, and what tells them
apart."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bench.base.errors import ResultError, UsageError
from bench.data.dataset import Dataset
from bench.evaluation.external import score_run_file
from bench.lookup.finding import find_result, latest, settings
from bench.results.manifest import Manifest
from bench.results.store import StoredResult, find_results, write_result

Run = Callable[..., StoredResult]


def copy(result: StoredResult, identifier: str, created: str, **method: str) -> StoredResult:
    """The same answer from another version of the method's code."""
    manifest: Manifest = result.manifest.model_copy(
        update={
            "result_id": identifier,
            "environment": result.manifest.environment.model_copy(update={"created": created}),
            "method": result.manifest.method.model_copy(update=method),
        }
    )
    folder = result.folder.with_name(f"bm25-{identifier}")
    metrics = result.metrics.model_copy(update={"result_id": identifier})
    return write_result(folder, manifest, metrics, result.run, result.per_query)


def test_a_result_is_found_by_folder_id_beginning_and_name(run: Run) -> None:
    result = run("bm25(k1=2)")
    run("tfidf")
    results, identifier = result.folder.parent.parent, result.manifest.result_id
    names = [str(result.folder), identifier, identifier[:4], "bm25(k1=2.0)@tiny", "bm25(k1=2.0) @ tiny"]
    for name in names:
        assert find_result(results, name).folder == result.folder
    for name in ("bm25@tiny", "zzzz"):
        with pytest.raises(UsageError, match="there is no result "):
            find_result(results, name)


def test_a_name_finds_no_result_on_another_dataset(run: Run) -> None:
    for plan in ({}, {"cut": "size"}):
        results = run("bm25(k1=2)", **plan).folder.parent.parent
        with pytest.raises(UsageError, match=r"there is no result 'bm25\(k1=2.0\)@other'"):
            find_result(results, "bm25(k1=2.0)@other")


def test_a_version_with_another_parameter_left_at_its_default_is_an_older_answer(run: Run) -> None:
    result = run("bm25")
    results = result.folder.parent.parent
    copy(result, "0" * 12, "2000-01-01T00:00:00+00:00", full_spec="bm25(b=0.75, k1=1.2)")
    assert find_result(results, "bm25@tiny").folder == result.folder
    stored = [item for item in find_results(results) if isinstance(item, StoredResult)]
    assert [item.folder for item in latest(stored)] == [result.folder]


def test_a_name_too_short_for_an_id_is_told(run: Run) -> None:
    result = run("bm25")
    for name in (result.manifest.result_id[:3], "z"):
        with pytest.raises(UsageError) as caught:
            find_result(result.folder.parent.parent, name)
        assert (
            str(caught.value)
            == f"{name!r} is too short for a result id: give at least 4 characters of it, or METHOD@DATASET."
        )


def test_a_folder_that_is_no_result_is_told(run: Run, tmp_path: Path) -> None:
    run("bm25")
    with pytest.raises(ResultError, match=r"is not a bench result: it has no manifest\.json"):
        find_result(tmp_path / "results", str(tmp_path / "results" / "tiny"))


def test_an_id_is_the_manifest_s_whatever_the_folder_is_called(run: Run) -> None:
    result = run("bm25")
    moved = result.folder.with_name("mine@home")
    result.folder.rename(moved)
    results = moved.parent.parent
    assert find_result(results, result.manifest.result_id).folder == moved
    assert find_result(results, str(moved)).folder == moved
    with pytest.raises(UsageError, match="there is no result 'home'"):
        find_result(results, "home")


def test_a_name_of_several_questions_is_ambiguous(run: Run) -> None:
    one, other = run("bm25", limit=5), run("bm25", split="dev", depth=6, template="description")
    with pytest.raises(UsageError) as caught:
        find_result(one.folder.parent.parent, "bm25@tiny")
    told = str(caught.value)
    assert told.startswith("'bm25@tiny' matches several results: ")
    assert told.endswith(". Name one by its id.")
    assert f"{one.manifest.result_id} (no cut, limit 5, text name_description)" in told
    assert f"{other.manifest.result_id} (no cut, split dev, depth 6, text description)" in told
    with_cut = run("bm25", limit=5, cut="size")
    with pytest.raises(UsageError) as caught:
        find_result(one.folder.parent.parent, "bm25 @ tiny")
    # The cut is part of the name, and this is not the one named.
    assert with_cut.manifest.result_id not in str(caught.value)
    copy(with_cut, f"{one.manifest.result_id[:4]}{'0' * 8}", "2020-01-01T00:00:00+00:00")
    with pytest.raises(UsageError) as caught:
        find_result(one.folder.parent.parent, one.manifest.result_id[:4])
    assert f"{one.manifest.result_id} (no cut, limit 5, text name_description)" in str(caught.value)
    assert f"({with_cut.manifest.method.cut}, limit 5, text name_description)" in str(caught.value)


def test_the_name_without_a_cut_means_the_result_without_one_if_there_is_any(run: Run) -> None:
    cut = run("bm25", cut="size")
    results = cut.folder.parent.parent
    assert find_result(results, "bm25@tiny").folder == cut.folder
    plain = run("bm25")
    assert find_result(results, "bm25@tiny").folder == plain.folder
    assert find_result(results, cut.label).folder == cut.folder
    assert find_result(results, "bm25 + cut=size(2)@tiny").folder == cut.folder


def test_of_several_versions_of_the_code_the_latest_answer_is_found(run: Run) -> None:
    now = run("bm25")
    old = copy(now, "0" * 12, "2020-01-01T00:00:00+00:00", code="older", hash="older")
    results = now.folder.parent.parent
    assert find_result(results, "bm25@tiny").folder == now.folder
    assert find_result(results, "0000").folder == old.folder
    assert latest([now, old]) == latest([old, now]) == [now]
    # Another parameter is another question.
    other = run("bm25(k1=2)")
    assert {item.folder for item in latest([now, old, other])} == {now.folder, other.folder}


def test_a_broken_result_is_reported_beside_the_good_ones(run: Run) -> None:
    good, broken = run("bm25"), run("tfidf")
    (broken.folder / "metrics.json").write_text("{")
    results = list(find_results(good.folder.parent.parent))
    assert [item.folder for item in results if isinstance(item, StoredResult)] == [good.folder]
    (error,) = [item for item in results if isinstance(item, ResultError)]
    assert "metrics.json" in str(error)
    assert find_result(good.folder.parent.parent, "bm25@tiny").folder == good.folder


def test_a_broken_result_that_is_asked_for_by_its_id_is_told_to_be_broken(run: Run) -> None:
    broken = run("tfidf")
    (broken.folder / "metrics.json").write_text("{")
    for name in (str(broken.folder), broken.manifest.result_id):
        with pytest.raises(ResultError, match="is not JSON"):
            find_result(broken.folder.parent.parent, name)


@pytest.mark.parametrize(
    ("plan", "words"),
    [
        ({}, "text name_description"),
        ({"limit": 22}, "text name_description"),
        ({"limit": 3, "depth": 7}, "limit 3, depth 7, text name_description"),
        ({"split": "all", "template": "toolbench"}, "split all, text toolbench"),
        ({"cut": "size", "split": "dev"}, "split dev, text name_description"),
    ],
)
def test_what_sets_a_result_apart_is_said_in_words(run: Run, plan: dict[str, object], words: str) -> None:
    manifest = run("bm25", **plan).manifest
    assert settings(manifest) == words
    # A text that goes without saying is not said.
    usual = manifest.dataset.template
    assert settings(manifest, usual) == words.replace(f"text {usual}", "").rstrip(", ")
    assert settings(manifest, "documentation") == words


def test_a_run_file_is_said_to_be_one(tiny: Dataset, tmp_path: Path) -> None:
    # Its depth is the system's own.
    result = score_run_file(b"q00 Q0 t00 1 2 x\n", "my.run", tiny, tmp_path, name="mine", command="bench score my.run")
    assert settings(result.manifest) == "text name_description, run file"
