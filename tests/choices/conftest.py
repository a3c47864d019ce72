"""A site with choices, and a small dataset."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from kit.choices import choice_results
from kit.once import Once
from kit.results import LOCKS
from kit.sites import Built, build_once


@pytest.fixture(scope="session")
def choice_site(once: Once, shared_cache: Path) -> Built:
    """The site of `choice_results`, which is read."""

    def prepare(results: Path) -> dict[str, Any]:
        shutil.copytree(choice_results(once, shared_cache), results, ignore=LOCKS)
        return {}

    return build_once(once, shared_cache, "choice-site", prepare)
