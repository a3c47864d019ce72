"""The inputs of a model, computed by several processes of a cluster: the same rows, whatever dies or never begins."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kit.clusters import cluster

from bench.__main__ import run
from bench.base.config import config_context, time_without_cache
from bench.base.errors import UnavailableError
from bench.base.progress import QUIET, Progress
from bench.cluster import shards
from bench.cluster.cluster import Cluster
from bench.cluster.shards import Shards, compute_shard
from bench.interface.method import Similarity
from bench.models.cache import CachedModel, Row
from bench.models.encoders import Encoder
from bench.models.shards import active_spreader, spread_by
from bench.models.vectorcache import text_key
from bench.registry import load_dataset
from bench.search import dense
from bench.search.dense import VectorIndex

TEXTS = [f"request {number}: {'a longer text ' * (number % 7)}" for number in range(40)]


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A cache of the test's own, and patience with a busy machine."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    # On a busy machine, another process takes long to begin.
    monkeypatch.setattr(shards, "_PATIENCE", 120)
    with config_context():
        yield


@pytest.fixture(scope="module")
def joined(shared_cache: Path) -> Iterator[Shards]:
    """This process has joined a cluster with a node for one other, and the cluster helps it.

    Once for all tests: each process that joins needs others of its own, which take seconds to begin.
    """
    with cluster(shared_cache, {"CPU": 1}) as made:
        with config_context(offline=True), Cluster(made.address, load_dataset).helps(QUIET):
            spread = active_spreader()
            assert isinstance(spread, Shards)
            yield spread
        assert active_spreader() is None


class Counted(CachedModel[str]):
    """The length of a text, the process that computed it, and how many texts that computed at once."""

    def __init__(self, folder: Path, fault: str = "") -> None:
        super().__init__("counted")
        self.folder = folder
        self.fault = fault
        self.here = os.getpid()

    def again(self) -> Callable[[], Counted]:
        return partial(Counted, self.folder, self.fault)

    @property
    def identity(self) -> str:
        return f"counted {os.getpid()}" if self.fault == "another" else "counted"

    def _key(self, given: str) -> bytes:
        return text_key(given)

    def _compute(self, missing: dict[bytes, str], progress: Progress) -> Iterator[dict[bytes, Row]]:
        if (self.folder / "driver").read_text() != str(os.getpid()):
            if self.fault == "raises":
                raise UnavailableError("no such model here")
            if self.fault == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
        for key, text in missing.items():
            yield {key: np.array([len(text), os.getpid(), len(missing)], dtype=np.float32)}

    def rows(self, texts: Sequence[str] = TEXTS) -> np.ndarray:
        return np.array(self._rows(texts))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that knows the process of the driver."""
    (tmp_path / "driver").write_text(str(os.getpid()))
    return tmp_path


@pytest.mark.slow("a Ray cluster")
def test_nodes_share_the_inputs_of_a_model(joined: Shards, folder: Path) -> None:
    spread = Shards({"num_cpus": 1}, ahead=2, offline=True, size=4)
    with spread_by(spread):
        rows = Counted(folder).rows()
    assert rows[:, 0].tolist() == [len(text) for text in TEXTS]
    assert rows[:, 2].max() == 4
    processes = set(rows[:, 1].tolist())
    assert float(os.getpid()) in processes
    assert spread.given >= 1
    assert len(processes) >= 2


@pytest.mark.slow("a Ray cluster")
def test_an_encoder_gives_the_vectors_that_it_gives_alone(joined: Shards, tiny_models: dict[str, str]) -> None:
    encoder = tiny_models["encoder"]
    with config_context(cache=False):
        alone = Encoder(encoder).encode(TEXTS)
        spread = Shards({"num_cpus": 1}, ahead=1, offline=True, size=8)
        with spread_by(spread):
            shared = Encoder(encoder).encode(TEXTS)
    assert spread.given >= 1
    np.testing.assert_allclose(shared, alone, atol=1e-5)


