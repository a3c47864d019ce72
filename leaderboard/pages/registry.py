"""The kinds of pages of the site, found by what this folder and plug-ins hold.

A module of this folder that has a `PAGE` is a kind of page, and so is one that a plug-in names (`bench.base.plugins`);
its templates lie in `templates/` beside it. The build, the navigation and the browser tests take their lists from here,
so a new page is a module with its template (and a test), and nothing else changes.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from markupsafe import Markup

from bench.base.plugins import plugins
from bench.leaderboard.boards.board import Board, Rejected
from bench.leaderboard.boards.gates import BaselineHistory
from bench.leaderboard.boards.overall import Overall
from bench.leaderboard.boards.pairs import Pairs
from bench.leaderboard.boards.rankingset import View, main_boards
from bench.leaderboard.writer import Writer


@dataclass(frozen=True, eq=False)
class ChoiceBoard:
    """Choices of language models on a dataset, as a plug-in's function `choice-board` reads them from their board.

    Attributes:
        board: their results.
        path: where on the site they are.
        pickers: what the page of the plug-in says of each model.
    """

    board: Board
    path: str
    pickers: Sequence[Any]


@dataclass(frozen=True)
class Content:
    """What pages are made from.

    Attributes:
        boards: by dataset.
        views: what methods are ranked on, the ranking first.
        overall: boards over the datasets of each view.
        unranked: why a declared ranking is not shown, a sentence each.
        absent: slugs of boards whose dataset was not at hand: which of its tools are seen is not known.
        rejected: what is not shown, and why.
        files: page's name -> what it has read from the file that the user named for it.
        shown: ids of the results that have a page.
        pairs: board's slug -> its pairs of methods, where they were tested one by one.
        drawn: specs of datasets that have results on libraries of other sizes, sound or not.
        at_hand: spec -> the content of a dataset on this machine.
        gates: histories of baselines, where the site has some.
        choices: of language models among retrieved tools, by dataset.
    """

    boards: Sequence[Board]
    views: Sequence[View]
    overall: Sequence[Overall]
    unranked: Sequence[str]
    absent: Collection[str]
    rejected: Sequence[Rejected]
    files: Mapping[str, Any]
    shown: Collection[str]
    pairs: Mapping[str, Pairs]
    drawn: Collection[str]
    at_hand: Mapping[str, str]
    gates: Sequence[BaselineHistory]
    choices: Sequence[ChoiceBoard] = ()

    @property
    def main(self) -> dict[str, Board]:
        """Spec -> the board that counts for a dataset: on the content that a view declares, else on that at hand."""
        declared = {board.spec: board.content_hash for view in self.views for board in view.boards}
        return main_boards(self.boards, {**self.at_hand, **declared})


@dataclass(frozen=True)
class Page:
    """A kind of page.

    Attributes:
        name: what it is called in tests.
        path: where its pages are, such as `metrics.html` or `m/*.html`.
        write: writes them; None for pages that are written with their board, and for one with `values`.
        values: of a kind that is one page, whose template has its name: what that reads; None if the site lacks it.
        entry: its text in the navigation; empty for a kind that is reached from others.
        place: where in the navigation its entry is, from left to right.
        file: of a page that is made of a file which the user names: what that is, as the help of `--NAME` says it.
        read: reads this file; raises `UsageError`.
        on_home: what it adds to the first line of the first page, as HTML.
        on_method: what it adds to the page of a method, as HTML.
    """

    name: str
    path: str
    write: Callable[[Content, Writer], None] | None = None
    values: Callable[[Content], Mapping[str, Any] | None] | None = None
    entry: str = ""
    place: int = 0
    file: str = ""
    read: Callable[[Path], Any] | None = None
    on_home: Callable[[Content], Markup] | None = None
    on_method: Callable[[Content, str], Markup] | None = None


def page_modules() -> list[ModuleType]:
    """The modules that have a `PAGE`."""
    package = importlib.import_module(__name__.rpartition(".")[0])
    names = [f"{package.__name__}.{item.name}" for item in pkgutil.iter_modules(package.__path__)]
    names += [name for plugin in plugins() for name in plugin.pages]
    return [module for name in sorted(names) if hasattr(module := importlib.import_module(name), "PAGE")]


@cache
def pages() -> tuple[Page, ...]:
    """Every kind of page: those of the navigation in its order, then the others by name."""
    kinds = [module.PAGE for module in page_modules()]
    return tuple(sorted(kinds, key=lambda page: (not page.entry, page.place, page.name)))


def navigation() -> list[tuple[str, str]]:
    """Text and path of each entry of the navigation."""
    return [(page.entry, page.path) for page in pages() if page.entry]
