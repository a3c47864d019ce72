"""A dependency graph as an SVG drawing: tools coloured by category, arrows to prerequisites.

Names come from outside: all of them are escaped, and what XML cannot hold is left out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from bench.base.text import one_line
from bench.data.tables import Tool
from bench.lab.graph.agreement import edge_set
from bench.lab.graph.layout import Layout, lay_out
from bench.methods.tgr.edges import Edges
from bench.show.figures import escape_text

_LONGEST_LABEL = 30
#: Widths of letters at the font's size, rounded up; nobody says which font a viewer has.
_LETTER, _NARROW_LETTER, _WIDE_LETTER = 6.9, 4.2, 9.2
_NARROW, _WIDE = frozenset("iljtfrI.,:;/'|!()[] "), frozenset("ABCDEGHKMNOQRSTUVWXYmw@%&…")
_MARGIN = 24.0
_HEAD = 64.0
_BOX = 16.0
_LEGEND_ROW = 20.0
#: Fills light enough for black text; told apart by the common kinds of colour blindness as far as twelve can be.
_FILLS = (
    "#cfe3f7", "#fbdcb8", "#d3ecd0", "#f6cfd6", "#e3d7f1", "#f4efb3", "#cdeeee", "#ecd9c9", "#dfe6b8", "#f3d3ee",
    "#b9c9e6", "#d9d3c4",
)  # fmt: skip
_OTHER_FILL = "#e6e6e6"

_STYLE = """
text { font: 11px "DejaVu Sans", Verdana, Helvetica, Arial, sans-serif; fill: #1a1a1a; }
.title { font-size: 17px; font-weight: bold; }
.note { fill: #555; }
.node { stroke: #8a8a8a; stroke-width: 0.8; }
.edge { fill: none; stroke: #5b6770; stroke-width: 1; stroke-opacity: 0.75; }
.extra { stroke: #c03a2b; stroke-dasharray: 5 3; }
.missed { stroke: #9aa3ab; stroke-dasharray: 1.5 3; }
"""
_ARROW = (
    '<marker id="arrow" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="6.5" markerHeight="6.5" '
    'orient="auto-start-reverse"><path d="M0,0.8 L8,4 L0,7.2 z" fill="#5b6770"/></marker>'
)


def draw(tools: Sequence[Tool], edges: Edges, title: str, annotated: Edges | None = None) -> str:
    """The graph as SVG text.

    Args:
        tools: the library, in code order.
        edges: (edges, 2) [dependent, prerequisite].
        title: the text above the drawing.
        annotated: true edges to compare with: those found in vain are dashed red, those missed are dotted.
    """
    missed = np.empty((0, 2), dtype=np.int32)
    if annotated is not None:
        missed = np.array(sorted(edge_set(annotated) - edge_set(edges)), dtype=np.int32).reshape(-1, 2)
    shown = np.concatenate([edges, missed]) if len(missed) else edges
    codes = np.unique(shown).tolist()
    labels = {code: _label(tools[code]) for code in codes}
    widths = {code: _length(label) + 12 for code, label in labels.items()}
    layout = lay_out(shown, len(tools), widths) if codes else Layout()
    fills, legend = _colours([tools[code].category for code in codes])
    caption = _caption(tools, edges, missed, annotated)
    width = max(layout.width, _length(caption)) + 2 * _MARGIN
    rows = _legend_rows(legend, width)
    height = _HEAD + layout.height + _LEGEND_ROW * (len(rows) + 1) + 2 * _MARGIN
    true = None if annotated is None else edge_set(annotated)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.1f} {height:.1f}" role="img">',
        f"<title>{escape_text(title)}</title><style>{_STYLE}</style><defs>{_ARROW}</defs>",
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        f'<text class="title" x="{_MARGIN}" y="30">{escape_text(title)}</text>',
        f'<text class="note" x="{_MARGIN}" y="50">{escape_text(caption)}</text>',
        f'<g transform="translate({_MARGIN},{_HEAD})">',
        *(_edge(layout, widths, a, b, _kind((a, b), true)) for a, b in edges.tolist()),
        *(_edge(layout, widths, a, b, " missed") for a, b in missed.tolist()),
        *(_node(code, tools[code], labels[code], widths[code], fills[tools[code].category], layout) for code in codes),
        "</g>",
        *_legend(rows, _HEAD + layout.height + _MARGIN),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _kind(edge: tuple[int, int], annotated: set[tuple[int, int]] | None) -> str:
    return " extra" if annotated is not None and edge not in annotated else ""


def _caption(tools: Sequence[Tool], edges: Edges, missed: Edges, annotated: Edges | None) -> str:
    connected = len(np.unique(edges))
    text = (
        f"An arrow leads from a tool to what it needs. {len(edges)} edges; {connected} of {len(tools)} tools have one."
    )
    if annotated is not None:
        wrong = len(edge_set(edges) - edge_set(annotated))
        text += f" Dashed: {wrong} that are not annotated. Dotted: {len(missed)} annotated that are missing."
    return text


def _label(tool: Tool) -> str:
    name = tool.tool_id if len(tool.tool_id) <= _LONGEST_LABEL else tool.name or tool.tool_id
    return one_line(name, _LONGEST_LABEL)


def _length(label: str) -> float:
    """The width of a label."""
    widths = (_NARROW_LETTER if sign in _NARROW else _WIDE_LETTER if sign in _WIDE else _LETTER for sign in label)
    # Signs of other scripts are as wide as two letters.
    return sum(widths) + sum(_LETTER for sign in label if ord(sign) > 0x2E7F)


def _node(code: int, tool: Tool, label: str, width: float, fill: str, layout: Layout) -> str:
    x, y = layout.places[code]
    about = f"{tool.tool_id}: {' '.join(tool.description.split())[:200]}"
    return (
        f'<g><title>{escape_text(about)}</title><rect class="node" x="{x:.1f}" y="{y - _BOX / 2:.1f}" '
        f'width="{width:.1f}" height="{_BOX}" rx="3" fill="{fill}"/>'
        f'<text x="{x + 6:.1f}" y="{y + 4:.1f}">{escape_text(label)}</text></g>'
    )


def _edge(layout: Layout, widths: Mapping[int, float], dependent: int, prerequisite: int, kind: str) -> str:
    """A curve from the dependent through its lanes to the prerequisite, between the sides that face one another."""
    (x1, y1), (x2, y2) = layout.places[dependent], layout.places[prerequisite]
    if x1 >= x2:
        x2 += widths[prerequisite]
    else:
        x1 += widths[dependent]
    points = [(x1, y1), *layout.routes.get((dependent, prerequisite), ()), (x2, y2)]
    path = [f"M{x1:.1f},{y1:.1f}"]
    for (left_x, left_y), (right_x, right_y) in zip(points[::2], points[1::2], strict=True):
        bend = (right_x - left_x) / 2
        path.append(f"L{left_x:.1f},{left_y:.1f}")
        path.append(f"C{left_x + bend:.1f},{left_y:.1f} {right_x - bend:.1f},{right_y:.1f} {right_x:.1f},{right_y:.1f}")
    return f'<path class="edge{kind}" d="{" ".join(path)}" marker-end="url(#arrow)"/>'


def _colours(categories: Sequence[str]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """The fill of every category, and the legend: (fill, name) of the largest, then of the rest together."""
    ranked = [name for name, _ in sorted(Counter(categories).items(), key=lambda item: (-item[1], item[0]))]
    fills = {name: _FILLS[i] if i < len(_FILLS) else _OTHER_FILL for i, name in enumerate(ranked)}
    legend = [(fills[name], name or "no category") for name in ranked[: len(_FILLS)]]
    if len(ranked) > len(_FILLS):
        legend.append((_OTHER_FILL, f"{len(ranked) - len(_FILLS)} other categories"))
    return fills, legend if len(ranked) > 1 else []


def _legend_rows(legend: Sequence[tuple[str, str]], width: float) -> list[list[tuple[float, str, str]]]:
    """(x, fill, name) of the entries, in rows that fit the width."""
    rows: list[list[tuple[float, str, str]]] = []
    x = width
    for fill, name in legend:
        label = one_line(name, _LONGEST_LABEL)
        needed = 34 + _length(label)
        if x + needed > width - _MARGIN or not rows:
            rows.append([])
            x = _MARGIN
        rows[-1].append((x, fill, label))
        x += needed
    return rows


def _legend(rows: Sequence[Sequence[tuple[float, str, str]]], top: float) -> list[str]:
    return [
        f'<g transform="translate({x:.1f},{top + row * _LEGEND_ROW:.1f})">'
        f'<rect class="node" width="14" height="12" rx="2" fill="{fill}"/>'
        f'<text x="20" y="10">{escape_text(name)}</text></g>'
        for row, entries in enumerate(rows)
        for x, fill, name in entries
    ]
