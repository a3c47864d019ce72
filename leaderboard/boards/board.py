"""The site's model of stored results: validated, grouped into boards, newest first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bench.base.errors import ResultError
from bench.base.protocol import DEFAULT_DEPTH
from bench.base.text import label, one_line, unique_slug
from bench.comparison.rows import Usual, competes, doubtful_leads, marks, order_results, reversal_marks, usual
from bench.comparison.variants import best_marks
from bench.data.template import template_name
from bench.interface import CURRENT_VERSIONS
from bench.leaderboard.boards.decisions import MEANINGS, RESULT_ID, Decisions, Evidence, read_decisions
from bench.leaderboard.boards.names import Title, apart, title_of
from bench.leaderboard.boards.registered import card_of
from bench.leaderboard.boards.standings import Entrants, RankedSystems, mean_errors, rank_by_metrics
from bench.leaderboard.boards.tables import check_values, read_columns
from bench.lookup.finding import latest, question_of
from bench.results.commands import command
from bench.results.comparability import comparable, metric_difference
from bench.results.manifest import Mark, name_fault
from bench.results.scoring_code import current_code
from bench.results.store import MANIFEST, METRICS, NOTES, PER_QUERY, REPEATS, RUN, StoredResult, find_results, span_of
from bench.results.units import number_units
from bench.show.numbers import count

#: Id -> digest of the manifest, for the reference systems that a ranking set lists.
References = Mapping[str, str]

#: Metrics to rank methods by; the first is the default.
RANKED = ("recall@5", "ndcg@5", "recall@10", "ndcg@10", "pass@10")
#: Columns of a dataset's board.
COLUMNS = ("recall@5", "recall@10", "ndcg@5", "ndcg@10", "pass@5", "pass@10", "mmrr@100", "map@100", "tracc")


#: Maximum bytes of a manifest or of metrics; real ones have a few thousand.
_LARGEST_JSON = 16_000_000


@dataclass(frozen=True)
class Rejected:
    """A result or file that is not shown, and why."""

    where: str
    reason: str


@dataclass(frozen=True)
class RowSample:
    """A row on a subset of its queries: their number, and a mean and a standard error for each of RANKED."""

    n: int
    means: NDArray[np.float64]
    errors: NDArray[np.float64]


@dataclass(frozen=True)
class Row:
    """One result on a board.

    Attributes:
    key: identifies the row's method and setting; the same on every dataset.
    name: its spec, for a reader.
    title: its display name, unique on the board.
    called: the parts of the display name.
    setting: what distinguishes its run besides the spec.
    values: (judged queries, len(RANKED)); None if the result lacks one of these metrics.
    older: those of COLUMNS and RANKED that other code computed than for the newest result: not comparable.
    doubtful: metrics on which its lead over the next reference system is within the tie bands.
    samples: kind of queries (`all`, `seen`, `unseen`) -> the row on these; empty if `values` was None.
    reference: whether it is a reference system.
    evidence: how far its ranking is known to be its method's.
    """

    result: StoredResult
    key: str
    name: str
    title: str
    called: Title
    setting: str
    family: str
    reference: bool
    marks: tuple[Mark, ...]
    values: NDArray[np.float64] | None
    doubtful: frozenset[str]
    older: frozenset[str] = frozenset()
    samples: Mapping[str, RowSample] = field(default_factory=dict)
    evidence: Evidence = "run here"

    @property
    def full_name(self) -> str:
        """The full name, with what distinguishes the row from others of the same spec; for addresses and lists."""
        return label(self.key.replace("\n", ", "), 300)

    @property
    def id(self) -> str:
        """The result's id, which also names its page."""
        return self.result.manifest.result_id

    @property
    def oracle(self) -> bool:
        """Whether it reads the gold."""
        return self.result.manifest.method.oracle


@dataclass(frozen=True)
class Superseded:
    """A superseded result and the id of the newer one."""

    result: StoredResult
    newer: str
    marks: tuple[Mark, ...]

    @property
    def id(self) -> str:
        """The result's id."""
        return self.result.manifest.result_id


