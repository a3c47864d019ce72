"""MCP-Zero: the request names a server and a tool, and both are searched for.

Fei, Zheng & Feng 2025, "MCP-Zero: Active Tool Discovery for Autonomous LLM Agents"
(https://arxiv.org/abs/2506.01056). Unlike in the paper, the model is asked once per request, and the text of a server
is its name with its tools instead of a model's summary. The prompts are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from bench.base.parameters import ParameterSet
from bench.interface import Context, Library, Method, Queries, Ranking
from bench.interface.explanation import Case, Explanation, Reason, excerpt, number
from bench.models.encoders import EMBEDDED, Encoder
from bench.models.llm.local import ModelName
from bench.models.llm.rules import RULES, RULES_MARK, language_model
from bench.search.clauses import clauses
from bench.search.dense import VectorIndex
from bench.search.servers import servers_of
from bench.search.topk import top_k

_TOKENS_OF_A_BLOCK = 128
#: Scores are in [-1, 1]: those of tools outside the chosen servers are moved below.
_BELOW = 2.0

_PROMPT = """\
You can ask for tools that you do not have: they are on servers, and found by a description of the server and one of \
the tool. Below is what somebody asks of you. Ask for the tools that it takes, {blocks} at most, each in this form:

<tool_assistant>
server: the platform or domain of the server, and what it is for
tool: what the tool does, and with what
</tool_assistant>

Write the blocks and nothing else. Do not carry out the request.

