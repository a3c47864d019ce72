"""Sites that are built once in a run, results to build others from, and a browser."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from kit.choices import choice_results
from kit.once import Once
from kit.results import LOCKS, another, edit, folder_of, id_of, manifest, older, rehash, scored_by
from kit.sites import Built, build_once, hurry

from bench.__main__ import run as command
from bench.base.config import config_context
from bench.base.paths import results_folder
from bench.base.plugins import verbs
from bench.leaderboard.boards.decisions import CheckReport, Decision, write_decision
from bench.leaderboard.buildcache import BuildCache
from bench.leaderboard.serve import open_server
from bench.leaderboard.site import build_site
from bench.results.manifest import Mark
from bench.results.store import PER_QUERY, StoredResult
from bench.robustness.api import stress

if TYPE_CHECKING:
    from kit.browser import Browser


@pytest.fixture(scope="session")
def site_of(once: Once, shared_cache: Path) -> Callable[..., Built]:
    """Builds a site once in a run, to be read; arguments as of `build_once`."""
    return partial(build_once, once, shared_cache)


@pytest.fixture
def build(tmp_path: Path, isolated: None) -> Callable[..., Built]:
    """Build this test's results into a site; arguments as of `build_site`."""

    def made(out: str = "site", **options: Any) -> Built:
        folder = tmp_path / out
        return Built(folder, build_site(results_folder(), folder, **options))

    return made


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sites are built in a third of the time, as of large boards: tests in the limit of many groups, no downloads."""
    hurry(monkeypatch)


@pytest.fixture
def few(starter_results: Path, isolated: None, quick: None) -> Path:
    """Results of bm25 and random as this test's own: they make a site in much less time than those of `ready`."""
    _copy(starter_results, results_folder())
    return results_folder()


@pytest.fixture(scope="session")
def ready_site(site_of: Callable[..., Built], starter_results: Path) -> Built:
    """The site of `starter_results`."""

    def prepare(results: Path) -> dict[str, Any]:
        shutil.copytree(starter_results, results, ignore=LOCKS)
        return {}

    return site_of("ready-site", prepare)


@pytest.fixture(scope="session")
def begun_site(site_of: Callable[..., Built], starter_results: Path) -> Built:
    """The site of bm25 and random."""

    def prepare(results: Path) -> dict[str, Any]:
        _copy(starter_results, results)
        return {}

    return site_of("begun-site", prepare)


@pytest.fixture
def begun(begun_site: Built, isolated: None, tmp_path: Path) -> Built:
    """A copy of `begun_site`, of its results and of what its build remembers: `build()` goes on from there."""
    _copy(begun_site.folder.with_name("results"), results_folder())
    shutil.copytree(begun_site.folder, tmp_path / "site")
    first, second = (BuildCache(place)._folder for place in (begun_site.folder, tmp_path / "site"))
    shutil.copytree(first, second)
    return Built(tmp_path / "site", begun_site.made)


def _copy(starter: Path, results: Path) -> None:
    for spec in ("bm25", "random"):
        folder = folder_of(starter, spec)
        shutil.copytree(folder, results / "starter" / folder.name)


@pytest.fixture
def scored(tmp_path: Path) -> Callable[[str], Path]:
    """Score a run file of that name on the embedded dataset; gives the result's folder."""

    def score(name: str) -> Path:
        run = tmp_path / "run.jsonl"
        run.write_text(json.dumps({"query_id": "0001", "tools": ["crateful.get_catalogue"]}) + "\n")
        before = set(results_folder().glob("[!.]*/*"))
        assert command(["score", "-d", "starter", str(run), "--name", name]) == 0
        (result,) = set(results_folder().glob("[!.]*/*")) - before
        return result

    return score


def _report(result: str) -> dict[str, Any]:
    """A report of a reproduction with a table, a cell of each kind and a claim."""
    manifest = {"command": "bench reproduce all", "created": "2026-01-01T00:00:00+00:00"}
    machine: dict[str, Any] = {"packages": {}, "commit": None, "dirty": None, "hardware": {}}
    data = {"dataset": "starter", "split": "test", "queries": 126, "tools": 101, "template": "source", "result": result}
    measured = {"method": "bm25", "data": [data], "pool": "datasets", "slices": {}, "queries": 126, "failed": 0}
    place = {"table": "paper-1", "row": "BM25", "dataset": "Starter", "split": "test"}
    cell = place | {"paper": "paper", "printed": "50.0", "unit": "percent", "published": 0.5, "block": 0}
    estimate = {"metric": "recall@5", "mean": 0.51, "low": 0.45, "high": 0.57}
    cells = [
        cell | {"metric": "recall@5", "verdict": "reproduced", "measured": estimate, "difference": 0.01},
        cell | {"metric": "ndcg@5", "verdict": "not run"},
    ]
    table = {"table": "paper-1", "paper": "paper", "title": "Retrieval", "data": {}, "cells": 2, "unreadable": []}
    claim = {"claim": "words-suffice", "paper": "paper", "text": "Words suffice.", "where": "table 1", "tests": []}
    return {
        "protocol": "1.0",
        "environment": manifest | machine,
        "seconds": 1.0,
        "tables": [table | {"verdicts": {"reproduced": 1, "not run": 1}, "notes": ["A note."]}],
        "cells": cells,
        "blocks": [place | {"measurement": measured | {"warnings": []}}],
        "claims": [claim | {"verdict": "not run", "printed": None, "needs": [], "note": ""}],
        "papers": [],
    }


