"""The README's plug-in is run as it is written: one import of bench, and the commands below it."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

import bench
from bench.show.numbers import format_fixed

ROOT = Path(bench.__file__).resolve().parent.parent


@pytest.fixture
def shout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The source of `shout.py`, in the working folder."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    (source,) = (block for block in blocks if "class Shout(" in block)
    (tmp_path / "shout.py").write_text(source, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop("shout", None)
    yield_source: str = source
    return yield_source


def test_the_plug_in_needs_one_import_of_bench(shout: str) -> None:
    lines = [line for line in shout.splitlines() if re.match(r"(from|import) bench\b", line)]
    assert len(lines) == 1
    assert lines[0].startswith("from bench import ")


def test_the_plug_in_runs_by_name_by_class_and_by_instance(shout: str) -> None:
    import shout as plugin  # type: ignore[import-not-found]

    by_name = bench.run("shout:Shout", "starter", limit=10)
    by_class = bench.run(plugin.Shout, "starter", limit=10)
    by_instance = bench.run(bench.build_method(plugin.Shout, weight=0.1), "starter", limit=10)
    assert by_name.method == "shout:Shout"
    assert by_name.id == by_class.id == by_instance.id
    louder = bench.run(plugin.Shout(weight=0.5), "starter", limit=10)
    assert louder.method == "shout:Shout(weight=0.5)"
    assert louder.id != by_class.id


def test_the_output_is_that_of_the_board_s_row() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    row = bench.load_result(
        ROOT / "board" / re.findall(r"^stored in (results/apibank/tgr-\w+)$", text, re.MULTILINE)[0]
    )
    assert (row.method, row.dataset) == ("tgr", "apibank")
    lines = re.findall(r"^ (\w+@\d+) +(\S+) +(\S+) to (\S+)$", text, re.MULTILINE)
    assert len(lines) == 5
    values = row.stored.metrics.metrics
    for name, *shown in lines:
        assert shown == [format_fixed(value) for value in (values[name].mean, values[name].low, values[name].high)]
