"""The gate over time: each version of a baseline, and each result, with the verdict that `bench gate` gives."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kit.programs import git
from kit.results import edit, folder_of, older
from kit.sites import Built, written

from bench.base.paths import results_folder
from bench.gating.baseline import Baseline, read_baseline, write_baseline
from bench.leaderboard.boards import gates
from bench.leaderboard.pages import gates as gates_page
from bench.leaderboard.pages.registry import SiteData
from bench.leaderboard.pages.rendering import render
from bench.results.store import StoredResult

POLICY = '[[rule]]\nmetric = "ndcg@10"\nmargin = 0.02\n[[rule]]\nmetric = "recall@5"\nmargin = 0.02\n'


def histories(place: Path, results: Sequence[StoredResult]) -> list[Any]:
    """The history of every gate; a test knows which events have a result, and which a report."""
    return list(gates.gate_histories(*gates.read_gates(place), results))


@pytest.fixture
def blessed(bench: Callable[..., Any], ready: Path, tmp_path: Path) -> Callable[..., Baseline]:
    """Bless a result of this test into `baselines/search.json` as of a year, in the name of bm25, and commit it."""
    place = tmp_path / "baselines"
    place.mkdir()
    git(tmp_path, "init", "--quiet", "baselines")
    (place / "gate.toml").write_text(POLICY)

    def blessed(spec: str, year: int) -> Baseline:
        path = place / "search.json"
        result, of = folder_of(ready, spec), folder_of(ready, "bm25")
        bench(
            "bless",
            result,
            "--out",
            path,
            "--by",
            "a <b>person</b>",
            "--reason",
            f"it is {year}",
            "--metric",
            "map@100",
        )
        made = read_baseline(path)
        told = made.blessed.model_copy(update={"at": f"{year}-06-01T00:00:00+00:00"})
        made = made.model_copy(update={"blessed": told, "method": StoredResult.read(of).manifest.method}).sealed()
        write_baseline(path, made)
        git(place, "add", "--all")
        git(place, "commit", "--quiet", "--message", f"baseline of {year}")
        return made

    return blessed


@pytest.mark.usefixtures("quick")
def test_events_have_the_verdicts_of_bench_gate(
    bench: Callable[..., Any],
    blessed: Callable[..., Baseline],
    ready: Path,
    build: Callable[..., Built],
    tmp_path: Path,
) -> None:
    place = tmp_path / "baselines"
    # The oracle's numbers, then those of bm25 in its name: a regression that was blessed all the same.
    first, second = blessed("oracle", 2020), blessed("bm25", 2022)
    new = folder_of(ready, "bm25")
    numbers = {"a" * 12: ("random", 2019), "b" * 12: ("random", 2021), "c" * 12: ("bm25(k1=0.5)", 2021)}
    numbers["d" * 12] = ("random", 2023)
    for name, (spec, year) in numbers.items():
        older(folder_of(ready, spec), new, name, f"{year}-01-01T00:00:00+00:00")
    site = build(baselines=place)
    (gate,) = histories(place, [StoredResult.read(path) for path in ready.glob("*/*")])
    shown = [
        (
            event.at.year,
            event.version is not None,
            event.result.manifest.result_id if event.result else "",
            event.verdict,
        )
        for event in gate.events
    ]
    assert (gate.metric, gate.omitted, len(shown)) == ("ndcg@10", 0, 6)
    assert shown[0] == (2019, False, "a" * 12, "")
    assert shown[1][:2] == (2020, True)
    assert shown[1][3] == ""
    assert [item[2] for item in shown[2:4]] == ["b" * 12, "c" * 12]
    assert shown[4][:2] == (2022, True)
    assert shown[5] == (2023, False, "d" * 12, "regression")
    against = [event.against and event.against.sha256 for event in gate.events]
    assert against == [None, None, *3 * [first.sha256], second.sha256]
    # The same as the command says of the same two, rule for rule.
    files = {}
    for name, baseline in (("first", first), ("second", second)):
        files[baseline.sha256] = tmp_path / f"{name}.json"
        write_baseline(files[baseline.sha256], baseline)
    # What was blessed although it was worse is no longer what later results are compared with.
    assert {item[3] for item in shown[2:4]} == {"regression"}
    assert gate.since is gate.events[5]
    assert gates.BaselineHistory(gate.ledger, gate.metric, gate.events[:4], 0).since is gate.events[2]
    compared = 0
    for event in gate.events:
        if event.against is None:
            continue
        candidate = event.result.folder
        words = ("--baseline", files[event.against.sha256], "--policy", place / "gate.toml", "--json")
        said = bench("gate", candidate, *words, code=event.report.exit_code).json
        assert said["outcome"] == event.verdict
        assert said["rules"] == json.loads(event.report.model_dump_json())["rules"]
        compared += 1
    assert compared == 4
    page = site.page("gates.html")
    assert page.texts.count("regression") == sum(item[3] == "regression" for item in shown) + 1
    assert [text for text in page.texts if text.startswith("by a <b>person</b>: it is 20")]
    # Two baselines have rings; the command's commit is on the page.
    assert page.text.count('class="ring"') == 2
    assert git(place, "rev-parse", "HEAD")[:12] in page.texts
    assert {f"r/{name}.html" for name in numbers} <= set(page.links)
    home = site.page("index.html")
    assert "gates.html" in home.links
    assert ", latest verdict of each baseline: 1 regression." in home.texts


@pytest.mark.usefixtures("begun")
def test_the_same_baselines_give_the_same_bytes_and_without_them_the_page_goes(
    bench: Callable[..., Any], begun_site: Built, build: Callable[..., Built], tmp_path: Path
) -> None:
    bench(
        "bless", folder_of(results_folder(), "bm25"), "--out", tmp_path / "baselines" / "b.json", "--metric", "map@100"
    )
    (tmp_path / "baselines" / "gate.toml").write_text(POLICY)
    before = build(baselines=tmp_path / "baselines").bytes()
    assert "gates.html" in before
    again = build(baselines=tmp_path / "baselines")
    assert again.bytes() == before
    assert not again.made.files.written
    without = build()
    assert "gates.html" not in without.bytes()
    assert "gates.html" not in without.page("index.html").links
    assert without.bytes() == begun_site.bytes()


def test_what_cannot_be_judged_is_told_and_not_passed(
    blessed: Callable[..., Baseline], ready: Path, tmp_path: Path
) -> None:
    place = tmp_path / "baselines"
    blessed("bm25", 2020)
    new = folder_of(ready, "bm25")
    (place / "gate.toml").write_text(
        '[[rule]]\nmetric = "recall@5"\nmargin = 0.02\nslice = { name = "gold", value = "2" }\n'
    )
    # A slice needs the dataset; this one is on other data, and nothing is fetched for it.
    made = older(new, new, "e" * 12, "2030-01-01T00:00:00+00:00")
    edit(made, dataset__content_hash="f" * 64)
    assert older(new, new, "d" * 12, "2029-01-01T00:00:00+00:00")
    results = [StoredResult.read(path) for path in ready.glob("*/*")]
    (gate,) = histories(place, results)
    by_result_id = {event.result.manifest.result_id: event for event in gate.events[1:]}
    assert gate.metric == "recall@5"
    assert by_result_id["d" * 12].verdict == "pass"
    assert by_result_id["e" * 12].verdict == "not comparable"
    assert "content" in by_result_id["e" * 12].report.reasons[0]
    shown = {result.manifest.result_id for result in results}
    content = SiteData([], [], [], [], {}, [], {}, shown, {}, [], {}, [gate])
    values = gates_page.PAGE.values
    assert values is not None
    text = render("gates", "", "gates.html", **(values(content) or {}))
    page = written(tmp_path / "site", lambda writer: writer.put("gates.html", text))("gates.html")
    assert {"pass", "not comparable"} <= set(page.texts)


def test_a_catalogue_may_change_from_one_version_to_the_next(
    bench: Callable[..., Any], build: Callable[..., Built], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = {
        "first": "Tells whether it will rain tomorrow.",
        "second": "Finds the way.",
        "third": "Sends a letter by post.",
    }
    queries = [{"query": text.lower(), "tools": [name]} for name, text in texts.items()]
    Path("queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    Path("gate.toml").write_text('catalogue = "may change"\n[[rule]]\nmetric = "pass@1"\nmax_broken = 0\n')
    git(tmp_path, "init", "--quiet")

    def measured(*more: str, **edited: str) -> None:
        tools = [{"name": name, "description": text, "inputSchema": {}} for name, text in (texts | edited).items()]
        Path("tools.json").write_text(json.dumps({"tools": tools}))
        bench("data", "import", "mine", "tools.json", "--queries", "queries.jsonl", *more)
        bench("run", "-q", "-m", "bm25", "-d", "mine", "--metric", "pass@1")

    measured()
    bench("bless", "bm25@mine", "--out", "b.json", "--metric", "pass@1")
    git(tmp_path, "add", "b.json")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    measured("--replace", first="Does things.")
    said = bench("gate", "bm25@mine", "--baseline", "b.json", "--policy", "gate.toml", "--json", code=1).json
    bench("bless", "bm25@mine", "--out", "b.json", "--metric", "pass@1", "--reason", "shorter texts")
    site = build(baselines=Path("b.json"))
    (gate,) = histories(Path("b.json"), [])
    assert [event.verdict for event in gate.events] == ["", "regression"]
    report = json.loads(gate.last.report.model_dump_json())
    assert (report["rules"], report["catalogue"]) == (said["rules"], said["catalogue"])
    assert [bool(event.version.commit) for event in gate.events] == [True, False]
    page = site.page("gates.html")
    assert "pass@1: 1 broken" in page.texts
    # Which query broke, which tool lost it, and which edit of the catalogue came with it.
    assert "1 query newly failing" in page.texts
    (failing,) = [query["query_id"] for moved in said["moved"] for query in moved["failing"]]
    assert failing in page.texts
    assert any(text.startswith("1 tool edited, 0 added, 0 removed since mine (") for text in page.texts)
    edited = said["catalogue"]["edited"][0]["tool_id"]
    assert f"edited {edited}: description" in page.texts


def test_only_the_newest_events_are_judged(
    blessed: Callable[..., Baseline],
    ready: Path,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    blessed("bm25", 2020)
    new = folder_of(ready, "bm25")
    for i in range(4):
        older(new, new, f"{i}" * 12, f"203{i}-01-01T00:00:00+00:00")
    monkeypatch.setattr(gates, "MOST_EVENTS", 3)
    (gate,) = histories(tmp_path / "baselines", [StoredResult.read(path) for path in ready.glob("*/*")])
    assert [event.result.manifest.result_id[0] for event in gate.events] == ["1", "2", "3"]
    assert gate.omitted == 2


def test_wrong_words_are_sentences(bench: Callable[..., Any], few: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    build = ("leaderboard", "build", "--results", few, "--out", tmp_path / "site")
    assert "there is no baseline in" in bench(*build, "--baselines", tmp_path / "empty", code=6).err
    bench("bless", folder_of(few, "bm25"), "--out", tmp_path / "own" / "b.json")
    said = bench(*build, "--baselines", tmp_path / "own", code=2).err
    assert "gate.toml does not exist; name one with --policy" in said
    (tmp_path / "p.toml").write_text(POLICY)
    assert "name them with --baselines" in bench(*build, "--policy", tmp_path / "p.toml", code=2).err
    assert not (tmp_path / "site").exists()
    bench(*build, "--baselines", tmp_path / "own" / "b.json", "--policy", tmp_path / "p.toml")
    assert (tmp_path / "site" / "gates.html").is_file()
