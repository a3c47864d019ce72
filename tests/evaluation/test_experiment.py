"""Experiment files: plans out of TOML, and sentences for what is wrong in one."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.base.errors import UsageError
from bench.base.spec import Spec, parse
from bench.evaluation.experiment import read_experiment
from bench.evaluation.plan import Plan


def written(folder: Path, text: str) -> Path:
    path = folder / "experiment.toml"
    path.write_text(text, "utf-8")
    return path


def test_every_method_runs_on_every_dataset(tmp_path: Path) -> None:
    text = 'methods = ["bm25", "tgr(base=bm25, graph=manual)"]\ndatasets = ["starter", "rectools(seed=1)"]'
    plans = read_experiment(written(tmp_path, text)).plans()
    first, second = parse("rectools(seed=1)"), parse("tgr(graph=manual, base=bm25)")
    assert plans == [
        Plan(Spec("starter"), Spec("bm25")),
        Plan(Spec("starter"), second),
        Plan(first, Spec("bm25")),
        Plan(first, second),
    ]


def test_every_setting_reaches_every_plan(tmp_path: Path) -> None:
    text = """
methods = ["bm25"]
datasets = ["starter", "tiny"]
split = "dev"
depth = 20
limit = 50
template = "description"
cut = "size"
metrics = ["ndcg@7", "pass@2"]
"""
    experiment = read_experiment(written(tmp_path, text))
    settings = {"split": "dev", "limit": 50, "depth": 20, "template": "description", "cut": "size"}
    assert experiment.metrics == ["ndcg@7", "pass@2"]
    for plan in experiment.plans():
        assert {name: getattr(plan, name) for name in settings} == settings


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "methods: Field required."),
        ('methods = ["bm25"]', "datasets: Field required."),
        ('methods = []\ndatasets = ["a"]', "methods: List should have at least 1 item"),
        ('methods = ["bm25"]\ndatasets = ["a"]\ncolour = 1', "colour: Extra inputs are not permitted."),
        ('methods = "bm25"\ndatasets = ["a"]', "methods: Input should be a valid list."),
        ('methods = [1]\ndatasets = ["a"]', "methods.0: Input should be a valid string."),
        ('methods = ["bm25"]\ndatasets = ["a"]\ndepth = "9"', "depth: Input should be a valid integer."),
        ('methods = ["bm25"]\ndatasets = ["a"]\ndepth = 0', "depth: Input should be greater than or equal to 1."),
        ('methods = ["bm25"]\ndatasets = ["a"]\nlimit = 0', "limit: Input should be greater than or equal to 1."),
        (
            'methods = ["bm25"]\ndatasets = ["a"]\nsplit = "tset"',
            "split: Input should be 'train', 'dev', 'test' or 'all', not 'tset'",
        ),
        (
            'methods = ["bm25"]\ndatasets = ["a"]\ncut = "knife"',
            "cut: Input should be 'none', 'size', 'threshold' or 'gap', not 'knife'",
        ),
    ],
)  # fmt: skip
def test_a_file_that_is_not_valid_is_told_with_its_key(tmp_path: Path, text: str, fault: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        read_experiment(path)
    assert str(caught.value).startswith(f"the experiment file {path} is not valid: {fault}")


@pytest.mark.parametrize("data", [None, b"methods = [", b"\xff\xfe"])
def test_a_file_that_cannot_be_read_is_told(tmp_path: Path, data: bytes | None) -> None:
    path = tmp_path / "experiment.toml"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(UsageError) as caught:
        read_experiment(path)
    assert str(caught.value).startswith(f"cannot read the experiment file {path}: ")


def test_a_spec_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    experiment = read_experiment(written(tmp_path, 'methods = ["bm25("]\ndatasets = ["starter"]'))
    with pytest.raises(UsageError, match="cannot read 'bm25"):
        experiment.plans()
