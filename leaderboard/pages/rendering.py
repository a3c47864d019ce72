"""Templates and their shared filters. All pages call it."""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from bench.base.text import clean, label, unique_slug
from bench.interface import PROTOCOL_VERSION
from bench.leaderboard.pages.registry import Frame, navigation, page_modules
from bench.metrics.measure import measure_name
from bench.results.costs import money_per_query
from bench.results.manifest import Manifest
from bench.show import numbers

STATIC = ("style.css", "tables.css", "site.js", "explorer.js", "compare.js", "icon.svg")
#: Format numbers and intervals for a page; missing values are empty.
_fixed = partial(numbers.format_fixed, none="")
_interval = partial(numbers.interval, style="dash", none="")
#: Marks in words for readers of the site; results and exports keep the short form.
_SHOWN = {
    "rules": "no LLM (hand-written rules)",
    "tools seen": "trained on these tools",
    "bundles seen": "tool sets seen in training",
    "bundles unknown": "tool sets in training unknown",
}


@cache
def environment() -> jinja2.Environment:
    """The template environment; it escapes all output and removes characters that HTML does not allow."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_folders()),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalize,
        # An installation's templates do not change while it runs, so do not check them for each of ten thousand pages.
        auto_reload=False,
    )
    made.filters.update(
        num=_fixed,
        percent=numbers.percent,
        signed=numbers.format_signed,
        span=lambda value: _interval(value.low, value.high),
        secs=numbers.duration,
        money=numbers.money,
        per_thousand=per_thousand,
        count=numbers.count,
        several=numbers.several,
        label=label,
        clean=clean,
        p=numbers.p_value,
        at=_at,
        measure=lambda name: measure_name(name).partition("(")[0],
        ticks=_ticks,
        shown=lambda text: _SHOWN.get(text, text),
        hashed=_source_hash,
        web=lambda url: url.startswith(("https://", "http://")),
    )
    made.globals.update(
        ranks=numbers.ranks,
        format_rank=numbers.format_rank,
        ival=_interval,
        signed_ival=partial(numbers.interval, sign=True, none=""),
        slug=unique_slug,
        anchor=anchor,
        quoted=quote,
        protocol=PROTOCOL_VERSION,
    )
    _use(made, Frame())
    return made


def use_frame(frame: Frame) -> None:
    """Render the pages of this process for a site."""
    _use(environment(), frame)


def _use(made: jinja2.Environment, frame: Frame) -> None:
    made.globals.update(navigation=navigation(frame), site=frame.words)


def _folders() -> list[Path]:
    """The folders of templates, beside the modules of pages."""
    places = [Path(__file__), *(Path(str(module.__file__)) for module in page_modules())]
    return list(dict.fromkeys(place.parent / "templates" for place in places))


def render(template: str, root: str, here: str = "", **context: Any) -> str:
    """Render a page as HTML.

    Args:
        template: its name, without endings.
        root: the relative path to the site's root: empty, or `../`.
        here: the path of the page's entry in the navigation.
        context: the template's variables.
    """
    return environment().get_template(f"{template}.html.j2").render(root=root, here=here, **context)


def static_files() -> dict[str, bytes]:
    """Path -> content of the files that every site has."""
    folder = Path(__file__).parent / "static"
    return {f"static/{name}": (folder / name).read_bytes() for name in STATIC}


def _source_hash(text: str) -> Markup:
    """The source of an inline script or style on lines of its own, for a Content-Security-Policy."""
    digest = hashlib.sha256(f"\n{text}\n".encode()).digest()
    return Markup(f"'sha256-{base64.b64encode(digest).decode('ascii')}'")


def picture(svg: str) -> Markup:
    """An SVG from `charts`, which has escaped its texts."""
    return Markup(svg)


def anchor(key: str) -> str:
    """The HTML id of a section."""
    return f"s{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def per_thousand(manifest: Manifest) -> float | None:
    """Cost of a thousand queries; None if it is unknown."""
    cost = money_per_query(manifest)
    return None if cost is None else 1000 * cost


def quote(text: str) -> str:
    """A word quoted for the shell."""
    return shlex.quote(label(text))


def _finalize(value: object) -> object:
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _ticks(text: str) -> Markup:
    """A trusted sentence or one from a card, with text between backquotes as code."""
    parts = clean(text).split("`")
    if len(parts) % 2 == 0:
        return escape(clean(text))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if i % 2 else escape(part) for i, part in enumerate(parts)
    )


def _at(values: Sequence[tuple[int, float]], k: int) -> str:
    return next((_fixed(value) for cutoff, value in values if cutoff == k), "")
