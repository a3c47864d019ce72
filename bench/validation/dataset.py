"""The dataset audit: problems with counts and examples.

Every finding counts something that a reader of a result on this data should know. Findings never stop a run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import Any, TypeVar

import numpy as np

from bench.base.errors import install_command, is_installed
from bench.data.alternatives import alternatives
from bench.data.dataset import Dataset
from bench.data.nearcopies import near_copies
from bench.data.origins import TRACES, count_origins, is_synthetic, writers
from bench.data.parents import parent_of
from bench.data.tables import Query, Tool
from bench.evaluation.lenient import lenient_gold, touched_queries
from bench.search.names import contains_words
from bench.search.similar import TextVectors
from bench.search.words import FUNCTION_WORDS, words

R = TypeVar("R")

_EXAMPLES = 3
_EXAMPLE_LENGTH = 90
#: Kind of finding -> what it counts; names in braces depend on the data.
KINDS = {
    "empty-description": "tools without a description",
    "duplicate-description": "tools that share their description with another tool",
    "identical-tools": "tools that equal another in all but their id",
    "confusable": "tools whose description reads nearly like another's (function words aside)",
    "shared-name": "tools whose name a tool of another parent has",
    "never-gold": "tools that are gold for no query",
    "invalid-schema": "input schemas that are not valid JSON Schema{unchecked}",
    "import-remark": "parts of the sources that the import left out or could not resolve",
    "unknown-gold": "gold that names tools outside the library (dropped)",
    "empty-query": "queries without text",
    "duplicate-query": "queries that share their text with another query",
    "contradicting-gold": "queries that share their text with a query of other gold",
    "no-gold": "queries without gold (abstention)",
    "traced-query": "queries taken from logs: called is not the same as right",
    "synthetic-query": "queries written by {writers}",
    "alternative-tool": "gold tools that a tool of another parent reads like",
    "alternative-query": "judged queries with such a gold tool, where the other one is not gold too",
    "named-gold": "judged queries that spell out the name of a gold tool",
    "leaked-query": "test queries whose text occurs in train",
    "leaked-bundle": "judged test queries whose gold set equals that of a train query",
    "leaked-query-dev": "test queries whose text occurs in dev",
    "leaked-bundle-dev": "judged test queries whose gold set equals that of a dev query",
    "unseen-tool": "gold tools of test that no train query uses",
    "unseen-parent": "judged test queries with a gold tool of an unseen parent",
    "shared-query": "queries whose text {other} ({split}) has, too",
    "near-query": "queries with a near copy in {other} ({split})",
    "near-past-query": "queries with a near copy in what {other} has to learn from",
    "shared-tool": "tools whose name and description {other} has, too",
}
#: Kinds found by comparison with another dataset.
OF_ANOTHER = ("shared-query", "near-query", "near-past-query", "shared-tool")
#: Kinds that are properties, neither defects nor leaks.
_PROPERTIES = frozenset(
    "shared-name never-gold no-gold traced-query synthetic-query unseen-tool unseen-parent shared-tool".split()
)
#: jsonschema compares all pairs of items of a list.
_LONGEST_LIST = 2000


@dataclass(frozen=True)
class Finding:
    """One finding of an audit.

    Attributes:
        check: a short, stable name.
        what: what is counted, in words.
        count: the number found.
        total: the number examined; the share is count / total.
        examples: a few, shortened.
        harmful: True if a count above zero is a defect or a leak, rather than a property.
    """

    check: str
    what: str
    count: int
    total: int
    examples: tuple[str, ...] = ()
    harmful: bool = True

    @property
    def share(self) -> float:
        """count / total, 0 for a total of 0."""
        return self.count / self.total if self.total else 0.0


def audit(dataset: Dataset) -> list[Finding]:
    """All findings, in order: library, schemas, import; queries, gold, what train and dev reveal about test."""
    findings = [*_library(dataset), *_schemas(dataset)]
    if dataset.remarks:
        left = [f"{place}: {remark}" for place, remark in dataset.remarks]
        findings.append(_find("import-remark", left, len(left) + len(dataset.tools)))
    if dataset.queries:
        findings += [*_queries(dataset), *_alternatives(dataset), *_names(dataset), *_overlap(dataset)]
    return findings


def _find(check: str, examples: Sequence[str], total: int, count: int | None = None, **named: str) -> Finding:
    """Make a finding; `count` if it is not the number of examples, `named` for the names in braces."""
    shown = [item if len(item) <= _EXAMPLE_LENGTH else item[: _EXAMPLE_LENGTH - 3] + "..." for item in examples]
    what = KINDS[check].format(**named)
    number = len(examples) if count is None else count
    return Finding(check, what, number, total, tuple(shown[:_EXAMPLES]), check not in _PROPERTIES)


def _find_groups(check: str, groups: Iterable[Sequence[Tool | Query]], total: int) -> Finding:
    """Make a finding that counts the members of groups of equal rows."""
    ids = [[row.tool_id if isinstance(row, Tool) else row.query_id for row in group] for group in groups]
    return _find(check, [" = ".join(group) for group in ids], total, sum(map(len, ids)))


def audit_against(dataset: Dataset, other: Dataset) -> list[Finding]:
    """Find what the queries of the default split share with another dataset, and whether the libraries overlap.

    If both datasets evaluate a query, a mean over both counts the same evidence twice. Past queries of the other
    dataset with nearly the same text leak to a model trained on it. Near copies, by the rule of
    `bench.data.nearcopies`, include exact ones.
    """
    rows, others = dataset.rows(dataset.card.split), other.rows(other.card.split)
    past = np.concatenate([other.rows(split) for split in ("train", "dev") if split != other.card.split])
    ids = [dataset.queries[row].query_id for row in rows]
    texts, other_texts, known = _texts(dataset, rows), _texts(other, others), _texts(other, past)
    exact = {_fold_text(text) for text in other_texts}
    same = [query for query, text in zip(ids, texts, strict=True) if _fold_text(text) in exact]
    near = list(compress(ids, near_copies(texts, other_texts)))
    leaked = list(compress(ids, near_copies(texts, known)))
    libraries = [[_fold_text(f"{tool.name} {tool.description}") for tool in one.tools] for one in (dataset, other)]
    theirs = set(libraries[1])
    tools = [tool.tool_id for tool, text in zip(dataset.tools, libraries[0], strict=True) if text in theirs]
    name, split = other.spec, other.card.split
    return [
        _find("shared-query", same, len(ids), other=name, split=split),
        _find("near-query", near, len(ids), other=name, split=split),
        _find("near-past-query", leaked, len(ids), other=name),
        _find("shared-tool", tools, len(dataset.tools), other=name),
    ]


def _library(dataset: Dataset) -> list[Finding]:
    tools = dataset.tools
    empty = [tool.tool_id for tool in tools if not tool.description.strip()]
    same_text = _groups((tool for tool in tools if tool.description.strip()), lambda tool: _fold_text(tool.description))
    same_tool = _groups(tools, lambda tool: replace(tool, tool_id=""))
    same_name = [group for group in _groups(tools, lambda tool: tool.name) if len(set(map(parent_of, group))) > 1]
    findings = [
        _find("empty-description", empty, len(tools)),
        _find_groups("duplicate-description", same_text, len(tools)),
        _find_groups("identical-tools", same_tool, len(tools)),
        _confusable(tools),
        _find_groups("shared-name", same_name, len(tools)),
    ]
    if dataset.queries:
        used = set(dataset.gold.members().tools.tolist())
        never = [tool.tool_id for code, tool in enumerate(tools) if code not in used]
        findings.append(_find("never-gold", never, len(tools)))
    return findings


def _confusable(tools: Sequence[Tool]) -> Finding:
    """Tools with nearly the same words in their descriptions; function words do not count."""
    telling = (
        [word for word in words(tool.description) if word not in FUNCTION_WORDS] or words(tool.description)
        for tool in tools
    )
    near = TextVectors([" ".join(each) for each in telling]).near_duplicates
    codes = np.flatnonzero(near.count).tolist()
    pairs = dict.fromkeys(tuple(sorted((code, int(near.nearest[code])))) for code in codes)
    examples = [" ~ ".join(tools[code].tool_id for code in pair) for pair in pairs]
    return _find("confusable", examples, len(tools), len(codes))


def _longest_list(schema: Any) -> int:
    longest, pending = 0, [schema]
    while pending:
        node = pending.pop()
        if isinstance(node, list):
            longest = max(longest, len(node))
        pending.extend(node.values() if isinstance(node, dict) else node if isinstance(node, list) else ())
    return longest


def _schemas(dataset: Dataset) -> list[Finding]:
    """Input schemas that are not valid JSON Schema, by the version that each names (2020-12 if it names none)."""
    given = [tool for tool in dataset.tools if tool.input_schema is not None]
    if not given:
        return []
    if not is_installed("jsonschema"):
        unchecked = f" (not checked: {install_command('catalogues')})"
        return [_find("invalid-schema", [], 0, unchecked=unchecked)]
    wrong = [f"{tool.tool_id}: {fault}" for tool in given if (fault := _schema_fault(tool.schema()))]
    return [_find("invalid-schema", wrong, len(given), unchecked="")]


def _schema_fault(schema: Any) -> str:
    """The fault of a schema, with its location; empty if it is valid."""
    from jsonschema import Draft202012Validator, validators
    from jsonschema.exceptions import best_match

    if not isinstance(schema, dict | bool):
        return "it is not an object"
    if _longest_list(schema) > _LONGEST_LIST:
        return f"a list has more than {_LONGEST_LIST} items; the schema was not checked"
    try:
        kind = validators.validator_for(schema, default=Draft202012Validator)
        fault = best_match(kind(kind.META_SCHEMA).iter_errors(schema))
    except Exception as error:  # an error of the library on unusual schemas
        return f"it cannot be checked ({type(error).__name__})"
    return f"{'/'.join(map(str, fault.absolute_path))}: {fault.message}" if fault is not None else ""


def _queries(dataset: Dataset) -> list[Finding]:
    queries = dataset.queries
    empty = [query.query_id for query in queries if not query.text.strip()]
    repeated = _groups(queries, lambda query: _fold_text(query.text))
    torn = [group for group in repeated if len({frozenset(query.gold) for query in group}) > 1]
    no_gold = [query.query_id for query in queries if not query.gold]
    dropped = [f"{query}: {tool}" for query, tool in dataset.unknown_gold]
    pairs = len(dataset.gold.tools) + len(dropped)
    # Queries that people did not write; empty if they wrote all.
    logged = [query.query_id for query in queries if query.origin == TRACES]
    written = [query.query_id for query in queries if is_synthetic(query.origin)]
    by = writers(count_origins(queries))
    parts = [("traced-query", logged), ("synthetic-query", written)]
    return [
        _find("unknown-gold", dropped, pairs),
        _find("empty-query", empty, len(queries)),
        _find_groups("duplicate-query", repeated, len(queries)),
        _find_groups("contradicting-gold", torn, len(queries)),
        _find("no-gold", no_gold, len(queries)),
        *[_find(check, ids, len(queries), writers=by) for check, ids in parts if ids],
    ]


def _alternatives(dataset: Dataset) -> list[Finding]:
    """Gold that may be incomplete: tools that read like a gold tool count as wrong."""
    gold = np.unique(dataset.gold.members().tools)
    known = alternatives(dataset.tools, gold.tolist())
    judged = [query for query in dataset.queries if query.gold]
    touched = touched_queries(lenient_gold(dataset, np.arange(len(dataset.queries))), dataset.gold)
    alike = [[dataset.tools[tool].tool_id for tool in (code, *others)] for code, others in known.items()]
    return [
        _find("alternative-tool", [" = ".join(ids) for ids in alike], len(gold)),
        _find("alternative-query", [dataset.queries[row].query_id for row in touched.tolist()], len(judged)),
    ]


def _names(dataset: Dataset) -> list[Finding]:
    """Gold tools whose name occurs word for word in the query: word matching alone finds them."""
    names = [words(tool.name) for tool in dataset.tools]
    meeting, examples = dataset.gold.members(), []
    for row, query in enumerate(dataset.queries):
        text = words(query.text)
        if named := [tool for tool in meeting.row(row).tolist() if contains_words(text, names[tool])]:
            examples.append(f"{query.query_id}: {dataset.tools[named[0]].name}")
    return [_find("named-gold", examples, int((meeting.counts > 0).sum()))]


def _overlap(dataset: Dataset) -> list[Finding]:
    """What past queries reveal about the test split; empty unless both exist.

    Methods learn from train and dev, so dev leaks too.
    """
    test = dataset.rows("test")
    judged = [row for row in test if dataset.queries[row].gold]
    findings: list[Finding] = []
    for split in ("train", "dev"):
        past = dataset.rows(split)
        if not len(past) or not len(test):
            continue
        suffix = "" if split == "train" else "-dev"
        texts = {_fold_text(dataset.queries[row].text) for row in past}
        bundles = {frozenset(dataset.queries[row].gold) for row in past}
        again = [dataset.queries[row].query_id for row in test if _fold_text(dataset.queries[row].text) in texts]
        known = [dataset.queries[row].query_id for row in judged if frozenset(dataset.queries[row].gold) in bundles]
        findings.append(_find(f"leaked-query{suffix}", again, len(test)))
        findings.append(_find(f"leaked-bundle{suffix}", known, len(judged)))
    # Without train queries every tool would be unseen.
    return [*findings, *_unseen(dataset, judged)] if findings and len(dataset.rows("train")) else findings


def _unseen(dataset: Dataset, judged: Sequence[np.int64]) -> list[Finding]:
    """How much of the test split is new, as the protocol defines it: a tool is seen if it is gold for a train query."""
    seen = dataset.seen_tools
    tested = np.unique(dataset.gold.take(np.array(judged, dtype=np.int64)).tools)
    unseen = [dataset.tools[tool].tool_id for tool in tested if not seen[tool]]
    parents = {parent_of(dataset.tools[tool]) for tool in np.flatnonzero(seen)}
    strange = [
        dataset.queries[row].query_id
        for row in judged
        if any(parent_of(dataset.tools[t]) not in parents for t in dataset.gold.row(int(row)))
    ]
    return [_find("unseen-tool", unseen, len(tested)), _find("unseen-parent", strange, len(judged))]


def _texts(dataset: Dataset, rows: Iterable[np.int64]) -> list[str]:
    return [dataset.queries[row].text for row in rows]


def _groups(rows: Iterable[R], key: Callable[[R], Hashable]) -> list[list[R]]:
    """The rows that share their key with another."""
    groups: defaultdict[Hashable, list[R]] = defaultdict(list)
    for row in rows:
        groups[key(row)].append(row)
    return [group for group in groups.values() if len(group) > 1]


def _fold_text(text: str) -> str:
    """Text with case and white space made equal."""
    return " ".join(text.casefold().split())
