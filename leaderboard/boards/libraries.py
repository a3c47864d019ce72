"""Results on other libraries, `DATASET(distractors=CATALOGUE, tools=N)`: their dataset, and curves over library size.

The same queries over libraries of several sizes form a curve. Pages do not show a board of such a library as a dataset
of its own, but under the dataset that its queries come from.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.base.errors import UsageError
from bench.base.spec import Spec, parse
from bench.comparison.rows import competes
from bench.leaderboard.boards.board import RANKED, Board, Row, titles
from bench.leaderboard.boards.tables import read_columns
from bench.results.comparability import metric_difference
from bench.results.store import PER_QUERY

#: The metric drawn against library size, which also sorts boards.
METRIC = RANKED[0]
_OPTIONS = frozenset({"distractors", "tools", "duplicates", "seed"})
#: Upper bound of library sizes; a result may claim any number.
_MOST_TOOLS = 10**9


@dataclass(frozen=True)
class LibraryVariant:
    """A dataset's library as its spec describes it, if it is not the dataset's own.

    Attributes:
        base: spec of the dataset with its own library.
        series: the spec without the size; draws of one series are nested.
        distractors: dataset whose tools are added; empty if none are.
        duplicates: how near-duplicates of the tools that queries name are handled.
        seed: seed of the draw.
    """

    base: str
    series: str
    distractors: str
    duplicates: str
    seed: int

    @property
    def words(self) -> str:
        """What distinguishes the series from others of the same dataset."""
        parts = [f"with {self.distractors}" if self.distractors else "a part of its own tools"]
        parts += [] if self.duplicates == "drop" else [f"duplicates={self.duplicates}"]
        parts += [f"seed={self.seed}"] if self.seed else []
        return ", ".join(parts)


def library_of(spec: str) -> LibraryVariant | None:
    """The library in a dataset's spec; None if it is the dataset's own or the spec cannot be read."""
    try:
        read = parse(spec)
    except UsageError:
        return None
    given = dict(read.arguments)
    distractors, duplicates, seed = given.get("distractors", ""), given.get("duplicates", "drop"), given.get("seed", 0)
    if not isinstance(distractors, str) or not isinstance(duplicates, str) or not isinstance(seed, int):
        return None
    if not distractors and given.get("tools") is None:
        return None
    base = Spec.of(read.name, {name: value for name, value in read.arguments if name not in _OPTIONS})
    series = Spec.of(read.name, {name: value for name, value in read.arguments if name != "tools"})
    return LibraryVariant(str(base), str(series), distractors, duplicates, seed)


def base_of(spec: str) -> str:
    """The spec of the dataset with its own library."""
    library = library_of(spec)
    return spec if library is None else library.base


def bases(specs: Collection[str]) -> frozenset[str]:
    """Datasets that have results on another library."""
    return frozenset(library.base for spec in specs if (library := library_of(spec)) is not None)


def drop_library_variants(boards: Sequence[Board]) -> list[Board]:
    """Boards without those of other library sizes, which stand under the board of their dataset if it has one."""
    there = {board.spec for board in boards}
    libraries = ((board, library_of(board.spec)) for board in boards)
    return [board for board, library in libraries if library is None or library.base not in there]


@dataclass(frozen=True)
class BoardCurve:
    """A method over library sizes: its row and value at each size that it has."""

    title: str
    row: Row
    points: Mapping[int, Row]

    @property
    def competes(self) -> bool:
        """Whether it is neither floor nor oracle."""
        return competes(self.row.result)


@dataclass(frozen=True)
class Curves:
    """A series of libraries.

    Attributes:
        library: the series' library.
        boards: size -> board; includes the dataset's own library if its queries are the same.
        curves: methods with two or more sizes, best first on the largest library, oracles last.
        single: number of methods with only one size.
        older: results of other scoring code than the newest one, which the curves leave out.
    """

    library: LibraryVariant
    boards: Mapping[int, Board]
    curves: tuple[BoardCurve, ...]
    single: int
    older: int

    @property
    def failed(self) -> int:
        """Failed queries over all points."""
        return sum(row.result.metrics.n_failed for curve in self.curves for row in curve.points.values())


def curves_of(base: str, main: Mapping[str, Board]) -> list[Curves]:
    """The series of a dataset, those with most sizes first.

    Args:
        base: spec of the dataset.
        main: spec -> the board that counts for it.

    Raises:
        ResultError: a table cannot be read.
    """
    series: dict[tuple[str, tuple[object, ...]], list[Board]] = {}
    libraries: dict[str, LibraryVariant] = {}
    for spec, board in sorted(main.items()):
        library = library_of(spec)
        if library is not None and library.base == base and _sound(board):
            libraries[library.series] = library
            # A board that claims the same dataset but has other queries is a separate series.
            series.setdefault((library.series, _queries_of(board)), []).append(board)
    base_board = main.get(base)
    base_queries = _queries_of(base_board) if base_board is not None and _sound(base_board) else None
    curves = []
    for (name, queries), boards in series.items():
        whole = [base_board, *boards] if base_board is not None and queries == base_queries else boards
        curves.append(_curves(libraries[name], whole))
    return sorted(curves, key=lambda item: (-len(item.boards), item.library.series))


def _sound(board: Board) -> bool:
    return 0 < board.first.manifest.dataset.tools < _MOST_TOOLS


def _queries_of(board: Board) -> tuple[object, ...]:
    """The queries and their numbers of gold tools."""
    table = read_columns(board.first, PER_QUERY, ["query_id", "n_gold"])
    return (board.split, *table["query_id"].to_pylist(), *table["n_gold"].to_pylist())


def _curves(library: LibraryVariant, boards: Sequence[Board]) -> Curves:
    sizes: dict[int, Board] = {}
    for board in boards:
        sizes.setdefault(board.first.manifest.dataset.tools, board)
    sizes = dict(sorted(sizes.items()))
    rows = [row for board in sizes.values() for row in board.rows]
    newest = max(rows, key=lambda row: row.result.manifest.environment.created).result.manifest
    older = {row.id for row in rows if metric_difference(newest, row.result.manifest, METRIC) is not None}
    points: dict[str, dict[int, Row]] = {}
    for size, board in sizes.items():
        for row in board.rows:
            # Of two rows that read the same, keep the better one.
            if row.id not in older and METRIC in row.result.metrics.metrics:
                points.setdefault(row.key, {}).setdefault(size, row)
    several = sorted((by_size for by_size in points.values() if len(by_size) > 1), key=_order)
    last = [by_size[max(by_size)] for by_size in several]
    curves = [BoardCurve(title, row, by_size) for title, row, by_size in zip(titles(last), last, several, strict=True)]
    return Curves(library, sizes, tuple(curves), len(points) - len(several), len(older))


def _order(points: Mapping[int, Row]) -> tuple[bool, int, float, str]:
    largest = max(points)
    row = points[largest]
    return row.oracle, -largest, -row.result.metrics.metrics[METRIC].mean, row.key


def list_series(base: str, boards: Sequence[Board]) -> Iterator[tuple[str, list[Board]]]:
    """The boards under a dataset: for each series its description and its boards by size."""
    by_series: dict[str, tuple[str, list[Board]]] = {}
    for board in boards:
        library = library_of(board.spec)
        if library is not None and library.base == base:
            by_series.setdefault(library.series, (library.words, []))[1].append(board)
    for _, (words, series_boards) in sorted(by_series.items()):
        yield words, sorted(series_boards, key=lambda board: (board.first.manifest.dataset.tools, board.slug))
