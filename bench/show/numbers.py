"""Numbers as text: one form each, wherever a reader meets them.

A metric has three decimals. What rounds to zero has no sign, but for ends of intervals. Infinity and NaN are shown as
no number.
"""

from __future__ import annotations

import math
from typing import Literal

#: What stands where there is no number.
NONE = "-"
#: How the two ends of an interval are joined: `0.1 to 0.2`, `[0.1, 0.2]`, `0.1–0.2`, and `.10–.20` where room is short.
Style = Literal["to", "brackets", "dash", "short"]
#: Corrected p-values below these levels have these signs, the strictest first.
DAGGERS = ((0.01, "‡"), (0.05, "†"))
#: The sign of a difference that is shown to be smaller than a margin.
SAME = "≈"
#: From here on decimals say nothing.
_LARGE = 1e6


def format_fixed(value: float | None, digits: int = 3, none: str = NONE) -> str:
    """A number with a fixed count of decimals; a very large one with three significant digits."""
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
    """An interval, as its style says; `sign` for that of a difference, whose ends show their side of zero."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return none
    if style == "short":
        return "–".join(format_fixed(end, 2).removeprefix("0") for end in (low, high))
    first, last = (_signed_end(end) if sign else format_fixed(end) for end in (low, high))
    if style == "brackets":
        return f"[{first}, {last}]"
    return f"{first}–{last}" if style == "dash" else f"{first} to {last}"


def _signed_end(end: float) -> str:
    """`-0.000` ends short of zero; what is zero but for rounding has no sign."""
    return f"{end:+.3f}" if 1e-12 <= abs(end) < 1e-3 else format_signed(end)


def estimate(mean: float | None, low: float | None, high: float | None, *, sign: bool = False) -> str:
    """A mean or a difference and its interval, as far as it has one: `0.700 [0.670, 0.730]`."""
    text = format_signed(mean) if sign else format_fixed(mean)
    return f"{text} {interval(low, high, 'brackets', sign=sign, none='')}".rstrip()


def p_value(p: float) -> str:
    """A p-value with three decimals, `<.001` below one in a thousand; no leading zero, as it never exceeds 1."""
    return "<.001" if p < 0.001 else "1" if p >= 0.9995 else f"{p:.3f}".removeprefix("0")


def dagger(p: float) -> str:
    """The sign of a corrected p-value; none above the last level of `DAGGERS`."""
    return next((sign for level, sign in DAGGERS if p < level), "")


def percent(share: float, digits: int = 0) -> str:
    """A share in percent; one significant digit for a share too small for the decimals."""
    text = f"{100 * share:.{digits}f}"
    return f"{text}%" if text.strip("-0.") or not share else f"{100 * share:.1g}%"


def significant(value: float | None, digits: int = 4, *, sign: bool = False, none: str = NONE) -> str:
    """A number whose size is not known beforehand, such as a measured cost, with significant digits."""
    if value is None or not math.isfinite(value):
        return none
    return f"{value or 0.0:{'+' if sign and value else ''}.{digits}g}"


def score(value: float) -> str:
    """A score in a sentence: three decimals, or as many significant digits where it is small."""
    return format_fixed(value) if value == 0 or abs(value) >= 0.1 else significant(value, 3)


def count(value: float) -> str:
    """A whole number with thousands set apart."""
    return _unsigned_zero(f"{value:,.0f}") if abs(value) < 1e15 else f"{value:.3g}"


def several(number: int, what: str, plural: str = "") -> str:
    """`1 query`, `1,200 systems`: how many of something; `plural` where it is not made by an s, as with a verb."""
    regular = f"{what[:-1]}ies" if what.endswith("ry") else f"{what}s"
    return f"{count(number)} {what if number == 1 else plural or regular}"


def number_or_none(value: float | None) -> float | None:
    """A number of NumPy as JSON has it; None for NaN."""
    return None if value is None or math.isnan(value) else float(value)


def duration(seconds: float) -> str:
    """A time in the unit that reads best."""
    if seconds < 0.9995e-3:
        return f"{seconds * 1e6:.0f} µs"
    if seconds < 0.99995:
        return f"{seconds * 1e3:.1f} ms"
    return f"{seconds:.1f} s" if seconds < 89.95 else f"{seconds / 60:.1f} min"


def size(octets: int) -> str:
    """The size of a file or of memory, in the binary unit that reads best."""
    if octets < 1024:
        return f"{octets} B"
    value, unit = octets / 1024, "KiB"
    for larger in ("MiB", "GiB"):
        if value >= 1023.95:
            value, unit = value / 1024, larger
    return f"{value:.1f} {unit}"


def money(value: float | None) -> str:
    """An amount without a currency; that it is not known where there is none."""
    return "not known" if value is None else "0" if not value else f"{value:,.2f}" if value >= 1 else f"{value:.3g}"


def ranks(low: int, high: int) -> str:
    """An interval of ranks: `2–4`, or `1` where both ends are the same."""
    return str(low) if low == high else f"{low}–{high}"


def placed(text: object, reference: bool) -> str:
    """A rank; in parentheses where it is that of a challenger, which is placed as if it alone were added."""
    return str(text) if reference else f"({text})"
