"""What tables call the choices of a language model."""

from __future__ import annotations

import pytest

from bench.results.choices import choice_label
from bench.results.manifest import MethodIdentity


@pytest.mark.parametrize(
    ("spec", "label"),
    [
        ("choose(base=bm25(k1=2.0), form=json, llm=m, order=ranked, seed=3, shown=3)",
         "bm25(k1=2.0), 3 shown, form json, order ranked, seed 3, m"),
        ('choose(base=oracle(), form=calls, llm="local:a.gguf@sha256:0123", order=shuffled, seed=0, shown=100)',
         "the gold alone, local:a.gguf@sha256:0123"),
        ("choose(base=random(), form=calls, llm=org/m, order=shuffled, seed=0, shown=0)", "the whole library, m"),
        ("choose(base=bm25(), form=calls, llm=org/m, order=shuffled, seed=0, shown=0)", "all that bm25 finds, m"),
        ("choose(base=planted(base=random), form=calls, llm=m, order=shuffled, seed=0, shown=5)",
         "random, with the gold put in, 5 shown, m"),
        ("choose(base=planted(gold=out), form=calls, llm=m, order=shuffled, seed=0, shown=5)",
         "dense, without the gold, 5 shown, m"),
        ("choose(llm=m)", "its own spec"),
    ],
)  # fmt: skip
def test_the_label_of_a_choice(spec: str, label: str) -> None:
    method = MethodIdentity.model_construct(
        spec="its own spec", full_spec=spec, hash="0", code="0", revisions={}, oracle=False, needs_llm=True
    )
    assert choice_label(method) == label
