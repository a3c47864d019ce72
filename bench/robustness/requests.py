"""Perturbed words of the request. Each claims that the request means the same, so the gold stays.

How often this is untrue was counted by reading samples; `docs/stress.md` has the counts.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from bench.base.errors import UsageError
from bench.base.reading import Reader
from bench.base.words import words
from bench.data.tables import Query, Tool
from bench.robustness.perturbation import Changed, Share, draw, perturbation, pick

_SAME = "the request means the same"
_ROBUSTBENCH = "after the noisy requests of RobustBench-TC (arXiv 2605.11928)"
#: Neighbours on a keyboard with the layout QWERTY, row by row.
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_LONG_WORD = re.compile(r"(?<![\w@./-])[A-Za-z]{4,}(?![\w@/-])(?!\.\w)")
_PLAIN_WORD = re.compile(r"(?<!\S)[^\s\d/@_.]+\.*(?!\S)")
#: Words that a terse request leaves out. Negations and prepositions of place and time stay: they carry meaning.
_FUNCTION_WORDS = frozenset(
    """a an the i im i'm i'd i've i'll me my we we're our us you your he she it its it's they them their this that these
    those there is are am was be been being do does did have has had having will would could should can shall might
    must please pls thanks thank hi hello hey bonjour so just really also very quite some any what's that's there's let
    let's want need like know tell show give get help and or but if then as""".split()
)
_VERBS = {
    "find": "look up", "search": "look", "show": "display", "display": "show", "create": "set up", "delete": "remove",
    "remove": "delete", "book": "reserve", "buy": "purchase", "purchase": "buy", "calculate": "compute",
    "compute": "calculate", "retrieve": "fetch", "fetch": "retrieve", "recommend": "suggest", "suggest": "recommend",
    "generate": "produce", "verify": "check", "cancel": "call off", "modify": "change", "identify": "determine",
    "determine": "find out", "explain": "make clear", "list": "enumerate", "compare": "contrast", "obtain": "get",
    "provide": "supply", "locate": "find", "examine": "look at", "analyze": "examine", "summarize": "sum up",
}  # fmt: skip
#: A verb of the table where a verb is likely: at the start of a sentence, or after one of these words.
_VERB = re.compile(
    rf"(?:^|(?<=[.!?:] )|(?<=\bto )|(?<=\bplease )|(?<=\bthen ))({'|'.join(_VERBS)})\b(?=[ :])"
    r"(?<!search(?! for))(?! (?:out|he|she|it|that|how|if|whether)\b)",
    re.IGNORECASE,
)
#: Names of times that replace each other: months of one length, so that days of them exist, and weekdays. `May` and
#: `March` are words too.
_LONG_MONTHS = ("January", "July", "August", "October", "December")
_SHORT_MONTHS = ("April", "June", "September", "November")
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NAMED_TIMES = (_LONG_MONTHS, _SHORT_MONTHS, _DAYS)
_NAMED_TIME = re.compile(rf"\b({'|'.join(word for words in _NAMED_TIMES for word in words)})\b")
_MINUTES = re.compile(r"(?<=\d:)([0-5]\d)\b(?![:\d])")
#: A number by itself: not in a code, path, address, decimal or ordinal.
_NUMBER = re.compile(r"(?<![\w.,:/#@&+'()-])(\d{1,8})(?![\w:/%&+'()-])(?![.,]\d)")
_ONE = re.compile(r"\b1\b")
_POLITE = "Hello! I hope you are doing well. Could you please help me with this? {} Thank you very much in advance!"
_FILLER = "I am typing this with one hand, so bear with me. {} Sorry if that was a bit long, it has been quite a day."
#: What a request does not ask for, with the words that would make it part of the request.
_NOT_ASKED = (
    ("Not by e-mail, please.", {"mail", "email", "e", "inbox", "message", "messages", "letter", "letters", "gmail"}),
    ("No need to put it in a spreadsheet.", {"spreadsheet", "excel", "sheet", "sheets", "xlsx", "csv", "table"}),
    ("Do not draw a picture of it.", {"picture", "image", "images", "draw", "photo", "chart", "plot", "render"}),
    ("Do not play any music meanwhile.", {"music", "song", "songs", "play", "playlist", "track", "audio"}),
)