@dataclass(frozen=True)
class Board:
    """Results on the same queries and tools.

    Attributes:
        slug: names the board's files.
        source: origin of the queries; boards with the same source are not independent.
        template: the usual tool text.
        units: (judged queries,) the unit of independence of each, as a code from 0; None for older versions of the
        protocol, which had no units.
        current: whether it follows the current protocol; other boards are kept but not ranked.
        rows: sorted by best possible rank on the first of RANKED, then by mean; then rows without one, then oracles.
        standings: metric -> tests and ranks of the rows ranked by it: those of RANKED and, if there are enough queries
        without an answer, their metric.
        superseded: older results for the same questions.
    """

    slug: str
    spec: str
    title: str
    split: str
    limit: int | None
    content_hash: str
    protocol: str
    template: str
    source: str
    units: NDArray[np.int64] | None
    rows: tuple[Row, ...]
    standings: dict[str, RankedSystems] = field(default_factory=dict)
    superseded: tuple[Superseded, ...] = ()

    @property
    def current(self) -> bool:
        """Whether its results follow the current protocol."""
        return self.protocol in CURRENT_VERSIONS

    @property
    def declared(self) -> bool:
        """Whether it has two reference systems; otherwise all of its rows compete with each other."""
        return sum(row.reference for row in self.rows) > 1

    @property
    def first(self) -> StoredResult:
        """A result that stands for what all members share: a reference system if there is one."""
        return next((row for row in self.rows if row.reference), self.rows[0]).result

    @property
    def latest(self) -> str:
        """When its newest result was made."""
        return max(row.result.manifest.environment.created for row in self.rows)

    @property
    def name(self) -> str:
        """Its title: the dataset and its unusual settings."""
        words = [] if self.split == "test" else [self.split]
        words += [] if self.limit is None else [f"{count(self.limit)} queries of it"]
        return label(self.spec, 60) + (f" ({', '.join(words)})" if words else "")


def read_results(
    results: Path, references: References = MappingProxyType({}), decisions: Decisions | None = None
) -> tuple[list[list[StoredResult]], list[Rejected]]:
    """All readable results in sorted, comparable groups, and the results that cannot be read or were withdrawn.

    If two results have the same id, the one in `references` is used, else the first by folder.
    """
    decisions = read_decisions(results) if decisions is None else decisions
    good: dict[str, StoredResult] = {}
    rejected: list[Rejected] = []
    strange = dict(_strange(results))
    rejected += [Rejected(place_of(folder, results), reason) for folder, reason in strange.items()]
    for item in find_results(results, strange):
        if isinstance(item, ResultError):
            where = "" if item.folder is None else place_of(item.folder, results)
            rejected.append(Rejected(where, one_line(str(item)).replace(f"{results}/", "")))
            continue
        where, result_id = place_of(item.folder, results), item.manifest.result_id
        if not RESULT_ID.fullmatch(result_id):
            # It becomes a file name.
            rejected.append(Rejected(where, f"its id {label(result_id, 60)!r} is not a valid result id."))
            continue
        method = item.manifest.method
        unseen = next(filter(None, map(name_fault, (method.spec, method.full_spec, method.run_file or ""))), "")
        if fault := f"its name cannot be shown: {unseen}." if unseen else decisions.fault(item.manifest):
            rejected.append(Rejected(where, fault))
            continue
        first = good.setdefault(result_id, item)
        if first is not item:
            if is_reference_system(item, references) and not is_reference_system(first, references):
                good[result_id], first, item = item, item, first
            where, shown = place_of(item.folder, results), place_of(first.folder, results)
            rejected.append(Rejected(where, f"its id {result_id} is also the id of {shown}, which is shown."))
    rejected += _unfinished_results(results)
    rejected += [Rejected(where, reason) for where, reason in decisions.unreadable]
    groups = comparable([good[key] for key in sorted(good, key=lambda key: str(good[key].folder))])
    return sorted(groups, key=lambda members: _order(members[0])), sorted(rejected, key=lambda item: item.where)


