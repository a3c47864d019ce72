"""Names on the site: safe paths, short labels, formatted numbers."""

from __future__ import annotations

import hashlib
import math
import re

from bench.results.manifest import MetricValue

_DIGEST = re.compile(r"(?:^|-)[0-9a-f]{16}$")
#: What a result's id looks like; it becomes a file's name, so nothing else is shown.
RESULT_ID = re.compile(r"[0-9a-f]{6,64}")
_FOLDERS = re.compile(r"(?<![^\s(=,\[])(?:~|\.{1,2})?/(?:[^/\s(),=\[\]]+/)*(?=[^/\s(),=\[\]])")
_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
#: Characters that turn the direction of the text after them: a name must not reorder its neighbours.
_TURNING = re.compile("[\u200e\u200f\u202a-\u202e\u2066-\u2069]")
LONGEST_LABEL = 160


def slug(text: str, *more: object) -> str:
    """A file's name for a text: lower case letters, digits and hyphens, never empty, at most 60 characters.

    Whatever the plain name does not say (upper case, other signs, length, `more`) is in a digest at its end, so that
    two texts never share a name, not even where somebody looks for some that do.
    """
    plain = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:40].strip("-")
    # What ends like a digest gets one too: it may be somebody's guess of another text's name.
    if plain and plain == text and not any(more) and not _DIGEST.search(plain):
        return plain
    digest = hashlib.sha256("\n".join([text, *map(repr, more)]).encode("utf-8", "surrogatepass")).hexdigest()
    return f"{plain or 'unnamed'}-{digest[:16]}"


def clean(text: str) -> str:
    """A text without what HTML cannot hold, and without marks that turn the direction of what follows."""
    # Nearly every text is plain, and pages have a million of them.
    if text.isascii() and text.isprintable():
        return text
    return _TURNING.sub("", _NOT_TEXT.sub("\N{REPLACEMENT CHARACTER}", text))


def label(text: str, longest: int = LONGEST_LABEL) -> str:
    """A name as a table shows it: on one line, folders of paths left out, cut where it is very long."""
    short = _FOLDERS.sub("", " ".join(clean(text).split()))
    return short if len(short) <= longest else short[: longest - 1] + "…"


def family_of(spec: str) -> str:
    """The name before a spec's parentheses: `tgr` of `tgr(graph=manual)`."""
    return spec.partition("(")[0].strip() or spec


def fixed(value: float | None, digits: int = 3) -> str:
    """A number with three digits; nothing where there is none."""
    if value is None or not math.isfinite(value):
        return ""
    return f"{value:.{digits}f}" if abs(value) < 1e6 else f"{value:.3g}"


def interval(low: float | None, high: float | None) -> str:
    """An interval as `0.123–0.456`."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f"{fixed(low)}–{fixed(high)}"


def interval_of(value: MetricValue) -> str:
    """The interval of a mean."""
    return interval(value.low, value.high)


def count(value: float) -> str:
    """A whole number with thousands set apart."""
    return f"{value:,.0f}" if abs(value) < 1e15 else f"{value:.3g}"


def seconds(value: float) -> str:
    """A time in the unit that reads best."""
    if value < 0.001:
        return f"{value * 1e6:.0f} µs"
    if value < 1:
        return f"{value * 1e3:.1f} ms"
    return f"{value:.1f} s" if value < 600 else f"{value / 60:.0f} min"


def money(value: float | None) -> str:
    """An amount in three digits, without a currency; that it is not known where there is none."""
    return "not known" if value is None else "0" if not value else f"{value:,.2f}" if value >= 1 else f"{value:.3g}"


def p_text(p: float) -> str:
    """A p-value in three digits, or that it is below one in a thousand."""
    return "<.001" if p < 0.001 else "1" if p >= 0.9995 else f"{p:.3f}".removeprefix("0")


def ranks(low: int, high: int) -> str:
    """A rank interval: `2–4`, or `1` where both ends are the same."""
    return str(low) if low == high else f"{low}–{high}"
