"""Views: what a method may see of the library, the history and the queries. They never contain test gold.

The runner builds these views; a method receives nothing else of the dataset.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.data.gold import Gold
from bench.data.tables import SPLITS, Tool
from bench.data.template import Template

if TYPE_CHECKING:
    from bench.data.dataset import Dataset


@dataclass(frozen=True)
class Library:
    """The candidate tools. Tool codes everywhere are positions in `tools` (sorted by tool_id).

    Attributes:
        tools: (tools,) rows with name, description, category, parent, parameters, returns.
        texts: (tools,) the text of each tool by the run's template.
        template: the template's name.
        edges: annotated dependencies, (edges, 2) int32 codes [dependent, prerequisite]; may be empty.

    Examples:
        >>> data = bench.load_dataset("starter")
        >>> library = bench.Library.of(data, "name_description")
        >>> len(library) == len(library.tools) == len(library.texts)
        True
        >>> library.codes[library.tools[3].tool_id]
        3
    """

    tools: tuple[Tool, ...]
    texts: tuple[str, ...]
    template: Template
    edges: NDArray[np.int32]

    @staticmethod
    def of(dataset: Dataset, template: Template) -> Library:
        codes = dataset.tool_codes
        edges = [(codes[edge.dependent], codes[edge.prerequisite]) for edge in dataset.edges]
        return Library(
            dataset.tools,
            tuple(tool.text(template) for tool in dataset.tools),
            template,
            np.array(edges, dtype=np.int32).reshape(-1, 2),
        )

    def __len__(self) -> int:
        return len(self.tools)

    @cached_property
    def codes(self) -> dict[str, int]:
        """tool_id -> code."""
        return {tool.tool_id: code for code, tool in enumerate(self.tools)}

    @cached_property
    def content_hash(self) -> str:
        """sha256 over ids and texts: the key of embeddings and indexes of this library."""
        rows = [[tool.tool_id, text] for tool, text in zip(self.tools, self.texts, strict=True)]
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


@dataclass(frozen=True)
class History:
    """Past queries with their gold: the train and dev splits without the evaluated queries.

    Attributes:
        library: the tools that `gold` refers to.
        texts: (queries,) query texts.
        gold: judgements of these queries; a row is a bundle.
        split: (queries,) index into ("train", "dev", "test").

    Examples:
        >>> data = bench.load_dataset("starter")
        >>> library = bench.Library.of(data, "name_description")
        >>> history = bench.History.of(data, library, data.rows("test"))
        >>> len(history) == len(data.rows("train")) + len(data.rows("dev"))
        True
        >>> [library.tools[code].tool_id for code in history.gold.row(0)]
        ['branchyard.search_code']
    """

    library: Library
    texts: tuple[str, ...]
    gold: Gold
    split: NDArray[np.int8]

    @staticmethod
    def of(dataset: Dataset, library: Library, evaluated: NDArray[np.int64]) -> History:
        """Train and dev without the evaluated queries; test queries are never history."""
        rows = History.rows(dataset, evaluated)
        return History(
            library, tuple(dataset.queries[row].text for row in rows), dataset.gold.take(rows), dataset.splits[rows]
        )

    @staticmethod
    def rows(dataset: Dataset, evaluated: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows of the dataset that are past queries."""
        past = dataset.splits != SPLITS.index("test")
        past[evaluated] = False
        return np.flatnonzero(past)

    def take(self, rows: NDArray[np.int64]) -> History:
        """The chosen past queries."""
        return History(self.library, tuple(self.texts[row] for row in rows), self.gold.take(rows), self.split[rows])

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class Queries:
    """The queries to answer.

    Attributes:
        texts: (queries,) query texts.
        rows: (queries,) the query's number in this run: the same in every batch. The order is unrelated to the
            queries' ids, because upstream often sorts its files by gold.
        scope: (queries, ceil(library / 8)) uint8, `numpy.packbits` of the tools that each request may see; None if
            all may see the whole library. It applies to every method (`bench.interface.scope`).

    Examples:
        >>> data = bench.load_dataset("starter")
        >>> queries = bench.Queries.of(data, data.rows("test"))
        >>> len(queries), queries.rows[:3].tolist()
        (134, [0, 1, 2])
    """

    texts: tuple[str, ...]
    rows: NDArray[np.int64]
    scope: NDArray[np.uint8] | None = None

    @staticmethod
    def of(dataset: Dataset, rows: NDArray[np.int64]) -> Queries:
        """The queries of these rows of the dataset, numbered from 0 in the given order."""
        scope = None if dataset.scope is None else dataset.scope[rows]
        return Queries(tuple(dataset.queries[row].text for row in rows), np.arange(len(rows)), scope)

    def __len__(self) -> int:
        return len(self.texts)

    def take(self, positions: NDArray[np.int64]) -> Queries:
        """The queries at these positions."""
        return self.reworded(tuple(self.texts[position] for position in positions), positions)

    def reworded(self, texts: tuple[str, ...], positions: NDArray[np.int64]) -> Queries:
        """The queries at these positions, which may repeat, with other texts."""
        return Queries(texts, self.rows[positions], None if self.scope is None else self.scope[positions])