@pytest.fixture(scope="session")
def full_site(site_of: Callable[..., Built], starter_results: Path, once: Once, shared_cache: Path) -> Built:
    """A site with something on every kind of page, in a folder below the one that is served."""

    def prepare(results: Path) -> dict[str, Any]:
        shutil.copytree(starter_results, results, ignore=LOCKS)
        new, other = folder_of(results, "bm25"), folder_of(results, "bm25(k1=0.5)")
        for folder in sorted((results / "starter").iterdir()):
            # Boards of datasets that do not exist, so that the overall board has columns: narrow ones and a name of
            # two lines. And larger libraries of the embedded dataset, with the numbers of the dataset itself.
            for name in ("twin", "a-twin-of-two-lines", "1000", "17749"):
                content = hashlib.sha256(name.encode()).hexdigest()
                changes: dict[str, Any] = {"dataset__spec": name, "dataset__title": name}
                if name.isdecimal():
                    spec = f"starter(distractors=mcp-servers, tools={name})"
                    changes = {"dataset__spec": spec, "dataset__tools": int(name)}
                another(folder, id_of(f"{name} {folder.name}"), name, dataset__content_hash=content, **changes)
        # An older version of bm25, with other numbers: those of its other setting.
        older(other, new, "0123456789ab", "2020-01-01T00:00:00+00:00")
        if "choose" in verbs():
            for folder in choice_results(once, shared_cache).glob("starter/choose-*"):
                shutil.copytree(folder, results / "starter" / folder.name)
        if "stress" in verbs():
            with config_context(results=results, offline=True):
                stress(["bm25", "random"], "starter", ["filler", "clone", "hidden-gold"])
        broken = results / "starter" / "random-000000000000"
        shutil.copytree(next(results.glob("starter/random-*")), broken)
        (broken / "metrics.json").write_text("{")
        report, baselines = results.with_name("report.json"), results.with_name("baselines")
        report.write_text(json.dumps(_report(manifest(new)["result_id"])))
        for name, blessed in (("search", other), ("older", new)):
            assert command(["bless", str(blessed), "--out", str(baselines / f"{name}.json"), "--by", "a person"]) == 0
        (baselines / "gate.toml").write_text('[[rule]]\nmetric = "recall@5"\nmargin = 0.02\n')
        public = results.with_name("set.toml")
        public.write_text("[site]\npublic = true\n")
        # One that was accepted, and one that was withdrawn.
        made = {"made": "2026-11-28T12:00:00+00:00", "by": "a person", "dataset": "starter"}
        new_manifest = StoredResult.read(new).manifest
        report_of_check = CheckReport(bench="0.3.0", rerun="made again", queries=134)
        accepted = {"what": "accepted", "result_id": new_manifest.result_id, "manifest": new_manifest.digest}
        accepted |= {"archive": "0" * 64, "label": "bm25 @ starter"}
        write_decision(results, Decision.model_validate(made | accepted | {"report": report_of_check}))
        gone = {"what": "retracted", "result_id": "0123456789ac", "label": "mine @ starter", "why": "A mistake."}
        write_decision(results, Decision.model_validate(made | gone))
        return {"files": {"reproduction": report}, "baselines": baselines, "ranking_set": public}

    built = site_of("full-site", prepare)
    assert [item.where for item in built.made.rejected] == ["starter/random-000000000000"]
    return built


@pytest.fixture(scope="session")
def marked_site(site_of: Callable[..., Built], starter_results: Path) -> Built:
    """A site of results with something to say of each: rows by the name of what it is, and boards beside the first."""

    def prepare(results: Path) -> dict[str, Any]:
        shutil.copytree(starter_results, results, ignore=LOCKS)
        _marked(results)
        return {}

    return site_of("marked-site", prepare, quick=True)


#: Calls of a paid model.
USE = {"requests": 10, "from_journal": 4, "failures": 0, "input_tokens": 5000, "output_tokens": 100, "cost": 0.25}


