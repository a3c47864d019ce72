"""What the page on stress says of perturbations is so."""

from __future__ import annotations

import re

from kit.pages import DOCS

from bench.robustness.perturbation import built_in

PAGE = (DOCS / "stress.md").read_text("utf-8")


def test_every_perturbation_is_in_the_row_of_its_kind() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", PAGE, re.MULTILINE))
    for item in built_in().values():
        assert f"`{item.name}" in rows[item.kind], item.name


def test_every_perturbation_of_requests_was_read_and_at_most_a_twentieth_is_wrong() -> None:
    counts = {
        name: (int(read), int(wrong))
        for names, read, wrong in re.findall(r"^\| (`.*?`) \| (\d+)(?: each)? \| (\d+) \|", PAGE, re.MULTILINE)
        for name in re.findall(r"`([^`]+)`", names)
    }
    assert counts.keys() == {item.name for item in built_in().values() if item.kind == "request"}
    assert all(wrong <= 0.05 * read for read, wrong in counts.values())