Request: {request}"""


@dataclass(frozen=True)
class _Wanted:
    """The search texts of a request.

    Attributes:
        blocks: descriptions of (server, tool).
        readable: whether the reply has them; always true for rules.
        failed: there is no reply.
    """

    blocks: tuple[tuple[str, str], ...]
    readable: bool = True
    failed: bool = False


class McpZero(Method):
    """Hierarchical vector routing: the score of a tool is (s · t) · max(s, t).

    A model turns the request into descriptions of a server and a tool. s is the cosine similarity of the first with the
    text of the tool's server, t that of the second with the text of the tool. The tools of the `servers` best servers
    come first, the others follow in the same order (their scores are lowered by 2). With several descriptions, a tool
    has the best of its scores.

    With `llm=rules`, the request describes the server, and each of its clauses a tool. A reply without a valid block is
    counted; the request then describes both.
    """

    class Parameters(ParameterSet):
        encoder: str = Field(
            EMBEDDED, description="`minilm` (embedded), a folder, a sentence-transformers model, or `openai:MODEL`"
        )
        llm: ModelName = Field(
            RULES,
            min_length=1,
            description="model behind an endpoint, or `local:FILE.gguf`, that describes server and tool, or `rules`",
        )
        servers: int = Field(5, ge=1, description="number of servers whose tools come first")
        blocks: int = Field(3, ge=1, le=10, description="maximum number of descriptions of a request")

    parameters: Parameters

    def __init__(self, parameters: Parameters, context: Context) -> None:
        super().__init__(parameters, context)
        self._encoder = self.include(Encoder(parameters.encoder, progress=context.progress))
        self._model = (
            None if parameters.llm == RULES else self.include(language_model(parameters.llm, context.progress))
        )
        self._outcomes: dict[str, _Wanted] = {}

    def marks(self) -> dict[str, str]:
        """The mark of this method in every table."""
        return {} if self._model else dict(RULES_MARK)

    def index(self, library: Library) -> None:
        self._server, servers = servers_of(library)
        self._servers = VectorIndex(self._encoder.encode(servers.texts), "cosine")
        self._tools = VectorIndex(self._encoder.encode(library.texts), "cosine")

    def rank(self, queries: Queries, depth: int) -> Ranking:
        wanted = self._wanted(queries.texts)
        rows = np.repeat(np.arange(len(wanted)), [len(each.blocks) for each in wanted])
        scores = np.full((len(wanted), len(self._server)), -np.inf)
        if len(rows):
            np.maximum.at(scores, rows, self._routed([block for each in wanted for block in each.blocks]).scores)
        ranking = top_k(scores, depth)
        failed = np.array([each.failed for each in wanted], dtype=np.bool_)
        return Ranking(ranking.tools, ranking.scores, failed, ranking.tied_beyond)

    def _routed(self, blocks: Sequence[tuple[str, str]]) -> _Routed:
        servers = self._servers.score(self._encoder.encode([server for server, _ in blocks]))
        tools = self._tools.score(self._encoder.encode([tool for _, tool in blocks]))
        # Single precision, as in `top_k`: equal servers tie, and the first of them is chosen.
        order = np.argsort(-servers.astype(np.float32), axis=1, kind="stable")
        places = np.empty_like(order)
        np.put_along_axis(places, order, np.broadcast_to(np.arange(order.shape[1]), order.shape), axis=1)
        of_tool, place = servers[:, self._server], places[:, self._server]
        scores = of_tool * tools * np.maximum(of_tool, tools) - _BELOW * (place >= self.parameters.servers)
        return _Routed(of_tool, tools, place, scores)

    def _wanted(self, texts: Sequence[str]) -> list[_Wanted]:
        distinct = [text for text in dict.fromkeys(texts) if text.strip()]
        most = self.parameters.blocks
        if self._model is None:
            outcomes = [
                _Wanted(tuple((text, clause) for clause in clauses(text)[:most] or [text])) for text in distinct
            ]
        else:
            from bench.models.llm.client import Failure, Message, Request

            prompts = [_PROMPT.format(blocks=most, request=" ".join(text.split())) for text in distinct]
            replies = self._model.complete(
                [Request((Message("user", prompt),), max_tokens=most * _TOKENS_OF_A_BLOCK) for prompt in prompts]
            )
            outcomes = []
            for text, reply in zip(distinct, replies, strict=True):
                blocks = () if isinstance(reply, Failure) else read_blocks(reply.text)[:most]
                failed = isinstance(reply, Failure)
                outcomes.append(_Wanted(blocks or (() if failed else ((text, text),)), bool(blocks) or failed, failed))
        answers = dict(zip(distinct, outcomes, strict=True))
        self._outcomes.update(answers)
        return [answers.get(text, _Wanted(((text, text),))) for text in texts]

    def facts(self) -> dict[str, str | int | float | bool]:
        outcomes = self._outcomes.values()
        return {
            "servers": len(self._servers),
            "descriptions": sum(len(outcome.blocks) for outcome in outcomes if outcome.readable),
            "replies_unusable": sum(not outcome.readable for outcome in outcomes),
        }

    def explain(self, case: Case) -> Explanation:
        """The best description of the request for a tool, and its similarities with the tool and its server."""
        (wanted,) = self._wanted(case.query.texts)
        if not wanted.blocks:
            return Explanation(notes=("There is no reply for this query.",))
        routed = self._routed(wanted.blocks)
        reasons = {}
        for tool in case.tools:
            best = int(routed.scores[:, tool].argmax())
            server, similarity, place = (
                float(part[best, tool]) for part in (routed.servers, routed.tools, routed.places)
            )
            because = ""
            if tool in case.gold:
                because = f"server {number(server)} (number {int(place) + 1}), tool {number(similarity)}"
                rival = case.rivals.get(tool)
                if rival is not None:
                    other = int(routed.scores[:, rival].argmax())
                    because += (
                        f"; {case.id_of(rival)}: server {number(float(routed.servers[other, rival]))} (number "
                        f"{int(routed.places[other, rival]) + 1}), tool {number(float(routed.tools[other, rival]))}"
                    )
            cells = (best + 1, int(place) + 1, server, similarity)
            note = case.library.tools[tool].parent
            reasons[tool] = Reason(float(routed.scores[best, tool]), (), cells, note, because)
        quoted = [
            f'{place}: server "{excerpt(server, 90)}", tool "{excerpt(tool, 90)}".'
            for place, (server, tool) in enumerate(wanted.blocks, start=1)
        ]
        columns = ("description", "server's place", "server", "tool")
        return Explanation("its server", columns, reasons, notes=tuple(quoted))


@dataclass(frozen=True)
class _Routed:
    """(descriptions, tools) each: similarity with the tool's server, with the tool, the server's rank, the score."""

    servers: NDArray[np.float64]
    tools: NDArray[np.float64]
    places: NDArray[np.int64]
    scores: NDArray[np.float64]


def read_blocks(reply: str) -> tuple[tuple[str, str], ...]:
    """The unique (server, tool) descriptions of a reply, in order.

    A line that begins with `server:` belongs to the next one that begins with `tool:`; everything else is ignored,
    including the tags around a block. One of the two alone does not count.
    """
    blocks: dict[tuple[str, str], None] = {}
    server = ""
    for line in reply.splitlines():
        plain = line.strip().removeprefix("<tool_assistant>").removesuffix("</tool_assistant>").strip(" *-")
        name, colon, value = plain.partition(":")
        value = " ".join(value.split()).strip(" *")
        if not colon or not value:
            continue
        if name.strip(" *").lower() == "server":
            server = value
        elif name.strip(" *").lower() == "tool" and server:
            blocks[server, value] = None
            server = ""
    return tuple(blocks)