def make_board(
    members: Sequence[StoredResult],
    results: Path,
    verify: bool,
    older: Collection[str] = (),
    references: References = MappingProxyType({}),
    standings: Mapping[str, RankedSystems] | None = None,
    evidence: Mapping[str, Evidence] = MappingProxyType({}),
) -> tuple[Board | None, list[Rejected]]:
    """Build a board of comparable results; results with invalid tables are left out.

    Args:
    members: one group of results.
    results: their folder, to name rejected results.
    verify: whether to read and check rankings and all columns too.
    older: ids of results that were made by older code. references: the reference systems.
    standings, evidence: as of `assemble`.
    """
    rejected: list[Rejected] = []
    tables: dict[str, NDArray[np.float64] | None] = {}
    orders: dict[str, int] = {}
    known: list[pa.Table] = []
    sound = []
    for result in members:
        try:
            values, ids = check_values(result, RANKED, verify, known)
        except (ResultError, pa.ArrowException) as error:
            reason = one_line(str(error).splitlines()[0]).replace(f"{results}/", "")
            rejected.append(Rejected(place_of(result.folder, results), reason))
            continue
        tables[result.manifest.result_id], orders[result.manifest.result_id] = values, ids
        sound.append(result)
    if sound:
        # The queries of most reference systems or, if there are none, of most results.
        declared = [item for item in sound if is_reference_system(item, references)] or sound
        ((asked, _),) = Counter(orders[item.manifest.result_id] for item in declared).most_common(1)
        for result in sound:
            if orders[result.manifest.result_id] != asked:
                reason = "its queries differ from those of the other results of its dataset."
                rejected.append(Rejected(place_of(result.folder, results), reason))
        sound = [item for item in sound if orders[item.manifest.result_id] == asked]
    if not sound:
        return None, rejected
    return assemble(sound, tables, standings, older, references, evidence), rejected


def is_reference_system(result: StoredResult, references: References) -> bool:
    """Whether a result is a reference system: it is listed and unchanged since.

    The digest is that of the manifest, which was checked on reading. It covers every field and the digests of all other
    files, so no other result has it, whatever its name or date.
    """
    return references.get(result.manifest.result_id) == result.manifest.digest


def references_of(rows: Sequence[Row]) -> NDArray[np.bool_]:
    """(rows,) which are references; if fewer than two are declared, all but floors and oracles."""
    declared = np.array([row.reference for row in rows], dtype=np.bool_)
    return declared if declared.sum() > 1 else np.array([competes(row.result) for row in rows], dtype=np.bool_)


