"""What commands are run on: vectors planted in the cache, and the fixtures of `kit.commands`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from kit.commands import folder, lexical, lexical_results

from bench.models.encoders import EMBEDDED, Encoder
from bench.models.vectorcache import VectorCache, text_key

__all__ = ["folder", "lexical", "lexical_results", "planted"]


@pytest.fixture
def planted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[list[str]], None]:
    """Give texts made-up vectors in an embedding cache of this test, so that no model needs to be loaded."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "planted"))

    def plant(texts: list[str]) -> None:
        cache = VectorCache(Encoder(EMBEDDED).identity)
        cache.put(
            {text_key(text): np.random.default_rng(len(text)).normal(size=384).astype(np.float32) for text in texts}
        )
        cache.close()

    return plant
