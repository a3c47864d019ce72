"""Write queries with a language model, and keep those for which a second call picks the same tools. `command` runs it.

Queries are written and checked in batches. Queries kept from a batch remain if a later one fails because of a dead
endpoint, a spending limit or Ctrl-C. The model's journal keeps all replies, so the same command resumes where it
stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

from bench.base.progress import QUIET, Progress
from bench.data.derive import order_hash
from bench.data.origins import written_by
from bench.data.tables import Query
from bench.interface import Library
from bench.lab.replies import read_replies
from bench.lab.synthesis.neighbours import Neighbours
from bench.lab.synthesis.prompts import Picked, WrittenRequest, picking_request, writing_request
from bench.lab.synthesis.targets import KINDS, Kind, Target
from bench.search.names import contains_words, name_parts
from bench.search.words import words

if TYPE_CHECKING:
    from bench.models.llm.client import LanguageModel

#: Number of queries to write before checking them.
BATCH = 64
#: Number of tools that the second call picks from, besides "none of these tools".
SHORT_LIST = 9

#: Why a query is dropped, in order of the steps, and the wording in a report.
DROPPED: Mapping[str, str] = {
    "failed": "no reply",
    "unparsed": "unreadable reply",
    "named": "names a tool",
    "repeated": "repeated",
    "not_picked": "other tools picked",
}


@dataclass
class Tally:
    """Counts for the queries of one kind.

    Attributes:
        asked: number of requested queries.
        written: number of written queries.
        kept: number that passed every check.
        dropped: number dropped for each reason of `DROPPED`.
    """

    asked: int = 0
    written: int = 0
    kept: int = 0
    dropped: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class _Draft:
    """A written query, and its target."""

    target: Target
    text: str


class QueryWriter:
    """Writes the queries of one library.

    Args:
        model: writes, and picks in separate calls that do not reveal the target.
        seed: another seed shuffles the lists differently.

    Attributes:
        queries: queries kept so far, in the order of the targets.
        tallies: counts for each kind so far.
    """

    def __init__(
        self, library: Library, neighbours: Neighbours, model: LanguageModel, seed: int, progress: Progress = QUIET
    ) -> None:
        self._library = library
        self._neighbours = neighbours
        self._near = neighbours.of_tools
        self._model = model
        self._seed = seed
        self._progress = progress
        self._texts: set[tuple[str, ...]] = set()
        self.queries: list[Query] = []
        self.tallies: dict[Kind, Tally] = {kind: Tally() for kind in KINDS}

    def write(self, targets: Sequence[Target]) -> None:
        """Write a query for each target, check it, and keep it if it passes.

        Raises:
            UnavailableError: the journal lacks a reply and no endpoint may be called, the endpoint is down, or the
                spending limit is reached. `queries` has what was kept before.
            UsageError: the endpoint does not know the model, or refuses a request.
        """
        with self._progress.stage("write queries", len(targets), "queries") as stage:
            for start in range(0, len(targets), BATCH):
                batch = targets[start : start + BATCH]
                drafts = self._check_drafts(self._fresh(self._drafts(batch)))
                self.queries += [self._query(draft) for draft in drafts]
                stage.advance(len(batch))

    def _drafts(self, targets: Sequence[Target]) -> list[_Draft]:
        tools = self._library.tools
        requests = [
            writing_request(
                target.kind,
                [tools[tool] for tool in target.gold],
                [tools[tool] for tool in target.rivals],
                target.sample,
            )
            for target in targets
        ]
        drafts = []
        for target, reply in zip(targets, read_replies(WrittenRequest, self._model.complete(requests)), strict=True):
            tally = self.tallies[target.kind]
            tally.asked += 1
            if isinstance(reply, str):
                tally.dropped[reply] += 1
            else:
                tally.written += 1
                drafts.append(_Draft(target, reply.request))
        return drafts

    def _fresh(self, drafts: Iterable[_Draft]) -> list[_Draft]:
        """The drafts that name none of their tools, and do not repeat the words of an earlier one."""
        fresh = []
        for draft in drafts:
            key = tuple(words(draft.text))
            if any(spells_out(draft.text, self._library.tools[tool].name) for tool in draft.target.gold):
                self._drop(draft, "named")
            elif key in self._texts:
                self._drop(draft, "repeated")
            else:
                self._texts.add(key)
                fresh.append(draft)
        return fresh

    def _check_drafts(self, drafts: Sequence[_Draft]) -> list[_Draft]:
        """The drafts for which the second call picks exactly the tools that they were written for."""
        near = self._neighbours.of_texts([draft.text for draft in drafts], SHORT_LIST) if drafts else []
        lists = [self._short_list(draft, nearest) for draft, nearest in zip(drafts, near, strict=True)]
        tools = self._library.tools
        requests = [
            picking_request(draft.text, [None if tool is None else tools[tool] for tool in choices])
            for draft, choices in zip(drafts, lists, strict=True)
        ]
        replies = read_replies(Picked, self._model.complete(requests) if requests else [])
        kept = []
        for draft, choices, reply in zip(drafts, lists, replies, strict=True):
            if isinstance(reply, str):
                self._drop(draft, reply)
            elif max(reply.numbers) > len(choices):
                self._drop(draft, "unparsed")
            elif {choices[number - 1] for number in reply.numbers} == set(draft.target.gold or (None,)):
                self.tallies[draft.target.kind].kept += 1
                kept.append(draft)
            else:
                self._drop(draft, "not_picked")
        return kept

    def _short_list(self, draft: _Draft, near_text: Sequence[int]) -> list[int | None]:
        """The choices of the second call, in a neutral order: the tools, similar tools, and None.

        Neighbours of the tools and of the query's own words alternate, so that a tool elsewhere in the library that
        fits the query better is on the list too.
        """
        target = draft.target
        others = [near_text, *(self._near[tool] for tool in target.gold or target.rivals[:1])]
        turns = (tool for turn in zip_longest(*others) for tool in turn if tool is not None)
        # If too few tools share a word, the next ones by id fill the list: a short one would be easy.
        count = len(self._library)
        start = int.from_bytes(self._place(draft.text, None)[:8])
        rest = ((start + number) % count for number in range(min(count, 2 * SHORT_LIST)))
        chosen = list(dict.fromkeys(chain(target.gold, target.rivals[:1], turns, rest)))[:SHORT_LIST]
        return sorted([*chosen, None], key=lambda tool: self._place(draft.text, tool))

    def _place(self, text: str, tool: int | None) -> bytes:
        name = "" if tool is None else self._library.tools[tool].tool_id
        return order_hash(f"{self._seed}:{text}:{name}")

    def _drop(self, draft: _Draft, reason: str) -> None:
        self.tallies[draft.target.kind].dropped[reason] += 1

    def _query(self, draft: _Draft) -> Query:
        target, tools = draft.target, self._library.tools
        return Query(
            target.query_id,
            draft.text,
            {tools[tool].tool_id: 1 for tool in target.gold},
            slices={"kind": target.kind},
            group=target.group,
            origin=written_by(self._model.name),
        )


def spells_out(text: str, name: str) -> bool:
    """Whether a text contains a tool's name, literally or as its words side by side.

    `search_issues`, `searchIssues` and `Search issues` are one name here. A name that is a single ordinary word, such
    as `forecast`, gives nothing away: people use the word without knowing of the tool.
    """
    parts = name_parts(name)
    if not parts or (len(parts) == 1 and parts[0].isalpha()):
        return False
    return name.casefold() in text.casefold() or contains_words(name_parts(text), parts)