def assemble(
    sound: Sequence[StoredResult],
    tables: Mapping[str, NDArray[np.float64] | None],
    standings: Mapping[str, RankedSystems] | None = None,
    older: Collection[str] = (),
    references: References = MappingProxyType({}),
    evidence: Mapping[str, Evidence] = MappingProxyType({}),
) -> Board:
    """Build a board from checked results.

    Args:
        sound: valid results on the same queries.
        tables: result id -> (judged queries, len(RANKED)).
        standings: from an earlier build; computed from the tables if not given.
        older: ids of results that were made by older code.
        references: the reference systems.
        evidence: result id -> how far its ranking is known to be its method's; those without were run here.
    """
    # A reference system is never superseded, not even by a newer result or one of today's code.
    listed = latest([item for item in sound if is_reference_system(item, references)])
    answered = {question_of(item.manifest) for item in listed}
    others = latest([item for item in sound if question_of(item.manifest) not in answered])
    shown = order_results([*listed, *others], RANKED[0])
    own = [i for i, item in enumerate(shown) if is_reference_system(item, references)]
    rivals = own if len(own) > 1 else range(len(shown))
    first = shown[own[0] if own else 0]
    data = first.manifest.dataset
    # Usual settings come from the references and not from the majority, because anyone can add results.
    scale = listed or shown
    most, card = usual(scale), card_of(data.spec)
    if card is not None and any(item.manifest.dataset.template == card.template for item in scale):
        most = replace(most, template=card.template)
    ahead = [[shown[i], *(shown[j] for j in rivals if j > i)][:2] for i in range(len(shown))]
    leads = {name: [doubtful_leads(pair, name)[0] for pair in ahead] for name in COLUMNS}
    newest = max(scale, key=lambda item: item.manifest.environment.created)
    turned = reversal_marks(shown, [_name(result) for result in shown], RANKED[0], rivals)
    # A reference system was not selected as the best of many submissions.
    chosen = [None if i in own else mark for i, mark in enumerate(best_marks(sound, shown, RANKED[0]))]
    rows = [
        _row(
            result,
            [
                *_marks(result, most, newest),
                *(_older_code(result) if result.manifest.result_id in older else []),
                *_origin(evidence.get(result.manifest.result_id, "run here")),
                *_clean([mark for mark in (turned[i], chosen[i]) if mark]),
            ],
            most.template,
            newest,
            tables[result.manifest.result_id],
            frozenset(name for name in COLUMNS if leads[name][i]),
            is_reference_system(result, references),
            evidence.get(result.manifest.result_id, "run here"),
        )
        for i, result in enumerate(shown)
    ]
    rows = [replace(row, title=title) for row, title in zip(rows, titles(rows), strict=True)]
    board = Board(
        slug=slug_of(first),
        spec=data.spec,
        title=data.title,
        split=data.split,
        limit=data.limit,
        content_hash=data.content_hash,
        protocol=first.manifest.protocol,
        template=template_name(most.template),
        source=data.source,
        units=_judged_units(first) if data.unit else None,
        rows=tuple(rows),
        standings=dict(standings or {}),
        superseded=tuple(_list_superseded(sound, shown, most, newest)),
    )
    if board.current and board.units is not None and standings is None:
        ranked = [i for i, row in enumerate(rows) if not row.oracle and row.values is not None]
        entrants = {}
        for column, metric in enumerate(RANKED):
            same = [i for i in ranked if metric not in rows[i].older]
            columns = [values[:, column] for i in same if (values := rows[i].values) is not None]
            if columns and len(columns[0]):
                entrants[metric] = Entrants(
                    [rows[i].id for i in same],
                    np.column_stack(columns),
                    references_of([rows[i] for i in same]),
                    span_of(metric).of_differences(),
                )
        board.standings.update(
            zip(entrants, rank_by_metrics(list(entrants.values()), board.units), strict=True) if entrants else ()
        )
    return replace(board, rows=_order_rows(rows, board.standings.get(RANKED[0])))


def _order_rows(rows: Sequence[Row], standing: RankedSystems | None) -> tuple[Row, ...]:
    """Sort rows by a standing; rows without a rank keep their order, and oracles come last."""
    order = [] if standing is None else [standing.ids[i] for i in standing.order()]
    places = {name: place for place, name in enumerate(order)}
    return tuple(sorted(rows, key=lambda row: (row.oracle, places.get(row.id, len(places)))))


def _judged_units(result: StoredResult) -> NDArray[np.int64]:
    table = read_columns(result, PER_QUERY, ["unit", "n_gold"])
    names = np.array(table["unit"].to_pylist(), dtype=str)[table["n_gold"].to_numpy() > 0]
    units: NDArray[np.int64] = np.unique(names, return_inverse=True)[1]
    return units.astype(np.int64)


