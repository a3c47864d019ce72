"""The kinds of pages of the site, found in this folder and in plug-ins.

A module of this folder with a `PAGE` is a kind of page, and so is a module that a plug-in names (`bench.base.plugins`);
its templates lie in `templates/` beside it. The build, the navigation and the browser tests get their lists here, so a
new page needs only a module, its template and a test.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from markupsafe import Markup

from bench.base.plugins import plugins
from bench.leaderboard.boards.board import Board, Rejected
from bench.leaderboard.boards.decisions import Decisions
from bench.leaderboard.boards.gates import BaselineHistory
from bench.leaderboard.boards.overall import Overall
from bench.leaderboard.boards.pairs import Pairs
from bench.leaderboard.boards.rankingset import SiteWords, View, main_boards
from bench.leaderboard.writer import Writer


@dataclass(frozen=True, eq=False)
class ChoiceBoard:
    """Choices of language models on a dataset, as the plug-in function `choice-board` returns them.

    Attributes:
        board: the board of their results.
        path: their page on the site.
        pickers: what the plug-in's page says about each model.
    """

    board: Board
    path: str
    pickers: Sequence[Any]


@dataclass(frozen=True)
class Frame:
    """What all pages of a site share.

    Attributes:
        words: what the site says of itself.
        files: names of the pages whose file the user gave.
        gates: whether the site shows baselines.
    """

    words: SiteWords = field(default_factory=SiteWords)
    files: frozenset[str] = frozenset()
    gates: bool = False


@dataclass(frozen=True)
class SiteData:
    """The input of all pages.

    Attributes:
        boards: by dataset.
        views: ranked groups of datasets, the ranking first.
        overall: boards over the datasets of each view.
        unranked: why a declared ranking is not shown, as sentences.
        absent: slug of a board whose dataset was unavailable -> why, as a sentence.
        rejected: results that are not shown, with reasons.
        files: page's name -> what it read from the file that the user named for it.
        shown: ids of results that have a page.
        pairs: board's slug -> its pairs of methods, if they were tested one by one.
        drawn: specs of datasets with results on other library sizes, valid or not.
        at_hand: spec -> the content of a dataset on this machine.
        gates: histories of baselines, if the site has them.
        choices: choices of language models among retrieved tools, by dataset.
        decisions: what the board's maintainers accepted and withdrew.
        frame: what all pages share.
    """

    boards: Sequence[Board]
    views: Sequence[View]
    overall: Sequence[Overall]
    unranked: Sequence[str]
    absent: Mapping[str, str]
    rejected: Sequence[Rejected]
    files: Mapping[str, Any]
    shown: Collection[str]
    pairs: Mapping[str, Pairs]
    drawn: Collection[str]
    at_hand: Mapping[str, str]
    gates: Sequence[BaselineHistory]
    choices: Sequence[ChoiceBoard] = ()
    decisions: Decisions = field(default_factory=Decisions)
    frame: Frame = field(default_factory=Frame)

    @property
    def main(self) -> dict[str, Board]:
        """Spec -> the board that counts for a dataset: on the declared content, else on the available one."""
        declared = {board.spec: board.content_hash for view in self.views for board in view.boards}
        return main_boards(self.boards, {**self.at_hand, **declared})


@dataclass(frozen=True)
class Page:
    """A kind of page.

    Attributes:
        name: its name in tests.
        path: path of its pages, such as `metrics.html` or `m/*.html`.
        write: writes them; None for pages written with their board, and for pages with `values`.
        values: for a single page whose template has its name: the template's input; None if the site lacks the page.
        when: whether a site has it and its entry in the navigation.
        entry: its text in the navigation; empty if other pages link to it.
        order: the position of its entry in the navigation.
        file: for a page made from a file that the user names: the help text of the option `--NAME`.
        read: reads this file; raises `UsageError`.
        on_home: HTML to add to the first line of the home page.
        on_method: returns a function of a method's name that returns the HTML to add to its page.
    """

    name: str
    path: str
    write: Callable[[SiteData, Writer], None] | None = None
    values: Callable[[SiteData], Mapping[str, Any] | None] | None = None
    when: Callable[[Frame], bool] = lambda frame: True
    entry: str = ""
    order: int = 0
    file: str = ""
    read: Callable[[Path], Any] | None = None
    on_home: Callable[[SiteData], Markup] | None = None
    on_method: Callable[[SiteData], Callable[[str], Markup]] | None = None


def page_modules() -> list[ModuleType]:
    """The modules that define a `PAGE`."""
    package = importlib.import_module(__name__.rpartition(".")[0])
    names = [f"{package.__name__}.{item.name}" for item in pkgutil.iter_modules(package.__path__)]
    names += [name for plugin in plugins() for name in plugin.pages]
    return [module for name in sorted(names) if hasattr(module := importlib.import_module(name), "PAGE")]


@cache
def pages() -> tuple[Page, ...]:
    """Every kind of page: first those in the navigation, in its order, then the others by name."""
    kinds = [module.PAGE for module in page_modules()]
    return tuple(sorted(kinds, key=lambda page: (not page.entry, page.order, page.name)))


def navigation(frame: Frame) -> list[tuple[str, str]]:
    """Text and path of each entry of a site's navigation."""
    return [(page.entry, page.path) for page in pages() if page.entry and page.when(frame)]
