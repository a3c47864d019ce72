"""A fixed recipe that does well everywhere, without training, past queries or a language model."""

from __future__ import annotations

from bench.base.parameters import ParameterSet
from bench.base.spec import parse
from bench.interface import Context, Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Explanation

#: Words of names, words of fields, and meaning: 0.2 names + 0.8 (0.4 bm25-fields + 0.6 dense), each part scaled to [0,
#: 1] per query. Chosen only on dev and train queries: `benchmarks/recommended.py`.
RECIPE = (
    "hybrid(methods=[names, hybrid(methods=[bm25-fields, dense], weight=0.4, learn=false)], weight=0.2, learn=false)"
)


class Recommended(Method):
    """A good default: names, fields and embeddings together, with fixed weights that suit most datasets.

    It is `hybrid` of `names` (weight 0.2) and of the `hybrid` of `bm25-fields` (0.4) and `dense` with the embedded
    encoder (0.6). It has no parameters, learns nothing, and reads names, descriptions and parameters with any template,
    besides the text for the encoder. Past queries are not used: with many of them, a method that learns from them is
    better.
    """

    def __init__(self, parameters: ParameterSet, context: Context) -> None:
        super().__init__(parameters, context)
        self._recipe = context.build(parse(RECIPE))

    def index(self, library: Library) -> None:
        self._recipe.index(library)

    def rank(self, queries: Queries, depth: int) -> Ranking:
        return self._recipe.rank(queries, depth)

    def explain(self, case: Case) -> Explanation:
        """What names, fields and embeddings add."""
        return case.answer(self._recipe).explanation