def _row(
    result: StoredResult,
    marks: Sequence[Mark],
    template: str,
    newest: StoredResult,
    values: NDArray[np.float64] | None,
    doubtful: frozenset[str],
    reference: bool,
    evidence: Evidence,
) -> Row:
    manifest = result.manifest
    method = manifest.method
    words = [] if method.cut is None else ["cut"]
    setting = [] if manifest.depth == DEFAULT_DEPTH or method.run_file else [f"depth {manifest.depth}"]
    setting += [] if manifest.repeats == 1 else [f"{manifest.repeats} repeats"]
    setting += [] if manifest.dataset.template == template else [f"text {manifest.dataset.tool_text}"]
    setting += ["run file"] if method.run_file else []
    key = "\n".join([method.spec, *words, *setting])
    return Row(
        result=result,
        key=key,
        name=_name(result),
        title="",
        called=title_of(method),
        setting=", ".join(label(word, 60) for word in setting),
        family=method.spec if method.run_file else family_of(method.spec),
        reference=reference,
        marks=tuple(marks),
        values=values,
        doubtful=doubtful,
        older=_older(result, newest),
        evidence=evidence,
    )


def _origin(evidence: Evidence) -> list[Mark]:
    """The mark of a submitted row; a scored run file has one anyway."""
    texts: dict[Evidence, str] = {"run again": "run again", "checked": "not run here"}
    return [Mark(kind="origin", text=texts[evidence], why=MEANINGS[evidence])] if evidence in texts else []


def titles(rows: Sequence[Row]) -> list[str]:
    """Unique display names for rows that are shown together."""
    return apart(
        [row.called for row in rows],
        [row.setting for row in rows],
        [row.full_name for row in rows],
        [row.id for row in rows],
    )


def variants(rows: Sequence[Row]) -> tuple[frozenset[str], dict[str, int]]:
    """Find rows that differ from another row only in parameters or run settings.

    A method is shown at its defaults if it has such a row, not at the settings that happen to be best here.

    Args:
        rows: in their order.

    Returns:
        Ids of the rows that fold under another one, and id -> number of rows that fold under it.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.family, row.called.stem), []).append(row)
    folded: set[str] = set()
    over: dict[str, int] = {}
    for group in groups.values():
        first = next((row for row in group if not row.called.rest and not row.setting), group[0])
        folded |= {row.id for row in group if row is not first}
        if len(group) > 1:
            over[first.id] = len(group) - 1
    return frozenset(folded), over


def _name(result: StoredResult) -> str:
    method = result.manifest.method
    return label(method.spec + (f" + {method.cut}" if method.cut else ""))


def _clean(row_marks: Sequence[Mark]) -> list[Mark]:
    return [mark.model_copy(update={"text": label(mark.text, 40), "why": label(mark.why, 300)}) for mark in row_marks]


def _older_code(result: StoredResult) -> list[Mark]:
    """The mark of a result of older code that no newer result supersedes."""
    why = f"made by older code of the method; to run it again: {command(result.manifest)}"
    return _clean([Mark(kind="older version", text="older code", why=why)])


def _marks(result: StoredResult, most: Usual, newest: StoredResult) -> list[Mark]:
    manifest = result.manifest
    row_marks = _clean(marks(result, most))
    if result.metrics.n_failed:
        why = "queries that failed or were not answered; they score 0"
        if manifest.repeats > 1:
            why = "queries that failed or were not answered in some repeat; they score 0 there"
        row_marks.append(Mark(kind="failed", text=f"{count(result.metrics.n_failed)} failed", why=why))
    older = _older(result, newest)
    if older or current_code("intervals", manifest.scoring.intervals) != current_code(
        "intervals", newest.manifest.scoring.intervals
    ):
        what = ", ".join(name for name in dict.fromkeys((*RANKED, *COLUMNS)) if name in older) or "its intervals"
        why = f"other code than the newest result's computed {what}; bench run scores its ranking again"
        row_marks.append(Mark(kind="older scoring", text="older scoring", why=why))
    if manifest.protocol not in CURRENT_VERSIONS:
        text = f"protocol {label(manifest.protocol, 20)}"
        row_marks.append(Mark(kind="protocol", text=text, why="kept but not ranked"))
    return row_marks


def _older(result: StoredResult, newest: StoredResult) -> frozenset[str]:
    """Metrics of a result that are not comparable with those of the board's newest result."""
    mine, others = result.manifest, newest.manifest
    return frozenset(name for name in (*RANKED, *COLUMNS) if metric_difference(mine, others, name) is not None)


