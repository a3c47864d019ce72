"""Writes the pages of the documentation site into a folder, from which `make docs` builds it.

The pages are those of docs/, the Markdown files of the repository's root, and a reference that nobody writes: it is
made from the registries and the command line, so a new method, metric, dataset or command needs no edit here. Links
between files of the repository become links between pages of the site; a link to `pages.py#methods` becomes one to the
page of the reference with that name (`make docs` builds the site in build/docs).

It knows nothing of the program that builds the site, so that another can take its place.
"""

from __future__ import annotations

import inspect
import posixpath
import re
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click

from bench.base.errors import EXIT_CODES
from bench.base.spec import Spec, format_value
from bench.cli import cli
from bench.data.card import Card
from bench.data.units import unit_name
from bench.interface import OracleMethod, RecommendingMethod
from bench.metrics import DEFAULT_METRICS, measures
from bench.metrics.catalogue import forms
from bench.registry import dataset_entries, method_class, method_names
from bench.registry.differences import HEADS, differences, with_differences

ROOT = Path(__file__).resolve().parent.parent
GENERATOR = ROOT / "docs" / "pages.py"
#: `[text](target#anchor)`.
_LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
#: The README is the site's first page.
_FIRST = "index.md"


def write_site(out: Path) -> None:
    """Write every page, and every other file of the repository that a page links to, into an empty folder."""
    shutil.rmtree(out, ignore_errors=True)
    sources = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
    for source in sources:
        place = _place(source)
        text, linked = _mended(source, place)
        _write(out / place, text)
        for path in linked:
            target = out / _place(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
    for name, page in _PAGES.items():
        _write(out / "reference" / f"{name}.md", page())


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")


def _place(path: Path) -> str:
    """Where in the site a file of the repository is."""
    inside = path.relative_to(ROOT).as_posix()
    if inside == "README.md":
        return _FIRST
    if inside.startswith("docs/"):
        return inside.removeprefix("docs/")
    return inside if path.suffix == ".md" and path.parent == ROOT else f"files/{inside}"


def _mended(source: Path, place: str) -> tuple[str, list[Path]]:
    """A page with links that work in the site, and the files that it links to and that are no pages."""
    linked: list[Path] = []

    def mended(match: re.Match[str]) -> str:
        path = (source.parent / match[2]).resolve()
        if re.match(r"[a-z]+:", match[2]) or not path.is_file() or not path.is_relative_to(ROOT):
            return match[0]  # a link to the web; or a broken one, which the strict build refuses
        page = (match[3] or "").removeprefix("#")
        if path == GENERATOR and page in _PAGES:
            target, anchor = f"reference/{page}.md", ""
        else:
            target, anchor = _place(path), match[3] or ""
            if target.startswith("files/") or path.suffix != ".md":
                linked.append(path)
        return f"{match[1]}{posixpath.relpath(target, posixpath.dirname(place))}{anchor}{match[4]}"

    return _LINK.sub(mended, source.read_text("utf-8")), linked


# Commands -----------------------------------------------------------------------------------------------------------


def commands_page() -> str:
    """Every command with its arguments and options, as `--help` has them."""
    context = click.Context(cli, info_name="bench")
    parts = ["# Commands", "The text of each command's `--help`.", *_commands(cli, context, 2)]
    codes = _table(["code", "meaning"], ([f"`{code}`", meaning] for code, meaning in EXIT_CODES.items()))
    return "\n\n".join([*parts, "## Exit codes", "`bench gate` has its own, which its help lists.", codes]) + "\n"


def _commands(group: click.Group, context: click.Context, level: int) -> Iterator[str]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        child = click.Context(command, info_name=name, parent=context)
        yield f"{'#' * level} {child.command_path}"
        usage = command.get_usage(child).removeprefix("Usage: ")
        yield f"```\n{' '.join(usage.split())}\n```"
        if command.help:
            yield from _help(inspect.cleandoc(command.help))
        records = [item.get_help_record(child) for item in command.params if isinstance(item, click.Option)]
        rows = [[_code(record[0]), _cell(record[1])] for record in records if record is not None]
        if rows:
            yield _table(["option", ""], rows)
        if isinstance(command, click.Group):
            yield from _commands(command, child, level + 1)


def _help(text: str) -> Iterator[str]:
    """Paragraphs of a help text; those that click must not wrap (after `\\b`) or that are indented stay as they are."""
    for paragraph in re.split(r"\n\s*\n", text):
        if paragraph.startswith(("\b", " ")):
            body = paragraph.removeprefix("\b").strip("\n")
            yield f"```\n{body}\n```"
        else:
            yield _text(paragraph)


# Methods ------------------------------------------------------------------------------------------------------------


def methods_page() -> str:
    """Every method: what it is, what it needs, its parameters with types, defaults and descriptions."""
    parts = [
        "# Methods",
        "Every method that is built in, with its parameters; `bench list methods` also lists those of your plug-ins. "
        "[Methods](../methods.md) explains them, and [studies](../studies/index.md) have measured numbers.",
    ]
    for name in method_names():
        kind = method_class(name)
        if not kind.__module__.startswith("bench.methods."):
            continue
        parts += [f"## {name}", _text(inspect.getdoc(kind) or "")]
        about = inspect.getdoc(inspect.getmodule(kind))
        if about and "\n" in about:
            parts.append(_text(about.partition("\n")[2].strip()))
        needs = []
        if kind.needs_history:
            needs.append("needs past queries")
        if kind.needs_llm:
            needs.append("calls a language model")
        if issubclass(kind, OracleMethod):
            needs.append("is an oracle: it is shown the gold, and never ranked among methods")
        if issubclass(kind, RecommendingMethod):
            needs.append("recommends tool sets")
        if needs:
            parts.append(f"It {', '.join(needs)}.")
        rows = [
            [f"`{key}`", _type(field.annotation), _code(_default(field)), _cell(field.description or "")]
            for key, field in kind.Parameters.model_fields.items()
        ]
        if rows:
            parts.append(_table(["parameter", "type", "default", ""], rows))
        if name in with_differences():
            parts.append(f"[What differs from the paper](differences.md#{name}).")
    return "\n\n".join(parts) + "\n"


def differences_page() -> str:
    """For each method that follows a system of a paper closely: the paper, the released code, and what is done here."""
    parts = [
        "# Differences from the papers",
        "What each paper says, what its authors' code does, what the method does here, and why. *Silent*: the paper "
        "does not say. *Not read*: the code was not to be had. `bench show RESULT --all` prints the table of a method.",
    ]
    for name in with_differences():
        table = differences(name)
        assert table is not None
        rows = [[_cell(cell) for cell in row.cells] for row in table.rows]
        head = f"{_text(table.paper)} <{table.url}>. Released code: {_text(table.code)}"
        parts += [f"## {name}", head, _table(HEADS, rows)]
    return "\n\n".join(parts) + "\n"


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, tuple) and all(isinstance(item, Spec) for item in value):
        return f"[{', '.join(map(str, value))}]"
    return str(value) if isinstance(value, Spec) else format_value(value)


