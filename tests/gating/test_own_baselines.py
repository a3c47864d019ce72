"""The baselines of this repository: ids and numbers alone, fit for its own policy, and logged."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.gating.baseline import USUAL_METRICS, read_baseline
from bench.gating.policy import read_policy
from bench.registry import load_dataset

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "baselines").glob("*.json"))


def test_each_gated_method_has_its_baseline_and_no_other_is_there() -> None:
    (line,) = re.findall(r"^GATED := (.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    names = [pair.split("@") for pair in line.split()]
    assert sorted(f"{dataset}-{method}.json" for method, dataset in names) == [path.name for path in FILES]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_baseline_is_small_and_has_what_the_policy_asks_for(path: Path) -> None:
    baseline = read_baseline(path)
    assert path.stat().st_size < 16 * 1024
    assert f"{baseline.dataset.spec}-{baseline.method.spec}" == path.stem
    assert baseline.n_failed == 0
    wanted = {rule.metric for rule in read_policy(ROOT / "baselines" / "gate.toml").rule}
    assert wanted <= baseline.values.keys() <= set(USUAL_METRICS)


@pytest.mark.parametrize("name", ["starter", "apibank"])
def test_a_baseline_is_of_the_data_of_today_and_holds_none_of_its_texts(name: str, mirror: Path) -> None:
    dataset = load_dataset(name)
    mine = [path for path in FILES if path.stem.startswith(f"{name}-")]
    assert mine
    for path in mine:
        shown = path.read_text("utf-8")
        assert read_baseline(path).dataset.content_hash == dataset.content_hash
        texts = [query.text for query in dataset.queries] + [tool.description for tool in dataset.tools]
        assert not [text for text in texts if len(text) > 12 and text in shown]


def test_each_blessing_has_a_line_in_the_log() -> None:
    log = (ROOT / "EFFECTIVENESS.md").read_text("utf-8")
    for path in FILES:
        baseline = read_baseline(path)
        assert baseline.blessed.at[:10] in log
        assert f"{baseline.mean('recall@5'):.4f}" in log, path.name