def _marked(results: Path) -> None:
    bm25, other, random, oracle, bundle = (
        folder_of(results, spec) for spec in ("bm25", "bm25(k1=0.5)", "random", "oracle", "nearest-bundle(base=bm25())")
    )

    def row(folder: Path, spec: str, **changes: Any) -> Path:
        return another(folder, id_of(f"row {spec} {sorted(changes)}"), method__spec=spec, **changes)

    # Stated by results, with reasons.
    whys = {
        "rules": "rules stand in for the language model",
        "trained on test": "it learnt from 7 of these",
        "tools seen": "a model behind it learnt from tools that are gold here",
    }
    stated = [Mark.from_method(text, why).model_dump() for text, why in whys.items()]
    row(random, "stated", method__marks=stated)
    row(random, "packages", environment__packages={"numpy": "1.0"})
    # One query that failed; a run file that answers one query.
    failed = row(random, "failed", metrics={"n_failed": 1})
    table = pq.read_table(failed / PER_QUERY)
    lost = table["failed"].to_numpy(zero_copy_only=False).copy()
    lost[int((table["n_gold"].to_numpy() > 0).argmax())] = True
    pq.write_table(table.set_column(table.column_names.index("failed"), "failed", pa.array(lost)), failed / PER_QUERY)
    rehash(failed, PER_QUERY)
    answers = results.with_name("one-answer.jsonl")
    answers.write_text(json.dumps({"query_id": "0001", "tools": ["crateful.get_catalogue"]}) + "\n")
    assert command(["score", "-d", "starter", str(answers), "--name", "one-answer"]) == 0
    # Numbers of other code, and a lead that ties alone decide.
    row(
        random,
        "scored before",
        scoring=scored_by("1" * 64, StoredResult.read(random).metrics.metrics),
        environment__created="2001-01-01T00:00:00+00:00",
    )
    metrics = json.loads((other / "metrics.json").read_text("utf-8"))["metrics"]
    edit(other, metrics={"metrics": {name: value | {"tie_low": 0.0} for name, value in metrics.items()}})
    # Much better, and nothing known, where tools that read like gold tools count.
    lenient = json.loads((random / "metrics.json").read_text("utf-8"))["lenient"]
    means = lenient["means"] | {"recall@5": 0.876}
    row(random, "turned", metrics={"lenient": lenient | {"queries": 7, "judgements": 9, "means": means}})
    row(oracle, "strict", metrics={"lenient": None})
    # Gold sets of past queries: none, and not said.
    row(bundle, "nearest-bundle(base=tfidf)", dataset__repeated_gold=0)
    row(bundle, "nearest-bundle(base=names)", dataset__repeated_gold=None)
    # Costs: what is paid, what is not known (also of a floor, which is in no picture of costs), and tokens of answers.
    row(bm25, "bm25(b=0.5)", method__needs_llm=True, model_use=USE)
    row(bundle, "nearest-bundle(base=bm25, k=3)", method__needs_llm=True)
    row(random, "random(seed=3)", method__needs_llm=True)
    tokens = json.loads((bm25 / "metrics.json").read_text("utf-8"))["tokens"]
    row(bm25, "answered", metrics={"tokens": tokens | {"answer": 4321.0}})
    # The same method to another depth.
    row(other, "bm25", depth=50)
    # What bm25 was in 2020 and 2021; in 2022 it was what it is.
    for numbers, sign, year in ((random, "a", 2020), (other, "b", 2021), (bm25, "c", 2022)):
        older(numbers, bm25, sign * 12, f"{year}-01-01T00:00:00+00:00")
    edit(bm25.with_name(f"bm25-{'a' * 12}"), method__marks=[Mark.from_method("rules", whys["rules"]).model_dump()])
    # Boards of their own: an older protocol, other queries, and data that are not there.
    another(random, id_of("protocol"), protocol="0.9")
    assert command(["run", "-m", "bm25", "-d", "starter", "--limit", "9", "-q"]) == 0
    for folder in (bm25, random, bundle):
        another(folder, id_of(f"data {folder.name}"), "starter-before", dataset__content_hash="0" * 64)
    # Where the queries of the first board come from.
    for folder in sorted(results.glob("starter/*")):
        edit(folder, dataset__origins={"model <b>some-model</b>": 120, "traces": 3})


@pytest.fixture(scope="session")
def served(full_site: Built) -> Iterator[str]:
    """The same site under a sub-path of a server on loopback: its address."""
    server = open_server(full_site.folder.parent, 0)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}/{full_site.folder.name}"
    server.shutdown()
    server.server_close()


def _need(missing: str) -> None:
    """Skip for want of a tool; where CI says that it must be there, fail."""
    if missing and os.environ.get("BENCH_REQUIRE_BROWSER"):
        pytest.fail(missing)
    if missing:
        pytest.skip(missing)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One browser for all tests of a process: it takes longer to start than a test does."""
    from kit import browser

    _need(browser.lacking())
    window = browser.Browser(tmp_path_factory.mktemp("profile"))
    yield window
    window.close()


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Browser]:
    """The browser as new; a word on the console or a request that leaves the site fails the test, whatever it is of."""
    from kit.browser import off_site

    chromium.reset()
    yield chromium
    spoken, left = chromium.words(), [address for address in chromium.requests() if off_site(address)]
    # A page's storage is cleared on that page; about:blank has no store.
    chromium.run("try { localStorage.clear() } catch { /* none here */ }")
    assert not spoken, spoken
    assert not left, left


@pytest.fixture
def axe(browser: Browser) -> Browser:
    """The browser, with axe-core loaded."""
    from kit.browser import lacking

    _need(lacking(axe=True))
    return browser
