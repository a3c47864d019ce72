"""Full-size ToolBench from the user's copy of upstream's data.zip.

For each group G1, G2, G3 one of two layouts is read, the first where both are there:

- `retrieval/G1/`: what upstream trains and tests its retriever on (its preprocess/preprocess_retriever_data.py):
  `corpus.tsv` (docid, document_content), `{train,test}.query.txt` (qid, text), `qrels.{train,test}.tsv`
  (qid, 0, docid, label). Rows occur many times, once for each pair they come from. Upstream's docid and qid
  are the ids of tools and queries.
- `instruction/G1_query.json` with `test_instruction/G1_*.json`: the records themselves. The test files are the
  test split, with the slice `subset`; the train split is what is left of the query file without their query_ids.

`toolbench-full` joins the three groups, out of the second layout.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from bench.base.errors import DataError
from bench.data.derive import with_dev
from bench.data.files import Files
from bench.data.novelty import with_parent_slice
from bench.data.parents import Parent, parent_of
from bench.data.tables import Query, Split, Tables, Tool

from .parsing import SETS, ToolPool, group_slices, queries_of, read_records, set_slices, tool_of

GROUPS = ("G1", "G2", "G3")
#: Dev queries of the joined groups, and the largest share of their train queries that these may be.
DEV, MOST_DEV = 600, 0.1
RETRIEVAL_FILES = ("corpus.tsv", "train.query.txt", "test.query.txt", "qrels.train.tsv", "qrels.test.tsv")


def read(folder: Path) -> dict[str, Tables]:
    """The tables of `toolbench-g1`, `-g2`, `-g3`, for the groups that the folder (or its `data/`) has.

    With them, those of `toolbench-full` where all of instruction/ and test_instruction/ is there.

    Raises:
        DataError: there is no group, a group's files are incomplete or have no test queries, or a file is malformed.
    """
    tables: dict[str, Tables] = {}
    for root in (folder, folder / "data"):
        for group in GROUPS:
            card_id = f"toolbench-{group.lower()}"
            if card_id in tables:
                continue
            if (root / "retrieval" / group).is_dir():
                tables[card_id] = _from_retrieval(root / "retrieval" / group, f"retrieval/{group}")
            elif (root / "instruction" / f"{group}_query.json").is_file():
                tables[card_id] = _from_instructions(root, group)
        files = [f"instruction/{group}_query.json" for group in GROUPS] + [
            f"test_instruction/{file}.json" for file in SETS
        ]
        if "toolbench-full" not in tables and all((root / file).is_file() for file in files):
            tables["toolbench-full"] = join({group: _from_instructions(root, group) for group in GROUPS})
    if not tables:
        raise DataError(
            f"{folder} has neither retrieval/G1 (or G2, G3) nor instruction/G1_query.json (or G2, G3): "
            "name the folder that ToolBench's data.zip unpacks to."
        )
    return tables


def join(groups: Mapping[str, Tables]) -> Tables:
    """The groups over one library, and train without what ToolRerank leaves out of it (section 4.1).

    Train loses every query that needs a parent of an I1-Tool query's gold, or a category of an I1-Cat or I2-Cat
    query's. A part of what is left becomes dev. Dev and test queries get the slice `parent`.

    Args:
        groups: group -> its tables out of `instruction/`.

    Raises:
        DataError: a test file is none of the six.
    """
    tools: dict[str, Tool] = {}
    queries: list[Query] = []
    for group, tables in groups.items():
        for tool in tables.tools:
            tools.setdefault(tool.tool_id, tool)
        for query in tables.queries:
            file = f"{group}_{query.slices['subset']}" if query.split == "test" else ""
            if file and file not in SETS:
                raise DataError(f"test_instruction/{file}.json is none of ToolBench's six test sets; move it away.")
            slices = set_slices(file) if file else group_slices(group)
            queries.append(replace(query, query_id=f"{group}-{query.query_id}", slices=slices))
    parents: set[Parent] = set()
    categories: set[str] = set()
    for query in queries:
        name = query.slices.get("set", "")
        if name.endswith("-Tool"):
            parents |= {parent_of(tools[tool]) for tool in query.gold}
        elif name.endswith("-Cat"):
            categories |= {tools[tool].category for tool in query.gold}
    held = {name for name, tool in tools.items() if parent_of(tool) in parents or tool.category in categories}
    kept = [query for query in queries if query.split == "test" or not query.gold.keys() & held]
    train = sum(query.split == "train" for query in kept)
    kept = with_dev(kept, min(DEV, int(MOST_DEV * train)), seed=0) if train else kept
    known = {query.query_id for query in kept}
    left_out = [query.query_id for query in queries if query.query_id not in known]
    return Tables(list(tools.values()), with_parent_slice(kept, tools.values()), left_out=left_out)


def _from_instructions(root: Path, group: str) -> Tables:
    train_file = f"instruction/{group}_query.json"
    test_files = {
        f"test_instruction/{path.name}": path.stem.removeprefix(f"{group}_")
        for path in sorted((root / "test_instruction").glob(f"{group}_*.json"))
    }
    if not test_files:
        raise DataError(
            f"{root} has {train_file} but no test_instruction/{group}_*.json, so it has no test queries; "
            "add them from ToolBench's data.zip."
        )
    files = Files({name: root / name for name in (train_file, *test_files)}, root)
    library = ToolPool()
    # Upstream's data has the training records first, so they win where the same leaf differs.
    train = read_records(files.json(train_file), train_file, library, numbered=False)
    tests = {name: read_records(files.json(name), name, library) for name in test_files}
    seen: dict[str, str] = {}
    for record in (record for records in tests.values() for record in records):
        if record.query_id in seen:
            raise DataError(f"{record.where}: the same query_id is at {seen[record.query_id]}.")
        seen[record.query_id] = record.where
    queries = queries_of((record for record in train if record.query_id not in seen), library, "train")
    for name, subset in test_files.items():
        queries += queries_of(tests[name], library, "test", {"subset": subset})
    return Tables(library.tools(), queries)


def _from_retrieval(folder: Path, name: str) -> Tables:
    missing = [file for file in RETRIEVAL_FILES if not (folder / file).is_file()]
    if missing:
        raise DataError(f"{folder} lacks {', '.join(missing)}; upstream's folder has {', '.join(RETRIEVAL_FILES)}.")
    tools = _corpus(folder / "corpus.tsv", f"{name}/corpus.tsv")
    train = _queries(folder, name, "train", tools)
    test = _queries(folder, name, "test", tools)
    if not test:
        raise DataError(f"{name}/test.query.txt has no test queries.")
    # Upstream gives the same text the same qid, on whichever side it is; the history may not hold test queries.
    return Tables(list(tools.values()), [*(query for key, query in train.items() if key not in test), *test.values()])


def _corpus(path: Path, name: str) -> dict[str, Tool]:
    tools: dict[str, Tool] = {}
    contents: dict[str, str] = {}
    rows = _rows(path, name, 2)
    _, header = next(rows, (0, []))
    if header != ["docid", "document_content"]:
        raise DataError(f"{name} does not begin with the header docid, document_content.")
    for line, (docid, content) in rows:
        if contents.setdefault(docid, content) != content:
            raise DataError(f"{name}, line {line}: docid {docid} occurs twice with different contents.")
        if docid in tools:
            continue
        try:
            api = json.loads(content)
        except json.JSONDecodeError as error:
            raise DataError(f"{name}, line {line}: docid {docid} is not JSON: {error}.") from None
        tools[docid] = tool_of(api, f"{name}, line {line}", docid)
    return tools


def _queries(folder: Path, name: str, split: Split, tools: dict[str, Tool]) -> dict[str, Query]:
    file = f"{split}.query.txt"
    texts: dict[str, str] = {}
    for line, (query_id, text) in _rows(folder / file, f"{name}/{file}", 2):
        if texts.setdefault(query_id, text) != text:
            raise DataError(f"{name}/{file}, line {line}: qid {query_id} occurs twice with different texts.")
    file = f"qrels.{split}.tsv"
    gold: dict[str, dict[str, int]] = {query_id: {} for query_id in texts}
    unknown: list[str] = []
    for line, (query_id, _, docid, label) in _rows(folder / file, f"{name}/{file}", 4):
        where = f"{name}/{file}, line {line}"
        try:
            relevance = int(label)
        except ValueError:
            raise DataError(f"{where}: the label {label!r} is not a whole number.") from None
        if query_id not in gold:
            unknown.append(f"{where}: qid {query_id!r} is not in {split}.query.txt")
        elif docid not in tools:
            unknown.append(f"{where}: docid {docid!r} is not in corpus.tsv")
        elif relevance > 0:
            gold[query_id][docid] = max(relevance, gold[query_id].get(docid, 0))
    if unknown:
        raise DataError(f"{unknown[0]} ({len(unknown)} such rows in all).")
    return {query_id: Query(query_id, text, gold[query_id], split) for query_id, text in texts.items()}


def _rows(path: Path, name: str, width: int) -> Iterator[tuple[int, list[str]]]:
    """Line number and fields of each row; upstream writes them with pandas, which quotes as CSV does."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file, delimiter="\t")
            for row in reader:
                if row and len(row) != width:
                    raise DataError(f"{name}, line {reader.line_num}: {len(row)} fields instead of {width}.")
                if row:
                    yield reader.line_num, row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"cannot read {name}: {error}.") from None