def _reword(queries: Sequence[Query], reword: Callable[[Query, str, str], str]) -> list[Query]:
    """The queries with every text reworded, by (query, a name of the text for draws, the text)."""
    return [
        replace(
            query,
            text=reword(query, query.query_id, query.text),
            calls=tuple(reword(query, f"{query.query_id}:{i}", call) for i, call in enumerate(query.calls)),
        )
        for query in queries
    ]


@perturbation("request", invariant=_SAME, source=f"keyboard neighbours; {_ROBUSTBENCH}")
def typing_errors(queries: Sequence[Query], tools: Sequence[Tool], seed: int, *, rate: Share = 0.2) -> Changed:
    """One typing error in a share of the words of four letters or more: a neighbouring key, a swap, or a lost letter.

    The first letter and words with digits, addresses and paths stay.
    """

    def mistype(word: str, *name: object) -> str:
        if draw(seed, "typing-errors", *name) >= rate:
            return word
        at = 1 + int(draw(seed, "place", *name) * (len(word) - 2))
        kind = pick(("neighbour", "swap", "loss"), seed, "kind", *name)
        if kind == "swap":
            return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
        return word[:at] + (_neighbour(word[at], seed, *name) if kind == "neighbour" else "") + word[at + 1 :]

    def reword(query: Query, name: str, text: str) -> str:
        return _LONG_WORD.sub(lambda match: mistype(match[0], name, match.start()), text)

    return _reword(queries, reword), tools


def _neighbour(letter: str, seed: int, *name: object) -> str:
    row = next(row for row in _ROWS if letter.lower() in row)
    at = row.index(letter.lower())
    near = pick([row[i] for i in (at - 1, at + 1) if 0 <= i < len(row)], seed, "neighbour", *name)
    return str(near.upper() if letter.isupper() else near)


@perturbation("request", invariant=_SAME, source=_ROBUSTBENCH)
def upper_case(queries: Sequence[Query], tools: Sequence[Tool], seed: int) -> Changed:
    """All letters in upper case, but for paths, addresses and words with digits, which would mean something else."""

    def reword(query: Query, name: str, text: str) -> str:
        return _PLAIN_WORD.sub(lambda match: match[0].upper(), text)

    return _reword(queries, reword), tools


@perturbation("request", invariant=_SAME, source="search queries of a few words")
def keywords(queries: Sequence[Query], tools: Sequence[Tool], seed: int) -> Changed:
    """Words without articles, pronouns, auxiliary verbs, politeness and punctuation; negations stay."""

    def reword(query: Query, name: str, text: str) -> str:
        kept = [part.strip("!?.,;:()\"'“”") for part in text.split()]
        return " ".join(part for part in kept if part and part.lower().replace("’", "'") not in _FUNCTION_WORDS) or text

    return _reword(queries, reword), tools


@perturbation("request", invariant=_SAME, source=_ROBUSTBENCH)
def politeness(queries: Sequence[Query], tools: Sequence[Tool], seed: int) -> Changed:
    """A greeting and a plea before the request, and thanks after it."""
    return _reword(queries, lambda query, name, text: _POLITE.format(text)), tools


@perturbation("request", invariant=_SAME, source=_ROBUSTBENCH)
def filler(queries: Sequence[Query], tools: Sequence[Tool], seed: int) -> Changed:
    """A sentence before the request and one after it that ask for nothing."""
    return _reword(queries, lambda query, name, text: _FILLER.format(text)), tools


