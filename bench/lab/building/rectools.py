"""Building a dataset of requests with exactly known tool sets, with a language model.

The pipeline of RecTools ("PTR: Precision-Driven Tool Recommendation for Large Language Models", section 4): draw
bundles of several sizes; have requests written for each; keep those that the bundle solves exactly and that it solves
only in part without one of its tools; drop repetitions. Every question is answered at most once: the model's journal
keeps all replies, so an interrupted build resumes where it stopped. `command` calls it.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from bench.base.errors import DataError, UsageError
from bench.base.progress import QUIET, Progress
from bench.data.card import Card
from bench.data.dataset import Dataset
from bench.data.derive import SplitOptions, order_hash, with_splits
from bench.data.tables import Query, Tables, Tool
from bench.lab.replies import R, Unusable, read_replies
from bench.methods.ptr.coverage import Assessment
from bench.methods.ptr.dialogue import listed, request
from bench.methods.ptr.replies import DialogueReply, Sentence
from bench.search.names import contains_words
from bench.search.words import words

if TYPE_CHECKING:
    from bench.models.llm.client import LanguageModel, Request

#: Temperature: requests for one bundle should differ.
_TEMPERATURE = 1.0

#: Why a request is dropped, in order of the steps, and the wording on a card.
DROPPED = {
    "failed": "got no reply from the model",
    "unparsed": "had a reply that did not parse",
    "not_exact": "are not solved exactly by their bundle, by the model's own judgement",
    "not_needed": "are still solved with one tool less, by the model's own judgement",
    "repeated": "repeat the words of another",
}


class WrittenForBundle(DialogueReply):
    """A request written for a bundle."""

    request: Sentence


class Assessed(DialogueReply):
    """How far a tool set solves a request."""

    assessment: Assessment


@dataclass(frozen=True)
class BuildSettings:
    """The size of a build.

    Attributes:
        sizes: sizes of bundles.
        bundles: number of distinct bundles of each size.
        requests: number of requests for each bundle.
        seed: another seed draws other bundles.
    """

    sizes: tuple[int, ...] = tuple(range(1, 11))
    bundles: int = 20
    requests: int = 5
    seed: int = 0


@dataclass(frozen=True)
class Draft:
    """A request on its way through the checks; `bundle` are positions in the library."""

    query_id: str
    bundle: tuple[int, ...]
    sample: int
    text: str = ""


@dataclass(frozen=True)
class Built:
    """The result of a build.

    Attributes:
        queries: the requests that passed, with their gold, all in the test split.
        requested: number of requested requests.
        dropped: number dropped for each reason of `DROPPED`.
    """

    queries: list[Query]
    requested: int
    dropped: dict[str, int]


def build_dataset(
    tools: Sequence[Tool],
    card: Card,
    settings: BuildSettings,
    options: SplitOptions,
    model: LanguageModel,
    progress: Progress = QUIET,
) -> tuple[Dataset, Built]:
    """Build a dataset with its own split; errors are reported before anything is paid for.

    Args:
        tools, settings, model, progress: as for `Builder`.
        card: title, licence and template of the dataset; its known issues are written here.
        options: how to split requests into train and test.

    Raises:
        UsageError: the library is too small for these bundles.
        UnavailableError: there is neither an endpoint nor a journal that could answer.
        DataError: the library is not valid, or no request passed the checks.
        BenchError: the spending limit is reached; what was paid for is in the journal.
    """
    Dataset.build(card.id, card, Tables(tools, [Query("placeholder", "", {})]))
    sample_bundles([tool.tool_id for tool in tools], settings)
    model.preflight()
    built = Builder(tools, settings, model, progress).build()
    issues = known_issues(built, tools, model.identity, settings)
    told = card.model_copy(update={"known_issues": issues})
    return Dataset.build(card.id, told, Tables(tools, with_splits(built.queries, options))), built


def sample_bundles(ids: Sequence[str], settings: BuildSettings) -> list[tuple[int, ...]]:
    """Distinct bundles, size by size: positions in `ids`, ascending.

    A bundle contains the tools that come first in the order of a hash of seed, size, number and tool id. So it depends
    only on these, not on a random generator, whose stream may change with a new version.

    Raises:
        UsageError: there are fewer bundles of a size.
    """
    bundles: list[tuple[int, ...]] = []
    for size in settings.sizes:
        if math.comb(len(ids), size) < settings.bundles:
            raise UsageError(
                f"{len(ids)} tools make {math.comb(len(ids), size)} different sets of {size}, fewer than the "
                f"{settings.bundles} asked for; ask for fewer bundles, or for other sizes."
            )
        # A duplicate draw is repeated under the next number.
        chosen: dict[tuple[int, ...], None] = {}
        number = 0
        while len(chosen) < settings.bundles:
            key = f"{settings.seed}:{size}:{number}"
            drawn = sorted(range(len(ids)), key=lambda i: order_hash(f"{key}:{ids[i]}"))[:size]
            chosen[tuple(sorted(drawn))] = None
            number += 1
        bundles.extend(chosen)
    return bundles


def ask_request(tools: Sequence[Tool]) -> str:
    """The prompt to write a request."""
    needed = "this tool is" if len(tools) == 1 else f"all of these {len(tools)} tools are"
    return (
        f"Tools:\n{listed(tools)}\n\n"
        f"Write one request, as a person would put it to an assistant, for which {needed} needed and no other tool is. "
        "Each tool must have something to do that the request clearly asks for. Give the details that the work takes, "
        "such as names, places, dates and amounts. Do not mention the tools or their names.\n"
        'Reply as {"request": "the request"}.'
    )


def ask_verdict(text: str, tools: Sequence[Tool]) -> str:
    """The prompt to judge a request and a tool set."""
    return (
        f"Request:\n{text}\n\nTools at hand:\n{listed(tools)}\n\n"
        'Judge the tools at hand as a set. "exact": they do everything that is asked, and each of them is needed. '
        '"over": they do everything that is asked, and some are not needed. "partial": something that is asked stays '
        "undone.\n"
        'Reply as {"assessment": "exact"}, with the word that fits.'
    )


class Builder:
    """Runs the steps of one build with the tools of a library.

    Attributes:
        dropped: number of requests dropped for each reason of `DROPPED` so far.
    """

    def __init__(
        self, tools: Sequence[Tool], settings: BuildSettings, model: LanguageModel, progress: Progress = QUIET
    ) -> None:
        self._tools = sorted(tools, key=lambda tool: tool.tool_id)
        self._settings = settings
        self._model = model
        self._progress = progress
        self.dropped: Counter[str] = Counter()

    def build(self) -> Built:
        """Draw, write, check, and drop repetitions.

        Raises:
            UsageError: the library is too small for these bundles.
            DataError: no request passed the checks.
            BenchError: the spending limit is reached; what was paid for is in the journal.
        """
        drafts = self._drafts()
        requested = len(drafts)
        drafts = self._distinct(self.check(self._write_requests(drafts)))
        if not drafts:
            raise DataError(f"none of the {requested} requests passed the checks: {describe_dropped(self.dropped)}.")
        queries = [
            Query(
                draft.query_id,
                draft.text,
                {self._tools[tool].tool_id: 1 for tool in draft.bundle},
                slices={"size": f"{len(draft.bundle):02}"},
            )
            for draft in drafts
        ]
        return Built(queries, requested, {reason: self.dropped[reason] for reason in DROPPED})

    def check(self, drafts: Sequence[Draft]) -> list[Draft]:
        """Drafts that their bundle solves exactly, and only in part without one of its tools; others are counted."""
        exact = self._judge_drafts("check that bundles solve requests", drafts, self._bundle, "exact", "not_exact")
        # A bundle of one tool without that tool is empty and solves nothing, so there is no question.
        alone = [draft for draft in exact if len(draft.bundle) == 1]
        several = [draft for draft in exact if len(draft.bundle) > 1]
        return [
            *alone,
            *self._judge_drafts("check that every tool is needed", several, self._one_less, "partial", "not_needed"),
        ]

    def _drafts(self) -> list[Draft]:
        bundles = sample_bundles([tool.tool_id for tool in self._tools], self._settings)
        return [
            Draft(f"s{len(bundle):02}-b{number:04}-r{sample:02}", bundle, sample)
            for number, bundle in enumerate(bundles)
            for sample in range(self._settings.requests)
        ]

    def _write_requests(self, drafts: Sequence[Draft]) -> list[Draft]:
        requests = [
            request(ask_request(self._bundle(draft)), temperature=_TEMPERATURE, sample=draft.sample) for draft in drafts
        ]
        written = []
        for draft, reply in zip(drafts, self._ask("write requests", WrittenForBundle, requests), strict=True):
            if isinstance(reply, str):
                self.dropped[reply] += 1
            else:
                written.append(replace(draft, text=reply.request))
        return written

    def _judge_drafts(
        self,
        title: str,
        drafts: Sequence[Draft],
        tools: Callable[[Draft], Sequence[Tool]],
        wanted: Assessment,
        reason: str,
    ) -> list[Draft]:
        """The drafts whose tool set gets the wanted assessment; the others are counted under the reason."""
        requests = [request(ask_verdict(draft.text, tools(draft))) for draft in drafts]
        kept = []
        for draft, verdict in zip(drafts, self._ask(title, Assessed, requests), strict=True):
            if not isinstance(verdict, str) and verdict.assessment == wanted:
                kept.append(draft)
            else:
                self.dropped[verdict if isinstance(verdict, str) else reason] += 1
        return kept

    def _ask(self, title: str, form: type[R], requests: Sequence[Request]) -> list[R | Unusable]:
        with self._progress.stage(title):
            return read_replies(form, self._model.complete(requests) if requests else [])

    def _bundle(self, draft: Draft) -> list[Tool]:
        return [self._tools[tool] for tool in draft.bundle]

    def _one_less(self, draft: Draft) -> list[Tool]:
        """The bundle without one tool, drawn by a hash of seed and request."""
        number = int.from_bytes(order_hash(f"{self._settings.seed}:{draft.query_id}:{draft.text}")[:8], "big")
        left_out = draft.bundle[number % len(draft.bundle)]
        return [self._tools[tool] for tool in draft.bundle if tool != left_out]

    def _distinct(self, drafts: Sequence[Draft]) -> list[Draft]:
        """The first draft, by id, of those with the same words."""
        first: dict[tuple[str, ...], Draft] = {}
        for draft in sorted(drafts, key=lambda draft: draft.query_id):
            first.setdefault(tuple(words(draft.text)), draft)
        self.dropped["repeated"] += len(drafts) - len(first)
        return list(first.values())


def describe_dropped(dropped: Mapping[str, int]) -> str:
    """How many were dropped for which reason, in words; empty if there were none."""
    return "; ".join(f"{dropped[reason]} {text}" for reason, text in DROPPED.items() if dropped.get(reason))


def known_issues(built: Built, tools: Sequence[Tool], model: str, settings: BuildSettings) -> list[str]:
    """The known issues of a dataset built from a library by a model (with its endpoint), for the dataset's card."""
    names = {tool.tool_id: words(tool.name) for tool in tools}
    naming = sum(any(contains_words(words(query.text), names[tool]) for tool in query.gold) for query in built.queries)
    sizes = Counter(len(query.gold) for query in built.queries)
    kept = ", ".join(f"{size}: {sizes[size]}" for size in settings.sizes)
    left = built.requested - len(built.queries)
    return [
        f"Every request was written by a language model ({model}) for a bundle drawn at random (seed {settings.seed}) "
        "and checked by the same model; no person has read them.",
        f"Of {built.requested} requests asked for, {left} were dropped"
        + (f": {describe_dropped(built.dropped)}." if left else "."),
        f"Requests kept by size of the bundle: {kept}. At most {settings.requests} requests share a bundle.",
        f"{naming} of {len(built.queries)} requests hold the words of a gold tool's name, which may be everyday words.",
    ]