@pytest.mark.slow("a Ray cluster")
@pytest.mark.parametrize("similarity", ["cosine", "l2"])
def test_nodes_share_a_search_and_find_what_one_finds(
    joined: Shards, similarity: Similarity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dense, "_SPREAD", 1)
    monkeypatch.setattr(dense, "_SPREAD_QUERIES", 4)
    random = np.random.default_rng(0)
    # Many tools are alike: their ties go beyond the depth.
    library = random.integers(0, 2, size=(60, 6)).astype(np.float32)
    queries = random.normal(size=(42, 6)).astype(np.float32)
    index = VectorIndex(library, similarity)
    alone = index.rank(queries, 10)
    spread = Shards({"num_cpus": 1}, ahead=2, offline=True)
    with spread_by(spread):
        shared = [index.rank(queries, 10), index.rank(queries[:21], 10)]
    assert spread.given >= 1
    assert np.array_equal(shared[0].tools, alone.tools)
    np.testing.assert_array_equal(shared[0].scores, alone.scores)
    assert alone.tied_beyond is not None
    assert shared[0].tied_beyond is not None
    assert np.array_equal(shared[0].tied_beyond, alone.tied_beyond)
    assert np.array_equal(shared[1].tools, alone.tools[:21])


def test_an_index_that_the_store_cannot_take_is_searched_here(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def full(value: object) -> None:
        raise ray.exceptions.ObjectStoreFullError

    monkeypatch.setattr(ray, "put", full)
    spread = Shards({"num_cpus": 1}, ahead=2, offline=True)
    assert spread.searched(pow, 2, [1, 2, 3]) == [2, 4, 8]
    assert spread.given == 0


@pytest.mark.slow("a Ray cluster")
def test_what_nobody_begins_is_computed_here(joined: Shards, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "_PATIENCE", 0.2)
    spread = Shards({"num_cpus": 1, "absent": 1}, ahead=3, offline=True, size=4)
    with spread_by(spread):
        rows = Counted(folder).rows()
    assert rows[:, 0].tolist() == [len(text) for text in TEXTS]
    assert set(rows[:, 1].tolist()) == {float(os.getpid())}
    assert spread.given == 0


@pytest.mark.slow("a Ray cluster")
def test_a_cluster_helps_the_models_of_a_process_that_trains(joined: Shards, folder: Path) -> None:
    assert active_spreader() is joined
    rows = Counted(folder).rows([str(number) for number in range(9000)])
    assert rows[:, 0].max() == 4
    assert joined.given >= 1


# Those that die come last: no other test needs others in their place.
@pytest.mark.slow("a Ray cluster")
@pytest.mark.parametrize("fault", ["raises", "another", "dies"])
def test_what_fails_elsewhere_is_computed_here(
    joined: Shards, folder: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each other process would take a second to begin and die, too.
    monkeypatch.setattr(shards, "_RETRIES", 0)
    spread = Shards({"num_cpus": 1}, ahead=2, offline=True, size=4)
    with spread_by(spread):
        rows = Counted(folder, fault).rows()
    assert rows[:, 0].tolist() == [len(text) for text in TEXTS]
    assert set(rows[:, 1].tolist()) == {float(os.getpid())}
    assert spread.ahead <= 1


def test_training_with_a_cluster_that_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["train", "reranker", "-d", "starter", "--out", str(tmp_path / "model"), "--ray", "127.0.0.1:1"]
    assert run(command) == 4
    assert "cannot join the Ray cluster at '127.0.0.1:1'" in capsys.readouterr().err
    assert not (tmp_path / "model").exists()


def test_little_work_latencies_and_endpoints_stay_here(folder: Path, tiny_models: dict[str, str]) -> None:
    class Elsewhere:
        def rows(self, model: Any, inputs: Any, progress: Progress) -> Any:
            raise AssertionError("spread")

        def searched(self, search: Any, index: Any, parts: Any) -> Any:
            raise AssertionError("spread")

    with spread_by(Shards({"num_cpus": 1}, ahead=2, offline=True, size=len(TEXTS))):
        assert len(Counted(folder).rows()) == len(TEXTS)
    encoder = Encoder(tiny_models["encoder"])
    encoder.encode(TEXTS[:1])
    with spread_by(Elsewhere()), time_without_cache():
        assert len(encoder.encode(TEXTS[1:2])) == 1
    assert Encoder("openai:some-model").again() is None


def test_a_node_whose_model_is_another_one_computes_nothing(folder: Path) -> None:
    with pytest.raises(UnavailableError, match="of this node is another one"):
        compute_shard(partial(Counted, folder), "counted before", {}, offline=True)
    assert compute_shard(partial(Counted, folder), "counted", {text_key("a"): "a"}, offline=True)
