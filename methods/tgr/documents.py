"""The text of a tool for the pair classifier: inputs, outputs and description.

Names are written as words, so that `orderId` and `order_id` are the same. Parent and category are left out: a
dependency should follow from what tools do, and in some libraries every tool is its own parent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from bench.data.tables import Tool
from bench.methods.tgr.rules import handle_of, name_words

#: Response schemas have hundreds of fields; handles come first, then as many others as fit. Documents are short because
#: a classifier's cost grows with its tokens.
_MOST_NAMES = 10
_MOST_WORDS = 24


def document(tool: Tool, renamed: Mapping[str, str] | None = None) -> str:
    """`cancel order. needs: order id. may take: reason. gives: status. Cancels an order that was not sent yet.`

    Args:
        tool: any tool; missing parts are left out.
        renamed: names of inputs and outputs, as words, -> names to show instead.
    """
    shown = renamed or {}
    required = [p.name for p in tool.parameters if p.required]
    optional = [p.name for p in tool.parameters if not p.required]
    returned = sorted(tool.return_names(), key=lambda name: handle_of(name) is None)
    parts = [
        " ".join(name_words(tool.name)),
        _listed("needs", required, shown),
        _listed("may take", optional, shown),
        _listed("gives", returned, shown),
        " ".join(tool.description.split()[:_MOST_WORDS]),
    ]
    return ". ".join(part for part in parts if part)


def _listed(title: str, names: Iterable[str], renamed: Mapping[str, str]) -> str:
    plain = dict.fromkeys(" ".join(name_words(name)) for name in names)
    shown = [renamed.get(name, name) for name in plain if name][:_MOST_NAMES]
    return f"{title}: {', '.join(shown)}" if shown else ""
