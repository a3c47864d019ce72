"""A project's own search function as a method: `module:function`."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

import bench
from bench.base.errors import BenchError, MethodError, UnresolvedError, UsageError
from bench.base.spec import Spec
from bench.evaluation.plan import Plan
from bench.evaluation.runner import Runner
from bench.interface.marks import ALL_ALIKE, FLAKY, OWN_CATALOGUE
from bench.registry import build_method, load_dataset
from bench.results.code_versions import method_code
from bench.results.store import RUN, StoredResult

SEARCH = """
from functools import partial
from bench.registry import load_dataset

WORDS = {tool.tool_id: set(f"{tool.name} {tool.description}".lower().split()) for tool in load_dataset("starter").tools}

def ranked(query, limit=20):
    '''Ranks tools by shared words.'''
    words = set(query.lower().split())
    return sorted(WORDS, key=lambda tool: (-len(words & WORDS[tool]), tool))[:limit]

def with_scores(query, limit):
    words = set(query.lower().split())
    return ((tool, float(len(words & WORDS[tool]))) for tool in ranked(query, limit))

def of_text(query):
    return ranked(query, 100)

class Index:
    def __call__(self, query, limit):
        return ranked(query, limit)

callable_object, part = Index(), partial(ranked, limit=100)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Writes `mysearch.py` into the working folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(text: str) -> None:
        sys.modules.pop("mysearch", None)
        (tmp_path / "mysearch.py").write_text(dedent(text))
        importlib.invalidate_caches()

    yield write
    sys.modules.pop("mysearch", None)


def run(results: Path, name: str, repeats: int = 1) -> StoredResult:
    runner = Runner(results, load=lambda spec: load_dataset(str(spec)), build=build_method)
    result = next(runner.run([Plan(Spec.of("starter"), Spec.of(name), limit=20, repeats=repeats)]))
    if not isinstance(result, StoredResult):
        raise result
    return result


def test_a_function_is_a_method(module: Callable[[str], None], tmp_path: Path) -> None:
    module(SEARCH)
    plain = run(tmp_path / "r", "mysearch:ranked")
    assert plain.metrics.metrics["recall@10"].mean > 0.2
    assert plain.manifest.method.spec == "mysearch:ranked"
    for name in ("of_text", "callable_object", "part"):
        assert (run(tmp_path / "r", f"mysearch:{name}").folder / RUN).read_bytes() == (plain.folder / RUN).read_bytes()
    scored = run(tmp_path / "r", "mysearch:with_scores")
    assert scored.run["tool_id"].to_pylist() == plain.run["tool_id"].to_pylist()
    assert scored.metrics.n_tied
    assert plain.metrics.n_tied is None


def test_its_code_is_its_own(module: Callable[[str], None]) -> None:
    def hashes() -> list[str]:
        return [method_code(build_method(f"mysearch:{name}")) for name in ("ranked", "with_scores")]

    module(SEARCH)
    before = hashes()
    # That of its module.
    assert len(set(before)) == 1
    module(SEARCH + "\n\n# a comment\n")
    assert hashes() == before
    module(SEARCH.replace("-len", "-2 * len"))
    assert not {*hashes()} & {*before}


def test_the_api_takes_the_function_itself(module: Callable[[str], None], tmp_path: Path) -> None:
    module(SEARCH)
    sys.path.insert(0, str(tmp_path))
    ranked = importlib.import_module("mysearch").ranked
    result = bench.run(ranked, "starter", limit=20, results=tmp_path / "r")
    assert str(result.method) == "mysearch:ranked"
    with pytest.raises(UsageError, match="inside a function"):
        bench.run(lambda query: [], "starter")


@pytest.mark.parametrize(
    ("body", "error", "sentence"),
    [
        ("return ['no.such.tool']", MethodError, "the tool 'no.such.tool', which is not in the library"),
        ("return ['crateful.get_catalogue'] * 2", MethodError, "twice"),
        ("return None", MethodError, "an answer without a list of tools"),
        ("return 'crateful.get_catalogue'", MethodError, "an answer without a list of tools"),
        ("return [object()]", MethodError, "a tool without an id ('object')"),
        ("return [('crateful.get_catalogue', float('nan'))]", MethodError, "a score that is not finite"),
        ("return 1 / 0", BenchError, "ZeroDivisionError"),
    ],
)
def test_an_answer_that_cannot_be_used_names_the_query(
    module: Callable[[str], None], tmp_path: Path, body: str, error: type[BenchError], sentence: str
) -> None:
    module(f"def search(query):\n    {body}\n")
    with pytest.raises(error) as caught:
        run(tmp_path / "r", "mysearch:search")
    assert sentence in str(caught.value)
    assert "mysearch:search" in str(caught.value)


def test_one_unknown_name_beside_known_ones_is_not_told_as_a_library_that_is_another(
    module: Callable[[str], None], tmp_path: Path
) -> None:
    module("def search(query):\n    return ['crateful.get_catalogue', 'crateful.get_katalogue']\n")
    with pytest.raises(MethodError, match=r"no tool 'crateful.get_katalogue' \(near: crateful.get_catalogue") as caught:
        run(tmp_path / "r", "mysearch:search")
    assert not isinstance(caught.value, UnresolvedError)


def test_what_a_run_says_of_a_service_it_says_of_a_function(module: Callable[[str], None], tmp_path: Path) -> None:
    module("def search(query):\n    return {'tools': ['crateful.get_catalogue'], 'next_cursor': 'p2'}\n")
    manifest = run(tmp_path / "r", "mysearch:search").manifest
    marks = {mark.text: mark.why for mark in manifest.marks}
    assert set(marks) == {OWN_CATALOGUE, ALL_ALIKE}
    assert marks[OWN_CATALOGUE].startswith("calls the function mysearch:search, which has its own catalogue: ")
    # Queries that are asked again for the latency are not counted.
    assert manifest.facts == {"fields_not_read": "next_cursor (in 20 answers)"}


def test_a_function_that_answers_at_random_is_told_and_can_be_repeated(
    module: Callable[[str], None], tmp_path: Path
) -> None:
    module(SEARCH + "\nimport random\n\ndef drawn(query):\n    return random.sample(sorted(WORDS), 9)\n")
    once, thrice = (run(tmp_path / "r", "mysearch:drawn", repeats).manifest for repeats in (1, 3))
    assert [mark.text for mark in once.marks] == [OWN_CATALOGUE, FLAKY]
    assert (thrice.repeats, [mark.text for mark in thrice.marks]) == (3, [OWN_CATALOGUE])


def test_what_cannot_be_called_with_a_text_is_no_search(module: Callable[[str], None]) -> None:
    module("def none():\n    return []\n\ndef many(a, b, c):\n    return []\n\nnumber = 3\n")
    for name in ("none", "many"):
        with pytest.raises(MethodError, match="must take the text of a query"):
            build_method(f"mysearch:{name}")
    with pytest.raises(MethodError, match="is not a method"):
        build_method("mysearch:number")
