"""The query explorer: the first tools of each method for each query.

The page loads its data by script elements that call a function, which works from a file as well as from a server, and
a block of queries at a time.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.data.dataset import Dataset
from bench.leaderboard.boards.board import RANKED, Board, Row
from bench.leaderboard.boards.facts import Data
from bench.leaderboard.boards.tables import read_columns, read_run
from bench.leaderboard.pages.registry import Page
from bench.leaderboard.writer import Writer
from bench.results.store import PER_QUERY, RUN
from bench.text import clean, shortened

#: Methods of one explorer: each family's best first. Ten tools of each are written for every query.
MOST_METHODS = 12
DEPTH = 10
#: Queries of one file.
BLOCK = 250
_LONGEST_TEXT = 1200
_METRIC = "recall@10"
#: Changes when the files' form does.
_FORM = "2"


@dataclass(frozen=True)
class Explorer:
    """What the page must know."""

    rows: tuple[Row, ...]
    queries: int
    blocks: int
    text: bool
    gold: bool
    note: str


def chosen(board: Board) -> tuple[Row, ...]:
    """The rows whose answers are shown: the best of each family, then the best of the rest, best first.

    A row whose ranking is not kept has no answers to show. Of rows that do equally well on every query, one is enough.
    """
    usable: list[Row] = []
    digests: set[bytes] = set()
    for row in board.rows:
        if row.values is None or not row.result.has_run:
            continue
        digest = hashlib.sha256(row.values.tobytes()).digest()
        if digest not in digests:
            digests.add(digest)
            usable.append(row)
    seen: set[str] = set()
    best: list[Row] = []
    for row in usable:
        if row.family not in seen:
            seen.add(row.family)
            best.append(row)
    rest = [row for row in usable if row not in best]
    kept = {row.id for row in [*best, *rest][:MOST_METHODS]}
    return tuple(row for row in usable if row.id in kept)


def write_explorer(board: Board, data: Data, writer: Writer) -> Explorer | None:
    """Write the data of a board's explorer; None where no method's answers can be shown.

    Raises:
        ResultError: a ranking cannot be read.
    """
    rows = chosen(board)
    if not rows:
        return None
    first = read_columns(rows[0].result, PER_QUERY, ["query_id", "n_gold"])
    ids = first["query_id"].to_pylist()
    judged = first["n_gold"].to_numpy() > 0
    blocks = -(-len(ids) // BLOCK)
    texts = data.may_show and data.dataset is not None
    made_from = [_FORM, data.dataset.content_hash if data.dataset else "", str(texts)]
    made_from += [f"{row.id} {row.result.manifest.files.get(RUN, '')} {row.name}" for row in rows]
    key = hashlib.sha256("\n".join(made_from).encode("utf-8", "surrogatepass")).hexdigest()
    cache: list[list[str]] = []

    def block(number: int) -> str:
        # All blocks come from one reading of the rankings, and from none if they are there already.
        if not cache:
            cache.append(_blocks(rows, ids, data.dataset, texts))
        return cache[0][number]

    names = [f"e/{board.slug}/q{number}.js" for number in range(blocks)]
    writer.put_made(f"e/{board.slug}/index.js", key, lambda: _index(rows, judged, blocks))
    for number, name in enumerate(names):
        writer.put_made(name, key, lambda number=number: block(number))  # type: ignore[misc]
    return Explorer(rows, len(ids), blocks, texts, data.dataset is not None, _note(data))


def _note(data: Data) -> str:
    if data.dataset is None:
        return (
            f"{data.why_not} Texts and gold are therefore unavailable: the explorer shows ids and the "
            "number of gold tools found."
        )
    if not data.may_show:
        return "The dataset's licence does not allow redistribution: the explorer shows ids instead of texts."
    return ""


def _index(rows: Sequence[Row], judged: NDArray[np.bool_], blocks: int) -> str:
    """For each method a string with a character for each query: how much of the gold is among its first ten tools."""
    marks = []
    for row in rows:
        values = np.full(len(judged), np.nan)
        assert row.values is not None
        values[judged] = row.values[:, RANKED.index(_METRIC)]
        # 2 all of it, 1 some, 0 none, - a query without gold.
        kinds = np.where(np.isnan(values), "-", np.where(values >= 1, "2", np.where(values > 0, "1", "0")))
        marks.append("".join(kinds.tolist()))
    return _call("benchIndex", {"block": BLOCK, "blocks": blocks, "n": len(judged), "found": marks})


def _blocks(rows: Sequence[Row], ids: Sequence[str], dataset: Dataset | None, texts: bool) -> list[str]:
    """The files' texts: queries with their gold, and the tools of each method as places in the block's own list."""
    heads = [_heads(row, ids) for row in rows]
    names: list[str] = []
    for _, own in heads:
        names += own
    known = sorted(set(names))
    codes = {name: code for code, name in enumerate(known)}
    shown = [clean(name) for name in known]
    tables = []
    for table, own in heads:
        places = np.array([*(codes[name] for name in own), -1], dtype=np.int64)
        tables.append(places[table])
    found = []
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
            tops = lists[place] if full else [[code for code in own if code >= 0] for own in lists[place]]
            queries.append([clean(name), *_of_query(dataset, name, texts), tops])
        found.append(_call("benchBlock", start // BLOCK, {"tools": tools, "queries": queries}))
    return found


def _of_query(dataset: Dataset | None, name: str, texts: bool) -> tuple[str | None, list[list[str]] | None]:
    """Text and gold of a query; each gold tool with the beginning of its description."""
    if dataset is None or name not in dataset.query_codes:
        return None, None
    query = dataset.queries[dataset.query_codes[name]]
    gold = []
    for tool in sorted(query.meeting):
        about = dataset.tools[dataset.tool_codes[tool]].description if texts else ""
        gold.append([clean(tool), _cut(about, 240)])
    return (_cut(query.text, _LONGEST_TEXT) if texts else None), gold


def _cut(text: str, longest: int) -> str:
    return shortened(clean(text[: longest * 2]), longest)


def _heads(row: Row, ids: Sequence[str]) -> tuple[NDArray[np.int64], list[str]]:
    """(queries, DEPTH) places in a list of tool ids, -1 where there is none; and the list."""
    table = read_run(row.result)
    rank = table["rank"].to_numpy()
    shown = (rank >= 1) & (rank <= DEPTH)
    if row.result.manifest.repeats > 1:
        shown &= table["repeat"].to_numpy() == 1
    table = table.filter(pa.array(shown))
    tools = table["tool_id"].combine_chunks().dictionary_encode()
    queries = table["query_id"].combine_chunks().dictionary_encode()
    places = {name: i for i, name in enumerate(ids)}
    rows = np.array([places.get(name, -1) for name in queries.dictionary.to_pylist()], dtype=np.int64)
    heads = np.full((len(ids), DEPTH), -1, dtype=np.int64)
    if table.num_rows:
        at = rows[queries.indices.to_numpy()]
        inside = at >= 0
        heads[at[inside], table["rank"].to_numpy()[inside] - 1] = tools.indices.to_numpy()[inside]
    return heads, [str(name) for name in tools.dictionary.to_pylist()]


def _call(name: str, *values: object) -> str:
    """A call of a function in JavaScript. `ensure_ascii`, and no `<`, so that no text can end a script or a line."""
    texts = (json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c") for value in values)
    return f"{name}({','.join(texts)});\n"


PAGE = Page("explorer", "e/*.html")
