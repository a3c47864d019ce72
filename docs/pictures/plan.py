"""Draw the rooms of bench by their layers, and which needs which: `python docs/pictures/plan.py`.

An arrow that follows from others (a room needs what its neighbours below need) is left out.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PICTURE = Path(__file__).with_name("plan.svg")
#: Of a box, and between the middles of boxes and layers, in pixels.
WIDE, HIGH, ACROSS, DOWN = 116, 30, 170, 72
#: Chosen by eye, so that no arrow passes behind a box.
COLUMNS = {
    "lab": 0,
    "diagnosis": 0.9,
    "traces": 3.85,
    "example": 5.45,
    "tuning": 0.65,
    "cluster": 2.25,
    "validation": 4.6,
    "choices": 1.8,
    "leaderboard": 3.1,
    "api": 1.7,
    "cli": 2.9,
    "gating": 1.7,
    "comparison": 2.9,
    "evaluation": 2.1,
    "lookup": 2.1,
    "results": 3.4,
    "methods": 0,
    "registry": 2.15,
    "datasets": -0.1,
    "metrics": 0.65,
    "remote": 1.5,
    "search": 4,
    "importing": 0.2,
    "interface": 1.3,
    "models": 3.6,
    "data": 1,
    "identity": 2.5,
    "base": 1.5,
    "stats": 0.5,
    "show": 3.2,
}
BUILDINGS = {
    "lab": "#fde7c8",
    "diagnosis": "#fde7c8",
    "traces": "#fde7c8",
    "example": "#fde7c8",
    "tuning": "#fde7c8",
    "cluster": "#fde7c8",
    "validation": "#fde7c8",
    "choices": "#fde7c8",
    "leaderboard": "#d9ead3",
    "methods": "#e3e0f5",
    "datasets": "#e3e0f5",
}
LEGEND = (
    ("harness", "#dbe7f6"),
    ("plug-ins by folder", "#e3e0f5"),
    ("board", "#d9ead3"),
    ("other buildings", "#fde7c8"),
)


def plan(layers: dict[str, int], arrows: set[tuple[str, str]]) -> str:
    """The picture of rooms by layer, and of (room, room that it imports), as SVG."""
    needs = {room: {below for above, below in arrows if above == room} for room in layers}

    def all_below(room: str) -> set[str]:
        return needs[room].union(*(all_below(below) for below in needs[room]))

    # What a room needs and no other room that it needs does.
    drawn = {
        (room, below)
        for room in layers
        for below in needs[room]
        if not any(below in all_below(other) for other in needs[room] - {below})
    }
    top = max(layers.values())
    width = (max(COLUMNS.values()) + 1) * ACROSS
    place = {room: ((COLUMNS.get(room, 1) + 0.5) * ACROSS, (top - layer) * DOWN + 40) for room, layer in layers.items()}
    height = (top + 1) * DOWN + 50
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height}" width="{width:g}" role="img" '
        'font-family="sans-serif" font-size="14" aria-label="Rooms of bench by layer, and which imports which">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#66707c"/></marker></defs>',
        f'<rect width="{width:g}" height="{height}" fill="#ffffff"/>',
    ]
    for room, below in sorted(drawn):
        (x, y), (to_x, to_y) = place[room], place[below]
        start, end = y + HIGH / 2, to_y - HIGH / 2 - 1
        middle = (end - start) / 2
        parts.append(
            f'<path d="M{x:g} {start:g}C{x:g} {start + middle:g} {to_x:g} {end - middle:g} {to_x:g} {end:g}" '
            'fill="none" stroke="#66707c" stroke-opacity=".65" marker-end="url(#tip)"/>'
        )
    for room, (x, y) in sorted(place.items()):
        parts.append(
            f'<rect x="{x - WIDE / 2:g}" y="{y - HIGH / 2:g}" width="{WIDE}" height="{HIGH}" rx="5" '
            f'fill="{BUILDINGS.get(room, "#dbe7f6")}" stroke="#44546a"/>'
            f'<text x="{x:g}" y="{y + 5:g}" text-anchor="middle" fill="#1b2733">{room}</text>'
        )
    for index, (name, colour) in enumerate(LEGEND):
        x = 20 + index * 165
        parts.append(
            f'<rect x="{x}" y="{height - 32}" width="16" height="16" fill="{colour}" stroke="#44546a"/>'
            f'<text x="{x + 22}" y="{height - 19}" fill="#1b2733">{name}</text>'
        )
    return "\n".join([*parts, "</svg>"]) + "\n"


def current() -> str:
    """The picture of the code as it is."""
    sys.path.insert(0, str(ROOT / "tests"))
    from test_layers import own_arrows, room, table

    return plan(table(), {(room(module), below) for module, below in own_arrows()})


if __name__ == "__main__":
    PICTURE.write_text(current(), "utf-8")
