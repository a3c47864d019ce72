"""The writer of a site's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.leaderboard.writer import Writer


def test_a_file_that_could_not_be_made_is_no_file_of_the_site(tmp_path: Path) -> None:
    def fail() -> str:
        raise OSError("gone")

    Writer(tmp_path).put_made("d/a.txt", "1", lambda: "old")
    writer = Writer(tmp_path)
    with pytest.raises(OSError, match="gone"):
        writer.put_made("d/a.txt", "2", fail)
    assert writer.keys == {}
    writer.finish()
    again = Writer(tmp_path)
    again.put_made("d/a.txt", "2", lambda: "new")
    assert (tmp_path / "d" / "a.txt").read_text() == "new"
