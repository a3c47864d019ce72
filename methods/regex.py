"""Searches tools with regular expressions, as the pattern form of hosted tool search does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.errors import require
from bench.base.parameters import ParameterSet
from bench.base.words import is_unspaced
from bench.data.tables import Tool
from bench.interface import Context, Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Contribution, Explanation, Reason, excerpt, list_parts
from bench.models.llm.local import ModelName
from bench.models.llm.replies import text_lines
from bench.models.llm.rules import RULES, RULES_MARK, language_model
from bench.search.names import singular
from bench.search.topk import top_k
from bench.search.words import words

#: Characters of a pattern; hosted tool search refuses longer ones.
LONGEST = 200
#: Minimum letters of a word, because shorter ones occur inside too many others; not for scripts without spaces.
_LEAST_WORD = 3
_MOST_WORDS = 100
#: Maximum bytes of a compiled pattern and its automaton. A pattern that needs more is unusable.
_MEMORY = 8 << 20
_MOST_TOKENS = 400

_PROMPT = """\
You find tools for the request below by searching a library of tools with regular expressions. A pattern is searched \
for, as by Python's re.search, in the name of each tool and in its description with the names and descriptions of its \
parameters. Tool names are often in snake_case or camelCase. Case counts unless a pattern begins with (?i); lookaround \
and backreferences are not available. Write {patterns} patterns at most, each of {longest} characters at most and on \
a line of its own, and nothing else. If the request needs several tools, write a pattern for each. Do not carry out \
the request.

Request: {request}
Patterns:"""


@dataclass(frozen=True)
class _Patterns:
    """The search patterns of a request.

    Attributes:
        usable: patterns that compile.
        unusable: number of patterns that do not compile.
        failed: there is no reply.
    """

    usable: tuple[str, ...] = ()
    unusable: int = 0
    failed: bool = False


class Regex(Method):
    """Searches names, descriptions and parameters with patterns that a model writes for the request.

    With n of N tools matching a pattern, each of them gains ln(1 + (N - n + 0.5) / (n + 0.5)), the IDF of `bm25`, times
    `name_weight` if the pattern matches its name. The score is the sum over the patterns; tools without a match are not
    returned. Hosted services do not document how they order matches: here, tools with many and rare matches come first.

    With `llm=rules`, each distinct word of the request with three letters or more is a pattern, in the singular and
    without regard to case, and so is each pair of characters of a script without spaces, such as Chinese. So it finds
    `weather` in `getWeatherReport`, and also `art` in `start`.

    Patterns are untrusted. They are matched by RE2, whose time is linear in the text for any pattern; it has no
    lookaround and no backreferences. A pattern that RE2 rejects, or with more than 200 characters, is left out and
    counted. A request without a usable pattern finds nothing; a request without a reply fails.
    """

    class Parameters(ParameterSet):
        llm: ModelName = Field(
            RULES,
            min_length=1,
            description="model behind an endpoint, or `local:FILE.gguf`, that writes the patterns, or `rules`: the "
            "words",
        )
        patterns: int = Field(5, ge=1, le=20, description="maximum number of patterns that the model writes")
        name_weight: float = Field(3.0, ge=1, description="weight of a match in the name")

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        require("re2", what="regex")
        self._model = (
            None if parameters.llm == RULES else self.include(language_model(parameters.llm, context.progress))
        )
        self._outcomes: dict[str, _Patterns] = {}

    def marks(self) -> dict[str, str]:
        """The mark of this method in every table."""
        return {} if self._model else dict(RULES_MARK)

    def index(self, library: Library) -> None:
        self._size = len(library)
        self._names = _Lines([tool.name for tool in library.tools])
        self._texts = _Lines([_described(tool) for tool in library.tools])
        self._matching: dict[str, NDArray[np.float64]] = {}

    def rank(self, queries: Queries, depth: int) -> Ranking:
        # Keep one batch only: all of them would grow with the queries.
        self._matching = {}
        patterns = self._patterns(queries.texts)
        scores = np.stack([self._adds(each.usable).sum(axis=0) for each in patterns])
        scores[scores == 0] = -np.inf
        ranked = top_k(scores, depth)
        failed = np.array([each.failed for each in patterns], dtype=np.bool_)
        return Ranking(ranked.tools, ranked.scores, failed, ranked.tied_beyond)

    def _adds(self, patterns: Sequence[str]) -> NDArray[np.float64]:
        """(patterns, tools) what each pattern adds to each tool's score."""
        return np.array([self._gains(pattern) for pattern in patterns]).reshape(-1, self._size)

    def _gains(self, pattern: str) -> NDArray[np.float64]:
        """(tools,) what a pattern adds: 0 where it does not match."""
        if pattern not in self._matching:
            named, described = (lines.matching(pattern) for lines in (self._names, self._texts))
            count = np.count_nonzero(named | described)
            weight = np.log1p((self._size - count + 0.5) / (count + 0.5))
            self._matching[pattern] = np.where(named, self.parameters.name_weight, described) * weight
        return self._matching[pattern]

    def _patterns(self, texts: Sequence[str]) -> list[_Patterns]:
        distinct = [text for text in dict.fromkeys(texts) if text.strip()]
        if self._model is None:
            patterns = [_usable(_of_words(text)) for text in distinct]
        else:
            from bench.models.llm.client import Failure, Message, Request

            most = self.parameters.patterns
            prompts = [_PROMPT.format(patterns=most, longest=LONGEST, request=" ".join(t.split())) for t in distinct]
            replies = self._model.complete(
                [Request((Message("user", prompt),), max_tokens=_MOST_TOKENS) for prompt in prompts]
            )
            patterns = [
                _Patterns(failed=True) if isinstance(reply, Failure) else _usable(text_lines(reply.text, most))
                for reply in replies
            ]
        answers = dict(zip(distinct, patterns, strict=True))
        self._outcomes.update(answers)
        return [answers.get(text, _Patterns()) for text in texts]

    def facts(self) -> dict[str, str | int | float | bool]:
        outcomes = self._outcomes.values()
        return {
            "patterns": sum(len(outcome.usable) for outcome in outcomes),
            "patterns_unusable": sum(outcome.unusable for outcome in outcomes),
            "requests_without_pattern": sum(not outcome.usable and not outcome.failed for outcome in outcomes),
        }

    def explain(self, case: Case) -> Explanation:
        """The patterns that match a tool, and what each adds."""
        (patterns,) = self._patterns(case.query.texts)
        adds = self._adds(patterns.usable)
        reasons = {}
        for tool in case.tools:
            order = np.argsort(-adds[:, tool], kind="stable")
            parts = tuple(
                Contribution(excerpt(patterns.usable[row]), float(adds[row, tool])) for row in order if adds[row, tool]
            )
            because = ""
            if tool in case.gold:
                because = f"{list_parts(parts)} match" if parts else "no pattern matches it"
                rival = case.rivals.get(tool)
                if rival is not None:
                    because += f"; {case.id_of(rival)} has {float(adds[:, rival].sum()):.3f}"
            reasons[tool] = Reason(sum(part.value for part in parts), parts, (len(parts),), "", because)
        without = np.flatnonzero(~adds.any(axis=1))
        notes = [f"{len(patterns.usable)} patterns, {patterns.unusable} more unusable."]
        if len(without):
            quoted = ", ".join(excerpt(patterns.usable[row]) for row in without[:8])
            notes.append(f"Match no tool: {quoted}{' and others' if len(without) > 8 else ''}.")
        return Explanation("patterns that match it, and what each adds", ("patterns",), reasons, notes=tuple(notes))


