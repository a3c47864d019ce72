"""Encoders: what a vector depends on is in its identity, models are loaded once, and vectors are computed once."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.base import paths
from bench.base.config import Session, config_context, current_session, time_without_cache
from bench.base.errors import UnavailableError, UsageError
from bench.models import encoders
from bench.models.compiled import offer_backend
from bench.models.encoders import EMBEDDED, Encoder, embedded_model

LARGE = 2 << 20
FILES = {
    "config.json": b"{}",
    "modules.json": b"[]",
    "model.safetensors": bytes(LARGE),
    "tokenizer.json": b"{}",
    "special_tokens_map.json": b"{}",
    "vocab.txt": b"a\nb\n",
    "sentencepiece.bpe.model": b"pieces",
    "1_Pooling/config.json": b'{"mode": "mean"}',
    "modeling.py": b"pass",
}


@pytest.fixture(autouse=True)
def own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A cache and a session of this test: no model is loaded."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    with config_context():
        yield tmp_path / "cache"


def put(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that looks like a sentence-transformers model."""
    for name, data in FILES.items():
        put(tmp_path / "model", name, data)
    return tmp_path / "model"


def revision(folder: Path) -> str:
    return Encoder(str(folder)).revision


# Revision -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*FILES, "2_Dense/model.safetensors", "pytorch_model.bin", "merges.txt"])
def test_every_file_that_can_change_a_vector_is_part_of_the_revision(folder: Path, name: str) -> None:
    before = revision(folder)
    path = put(folder, name, b"other")
    changed = revision(folder)
    assert changed != before
    renamed = path.rename(path.with_name("renamed"))
    assert revision(folder) not in {before, changed}
    renamed.unlink()
    assert (revision(folder) == before) == (name not in FILES)


@pytest.mark.parametrize(
    "name",
    [
        *("README.md", "docs/usage.md", "picture.png", "1_Pooling/picture.jpg", ".gitattributes", ".git/HEAD"),
        *("tf_model.h5", "flax_model.msgpack", "rust_model.ot", "model.onnx", "onnx/config.json"),
        *("openvino/openvino_model.xml", ".cache/huggingface/download/config.json.lock"),
    ],
)
def test_documents_and_weights_for_other_frameworks_are_no_part_of_it(folder: Path, name: str) -> None:
    before = revision(folder)
    put(folder, name, b"anything")
    assert revision(folder) == before


def test_the_revision_does_not_depend_on_where_the_model_lies(folder: Path, tmp_path: Path) -> None:
    for name, data in reversed(FILES.items()):
        put(tmp_path / "elsewhere" / "named.md", name, data)
    # As in the hub's cache, whose files are links.
    linked = tmp_path / "linked"
    for name in FILES:
        (linked / name).parent.mkdir(parents=True, exist_ok=True)
        (linked / name).symlink_to(folder / name)
    assert revision(tmp_path / "elsewhere" / "named.md") == revision(linked) == revision(folder)


def test_a_large_file_is_hashed_once_as_long_as_it_stays(
    folder: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What was changed a moment ago is not noted.
    assert (before := revision(folder))
    assert not (own_cache / "hashes").exists()
    later = time.time_ns() + 10_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: later)
    paths._digest_as_of.cache_clear()
    assert revision(folder) == before
    (note,) = (own_cache / "hashes").iterdir()
    # What is noted is believed ...
    note.write_text("0" * 64 + "\n")
    # (This process remembers by itself; the note is for others.)
    assert revision(folder) == before
    paths._digest_as_of.cache_clear()
    assert revision(folder) != before
    # ... if it is whole.
    note.write_text("0" * 63 + "\n")
    paths._digest_as_of.cache_clear()
    assert revision(folder) == before
    assert len(note.read_text().strip()) == 64


@pytest.mark.parametrize("way", ["in place", "replaced", "copied over"])
def test_a_large_file_of_the_same_size_and_time_is_hashed_anew_when_it_was_written(folder: Path, way: str) -> None:
    path = folder / "model.safetensors"
    before, status = revision(folder), path.stat()
    changed = b"\1" + bytes(LARGE - 1)
    if way == "in place":
        with path.open("r+b") as file:
            file.write(changed[:1])
    else:
        other = put(folder.parent, "other", changed)
        os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
        if way == "replaced":
            os.replace(other, path)
        else:
            path.write_bytes(other.read_bytes())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (status.st_size, status.st_mtime_ns)
    assert revision(folder) != before


