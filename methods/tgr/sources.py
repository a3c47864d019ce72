"""Sources of dependency edges: rules, annotations, a trained discriminator, or a file."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.base.errors import UsageError
from bench.base.paths import expand_path, sha256_of
from bench.base.progress import QUIET, Progress
from bench.data.edges import read_edges
from bench.interface import Library
from bench.methods.tgr.candidates import NEAREST, Within
from bench.methods.tgr.discriminator import Discriminator
from bench.methods.tgr.edges import Edges, coded
from bench.methods.tgr.rules import rule_edges

#: The names of graphs that are not files.
GRAPHS = ("rules", "manual", "discriminator")


@dataclass(frozen=True)
class GraphSource:
    """A choice of graph.

    Attributes:
        graph: one of `GRAPHS`, or a TSV file of edges.
        most_producers: graph=rules: a handle that more tools return than this makes no edge.
        discriminator: graph=discriminator: the classifier's folder.
        nearest, within: graph=discriminator: which pairs to classify.
        progress: receives the progress of long work.
    """

    graph: str
    most_producers: int = 3
    discriminator: str = ""
    nearest: int = NEAREST
    within: Within = "library"
    progress: Progress = QUIET

    @cached_property
    def classifier(self) -> Discriminator:
        """The discriminator; raises `UsageError` if none is named."""
        return Discriminator(self.discriminator, self.progress)

    @property
    def name(self) -> str:
        """The name of the graph, for the methods that use this."""
        return self.graph

    def _file(self) -> Path:
        path = expand_path(self.graph)
        if not path.is_file():
            names = ", ".join(f"`{name}`" for name in GRAPHS)
            raise UsageError(f"graph={self.graph} is neither {names} nor an existing file.")
        return path

    def revisions(self) -> dict[str, str]:
        """Content hashes of the models or files that the edges depend on."""
        if self.graph == "discriminator":
            return self.classifier.revisions()
        return {} if self.graph in GRAPHS else {self.graph: sha256_of(self._file())}

    def check(self, library: Library) -> None:
        """Raise a `BenchError` if the edges are unavailable; classifies nothing."""
        if self.graph == "discriminator":
            self.classifier.settings  # noqa: B018 - reads the model's settings, or says that they are missing
        else:
            self.edges(library)

    def edges(self, library: Library) -> Edges:
        """(edges, 2) int32 codes [dependent, prerequisite].

        Raises:
            UsageError: `manual` on a library without annotated edges; no discriminator named; no such file.
            UnavailableError: the discriminator cannot be read.
            DataError: the file is not an edge list, or names unknown tools.
        """
        if self.graph == "rules":
            return rule_edges(library.tools, self.most_producers)
        if self.graph == "discriminator":
            return self.classifier.edges(library.tools, self.nearest, self.within)
        if self.graph == "manual":
            if not len(library.edges):
                raise UsageError(
                    "graph=manual needs a dataset with annotated edges; this one has none: use graph=rules."
                )
            return library.edges
        path = self._file()
        return coded(read_edges(path), library.codes, str(path))