class _Lines:
    """Texts that are searched at once: each is a line, and no match crosses lines."""

    def __init__(self, texts: Sequence[str]) -> None:
        lines = [" ".join(text.split()).encode("utf-8", "replace") for text in texts]
        self._joined = b"\n".join(lines)
        self._starts = np.cumsum([0, *(len(line) + 1 for line in lines[:-1])])
        self._count = len(lines)

    def matching(self, pattern: str) -> NDArray[np.bool_]:
        """(texts,) whether the pattern matches."""
        matches = np.zeros(self._count, dtype=np.bool_)
        # From the start of the line, so that a line is found once.
        compiled = _compiled(f"(?m:^)(?-s:.*?)(?m:{pattern})")
        starts = [match.start() for match in compiled.finditer(self._joined)]
        matches[np.searchsorted(self._starts, starts, side="right") - 1] = True
        return matches


def _compiled(pattern: str) -> Any:
    """A pattern of RE2 for UTF-8; raises `re2.error`, or `UnicodeError` for an unpaired surrogate."""
    import re2

    options = re2.Options()
    options.log_errors = False
    options.never_nl = True
    options.max_mem = _MEMORY
    return re2.compile(pattern.encode(), options)


def _usable(patterns: Sequence[str]) -> _Patterns:
    import re2

    usable: dict[str, None] = {}
    unusable = 0
    for pattern in patterns:
        try:
            if len(pattern) > LONGEST:
                raise UnicodeError
            # Separately: `a)(b` compiles inside a group.
            _compiled(pattern)
            _compiled(f"(?m:^)(?-s:.*?)(?m:{pattern})")
            usable[pattern] = None
        except (re2.error, UnicodeError):
            unusable += 1
    return _Patterns(tuple(usable), unusable)


def _of_words(request: str) -> list[str]:
    """A pattern for each word of a request; words have letters, marks and digits alone, which mean themselves."""
    parts = dict.fromkeys(singular(word) for word in words(request) if len(word) >= _LEAST_WORD or is_unspaced(word))
    return [f"(?i){part}" for part in list(parts)[:_MOST_WORDS]]


def _described(tool: Tool) -> str:
    inputs = [f"{parameter.name} {parameter.description}" for parameter in tool.parameters]
    return "\n".join([tool.description, *inputs])
