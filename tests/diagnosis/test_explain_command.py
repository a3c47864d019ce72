"""`bench explain`: what a person sees, what a machine reads, what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.lookup.finding import find_result

Bench = Callable[..., Any]


@pytest.fixture
def results(lexical: Path) -> list[str]:
    """Ids of runs of bm25 and tfidf on starter."""
    return [find_result(lexical, f"{method}@starter").manifest.result_id for method in ("bm25", "tfidf")]


def test_a_query_is_shown_with_its_gold_and_what_stood_above_it(bench: Bench, results: list[str]) -> None:
    said = bench("explain", "bm25@starter", "0372").out
    lines = said.splitlines()
    assert lines[0] == "bm25 @ starter, query 0372"
    assert lines[1].startswith("See which of my tests at the lab are ready by now")
    assert lines[3] == "5 gold tools; parent mixed; prerequisite unnamed; tool mixed"
    assert re.search(r"^ pingferry.number_check +3 +4\.434 +it shares 'number' 1\.766", said, re.M)
    assert re.search(r"^ rolobox.find_contact +\(108\) +- +it shares 'the' ", said, re.M)
    assert re.search(r"^ +3 +\* +pingferry.number_check +4\.434 +number 1\.766 · text 1\.136", said, re.M)
    assert re.search(r"^ +1 +quillpost.inbox_digest +5\.361 +my 4\.599 · of 0\.540 · and 0\.222", said, re.M)
    assert "in brackets: the rank in the whole library" in said
    assert "In no tool's text: 1182, born, " in said
    assert max(map(len, lines)) <= 100
    assert bench("explain", results[0], "0372").out == said


def test_json_has_the_parts_and_everything_above_each_gold_tool(bench: Bench, results: list[str]) -> None:
    said = bench("explain", results[0], "0372", "--json").json
    assert (said["result_id"], said["query_id"], said["missing"]) == (results[0], "0372", None)
    gold = {item["tool_id"]: item for item in said["gold"]}
    assert len(gold) == 5
    assert len(gold["pingferry.number_check"]["above"]) == gold["pingferry.number_check"]["rank"] - 1 == 2
    assert gold["rolobox.find_contact"]["rank"] is None
    assert len(gold["rolobox.find_contact"]["above"]) == 100
    assert gold["rolobox.find_contact"]["rank_of_library"] == 108
    shown = {item["tool_id"]: item["score"] for item in said["shown"] if item["rank"] is not None}
    for tool in said["why"]["tools"]:
        if tool["tool_id"] in shown:
            total = sum(part["value"] for part in tool["parts"])
            assert total == pytest.approx(shown[tool["tool_id"]], abs=1e-5)
    assert said["metrics"]["recall@5"] == pytest.approx(0.2)


def test_two_results_stand_side_by_side(bench: Bench, results: list[str]) -> None:
    said = bench("explain", "bm25@starter", "0372", "--against", "tfidf@starter")
    assert said.out.startswith("bm25 @ starter against tfidf @ starter, query 0372\n")
    assert re.search(r"^ rank +bm25 +score +tfidf +score", said.out, re.M)
    assert re.search(r"^ +1 +quillpost.inbox_digest \(\d+\) +5\.361 ", said.out, re.M)
    assert re.search(r"^ pingferry.number_check +bm25 +3 +4\.434 ", said.out, re.M)
    assert re.search(r"^ {20,}tfidf +\d+ +0\.\d{3} +it shares", said.out, re.M)
    assert max(map(len, said.out.splitlines())) <= 100
    # A method's name alone is taken on the same data.
    assert bench("explain", "bm25@starter", "0372", "--against", "tfidf").out == said.out
    both = bench("explain", "bm25@starter", "0372", "--against", results[1], "--json").json
    assert [item["result_id"] for item in both["results"]] == results


def test_a_result_on_other_data_is_refused(bench: Bench, results: list[str], folder: Path) -> None:
    bench("data", "add", "mine", "--from", folder)
    bench("run", "-m", "bm25", "-d", "mine")
    said = bench("explain", "bm25@starter", "0372", "--against", "bm25@mine", code=6)
    assert "cannot be compared: the dataset differs: starter for bm25 @ starter, mine for bm25 @ mine" in said.err


@pytest.mark.parametrize(
    ("query", "message"),
    [("nowhere", "has no query 'nowhere'"), ("0", "queries of bm25 @ starter begin with '0'")],
)
def test_a_query_that_is_not_there_is_an_error_that_names_others(
    bench: Bench, results: list[str], query: str, message: str
) -> None:
    said = bench("explain", results[0], query, code=2)
    assert message in said.err
    assert "0001" in said.err


def test_a_run_file_is_shown_by_ranks_and_scores(bench: Bench, folder: Path, tmp_path: Path) -> None:
    bench("data", "add", "mine", "--from", folder)
    file = tmp_path / "theirs.jsonl"
    file.write_text(json.dumps({"query_id": "q1", "tools": ["post.send", "crm.find"]}) + "\n")
    said = bench("explain", f"{file}@mine", "q1").out
    assert re.search(r"^ +2 +\* +crm.find", said, re.M)
    assert "A run file has only ranks and scores" in said
    failed = bench("explain", f"{file}@mine", "q3").out
    assert "The method failed on this query or returned nothing: there is nothing to explain." in failed


def test_texts_from_outside_never_reach_the_terminal_as_commands(bench: Bench, folder: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J [bold red]red[/] \u202eright-to-left \x9b31m"
    for name in ("corpus", "queries"):
        path = folder / f"{name}.jsonl"
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        for row in rows:
            row["text"] += f" bakery {evil}"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    bench("data", "add", "evil", "--from", folder)
    bench("run", "-m", "bm25(tokens=whitespace)", "-m", "nearest-query(neighbours=1)", "-m", "dense", "-d", "evil")
    for method in ("bm25(tokens=whitespace)", "nearest-query(neighbours=1)", "dense"):
        said = bench("explain", f"{method}@evil", "q1").out
        assert not {sign for sign in said if not sign.isprintable() and sign != "\n"}
        assert "[bold red]red[/]" in said


def test_a_query_without_gold_has_none_to_explain(bench: Bench, folder: Path) -> None:
    bench("data", "add", "mine", "--from", folder)
    bench("run", "-m", "bm25", "-d", "mine")
    assert "The query has no gold tools; the correct answer is empty." in bench("explain", "bm25@mine", "q4").out


# Plug-ins -------------------------------------------------------------------------------------------------------------

#: One file: the method, built on another, and its explanation.
SHORTER = '''
from bench.interface import Contribution, Explanation, Method, Ranking, Reason
from bench.base.parameters import MethodSpec, ParameterSet
from bench.base.spec import Spec


class Shorter(Method):
    """Scores a tool by its base, less a little for each character of its text."""

    class Parameters(ParameterSet):
        base: MethodSpec = Spec("bm25")

    def __init__(self, parameters, context):
        super().__init__(parameters, context)
        self.base = context.build(parameters.base)

    def index(self, library):
        self.base.index(library)
        self.costs = [len(text) / 1000 for text in library.texts]

    def score(self, queries):
        return self.base.score(queries) - self.costs

    def rank(self, queries, depth):
        from bench.search.topk import top_k

        return top_k(self.score(queries), depth)

    def explain(self, case):
        scores = self.base.score(case.query)[0]
        reasons = {}
        for tool in case.tools:
            parts = (Contribution("base", float(scores[tool])), Contribution("length", -self.costs[tool]))
            because = "its text is too long" if tool in case.gold else ""
            score = sum(part.value for part in parts)
            reasons[tool] = Reason(score, parts, (len(case.library.texts[tool]),), because=because)
        return Explanation("base and length", ("characters",), reasons, bases=(case.answer(self.base),))
'''


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str, str], None]:
    """Write a module into a folder that commands find plug-ins in."""
    home = tmp_path / "plugins"
    home.mkdir()
    monkeypatch.chdir(home)
    monkeypatch.syspath_prepend(str(home))

    def plugin(module: str, text: str) -> None:
        (home / f"{module}.py").write_text(text)

    return plugin


def test_a_plug_in_explains_itself_and_what_it_is_built_on(
    bench: Bench, folder: Path, plugin: Callable[[str, str], None]
) -> None:
    plugin("shorter_plugin", SHORTER)
    bench("data", "add", "mine", "--from", folder)
    bench("run", "-m", "shorter_plugin:Shorter", "-d", "mine")
    said = bench("explain", "shorter_plugin:Shorter@mine", "q1")
    assert re.search(r"characters\s+base and length", said.out)
    assert re.search(r"crm.find +-0\.052 +52 +base 0\.000 · length -0\.052", said.out)
    assert "its text is too long" in said.out
    assert "bm25 alone" in said.out
    assert "words shared with the query, and what each adds" in said.out
    why = bench("explain", "shorter_plugin:Shorter@mine", "q1", "--json").json["why"]
    assert [base["method"] for base in why["bases"]] == ["bm25"]
    assert len(why["tools"]) == 3
    for tool in why["tools"]:
        assert [part["name"] for part in tool["parts"]] == ["base", "length"]
        assert sum(part["value"] for part in tool["parts"]) == pytest.approx(tool["score"], abs=1e-5)
        assert tool["parts"][1]["value"] == pytest.approx(-tool["columns"]["characters"] / 1000)


@pytest.mark.parametrize(
    ("explanation", "fault"),
    [
        ("'because'", "is a str and not an Explanation"),
        ("Explanation(reasons={0: Reason()})", "does not have one reason for each tool"),
        (
            "Explanation(columns=('a',), reasons={t: Reason() for t in case.tools})",
            "does not have one value for each column",
        ),
        ("Explanation(order=case.tools[1:])", "does not order all tools"),
        ("Explanation(order=case.tools[::-1])", "does not add up to its scores"),
        ("Explanation(reasons={t: Reason(float(t) + 9) for t in case.tools})", "does not add up to its scores"),
    ],
)
def test_an_explanation_that_cannot_be_used_leaves_ranks_and_scores(
    bench: Bench, folder: Path, plugin: Callable[[str, str], None], explanation: str, fault: str
) -> None:
    name = f"faulty_{abs(hash(explanation))}"
    text = SHORTER[: SHORTER.index("    def explain")] + f"    def explain(self, case):\n        return {explanation}\n"
    plugin(name, text)
    bench("data", "add", "mine", "--from", folder)
    bench("run", "-m", f"{name}:Shorter", "-d", "mine")
    said = " ".join(bench("explain", f"{name}:Shorter@mine", "q1").out.split())
    assert f":Shorter {fault}: ranks and scores only." in said
    assert "crm.find" in said


def test_an_explanation_that_fails_leaves_the_stored_numbers(
    bench: Bench, folder: Path, plugin: Callable[[str, str], None]
) -> None:
    text = SHORTER[: SHORTER.index("    def explain")] + "    def explain(self, case):\n        return case.nothing\n"
    plugin("failing_plugin", text)
    bench("data", "add", "mine", "--from", folder)
    bench("run", "-m", "failing_plugin:Shorter", "-d", "mine")
    said = " ".join(bench("explain", "failing_plugin:Shorter@mine", "q1").out.split())
    assert "Only the stored numbers can be shown" in said
    assert "AttributeError" in said
