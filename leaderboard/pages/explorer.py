"""The query explorer: the first tools of each method for each query, and the ranks of the other gold tools.

The page loads its data by script elements that call a function, which works from disk as well as from a server: one
block of queries at a time, the values of the selected metric, and the search index once a search starts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.base.text import clean, shorten
from bench.data.dataset import Dataset
from bench.leaderboard.boards.board import RANKED, Board, Row
from bench.leaderboard.boards.registered import BoardData
from bench.leaderboard.boards.tables import read_columns, read_run
from bench.leaderboard.pages.registry import Page
from bench.leaderboard.writer import Writer
from bench.results.store import PER_QUERY, RUN

#: Maximum methods of an explorer: the best of each family first. Ten tools of each are written for every query.
MOST_METHODS = 12
DEPTH = 10
#: Queries per file.
BLOCK = 250
_LONGEST_TEXT = 1200
#: Characters of the values' codes: they need no escaping in a script.
_SIGNS = np.array(list("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz-_"))
#: Raise this when the files' format changes.
_FORM = "3"


@dataclass(frozen=True)
class Explorer:
    """What the page needs to know about the data."""

    rows: tuple[Row, ...]
    queries: int
    text: bool
    gold: bool
    note: str
    metrics: tuple[str, ...] = RANKED


def chosen(board: Board) -> tuple[Row, ...]:
    """The rows whose answers are shown: the best of each family, then the best of the rest, best first.

    Rows without a stored ranking have no answers. Of rows with equal values on every query, one is enough.
    """
    return _best([row for row in board.rows if row.result.has_run])


def compared_rows(board: Board) -> tuple[Row, ...]:
    """The rows of the explorer: those whose answers are shown, then as many with values only."""
    answers = chosen(board)
    known = {_digest(row) for row in answers}
    rest = _best([row for row in board.rows if not row.result.has_run], known)
    kept = {row.id for row in (*answers, *rest)}
    return tuple(row for row in board.rows if row.id in kept)


def _best(rows: Sequence[Row], known: Collection[bytes] = ()) -> tuple[Row, ...]:
    by_digest: dict[bytes, Row] = {}
    for row in rows:
        by_digest.setdefault(_digest(row), row)
    usable = [row for digest, row in by_digest.items() if digest and digest not in known]
    best = {row.family: row for row in reversed(usable)}
    kept = {row.id for row in sorted(usable, key=lambda row: best[row.family] is not row)[:MOST_METHODS]}
    return tuple(row for row in usable if row.id in kept)


def _digest(row: Row) -> bytes:
    """The digest of its values; empty if it has none."""
    return b"" if row.values is None else hashlib.sha256(row.values.tobytes()).digest()


def write_explorer(board: Board, data: BoardData, writer: Writer) -> Explorer | None:
    """Write the data of a board's explorer; None if no method's answers can be shown.

    Raises:
        ResultError: a ranking cannot be read.
    """
    if not chosen(board):
        return None
    rows = compared_rows(board)
    first = read_columns(rows[0].result, PER_QUERY, ["query_id", "n_gold"])
    ids = first["query_id"].to_pylist()
    judged = first["n_gold"].to_numpy() > 0
    blocks = -(-len(ids) // BLOCK)
    texts = data.may_show and data.dataset is not None
    made_from = [_FORM, data.dataset.content_hash if data.dataset else "", str(texts)]
    made_from += [f"{row.id} {row.result.manifest.files.get(RUN, '')} {row.result.has_run} {row.name}" for row in rows]
    made_from += [row.result.manifest.files.get(PER_QUERY, "") for row in rows]
    key = hashlib.sha256("\n".join(made_from).encode("utf-8", "surrogatepass")).hexdigest()

    @cache
    def read_blocks() -> list[str]:
        # Read the rankings once for all blocks, and not at all if the blocks exist already.
        return _blocks(rows, ids, data.dataset, texts)

    folder = f"e/{board.slug}"
    metrics = list(enumerate(RANKED))
    writer.put_made(
        f"{folder}/values.js", key, lambda: "".join(_values(name, rows, column, judged) for column, name in metrics)
    )
    writer.put_made(f"{folder}/search.js", key, lambda: _search(ids, data.dataset, texts))
    for number in range(blocks):
        writer.put_made(f"{folder}/q{number}.js", key, lambda number=number: read_blocks()[number])  # type: ignore[misc]
    return Explorer(rows, len(ids), texts, data.dataset is not None, _note(data))


def _note(data: BoardData) -> str:
    if data.dataset is None:
        return (
            f"{data.why_not} Texts and gold are therefore unavailable: the explorer shows ids and the "
            "values of the metrics."
        )
    if not data.may_show:
        return "The dataset's licence does not allow redistribution: the explorer shows ids instead of texts."
    return ""


def _values(metric: str, rows: Sequence[Row], column: int, judged: NDArray[np.bool_]) -> str:
    """The values of a metric: for each method a string with a code per query, and what the codes stand for.

    A metric has few distinct values, so a code has one or two characters. The first stands for a query without gold.
    """
    values = np.full((len(rows), len(judged)), np.nan)
    for place, row in enumerate(rows):
        assert row.values is not None
        values[place, judged] = row.values[:, column]
    for digits in (4, 3):
        levels = np.unique(np.round(values[:, judged], digits))
        if len(levels) < len(_SIGNS) ** 2:
            break
    codes = np.where(np.isnan(values), 0, np.searchsorted(levels, np.round(values, digits)) + 1)
    signs = _SIGNS[codes % len(_SIGNS)]
    width = 1 if len(levels) < len(_SIGNS) else 2
    if width == 2:
        signs = np.char.add(_SIGNS[codes // len(_SIGNS)], signs)
    strings = ["".join(row_signs) for row_signs in signs.tolist()]
    stated = {"block": BLOCK, "n": len(judged), "levels": [None, *levels.tolist()], "width": width, "codes": strings}
    return script_call("benchValues", metric, stated)


def _search(ids: Sequence[str], dataset: Dataset | None, texts: bool) -> str:
    """The search text of each query: its id, its text and the displayed names of its gold tools."""
    lines = []
    for name in ids:
        text, gold = _of_query(dataset, name, texts)
        lines.append("\n".join([clean(name), text or "", *(tool for tool, _ in gold or ())]))
    return script_call("benchSearch", {"texts": lines})


def _blocks(rows: Sequence[Row], ids: Sequence[str], dataset: Dataset | None, texts: bool) -> list[str]:
    """The files' texts: queries with their gold and each method's answer, which is its first tools as positions in the
    block's list and the rank of each gold tool, 0 if it is not ranked.
    """
    gold = _gold_tools(dataset, ids)
    ranked = [place for place, row in enumerate(rows) if row.result.has_run]
    heads = [_heads(rows[place], ids, gold) for place in ranked]
    known = sorted({name for head in heads for name in head.tools})
    codes = {name: code for code, name in enumerate(known)}
    shown = [clean(name) for name in known]
    tables = [np.array([*(codes[name] for name in head.tools), -1])[head.places] for head in heads]
    ranks = [head.gold.tolist() for head in heads]
    ends = np.cumsum([0, *map(len, gold)]).tolist()
    blocks = []
    for start in range(0, len(ids), BLOCK):
        end = min(start + BLOCK, len(ids))
        stack = np.stack([table[start:end] for table in tables], axis=1)
        used = np.unique(stack[stack >= 0])
        tools = [shown[code] for code in used.tolist()]
        local = np.where(stack >= 0, np.searchsorted(used, stack), -1)
        lists = local.tolist()
        full = bool((stack >= 0).all())
        queries = []
        for place, name in enumerate(ids[start:end]):
            tops = lists[place] if full else [[code for code in row_codes if code >= 0] for row_codes in lists[place]]
            first, last = ends[start + place], ends[start + place + 1]
            # Null for a method whose ranking is not stored.
            answers: list[Any] = [None] * len(rows)
            for at, top, tool_ranks in zip(ranked, tops, ranks, strict=True):
                answers[at] = [top, tool_ranks[first:last]]
            queries.append([clean(name), *_of_query(dataset, name, texts), answers])
        blocks.append(script_call("benchBlock", start // BLOCK, {"tools": tools, "queries": queries}))
    return blocks


def _gold_tools(dataset: Dataset | None, ids: Sequence[str]) -> list[list[str]]:
    """The gold tools of each query, in display order; empty if the dataset is unavailable."""
    known = {} if dataset is None else dataset.query_codes
    return [sorted(dataset.queries[known[name]].meeting) if dataset and name in known else [] for name in ids]


def _of_query(dataset: Dataset | None, name: str, texts: bool) -> tuple[str | None, list[list[str]] | None]:
    """Text and gold of a query; each gold tool with the beginning of its description."""
    if dataset is None or name not in dataset.query_codes:
        return None, None
    query = dataset.queries[dataset.query_codes[name]]
    gold = []
    for tool in sorted(query.meeting):
        about = dataset.tools[dataset.tool_codes[tool]].description if texts else ""
        gold.append([clean(tool), _shorten(about, 240)])
    return (_shorten(query.text, _LONGEST_TEXT) if texts else None), gold


def _shorten(text: str, longest: int) -> str:
    return shorten(clean(text[: longest * 2]), longest)


@dataclass(frozen=True)
class _Head:
    """The displayed part of a ranking.

    Attributes:
        places: (queries, DEPTH) positions in `tools`, -1 for none.
        tools: their ids.
        gold: (gold tools of all queries,) the rank of each, 0 if it is not ranked.
    """

    places: NDArray[np.int64]
    tools: list[str]
    gold: NDArray[np.int64]


def _heads(row: Row, ids: Sequence[str], gold: Sequence[Sequence[str]]) -> _Head:
    table = read_run(row.result)
    if row.result.manifest.repeats > 1:
        table = table.filter(pa.array(table["repeat"].to_numpy() == 1))
    ranks = table["rank"].to_numpy()
    tools = _encode_ids(table["tool_id"])
    names = [str(name) for name in tools.dictionary.to_pylist()]
    queries = _encode_ids(table["query_id"])
    places = {name: i for i, name in enumerate(ids)}
    rows = np.array([places.get(name, -1) for name in queries.dictionary.to_pylist()], dtype=np.int64)
    heads = np.full((len(ids), DEPTH), -1, dtype=np.int64)
    codes = {name: code for code, name in enumerate(names)}
    # A gold tool outside the ranking gets a code that no tool has.
    wanted = np.array([codes.get(tool, len(names)) for gold_tools in gold for tool in gold_tools], dtype=np.int64)
    query_places = np.repeat(np.arange(len(ids)), [len(gold_tools) for gold_tools in gold])
    gold_ranks = np.zeros(len(wanted), dtype=np.int64)
    if table.num_rows:
        at, which = rows[queries.indices.to_numpy()], tools.indices.to_numpy().astype(np.int64)
        top = (at >= 0) & (ranks >= 1) & (ranks <= DEPTH)
        heads[at[top], ranks[top] - 1] = which[top]
        # Encode a pair of query and tool as one number.
        pairs = at * (len(names) + 1) + which
        sought = query_places * (len(names) + 1) + wanted
        order = np.argsort(sought, kind="stable")
        spots = np.minimum(np.searchsorted(sought[order], pairs), max(0, len(sought) - 1))
        if len(sought):
            hit = sought[order][spots] == pairs
            gold_ranks[order[spots[hit]]] = ranks[hit]
    return _Head(heads, names, gold_ranks)


def _encode_ids(ids: pa.ChunkedArray) -> pa.DictionaryArray:
    """Ids as unique codes: a file's own dictionary may repeat an id."""
    coded = ids.combine_chunks()
    if len(coded.dictionary.unique()) < len(coded.dictionary):
        coded = coded.cast(pa.string()).dictionary_encode()
    return coded


def script_call(name: str, *values: object) -> str:
    """A JavaScript function call. With `ensure_ascii` and without `<`, no text can end a script or a line."""
    texts = (json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c") for value in values)
    return f"{name}({','.join(texts)});\n"


PAGE = Page("explorer", "e/*.html")
