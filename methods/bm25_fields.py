"""BM25F: BM25 over name, description, parameters and parent, each field with its own weight."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.errors import UsageError
from bench.base.parameters import ParameterSet
from bench.data.tables import Tool
from bench.interface import Context, Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Explanation
from bench.search.lexical import LexicalIndex, count_matrix
from bench.search.names import name_words
from bench.search.words import words

if TYPE_CHECKING:
    import scipy.sparse as sp


def _of_parameters(tool: Tool) -> list[str]:
    return [word for each in tool.parameters for word in (*name_words(each.name), *words(each.description))]


#: Field -> its words in a tool. A title is a name for people.
FIELDS: dict[str, Callable[[Tool], list[str]]] = {
    "name": lambda tool: name_words(tool.name) + words(tool.title),
    "description": lambda tool: words(tool.description),
    "parameters": _of_parameters,
    "parent": lambda tool: name_words(tool.parent),
}


class BM25Fields(Method):
    """BM25F over name, description, parameters and parent (Robertson, Zaragoza & Taylor 2004; Zaragoza et al. 2004).

    tf = Σ over fields of weight · tf_field / (1 - b_field + b_field · len_field / mean len_field), and
    score = Σ over query words of ln(1 + (N - df + 0.5) / (df + 0.5)) · tf / (tf + k1).

    All fields of a tool share one saturation, so a word in name and description does not count as two words. df is the
    number of tools with the word in a field of positive weight. With one field of weight 1, the score is that of `bm25`
    over this field. Names of tools, parameters and parents are split at camelCase, underscores, hyphens and dots. The
    fields are those of the tool: the template of the run has no effect. Tools that share no word with the query are not
    returned.

    A name weighs twice as much as each other field, because its author chose few words for what the tool does. The
    length of a name or of a parent is not normalised as strongly (b = 0.3) as that of prose (0.75): a longer name is
    more precise rather than more verbose. The weights were compared on train and dev queries of starter, metatool,
    rectools and toollens.
    """

    class Parameters(ParameterSet):
        name: float = Field(2.0, ge=0, le=1000, description="weight of the name and title")
        description: float = Field(1.0, ge=0, le=1000, description="weight of the description")
        parameters: float = Field(1.0, ge=0, le=1000, description="weight of names and descriptions of parameters")
        parent: float = Field(1.0, ge=0, le=1000, description="weight of the parent's name, such as the server")
        b_name: float = Field(0.3, ge=0, le=1, description="length normalisation of the name (b)")
        b_description: float = Field(0.75, ge=0, le=1, description="length normalisation of the description (b)")
        b_parameters: float = Field(0.75, ge=0, le=1, description="length normalisation of the parameters (b)")
        b_parent: float = Field(0.3, ge=0, le=1, description="length normalisation of the parent (b)")
        k1: float = Field(1.2, ge=0, description="term-frequency saturation (k1)")

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        if not self._weights():
            raise UsageError("bm25-fields needs a field with a weight above 0, as in bm25-fields(name=2).")

    def _weights(self) -> dict[str, float]:
        """Field -> weight, of the fields that count."""
        weights = {field: float(getattr(self.parameters, field)) for field in FIELDS}
        return {field: weight for field, weight in weights.items() if weight > 0}

    def index(self, library: Library) -> None:
        import scipy.sparse as sp

        fields = {field: [FIELDS[field](tool) for tool in library.tools] for field in self._weights()}
        every = dict.fromkeys(word for documents in fields.values() for document in documents for word in document)
        vocabulary = {word: column for column, word in enumerate(every)}
        tf = sp.csr_matrix((len(library), len(vocabulary)))
        for field, weight in self._weights().items():
            b = float(getattr(self.parameters, f"b_{field}"))
            tf = tf + weight * _normalised(count_matrix(fields[field], vocabulary), b)
        self._index = LexicalIndex(vocabulary, _saturated(tf.tocsr(), self.parameters.k1))

    def score(self, queries: Queries) -> NDArray[np.float64]:
        return self._index.score(self._index.counts(map(words, queries.texts)))

    def rank(self, queries: Queries, depth: int) -> Ranking:
        # Every weight is positive: a score of zero means that no word is shared.
        return self._index.rank(self._index.counts(map(words, queries.texts)), depth, shared=True)

    def explain(self, case: Case) -> Explanation:
        """What each shared word adds, and how many query words each field has."""
        from bench.search.explanation import explain_words

        counted = tuple(self._weights())
        field_words = {field: [FIELDS[field](tool) for tool in case.library.tools] for field in counted}
        texts = tuple(
            " ".join(word for field in counted for word in field_words[field][code])
            for code in range(len(case.library))
        )
        explanation = explain_words(self, replace(case, library=replace(case.library, texts=texts)), words)
        query_words = set(words(case.text))
        reasons = {
            tool: replace(
                reason, cells=tuple(len(query_words.intersection(field_words[field][tool])) for field in counted)
            )
            for tool, reason in explanation.reasons.items()
        }
        columns = tuple(f"in {field}" for field in counted)
        return replace(explanation, columns=columns, reasons=reasons)


def _normalised(counts: sp.csr_matrix, b: float) -> sp.csr_matrix:
    """Counts of words in one field, (tools, words), normalised by the length of a tool's field."""
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    mean = lengths.mean() or 1.0
    rows = np.repeat(np.arange(len(lengths)), np.diff(counts.indptr))
    scaled = counts.copy()
    scaled.data = counts.data / (1 - b + b * lengths[rows] / mean)
    return scaled


def _saturated(tf: sp.csr_matrix, k1: float) -> sp.csr_matrix:
    """(tools, words) idf · tf / (tf + k1)."""
    df = np.bincount(tf.indices, minlength=tf.shape[1])
    idf = np.log1p((tf.shape[0] - df + 0.5) / (df + 0.5))
    weights = tf.copy()
    weights.data = idf[weights.indices] * tf.data / (tf.data + k1)
    return weights
