"""Templates of tool text that users write in Jinja.

A template is its own source: plans, manifests and hashes contain the text, so a result says exactly what was indexed
and can be scored again without the file. A template runs in a sandbox and sees only one tool. The sandbox prevents
accidents; it does not limit a template's time. Overlong constants are found before a template is compiled, because
Jinja evaluates them then (`_find_endless`).
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from bench.base.errors import UsageError
from bench.base.paths import expand_path
from bench.base.reading import Reader
from bench.base.text import one_line

if TYPE_CHECKING:
    import jinja2

NamedTemplate = Literal["description", "name_description", "name_parameters", "full", "toolbench", "source"]
TEMPLATES: tuple[NamedTemplate, ...] = get_args(NamedTemplate)
#: A template of tool texts: one of `TEMPLATES`, or the source of a Jinja template.
Template = str
SUFFIXES = (".j2", ".jinja", ".jinja2")
#: Maximum characters of a template, and of the text that it makes of one tool.
MOST_SOURCE, MOST_TEXT = 64 << 10, 1 << 20
#: The width in a Python format, such as `%20d` and `{:>20}`.
_WIDTH = re.compile(r"(?:%|\{[^{}:]*:)\D{0,3}(\d{1,20})")


def read_template(given: str) -> Template:
    """Read the template that a user names: one of `TEMPLATES`, a Jinja file, or the source of a Jinja template.

    Raises:
        UsageError: it is none of these, the file cannot be read, or it is not Jinja.
    """
    if given in TEMPLATES:
        return given
    source = given
    if given.endswith(SUFFIXES) and "\n" not in given:
        source = _file(expand_path(given))
        if not _is_jinja(source):
            raise UsageError(f"the template {given} uses no field of a tool, such as {{{{ name }}}}.")
    if endless := _find_endless(source):
        raise UsageError(f"the template {template_name(source)} {endless}; make it shorter.")
    _compile_template(source)
    return source


def valid_template(value: str) -> str:
    """The value, if it is a named template or looks like the source of one; for validation of records.

    Raises:
        ValueError: it is neither.
    """
    if value not in TEMPLATES and (not _is_jinja(value) or len(value) > MOST_SOURCE):
        raise ValueError(f"Input should be {', '.join(map(repr, TEMPLATES))} or the source of a Jinja template")
    if value not in TEMPLATES and (endless := _find_endless(value)):
        raise ValueError(f"the template {endless}")
    return value


def template_name(template: Template) -> str:
    """A template's name for readers: its name, or `jinja-` and eight digits of the sha256 of its source."""
    if template in TEMPLATES:
        return template
    return f"jinja-{hashlib.sha256(template.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def _find_endless(source: str) -> str:
    """The part of a template that makes a text of more than `MOST_TEXT` characters for any tool; empty if there is
    none.

    Such parts are a number above `MOST_TEXT`, as for `center` or in a format; factors with such a product; and powers.
    """
    import jinja2
    from jinja2 import nodes

    try:
        parsed = jinja2.Environment().parse(source[:MOST_SOURCE])
        found = list(parsed.find_all((nodes.Const, nodes.Mul, nodes.Pow)))
    except (jinja2.TemplateError, RecursionError):
        return ""  # `_compile_template` reports the error
    product = 1
    for node in found:
        value = getattr(node, "value", None)
        numbers = map(int, _WIDTH.findall(value)) if isinstance(value, str) else [value] if _is_number(value) else []
        if isinstance(node, nodes.Mul):
            for side in (node.left, node.right):
                product *= max(1, side.value) if isinstance(side, nodes.Const) and _is_number(side.value) else 1
        if isinstance(node, nodes.Pow) or max([product, *numbers]) > MOST_TEXT:
            return f"makes more than {MOST_TEXT} characters of any tool, or may (line {node.lineno})"
    return ""


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _is_jinja(text: str) -> bool:
    return "{{" in text or "{%" in text


def _storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _file(path: Path) -> str:
    if not path.is_file():
        raise UsageError(f"there is no template file {path}.")
    # Keep the file's line ends, including the last.
    return Reader(f"the template {path}", UsageError).read_text(path, MOST_SOURCE).rstrip("\n")


@lru_cache(maxsize=32)
def _compile_template(source: str) -> jinja2.Template:
    if not _is_jinja(source):
        # Plain text would be the same for every tool.
        raise UsageError(
            f"there is no template {one_line(source, 60)!r}; use {', '.join(TEMPLATES)}, or a Jinja file that ends in "
            f"{', '.join(SUFFIXES)}."
        )
    if len(source) > MOST_SOURCE or not _storable(source):
        what = f"longer than {MOST_SOURCE} characters" if len(source) > MOST_SOURCE else "not valid Unicode"
        raise UsageError(f"the template {template_name(source)} is {what}.")
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    environment = ImmutableSandboxedEnvironment(undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    # `range` and the like, and other templates: a template is about one tool.
    environment.globals.clear()
    try:
        return environment.from_string(source)
    except jinja2.TemplateError as error:
        line = getattr(error, "lineno", None)
        where = f", line {line}" if line else ""
        raise UsageError(f"the template is not Jinja{where}: {one_line(str(error), 160)}.") from None
    except RecursionError:
        raise UsageError("the template is nested too deeply.") from None
