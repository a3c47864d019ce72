"""Shared fixtures. Tests never touch the user's cache, data or network."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def mirror_folder() -> Path | None:
    """The mirror of upstream's files: BENCH_MIRROR, else ../shared/mirror beside the checkout."""
    named = os.environ.get("BENCH_MIRROR")
    folder = Path(named).expanduser() if named else ROOT.parent / "shared" / "mirror"
    return folder.resolve() if folder.is_dir() else None


MIRROR = mirror_folder()


@pytest.fixture(scope="session")
def mirror() -> Path:
    """The mirror; a test that asks for it is skipped where there is none (and CI fails if any is)."""
    if MIRROR is None:
        reason = "no mirror of upstream's files: set BENCH_MIRROR or put it at ../shared/mirror"
        if os.environ.get("BENCH_REQUIRE_MIRROR"):
            pytest.fail(reason)
        pytest.skip(reason)
    return MIRROR


@pytest.fixture(scope="session")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One cache for all tests of a run, so that each text is encoded once; shared by the workers of xdist."""
    base = tmp_path_factory.getbasetemp()
    return (base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base) / "bench-cache"


@pytest.fixture(autouse=True)
def isolated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shared_cache: Path) -> None:
    """Own data and results folders for each test, a cache of this test run, no network, no mirror but by fixture."""
    monkeypatch.setenv("BENCH_CACHE", str(shared_cache))
    monkeypatch.setenv("BENCH_DATA", str(tmp_path / "bench-data"))
    monkeypatch.setenv("BENCH_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("BENCH_OFFLINE", "1")
    monkeypatch.delenv("BENCH_NO_CACHE", raising=False)
    if MIRROR is not None:
        monkeypatch.setenv("BENCH_MIRROR", str(MIRROR))
    return