def test_folders_behind_links_are_part_of_it_and_a_loop_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "1_Pooling").rename(tmp_path / "pooling")
    (folder / "1_Pooling").symlink_to(tmp_path / "pooling", target_is_directory=True)
    before = revision(folder)
    put(tmp_path, "pooling/config.json", b'{"pooling_mode_cls_token": true}')
    assert revision(folder) != before
    (tmp_path / "pooling" / "again").symlink_to(folder, target_is_directory=True)
    with pytest.raises(UnavailableError, match=r"again is a link to a folder that contains it"):
        revision(folder)


def test_links_that_lead_on_and_on_are_refused(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.models.files._MOST", 500)
    places = [folder, *(tmp_path / f"step-{number}" for number in range(40))]
    for place, following in pairwise(places):
        following.mkdir()
        for name in "ab":
            (place / name).symlink_to(following, target_is_directory=True)
    with pytest.raises(UnavailableError, match=r"leads to more than 500 files and folders"):
        revision(folder)


# Identity -----------------------------------------------------------------------------------------------------------


def test_the_identity_holds_revision_prompt_and_the_packages_that_turn_text_into_vectors(folder: Path) -> None:
    assert json.loads(Encoder(str(folder), prompt="query: ").identity) == {
        "revision": revision(folder),
        "prompt": "query: ",
        "packages": {name: version(name) for name in ("sentence-transformers", "transformers", "tokenizers")},
        "batches": "2048 tokens",
    }


def test_another_version_of_a_package_has_vectors_of_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = Encoder(str(folder)).identity
    monkeypatch.setattr(encoders, "version", lambda name: "0.0.1" if name == "tokenizers" else version(name))
    assert Encoder(str(folder)).identity != before


def test_the_embedded_model_is_found_and_has_a_revision() -> None:
    assert Encoder(EMBEDDED).folder == embedded_model()
    assert len(Encoder(EMBEDDED).revision) == 64


@pytest.mark.parametrize("name", ["/nowhere/model", "./nowhere", "~/nowhere"])
def test_a_folder_that_is_not_there_is_told(name: str) -> None:
    with pytest.raises(UnavailableError, match=r"^the model folder .*nowhere.* does not exist\.$"):
        _ = Encoder(name).revision


def test_a_folder_without_a_model_is_told(tmp_path: Path) -> None:
    put(tmp_path, "model.safetensors", b"x")
    with pytest.raises(UnavailableError, match="does not contain a sentence-transformers model"):
        _ = Encoder(str(tmp_path)).revision


# Models and vectors -------------------------------------------------------------------------------------------------


class Counting:
    """A model that gives the length and the first letter of a text, and counts what it is asked."""

    def __init__(self, loaded: list[Path]) -> None:
        self.loaded = loaded
        self.asked: list[str] = []

    def load(self, folder: Path) -> Counting:
        self.loaded.append(folder)
        return self

    def encode(self, texts: Sequence[str], **options: Any) -> NDArray[np.float64]:
        self.asked.extend(texts)
        return np.array([[len(text), ord(text[:1] or " ")] for text in texts], dtype=np.float64)


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Counting:
    """Loaded in the place of every model, since a real one takes seconds."""
    made = Counting([])
    monkeypatch.setattr(encoders, "_load_model", made.load)
    return made


def test_a_model_is_loaded_once_however_many_encoders_share_it(folder: Path, tmp_path: Path, model: Counting) -> None:
    queries, tools = Encoder(str(folder), prompt="query: "), Encoder(str(folder))
    assert queries.encode(["a", "bb"]).tolist() == [[8, ord("q")], [9, ord("q")]]
    assert tools.encode(["a", "bb"]).tolist() == [[1, ord("a")], [2, ord("b")]]
    assert Encoder(str(folder)).encode(["ccc"]).tolist() == [[3, ord("c")]]
    assert model.loaded == [folder]
    put(tmp_path / "other", "config.json", b"{}")
    Encoder(str(tmp_path / "other")).encode(["a"])
    assert model.loaded == [folder, tmp_path / "other"]


def test_threads_of_a_method_load_a_model_once_and_share_its_cache(
    folder: Path, model: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = threading.Barrier(2, timeout=60)
    encoder = Encoder(str(folder))
    encoder.encode([])

    def load(place: Path) -> Counting:
        # Time for the other thread to come to the same point.
        time.sleep(0.2)
        return model.load(place)

    def work(text: str) -> list[list[float]]:
        both.wait()
        encode: list[list[float]] = encoder.encode(["a", text]).tolist()
        return encode

    monkeypatch.setattr(encoders, "_load_model", load)
    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(work, ["bb", "ccc"])) == [[[1, 97], [2, 98]], [[1, 97], [3, 99]]]
    assert model.loaded == [folder]


def test_a_model_that_was_trained_anew_in_its_place_is_loaded_anew(folder: Path, model: Counting) -> None:
    before = Encoder(str(folder))
    before.encode(["a"])
    put(folder, "config.json", b'{"other": 1}')
    after = Encoder(str(folder))
    with time_without_cache():
        # Not by the one that is loaded.
        after.encode(["a"])
    assert after.encode(["b"]).tolist() == [[1, ord("b")]]
    assert model.loaded == [folder, folder]
    # The one that was in use goes on as what it was.
    before.encode(["c"])
    assert model.loaded == [folder, folder]


def test_a_model_that_is_replaced_before_it_is_loaded_stores_no_vector(folder: Path, model: Counting) -> None:
    encoder = Encoder(str(folder))
    before = encoder.identity
    put(folder, "config.json", b'{"other": 1}')
    with pytest.raises(UnavailableError, match="was replaced just now; run the same command again"):
        encoder.encode(["a"])
    assert model.asked == []
    put(folder, "config.json", FILES["config.json"])
    again = Encoder(str(folder))
    assert again.identity == before
    again.encode(["a"])
    assert (again.computed, again.from_cache) == (1, 0)


def test_vectors_are_computed_once_and_then_need_no_model(folder: Path, model: Counting) -> None:
    first = Encoder(str(folder))
    vectors = first.encode(["b", "a", "b", ""])
    assert vectors.dtype == np.float32
    assert sorted(model.asked) == ["", "a", "b"]
    assert (first.computed, first.from_cache) == (3, 0)
    current_session().loaded.clear()
    second = Encoder(str(folder))
    np.testing.assert_array_equal(second.encode(["b", "a", "b", ""]), vectors)
    assert (second.computed, second.from_cache, len(model.loaded)) == (0, 3, 1)
    assert second.encode([]).shape == (0, 0)


@pytest.mark.parametrize(("value", "times"), [("1", 2), ("0", 1), ("false", 1)])
def test_without_the_cache_they_are_computed_every_time(
    folder: Path, model: Counting, monkeypatch: pytest.MonkeyPatch, own_cache: Path, value: str, times: int
) -> None:
    monkeypatch.setenv("BENCH_NO_CACHE", value)
    with config_context(Session.from_environment()):
        for _ in range(2):
            Encoder(str(folder)).encode(["a"])
    assert model.asked == ["a"] * times
    assert (own_cache / "vectors").exists() == (times == 1)


def test_while_latencies_are_measured_a_loaded_model_encodes_anew_whoever_loaded_it(
    folder: Path, model: Counting
) -> None:
    Encoder(str(folder)).encode(["a"])
    other = Encoder(str(folder))
    with time_without_cache() as timing:
        other.encode(["a"])
    assert model.asked == ["a", "a"]
    assert not timing.cached
    # Such work is not counted.
    assert (other.computed, other.from_cache) == (0, 0)


def test_while_latencies_are_measured_a_model_that_is_not_loaded_uses_the_cache_and_says_so(
    folder: Path, model: Counting
) -> None:
    Encoder(str(folder)).encode(["a"])
    current_session().loaded.clear()
    with time_without_cache() as timing:
        Encoder(str(folder)).encode(["a"])
    assert model.asked == ["a"]
    assert timing.cached


# Batches ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("own_cache")
def test_vectors_in_batches_of_tokens_are_those_of_sentence_transformers() -> None:
    model = encoders._load_model(Path(Encoder("minilm").folder))
    texts = [" ".join(f"word{i} of tool" for i in range(count)) for count in (1, 400, 3, 1, 60, 7, 9, 150, 2)]
    encoder = Encoder("minilm", prompt="query: ")
    expected = model.encode(["query: " + text for text in texts], show_progress_bar=False)
    np.testing.assert_allclose(encoder.encode(texts), expected, rtol=0, atol=1e-5)


def test_texts_of_one_batch_have_about_the_same_number_of_tokens(folder: Path, model: Counting) -> None:
    class Tokenizing(Counting):
        """Each character is a token."""

        max_seq_length = 100
        batches: ClassVar[list[list[int]]] = []

        def tokenizer(self, texts: list[str], *, truncation: bool, max_length: int) -> dict[str, list[list[int]]]:
            return {"input_ids": [[0] * min(len(text), max_length) for text in texts]}

        def encode(self, texts: Sequence[str], **options: Any) -> NDArray[np.float64]:
            self.batches.append([len(text) for text in texts])
            return super().encode(texts, **options)

    made = Tokenizing([])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoders, "_load_model", made.load)
        texts = [f"{i:0{1 + i % 150}d}" for i in range(300)]
        result = Encoder(str(folder)).encode(texts)
    assert result[:, 0].tolist() == [len(text) for text in texts]
    assert sum(map(len, made.batches)) == len(set(texts))
    assert all(min(100, max(batch)) * len(batch) <= 2048 for batch in made.batches)
    assert len(made.batches) < 20


