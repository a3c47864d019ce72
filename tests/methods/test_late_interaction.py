"""late-interaction: MaxSim by hand and against two loops, and the vectors of tokens of the embedded encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from kit.rankings import make_queries
from numpy.typing import NDArray

from bench.base.errors import UnavailableError
from bench.data.dataset import Dataset
from bench.interface import Method, Queries
from bench.methods.late_interaction import method as late_interaction
from bench.methods.late_interaction.method import max_similarities
from bench.methods.late_interaction.tokenvectors import TokenEncoder, Tokens
from bench.models.encoders import EMBEDDED, Encoder
from bench.models.vectorcache import VectorCache, text_key
from bench.registry import build_method
from bench.search.scoring import ScoringMethod

Make = Callable[..., Dataset]
Prepared = Callable[..., Method]
#: Tokens by id and vector; ids are those of MiniLM's vocabulary.
Said = Mapping[str, Sequence[tuple[str, tuple[float, float]]]]

TOOLS = {"a": "north east", "b": "slope, slope", "c": "..."}
SAID: Said = {
    "north east": [("north", (0.0, 1.0)), ("east", (1.0, 0.0))],
    "slope, slope": [("slope", (0.6, 0.8)), (",", (-1.0, 0.0)), ("slope", (0.6, 0.8))],
    "...": [(".", (0.0, 1.0))] * 3,
    "asked": [("north", (0.0, 1.0)), ("slope", (0.8, 0.6)), (".", (-1.0, 0.0))],
    "": [],
}


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Give texts tokens of our own in the cache: the encoder then answers with these, without a model."""
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    encoder = TokenEncoder(EMBEDDED)
    numbers = {piece: number for number, piece in encoder.pieces.items()}
    cache = VectorCache(encoder.identity)
    for text, tokens in SAID.items():
        ids = np.array([numbers[piece] for piece, _ in tokens], dtype=np.int64)
        vectors = np.array([vector for _, vector in tokens], dtype=np.float32).reshape(-1, 2)
        cache.put({text_key(text): Tokens(ids, vectors).packed()})
    cache.close()


def scored(method: Method, *texts: str) -> NDArray[np.float64]:
    assert isinstance(method, ScoringMethod)
    return method.score(make_queries(*texts))


@pytest.mark.usefixtures("said")
def test_by_hand(make: Make, prepared: Prepared) -> None:
    method = prepared("late-interaction", make(TOOLS))
    # a: north finds north (1), slope finds east (0.8), the full stop is at a right angle to north (0).
    # b: 0.8, then 0.48 + 0.48, then -0.6: the comma that it would match is no word. c: has no word.
    assert scored(method, "asked")[0] == pytest.approx([1.0 + 0.8 + 0.0, 0.8 + 0.96 - 0.6, -np.inf], abs=1e-3)
    assert method.rank(Queries(("asked",), np.arange(1)), 3).tools.tolist() == [[0, 1, -1]]
    assert method.facts()["tool_tokens"] == 4


@pytest.mark.usefixtures("said")
def test_a_query_without_a_token_finds_nothing(make: Make, prepared: Prepared) -> None:
    result = scored(prepared("late-interaction", make(TOOLS)), "", "asked", "")
    assert np.isneginf(result[[0, 2]]).all()
    assert np.isfinite(result[1, :2]).all()


def two_loops(queries: list[NDArray[np.float64]], tools: list[NDArray[np.float16]]) -> NDArray[np.float64]:
    """The definition, token by token."""
    result = np.zeros((len(queries), len(tools)))
    for row, query in enumerate(queries):
        for column, tool in enumerate(tools):
            for values in query:
                result[row, column] += max(float(values @ other.astype(np.float64)) for other in tool)
    return result


@pytest.mark.parametrize("block", [1, 40, 1 << 22])
def test_against_two_loops_however_the_library_is_cut(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(late_interaction, "BLOCK", block)
    random = np.random.default_rng(0)
    queries = [random.normal(size=(count, 5)) for count in (1, 4, 2)]
    tools = [random.normal(size=(count, 5)).astype(np.float16) for count in (3, 1, 1, 7, 2)]
    expected = two_loops(queries, tools)
    assert np.add.reduceat(max_similarities(np.concatenate(queries), tools), [0, 1, 5], axis=0) == pytest.approx(
        expected
    )
    method = build_method("late-interaction")
    answers = {f"query {row}": Tokens(np.arange(len(one)), one.astype(np.float32)) for row, one in enumerate(queries)}
    vars(method).update(_tools=5, _vectors=tools)
    monkeypatch.setattr(TokenEncoder, "encode", lambda _, texts: [answers[text] for text in texts])
    assert scored(method, *answers) == pytest.approx(expected, abs=1e-5)


def test_the_vectors_of_tokens_are_those_that_the_encoder_pools() -> None:
    text, other = "Sends a letter.", "Looks up the weather for a town and its surroundings"
    tokens, longer = TokenEncoder(EMBEDDED).encode([text, other])
    pieces = TokenEncoder(EMBEDDED).pieces
    assert [pieces[int(number)] for number in tokens.ids] == ["sends", "a", "letter", "."]
    assert len(longer) == 10
    assert np.linalg.norm(tokens.vectors, axis=1) == pytest.approx(np.ones(4), abs=1e-5)
    # Mean pooling also takes the two special tokens and vectors of other lengths: near, and not another text's.
    pooled = Encoder(EMBEDDED).encode([text])[0]
    mean, far = tokens.vectors.mean(axis=0), longer.vectors.mean(axis=0)
    cosine = [float(pooled @ one / np.linalg.norm(pooled) / np.linalg.norm(one)) for one in (mean, far)]
    assert cosine[0] > 0.95
    assert cosine[1] < 0.6
    (nothing,) = TokenEncoder(EMBEDDED).encode([""])
    assert len(nothing) == 0


def test_a_model_behind_an_endpoint_gives_no_tokens() -> None:
    with pytest.raises(UnavailableError, match="no vectors of tokens"):
        TokenEncoder("openai:some-model").preflight()