def _type(annotation: Any) -> str:
    """A type as a reader of the reference wants it: choices are listed, a spec is a method."""
    if annotation is None or annotation is type(None):
        return "null"
    if annotation is Spec:
        return "method"
    inner = [item for item in get_args(annotation) if item is not Ellipsis]
    if get_origin(annotation) is Annotated:
        return _type(inner[0])
    if get_origin(annotation) is Literal:
        return " or ".join(format_value(item) for item in inner)
    if get_origin(annotation) in {Union, UnionType}:
        return " or ".join(_type(item) for item in inner)
    if get_origin(annotation) in {tuple, list}:
        return f"list of {_type(inner[0])}"
    names = {"int": "integer", "float": "number", "str": "text", "bool": "true or false"}
    return names.get(annotation.__name__, annotation.__name__)


# Metrics ------------------------------------------------------------------------------------------------------------


def metrics_page() -> str:
    """Every measure: definition, edge cases, source, cut-offs."""
    parts = [
        "# Metrics",
        "Every measure that is built in. `k` is a cut-off, as in `ndcg@5`; `@gold` cuts at the number of gold tools of "
        "each query; a bare name reads the tool set that a method recommends. [The protocol](../protocol.md) has the "
        "rules for ties, failures and queries without gold. Every run computes: "
        + ", ".join(f"`{name}`" for name in DEFAULT_METRICS)
        + ".",
    ]
    for measure in measures().values():
        facts = [
            ["written", ", ".join(f"`{form}`" for form in forms(measure))],
            ["definition", _cell(measure.definition)],
            ["edge cases", _cell(measure.edge_cases)],
            ["source", _cell(measure.source)],
            ["better", "higher" if measure.higher_is_better else "lower"],
            *(
                [f"parameter `{name}`", _cell(f"{field.description} (default {field.get_default()})")]
                for name, field in measure.parameters.model_fields.items()
            ),
            *([["use", "reproduction only; methods are never ranked by it"]] if measure.reproduction_only else []),
        ]
        parts += [f"## {measure.name}", _table(["", ""], facts)]
    return "\n\n".join(parts) + "\n"