@perturbation("request", invariant=_SAME, source=f"a table of {len(_VERBS)} verbs; {_ROBUSTBENCH}")
def synonyms(queries: Sequence[Query], tools: Sequence[Tool], seed: int) -> Changed:
    """Common verbs replaced by synonyms, at the start of a sentence and after `to`, `please` and `then`."""

    def swap(match: re.Match[str]) -> str:
        word = _VERBS[match[1].lower()]
        return word.capitalize() if match[1][0].isupper() else word

    return _reword(queries, lambda query, name, text: _VERB.sub(swap, text)), tools


@perturbation("request", invariant="the same tools answer it for other values", source=_ROBUSTBENCH)
def values(queries: Sequence[Query], tools: Sequence[Tool], seed: int) -> Changed:
    """Other numbers, minutes, weekdays and months; numbers within codes, names and addresses stay.

    All numbers of a request move by one step, so that ranges stay ranges: down if one is a year or could be one of the
    last days of a month, else up. Minutes move by 15 if none leaves its hour. A month or weekday is replaced if it is
    the only one of the request.
    """

    def moves(match: re.Match[str]) -> bool:
        before, digits = match.string[: match.start()].split()[-1:], match[1]
        # After a name, as in `Formula 1`, a number is a part of it; one thing stays one thing.
        named = before and any(map(str.isupper, before[0])) and not _NAMED_TIME.search(before[0])
        return not named and int(digits) >= 2 and digits[0] != "0"

    def reword(query: Query, name: str, text: str) -> str:
        step = 1 + int(draw(seed, "values", name) * 3)
        numbers = [int(match[1]) for match in _NUMBER.finditer(text) if moves(match)]
        if any(26 <= number <= 31 or 1900 <= number < 2100 for number in numbers):
            # The smallest stays positive, and above a 1, which does not move.
            step = -min(step, min(numbers) - (2 if _ONE.search(text) else 1))
        turn = 15 if all(int(minute) < 45 for minute in _MINUTES.findall(text)) else 0

        def time(match: re.Match[str]) -> str:
            of_kind = {word for word in _NAMED_TIME.findall(text) if (word in _DAYS) == (match[1] in _DAYS)}
            return match[1] if len(of_kind) > 1 else str(pick(_like(match[1]), seed, "time", name))

        changed = _NUMBER.sub(lambda match: str(int(match[1]) + step) if moves(match) else match[1], text)
        changed = _MINUTES.sub(lambda match: f"{int(match[1]) + turn:02}", changed)
        return _NAMED_TIME.sub(time, changed)

    return _reword(queries, reword), tools


def _like(word: str) -> list[str]:
    """The other months of the same length, or the other weekdays."""
    return [other for words in _NAMED_TIMES if word in words for other in words if other != word]


@perturbation("request", invariant="what is not wanted was not asked for", source="the project")
def negation(queries: Sequence[Query], tools: Sequence[Tool], seed: int) -> Changed:
    """A last sentence that rules out something unrelated: neither the request nor a gold tool is about it."""
    by_id = {tool.tool_id: tool for tool in tools}

    def reword(query: Query, name: str, text: str) -> str:
        gold = " ".join(f"{by_id[tool].name} {by_id[tool].description}" for tool in query.meeting)
        said = {*words(f"{query.text} {text} {gold}")}
        free = [sentence for sentence, about in _NOT_ASKED if not said & about]
        return f"{text} {free[0]}" if free else text

    return _reword(queries, reword), tools


@perturbation(
    "request", invariant="a translation of the request", source="a language model of the project, `german.tsv`"
)
def german(queries: Sequence[Query], tools: Sequence[Tool], seed: int) -> Changed:
    """German translations of requests of the dataset `starter`; other requests stay."""
    known = _translations()
    return _reword(queries, lambda query, name, text: known.get(text, text)), tools


@cache
def _translations() -> dict[str, str]:
    """Request -> translation."""
    path = Path(__file__).with_name("german.tsv")
    text = Reader(f"the translations {path}", UsageError).read_text(path)
    return {row[0]: row[1] for row in csv.reader(text.splitlines()[1:], delimiter="\t", quoting=csv.QUOTE_NONE)}
