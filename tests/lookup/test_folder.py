"""A folder of results as one command sees it: read once, and right while it changes."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from bench.base.errors import ResultError, UsageError
from bench.lookup.finding import find_result
from bench.lookup.folder import ResultsFolder, json_string
from bench.results.store import MANIFEST, StoredResult


def test_a_listed_folder_does_not_see_later_results_and_names_removed_ones(run: Callable[..., StoredResult]) -> None:
    result = run("bm25")
    stored = ResultsFolder(result.folder.parent.parent)
    assert list(stored.containing(json_string("bm25"))) == [result.folder]
    run("tfidf")
    with pytest.raises(UsageError, match="there is no result 'tfidf@tiny'"):
        find_result(stored, "tfidf@tiny")
    assert find_result(stored.path, "tfidf@tiny").label == "tfidf @ tiny"
    shutil.rmtree(result.folder)
    with pytest.raises(ResultError, match=result.folder.name):
        find_result(stored, "bm25@tiny")
    assert stored.read_all()[0] == []


def test_a_result_is_read_once(run: Callable[..., StoredResult]) -> None:
    result = run("bm25")
    stored = ResultsFolder(result.folder.parent.parent)
    names = "bm25@tiny", result.manifest.result_id, result.manifest.result_id[:4]
    first, *others = [find_result(stored, name) for name in names]
    assert all(item is first for item in others)


def test_strings_with_other_escapes_are_found(run: Callable[..., StoredResult]) -> None:
    result = run("bm25")
    path = result.folder / MANIFEST
    path.write_text(path.read_text("utf-8").replace('"tiny"', '"\\u0074iny"'), "utf-8")
    assert find_result(result.folder.parent.parent, "bm25@tiny").folder == result.folder