# Datasets -----------------------------------------------------------------------------------------------------------


def datasets_page() -> str:
    """Every dataset: its card."""
    parts = [
        "# Datasets",
        "Every dataset that is built in, from its card; `bench list datasets` also lists those that you added. "
        "[Datasets](../datasets.md) explains how they are fetched and checked.",
    ]
    for name, entry in dataset_entries().items():
        card = entry.card
        if entry.module is None:
            continue
        parts += [f"## {name}", _text(f"{card.title}. {card.summary}")]
        facts = [["licence", _cell(card.licence)], ["text of a tool", f"`{card.template}`"]]
        if card.aliases:
            facts.append(["also called", ", ".join(f"`{alias}`" for alias in card.aliases)])
        if card.paper is not None:
            paper = card.paper
            cited = f"{paper.authors} ({paper.year}). {paper.title}."
            facts.append(["paper", _cell(cited) + (f" <{paper.url}>" if paper.url else "")])
        if card.counts is not None:
            counts = card.counts
            queries = ", ".join(f"{getattr(counts, side)} {side}" for side in ("train", "dev", "test"))
            facts.append(["size", f"{counts.tools} tools, {counts.parents} parents; queries: {queries}"])
            facts.append(["gold tools of a query", f"{counts.gold_min} to {counts.gold_max}"])
        facts.append(["unit of independence", _cell(_unit(card))])
        facts += [["files from", _cell(f"{up.repository} at {up.commit[:12]}, {up.licence}")] for up in card.upstream]
        if card.obtain:
            facts.append(["to obtain", _cell(card.obtain)])
        parts.append(_table(["", ""], facts))
        options = entry.options().model_fields
        if options:
            rows = [
                [f"`{key}`", _type(field.annotation), _code(_default(field)), _cell(field.description or "")]
                for key, field in options.items()
            ]
            parts.append(_table(["option", "type", "default", ""], rows))
        if card.known_issues:
            parts.append("Known issues:\n\n" + "\n".join(f"- {_text(issue)}" for issue in card.known_issues))
    return "\n\n".join(parts) + "\n"


def _unit(card: Card) -> str:
    sizes = card.counts.dependence if card.counts else None
    return f"{unit_name(card.unit.by)}{f', {sizes}' if sizes else ''}. {card.unit.reason}"


# Markdown -----------------------------------------------------------------------------------------------------------


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [list(head), ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _code(text: str) -> str:
    """A code span; the table extension keeps `|` inside one in its cell."""
    return f"`{text}`" if text else ""


def _cell(text: str) -> str:
    """A text in a cell of a table."""
    return "".join(part if part.startswith("`") else part.replace("|", "\\|") for part in _CODE.split(_text(text)))


def _text(text: str) -> str:
    """A text on one line with nothing but code spans as markup; the texts of cards and docstrings are plain."""
    plain = str.maketrans({sign: "\\" + sign for sign in "\\*_[]"} | {"<": "&lt;", ">": "&gt;"})
    parts = _CODE.split(" ".join(text.split()))
    return "".join(part if part.startswith("`") and len(part) > 1 else part.translate(plain) for part in parts)


_CODE = re.compile(r"(`[^`]*`)")

#: The pages of the reference, by name.
_PAGES = {
    "commands": commands_page,
    "methods": methods_page,
    "differences": differences_page,
    "metrics": metrics_page,
    "datasets": datasets_page,
}


if __name__ == "__main__":
    write_site(Path(sys.argv[1]))
