"""Numbers as text, in one form each wherever a reader meets them. Everything that prints calls it.

A metric has three decimals. Values that round to zero have no sign, except for ends of intervals. Infinity and NaN are
shown as missing.
"""

from __future__ import annotations

import math
from typing import Literal

#: Shown in place of a missing number.
NONE = "-"
#: Separators of the ends of an interval: `0.1 to 0.2`, `[0.1, 0.2]`, `0.1–0.2`, and `.10–.20` where space is short.
Style = Literal["to", "brackets", "dash", "short"]
#: Corrected p-values below these levels get these signs, strictest first.
DAGGERS = ((0.01, "‡"), (0.05, "†"))
#: The sign of a difference that is significantly smaller than a margin.
SAME = "≈"
#: From this size on, decimals carry no information.
_LARGE = 1e6


def format_fixed(value: float | None, digits: int = 3, none: str = NONE) -> str:
    """A number with a fixed number of decimals; a very large one with three significant digits."""
    if value is None or not math.isfinite(value):
        return none
    return _unsigned_zero(f"{value:.{digits}f}") if abs(value) < _LARGE else f"{value:.3g}"


def format_signed(value: float | None, digits: int = 3, none: str = NONE) -> str:
    """A difference: with its sign, unless it rounds to zero."""
    if value is None or not math.isfinite(value):
        return none
    return _unsigned_zero(f"{value:+.{digits}f}") if abs(value) < _LARGE else f"{value:+.3g}"


def _unsigned_zero(text: str) -> str:
    return text if text.strip("+-0.") else text.lstrip("+-")


def interval(
    low: float | None, high: float | None, style: Style = "to", *, sign: bool = False, none: str = NONE
) -> str:
    """An interval in the given style; `sign` for that of a difference, whose ends show their side of zero."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return none
    if style == "short":
        return "–".join(format_fixed(end, 2).removeprefix("0") for end in (low, high))
    first, last = (_signed_end(end) if sign else format_fixed(end) for end in (low, high))
    if style == "brackets":
        return f"[{first}, {last}]"
    return f"{first}–{last}" if style == "dash" else f"{first} to {last}"


def _signed_end(end: float) -> str:
    """`-0.000` ends just below zero; a value that is zero up to rounding has no sign."""
    return f"{end:+.3f}" if 1e-12 <= abs(end) < 1e-3 else format_signed(end)


def estimate(mean: float | None, low: float | None, high: float | None, *, sign: bool = False) -> str:
    """A mean or a difference, with its interval if it has one: `0.700 [0.670, 0.730]`."""
    text = format_signed(mean) if sign else format_fixed(mean)
    return f"{text} {interval(low, high, 'brackets', sign=sign, none='')}".rstrip()


def p_value(p: float) -> str:
    """A p-value with three decimals, `<.001` below one in a thousand; no leading zero, as it never exceeds 1."""
    return "<.001" if p < 0.001 else "1" if p >= 0.9995 else f"{p:.3f}".removeprefix("0")


def dagger(p: float) -> str:
    """The sign of a corrected p-value; empty above the last level of `DAGGERS`."""
    return next((sign for level, sign in DAGGERS if p < level), "")


def percent(share: float, digits: int = 0) -> str:
    """A share in percent; one significant digit if the share is too small for the decimals."""
    text = f"{100 * share:.{digits}f}"
    return f"{text}%" if text.strip("-0.") or not share else f"{100 * share:.1g}%"


def significant(value: float | None, digits: int = 4, *, sign: bool = False, none: str = NONE) -> str:
    """A number of unknown magnitude, such as a measured cost, with significant digits."""
    if value is None or not math.isfinite(value):
        return none
    return f"{value or 0.0:{'+' if sign and value else ''}.{digits}g}"


def score(value: float) -> str:
    """A score in a sentence: three decimals, or significant digits if it is small."""
    return format_fixed(value) if value == 0 or abs(value) >= 0.1 else significant(value, 3)


def count(value: float) -> str:
    """A whole number with thousands separators."""
    return _unsigned_zero(f"{value:,.0f}") if abs(value) < 1e15 else f"{value:.3g}"


def several(number: int, what: str, plural: str = "") -> str:
    """`1 query`, `1,200 systems`: a number with its noun; `plural` if it is irregular, or for a verb."""
    regular = f"{what[:-1]}ies" if what.endswith("ry") else f"{what}s"
    return f"{count(number)} {what if number == 1 else plural or regular}"


def number_or_none(value: float | None) -> float | None:
    """A NumPy number for JSON; None for NaN."""
    return None if value is None or math.isnan(value) else float(value)


def duration(seconds: float) -> str:
    """A time in a readable unit."""
    if seconds < 0.9995e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 0.99995:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds:.1f} s" if seconds < 89.95 else f"{seconds / 60:.1f} min"


def size(octets: int) -> str:
    """A size of a file or of memory, in a readable binary unit."""
    if octets < 1024:
        return f"{octets} B"
    value, unit = octets / 1024, "KiB"
    for larger in ("MiB", "GiB"):
        if value >= 1023.95:
            value, unit = value / 1024, larger
    return f"{value:.1f} {unit}"


def money(value: float | None) -> str:
    """An amount without a currency, or that it is unknown."""
    return "not known" if value is None else "0" if not value else f"{value:,.2f}" if value >= 1 else f"{value:.3g}"


def ranks(low: int, high: int) -> str:
    """A range of ranks: `2–4`, or `1` if both ends are equal."""
    return str(low) if low == high else f"{low}–{high}"


def format_rank(text: object, reference: bool) -> str:
    """A rank; in parentheses for a challenger, which is ranked as if it alone were added."""
    return str(text) if reference else f"({text})"