def _list_superseded(
    sound: Sequence[StoredResult], shown: Sequence[StoredResult], most: Usual, newest: StoredResult
) -> Iterator[Superseded]:
    answers = {question_of(item.manifest): item for item in shown}
    for item in sound:
        answer = answers[question_of(item.manifest)]
        if item is not answer:
            text, why = "older version", "a newer version of the method has a result for the same question"
            if latest([item, answer]) == [item]:
                text, why = "not listed", "the board keeps the listed reference system for the same question"
            mark = Mark(kind="older version", text=text, why=why)
            yield Superseded(item, answer.manifest.result_id, (*_marks(item, most, newest), mark))


def slug_of(result: StoredResult) -> str:
    """The name of the board that a result belongs to."""
    data = result.manifest.dataset
    more = [data.split, data.limit, data.content_hash, result.manifest.protocol]
    return unique_slug(data.spec, *more)


def _order(result: StoredResult) -> tuple[str, str, int, str, str]:
    data = result.manifest.dataset
    return data.spec, data.split, data.limit or 0, data.content_hash, result.manifest.protocol


def family_of(spec: str) -> str:
    """The name before a spec's parentheses: `tgr` of `tgr(graph=manual)`."""
    return spec.partition("(")[0].strip() or spec


def place_of(folder: Path, results: Path) -> str:
    """A result's folder as the site names it."""
    return label(str(folder.relative_to(results)), 200)


def _strange(results: Path) -> Iterator[tuple[Path, str]]:
    """Folders that must not be opened, with reasons: results may come from an untrusted pull request."""
    root = results.resolve()
    for manifest in sorted(results.glob(f"*/*/{MANIFEST}")):
        folder = manifest.parent
        files = [folder / name for name in (MANIFEST, METRICS, RUN, PER_QUERY, REPEATS, NOTES)]
        for path in (folder.parent, folder, *files):
            if path.is_symlink() and not path.resolve().is_relative_to(root):
                yield folder, f"{path.name} is a link that leads out of the results folder."
                break
        else:
            for path in files:
                if path.exists() and not path.is_file():
                    yield folder, f"{path.name} is not a regular file."
                    break
                if path.suffix == ".json" and path.is_file() and path.stat().st_size > _LARGEST_JSON:
                    yield folder, f"{path.name} is larger than any that bench writes."
                    break


def _unfinished_results(results: Path) -> list[Rejected]:
    """Folders with files of a result but no manifest."""
    parts = {path.parent for name in (METRICS, RUN, PER_QUERY, REPEATS) for path in results.glob(f"*/*/{name}")}
    return [
        Rejected(place_of(folder, results), f"it has no {MANIFEST}.")
        for folder in sorted(parts)
        if not (folder / MANIFEST).is_file() and not folder.name.startswith(".")
    ]


def sample_rows(board: Board, masks: Mapping[str, NDArray[np.bool_]], keep: bool) -> Board:
    """The board with its rows' samples.

    Args:
        board: rows with values.
        masks: kind of queries -> (judged queries,).
        keep: whether all rows keep their values, which is too much for large sites; references always keep theirs.
    """

    count = max((len(row.values) for row in board.rows if row.values is not None), default=0)
    units = np.arange(count) if board.units is None else board.units
    kinds = {"all": np.ones(count, dtype=np.bool_), **masks}
    codes = {kind: number_units(units[mask]) for kind, mask in kinds.items()}

    def of(row: Row) -> Row:
        if row.values is None or not len(row.values):
            return row
        samples = {
            kind: RowSample(int(mask.sum()), *mean_errors(row.values[mask], codes[kind]))
            for kind, mask in kinds.items()
        }
        return replace(row, values=row.values if keep or row.reference else None, samples=samples)

    return replace(board, rows=tuple(of(row) for row in board.rows))