def test_vectors_of_different_lengths_are_told(folder: Path, model: Counting, monkeypatch: pytest.MonkeyPatch) -> None:
    encoder = Encoder(str(folder))
    encoder.encode(["a"])
    monkeypatch.setattr(model, "encode", lambda texts, **options: np.zeros((len(texts), 4)))
    with pytest.raises(UnavailableError, match="different lengths"):
        encoder.encode(["a", "b"])


# Backends -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "backend", "tolerance"),
    [
        ("tiny", "openvino", 1e-5),
        pytest.param(EMBEDDED, "openvino-bf16", 0.02, marks=pytest.mark.slow("trained models")),
    ],
)
def test_a_backend_gives_nearly_the_same_vectors_under_an_identity_of_its_own(
    name: str, backend: Any, tolerance: float, tiny_models: dict[str, str]
) -> None:
    name = tiny_models["encoder"] if name == "tiny" else name
    texts = ["find a room", "book a seat on a train " * 20, "a", ""]
    torch_encoder, other = Encoder(name), Encoder(name, backend=backend)
    other.preflight()
    expected, vectors = torch_encoder.encode(texts), other.encode(texts)
    np.testing.assert_allclose(vectors, expected, atol=tolerance)
    assert not np.array_equal(vectors, expected)
    assert other.revisions() != torch_encoder.revisions()
    assert (other.computed, other.from_cache) == (len(texts), 0)


