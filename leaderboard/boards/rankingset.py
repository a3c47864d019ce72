"""The ranking set: datasets to rank methods on and reference systems, declared before results are seen.

If the datasets followed from the results, submissions would choose them: three noise results on the right datasets
once took half of the datasets out of the ranking and put another method first. So a versioned file,
`ranking_set.toml`, declares them. A method that lacks one of these datasets is not ranked.

The family of tests must not follow from the results either: near-copies under other names would make every difference
insignificant. So the file lists reference systems, whose tests no other result changes (`bench.stats.ranking`). The
maintainers list each by its id and the digest of its manifest, so no result added to the folder becomes one, whatever
its name, date or id. If a board has no listed result, all of its methods compete. The site and its boards use the set.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from bench.base.errors import ResultError, UsageError
from bench.base.paths import write_text
from bench.base.protocol import DEFAULT_DEPTH
from bench.base.records import StrictRecord, read_toml, toml_table
from bench.base.text import label
from bench.comparison.rows import competes
from bench.data.card import Sha256
from bench.leaderboard.boards.board import Board, Rejected, is_reference_system, make_board, read_results
from bench.leaderboard.boards.decisions import ResultId
from bench.leaderboard.boards.libraries import drop_library_variants
from bench.registry import method_names
from bench.results.choices import is_choice
from bench.results.store import MANIFEST, StoredResult

#: The default ranking set.
DECLARED = Path(__file__).with_name("ranking_set.toml")
_NAME = "the ranking set"
#: The table of references in a ranking set, as `write_references` writes it.
_TABLE = re.compile(r"^\[references\]\n(?:[0-9a-f]+ = .*\n|\n)*", re.MULTILINE)


class DeclaredView(StrictRecord):
    """Datasets to rank methods on together.

    Attributes:
        name: used in addresses.
        title: shown on pages.
        why: the reason for these datasets, as a sentence.
        datasets: their specs.
        card: whether the home page names the best method on it.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")
    title: str = Field(min_length=1, max_length=60)
    why: str = Field(min_length=1, max_length=600)
    datasets: list[str] = Field(min_length=1)
    card: bool = True


class SiteWords(StrictRecord):
    """What a site says of itself, and whether it is public.

    Attributes:
        title: its name, and the head of its first page.
        lead: the sentence below.
        public: whether others hand in results: it then has a page on submitting, and says how to cite it.
    """

    title: str = Field("Tool retrieval, under one protocol", min_length=1, max_length=80)
    lead: str = Field(
        "Which method finds the tools that an agent needs? Every method gets the same queries, tools and tool texts; "
        "every number links to its result and to the command that made it.",
        max_length=600,
    )
    public: bool = False


class RankingSet(StrictRecord):
    """The content of `ranking_set.toml`. A set without version, views and content takes those of the public set.

    Attributes:
        version: shown on pages and in exports.
        views: the first is the ranking; the others rank on parts of the data.
        content: spec -> the content hash that counts; for other datasets the available content counts, else that of
            most results.
        references: id of a reference system's result -> digest of its manifest.
        site: the words of the site.
    """

    version: str = Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+-]{0,29}$")
    views: list[DeclaredView] = Field(min_length=1)
    content: dict[str, str] = {}
    references: dict[ResultId, Sha256] = {}
    site: SiteWords = SiteWords()

    @model_validator(mode="before")
    @classmethod
    def _with_views(cls, given: Any) -> Any:
        if isinstance(given, dict) and "systems" in given:
            raise ValueError("`systems` does not declare references: list results with `bench leaderboard references`")
        if not isinstance(given, dict) or given.keys() & {"version", "views", "content"}:
            return given
        return toml_table(DECLARED, _NAME, UsageError) | given

    @model_validator(mode="after")
    def _consistent(self) -> RankingSet:
        names = [view.name for view in self.views]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two views are called {name}")
        for view in self.views:
            for spec in view.datasets:
                if view.datasets.count(spec) > 1:
                    raise ValueError(f"the view {view.name} names {spec} twice")
        return self


@dataclass(frozen=True)
class View:
    """A view of a site: datasets with results.

    Attributes:
        name, title, why, card: as declared.
        boards: one board per dataset.
        version: of the ranking set; empty if the site is not ranked by a declared set.
    """

    name: str
    title: str
    why: str
    boards: tuple[Board, ...]
    version: str
    card: bool = True

    @property
    def declared(self) -> bool:
        """Whether its datasets were declared before results were known."""
        return bool(self.version)


def read_ranking_set(path: Path = DECLARED) -> RankingSet:
    """Read a ranking set from a TOML file.

    Raises:
        UsageError: the file cannot be read, is not TOML, or does not follow the model; the sentence says where.
    """
    return read_toml(RankingSet, path, _NAME, UsageError)


def list_references(results: Path, methods: Sequence[str] = ()) -> tuple[list[StoredResult], list[Rejected]]:
    """Find the results in a folder that can be listed as reference systems, and those that cannot be read.

    These are results of some methods with the usual settings: the tool text of the dataset's card, depth 100, one
    repeat, no cut, no run file; no floors or oracles. A result's name does not prove that the method made it.

    Args:
        results: the folder.
        methods: their specs; by default all registered ones at their defaults.
    """
    names = methods or method_names()
    groups, rejected = read_results(results)
    listed = []
    for group in groups:
        members = [item for item in group if not is_choice(item)]
        usual = {
            manifest.result_id: manifest.digest
            for item in members
            if (manifest := item.manifest).method.spec in names
            and (manifest.method.run_file, manifest.method.cut) == (None, None)
            and (manifest.depth, manifest.repeats) == (DEFAULT_DEPTH, 1)
            and competes(item)
        }
        if usual:
            board, wrong = make_board(members, results, False, (), usual, {})
            rows, rejected = () if board is None else board.rows, [*rejected, *wrong]
            listed += [row.result for row in rows if row.reference and not row.setting]
    return listed, rejected


