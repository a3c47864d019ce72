"""Pairs of tools that a language model makes from functions (TGR, Fig. 3): extract, generate, verify.

From the code of a function the model extracts the document of a tool a. Given the document, it invents a tool b that
depends on a. In a third step it is shown both, and says whether the dependency holds by the definition; pairs for which
it does not are dropped. The prompts are our own.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.data.tables import Parameter, Tool
from bench.errors import DataError, UnavailableError, UsageError
from bench.llm.client import Failure, LanguageModel, Message, Reply, Request
from bench.llm.replies import json_object
from bench.methods.tgr.documents import document
from bench.progress import QUIET, Progress
from bench.storage.paths import expanded
from bench.storage.records import Record
from bench.training.pairs import ToolPair

#: Shorter functions do too little to be tools, longer ones do not fit a prompt.
_LINES = range(3, 120)
_MOST_CHARACTERS = 6000
#: Fields of JSON lines that hold the code of a function; CodeSearchNet's files have one of these.
_CODE_FIELDS = ("code", "whole_func_string", "original_string", "func_code_string")

_DEFINITION = (
    "Tool X depends on tool Y in exactly two cases: X takes an input that only a call of Y can supply (a token, an id, "
    "a record that Y returns), or X must not be called before Y has verified something. Sharing a topic, or being "
    "useful one after the other, is not a dependency."
)
_FORM = (
    'Answer with one JSON object and nothing else: {"name": "...", "description": "one or two sentences", "inputs": '
    '[{"name": "...", "description": "...", "required": true}], "outputs": [{"name": "...", "description": "..."}]}. '
    "Names are short identifiers, of the kind a public web interface would use."
)
_EXTRACT = f"You turn the source code of one function into the description of a tool that does what it does. {_FORM}"
_GENERATE = (
    f"You are given the description of a tool. Invent another realistic tool that depends on it. {_DEFINITION} The new "
    f"tool does something else, and its description does not mention the given tool by name. {_FORM}"
)
_VERIFY = (
    f"You judge whether one tool depends on another. {_DEFINITION} Be strict. Answer with one JSON object and nothing "
    'else: {"reason": "one sentence", "depends": true or false}.'
)


class _ModelReply(Record):
    """What a language model answered; it may say more than it was asked."""

    model_config = ConfigDict(extra="ignore")


class _Input(_ModelReply):
    name: str = Field(min_length=1, max_length=100)
    description: str = Field("", max_length=1000)
    required: bool = True


class _Output(_ModelReply):
    name: str = Field(min_length=1, max_length=100)
    description: str = Field("", max_length=1000)


class _Document(_ModelReply):
    """A tool as the model describes it."""

    name: str = Field(min_length=1, max_length=200)
    description: str = Field(min_length=1, max_length=2000)
    inputs: tuple[_Input, ...] = Field((), max_length=50)
    outputs: tuple[_Output, ...] = Field((), max_length=50)

    def tool(self) -> Tool:
        parameters = tuple(Parameter(item.name, "", item.description, item.required) for item in self.inputs)
        returns = json.dumps({item.name: "str" for item in self.outputs}) if self.outputs else None
        return Tool(self.name, self.name, self.description, parameters=parameters, returns=returns)


class _Verdict(_ModelReply):
    depends: bool


D = TypeVar("D", bound=BaseModel)


def generated_pairs(functions: str, model: str, progress: Progress = QUIET) -> list[ToolPair]:
    """Pairs of which the first tool depends on the second, one for each function that got through all three steps.

    Args:
        functions: see `read_functions`.
        model: name of the language model.
        progress: gets a note with how many got how far.

    Raises:
        UsageError: no functions or no model are named.
        UnavailableError: the language model cannot be asked.
        DataError: the functions cannot be read.
    """
    if not functions or not model:
        raise UsageError("source=llm needs functions=PATH and llm=MODEL; set both with --set.")
    codes = read_functions(expanded(functions))
    client = LanguageModel(model, progress=progress)
    client.preflight()
    given = _parsed(client.complete([_request(_EXTRACT, code) for code in codes]), _Document)
    extracted = {i: found for i, found in enumerate(given) if found is not None}
    shown = [extracted[i].model_dump_json() for i in extracted]
    made = _parsed(client.complete([_request(_GENERATE, text) for text in shown]), _Document)
    pairs = {i: (found, extracted[i]) for i, found in zip(extracted, made, strict=True) if found is not None}
    asked = [
        _request(_VERIFY, f"Tool X: {x.model_dump_json()}\nTool Y: {y.model_dump_json()}\nDoes X depend on Y?")
        for x, y in pairs.values()
    ]
    verdicts = _parsed(client.complete(asked), _Verdict)
    kept = [i for i, verdict in zip(pairs, verdicts, strict=True) if verdict is not None and verdict.depends]
    progress.note(
        f"{len(codes)} functions: {len(extracted)} documents extracted, {len(pairs)} dependent tools generated, "
        f"{len(kept)} pairs verified"
    )
    made_of = [tuple(document(found.tool()) for found in pairs[i]) for i in kept]
    return [ToolPair(first, second, 0, f"function {i}") for i, (first, second) in zip(kept, made_of, strict=True)]


def _request(instruction: str, text: str) -> Request:
    return Request((Message("system", instruction), Message("user", text)))


def _parsed(replies: Sequence[Reply | Failure], kind: type[D]) -> list[D | None]:
    """What the replies say; None where one failed or is not of the form asked for."""
    return [None if isinstance(reply, Failure) else _read(reply.text, kind) for reply in replies]


def _read(text: str, kind: type[D]) -> D | None:
    found = json_object(text)
    try:
        # By way of JSON, in which a list may stand for a tuple.
        return None if found is None else kind.model_validate_json(json.dumps(found), strict=True)
    except ValidationError:
        return None


def read_functions(path: Path) -> list[str]:
    """The code of functions: those of Python files, or of the lines of a JSON lines file; each once, in order.

    Args:
        path: a `.py` file, a folder with such files, or a `.jsonl` file with code in one of the fields that
            CodeSearchNet uses.

    Raises:
        UnavailableError: there is nothing.
        DataError: a line is no JSON object with code; a file is no text.
    """
    try:
        if path.is_dir():
            files = sorted(path.rglob("*.py"))
            found = [code for file in files for code in _python_functions(file.read_text("utf-8", "replace"))]
        elif path.suffix == ".py":
            found = _python_functions(path.read_text("utf-8", "replace"))
        else:
            found = [_line_code(path, number, line) for number, line in enumerate(path.open(encoding="utf-8"), start=1)]
    except (OSError, UnicodeDecodeError) as error:
        raise UnavailableError(f"cannot read functions from {path}: {error}.") from None
    kept = [code[:_MOST_CHARACTERS] for code in dict.fromkeys(found) if len(code.strip().splitlines()) in _LINES]
    if not kept:
        raise UnavailableError(f"{path} holds no functions of {_LINES.start} to {_LINES.stop - 1} lines.")
    return kept


def _python_functions(source: str) -> list[str]:
    """Functions and methods, without those inside functions; a file that does not parse has none."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return []
    pending: list[ast.AST] = [tree]
    found: list[tuple[int, str]] = []
    while pending:
        for node in ast.iter_child_nodes(pending.pop()):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                found.append((node.lineno, ast.get_source_segment(source, node) or ""))
            elif isinstance(node, ast.ClassDef):
                pending.append(node)
    return [code for _, code in sorted(found)]


def _line_code(path: Path, number: int, line: str) -> str:
    try:
        row = json.loads(line)
        return next(str(row[field]) for field in _CODE_FIELDS if isinstance(row.get(field), str))
    except (ValueError, AttributeError, RecursionError, StopIteration):
        raise DataError(
            f"{path}, line {number}: expected a JSON object with code in one of {', '.join(_CODE_FIELDS)}."
        ) from None