def test_a_backend_that_cannot_be_had_is_told_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="models on this machine"):
        Encoder("openai:some-model", backend="openvino").preflight()
    monkeypatch.setattr("bench.models.compiled._openvino", lambda: None)
    with pytest.raises(UnavailableError, match="pip install openvino"):
        Encoder(EMBEDDED, backend="openvino-bf16").preflight()


def test_a_faster_backend_is_offered_where_it_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    (tmp_path / "new").write_text("flags: sse avx512_bf16 amx_tile", "utf-8")
    (tmp_path / "old").write_text("flags: sse avx512_vnni", "utf-8")
    offer = offer_backend(1000, tmp_path / "new")
    assert offer is None if torch.cuda.is_available() else "changes cosines by up to about 0.0025" in str(offer)
    assert offer_backend(999, tmp_path / "new") is None
    assert offer_backend(1000, tmp_path / "old") is None
    assert offer_backend(1000, tmp_path / "none") is None
    monkeypatch.setattr("bench.models.compiled._openvino", lambda: None)
    assert offer_backend(1000, tmp_path / "new") is None


def test_an_encoder_without_a_transformer_has_no_other_backend(tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import StaticEmbedding
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(Encoder(EMBEDDED).folder / "tokenizer.json"))
    weights = np.ones((tokenizer.get_vocab_size(), 4), dtype=np.float32)
    SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)]).save(str(tmp_path / "static"))
    with pytest.raises(UnavailableError, match="first part is not one"):
        Encoder(str(tmp_path / "static"), backend="openvino").encode(["a"])