def write_references(path: Path, listed: Sequence[StoredResult]) -> None:
    """Replace the reference systems of a ranking set by these results; the rest of the file is unchanged.

    Raises:
        UsageError: the set cannot be read, or its table of references does not have the form that this function writes.
        StorageError: the file cannot be written.
    """
    text, before = "", RankingSet.model_validate({})
    if path.exists():
        before, text = read_ranking_set(path), path.read_text("utf-8-sig")
    order = sorted(listed, key=lambda item: (item.manifest.dataset.spec, item.label, item.manifest.result_id))
    table = [f'{item.manifest.result_id} = "{item.manifest.digest}" # {label(item.label, 200)}\n' for item in order]
    text = f"{_TABLE.sub('', text).rstrip()}\n\n[references]\n{''.join(table)}".lstrip()
    digests = {item.manifest.result_id: item.manifest.digest for item in listed}
    try:
        same = RankingSet(**tomllib.loads(text)) == before.model_copy(update={"references": digests})
    except ValueError:
        same = False
    if not same:
        raise UsageError(
            f"cannot change the references of {path}: write them as the last table, [references], one id per line."
        )
    write_text(path, text)


def check_references(
    path: Path, chosen: RankingSet, results: Path, there: Sequence[StoredResult], rejected: Sequence[Rejected]
) -> None:
    """Refuse a board that lacks a reference system: the tests of every row would change.

    Args:
        path: the file of the ranking set.
        chosen: the set.
        results: the folder of results.
        there: the results on the board.
        rejected: results that are not shown, with reasons.

    Raises:
        ResultError: a listed result is gone, was altered, or cannot be a reference system.
    """
    by_id = {item.manifest.result_id: item for item in there}
    faults = []
    for result_id in chosen.references:
        item = by_id.get(result_id)
        if item is None:
            gone = next((f"{what.where}: {what.reason}" for what in rejected if result_id in what.where), "")
            faults.append((result_id, f"is not on the board: {gone.rstrip('.')}" if gone else f"is not in {results}"))
        elif not is_reference_system(item, chosen.references):
            faults.append((result_id, f"was altered: {item.folder / MANIFEST} has another digest"))
        elif not competes(item):
            faults.append((result_id, "is a floor or an oracle, which cannot be a reference"))
    if faults:
        (result_id, what), more = faults[0], f" ({len(faults) - 1} more)" if len(faults) > 1 else ""
        lines = path.read_text("utf-8").splitlines()
        line = next((i for i, text in enumerate(lines, 1) if result_id in text), 1)
        raise ResultError(
            f"the reference system {result_id} ({path}, line {line}) {what}{more}. Restore it, or list the results "
            f"anew with `bench leaderboard references {path}`."
        )


def main_boards(boards: Sequence[Board], content: Mapping[str, str]) -> dict[str, Board]:
    """The board that counts for each dataset: current protocol, all queries, the declared content.

    Without declared content, it is the board with most reference systems, then with most results, then with the
    smallest slug. The newest result does not decide, because anyone can add one.
    """
    by_spec: dict[str, Board] = {}
    for board in sorted(
        boards, key=lambda item: (-sum(row.reference for row in item.rows), -len(item.rows), item.slug)
    ):
        usual = board.current and board.limit is None and board.split in {"test", "all"}
        if usual and content.get(board.spec, board.content_hash) == board.content_hash:
            by_spec.setdefault(board.spec, board)
    return by_spec


def views_of(chosen: RankingSet, boards: Sequence[Board], at_hand: Mapping[str, str]) -> tuple[list[View], list[str]]:
    """The views that a site can show, the ranking first, and what the others lack.

    A site without results on some dataset of the ranking is ranked on all of its own datasets, and says that these
    were not declared.

    Args:
        chosen: the declared set.
        boards: the site's boards.
        at_hand: spec -> the content that counts if none is declared.

    Returns:
        Views, and a sentence for each declared view that cannot be shown; one sentence if the site lacks all of them.
    """
    main = main_boards(boards, {**at_hand, **chosen.content})
    views, missing = [], []
    for view in chosen.views:
        lacking = [spec for spec in view.datasets if spec not in main]
        if lacking:
            several = "s" if len(lacking) > 1 else ""
            missing.append(
                f"the ranking {view.title!r} (set {chosen.version}) is not shown: there are no results on its "
                f"dataset{several} {', '.join(lacking)}."
            )
        else:
            view_boards = tuple(main[spec] for spec in view.datasets)
            views.append(View(view.name, view.title, view.why, view_boards, chosen.version, view.card))
    if main and not any(spec in main for view in chosen.views for spec in view.datasets):
        missing = [
            f"there are no results on any dataset of the ranking set {chosen.version}, so no ranking is "
            "shown: declare your own datasets with --ranking-set."
        ]
    if not views or views[0].name != chosen.views[0].name:
        every = tuple(drop_library_variants([main[spec] for spec in sorted(main)]))
        why = "All datasets that this site has results on. They were not declared in advance, so a result on a new"
        views.insert(0, View("", "All datasets", f"{why} dataset changes them.", every, ""))
    return views, missing
