"""Numbers of the site as text."""

from __future__ import annotations

import math

from bench.results.manifest import MetricValue


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
