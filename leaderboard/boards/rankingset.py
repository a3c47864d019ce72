"""The ranking set: which datasets methods are ranked on, and among which systems, declared before results are seen.

The datasets must not follow from the results. If they do, submissions choose them: three noise results on the right
datasets once took half of the datasets out of the ranking and put another method first. So they are a file with a
version, `ranking_set.toml`, which a site names. A method that lacks a dataset of it is not ranked.

Nor must the family of tests: near-copies under other names would make every difference insignificant. So there are
reference systems, whose tests no other result changes (`bench.stats.ranking`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, field_validator, model_validator

from bench.base.errors import UsageError
from bench.base.records import StrictRecord, read_toml
from bench.base.spec import parse
from bench.leaderboard.boards.board import Board
from bench.leaderboard.boards.libraries import standalone

#: The set that boards are ranked by where no other is given.
DECLARED = Path(__file__).with_name("ranking_set.toml")


class DeclaredView(StrictRecord):
    """Datasets that methods are ranked on together.

    Attributes:
        name: in addresses.
        title: on pages.
        why: why these, in a sentence.
        datasets: specs.
        card: whether the home page says who is best on it.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9-]{0,39}$")
    title: str = Field(min_length=1, max_length=60)
    why: str = Field(min_length=1, max_length=600)
    datasets: list[str] = Field(min_length=1)
    card: bool = True


class RankingSet(StrictRecord):
    """What `ranking_set.toml` holds.

    Attributes:
        version: named on pages and in exports.
        views: the first is the ranking; the others rank on parts of the data.
        content: spec -> the content hash that counts; a dataset without one counts with the content that is at hand,
            else with that of most results.
        systems: specs of the reference systems; by default the registered methods at their defaults, whose names an
            outsider cannot multiply. On a board, the result in the usual setting counts; floors and oracles do not.
    """

    version: str = Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z.+-]{0,29}$")
    views: list[DeclaredView] = Field(min_length=1)
    content: dict[str, str] = {}
    systems: list[str] | None = Field(default=None, min_length=2)

    @field_validator("systems")
    @classmethod
    def _as_results_have_them(cls, given: list[str] | None) -> list[str] | None:
        if given is None:
            return None
        specs = [_canonical(text) for text in given]
        for spec in specs:
            if specs.count(spec) > 1:
                raise ValueError(f"the system {spec} is named twice")
        return specs

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


def _canonical(text: str) -> str:
    try:
        return str(parse(text))
    except UsageError as error:
        raise ValueError(str(error)) from None


@dataclass(frozen=True)
class View:
    """A view of a site: datasets that it has results on.

    Attributes:
        name, title, why, card: as declared.
        boards: one for each of its datasets.
        version: of the ranking set; empty for the view of a site that is not ranked by a declared set.
    """

    name: str
    title: str
    why: str
    boards: tuple[Board, ...]
    version: str
    card: bool = True

    @property
    def declared(self) -> bool:
        """Whether its datasets were chosen before there were results."""
        return bool(self.version)


def read_ranking_set(path: Path = DECLARED) -> RankingSet:
    """The set in a TOML file.

    Raises:
        UsageError: the file cannot be read, is not TOML, or does not follow the model; the sentence says where.
    """
    return read_toml(RankingSet, path, "the ranking set", UsageError)


def main_boards(boards: Sequence[Board], content: Mapping[str, str]) -> dict[str, Board]:
    """The board that counts for each dataset: today's protocol, all queries, the content that is named.

    Where no content is named it is the board with most results, and of these the one with the smallest slug: the
    newest result does not decide, since anybody can add one.
    """
    by_spec: dict[str, Board] = {}
    for board in sorted(boards, key=lambda item: (-len(item.rows), item.slug)):
        usual = board.current and board.limit is None and board.split in {"test", "all"}
        if usual and content.get(board.spec, board.content_hash) == board.content_hash:
            by_spec.setdefault(board.spec, board)
    return by_spec


def views_of(chosen: RankingSet, boards: Sequence[Board], at_hand: Mapping[str, str]) -> tuple[list[View], list[str]]:
    """The views that a site can show, the ranking first, and what is missing for the others.

    A site without results on some dataset of the ranking is ranked on all of its own datasets, and says that these
    were not declared.

    Args:
        chosen: what is declared.
        boards: of the site.
        at_hand: spec -> the content that counts where none is declared.

    Returns:
        Views, and a sentence for each declared view that cannot be shown; a single one if the site has nothing of them.
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
            f"there are no results on any dataset of the ranking set {chosen.version}, so that none of its rankings is "
            "shown: declare your own datasets with --ranking-set."
        ]
    if not views or views[0].name != chosen.views[0].name:
        every = tuple(standalone([main[spec] for spec in sorted(main)]))
        why = "All datasets that this site has results on. They were not declared beforehand, so that a result on a new"
        views.insert(0, View("", "All datasets", f"{why} dataset changes them.", every, ""))
    return views, missing
