"""Versions of the protocol. Results name them.

A result names the lowest version whose rules give its numbers. So a version that only adds rules for new kinds of data
leaves older results valid and comparable.
"""

from __future__ import annotations

from bench.data.gold import Gold

#: The version of `docs/protocol.md`.
PROTOCOL_VERSION = "2.1"
#: 2.1 added gold with alternatives, and forbidden tools.
_WITHOUT_ALTERNATIVES = "2.0"
#: Versions whose numbers equal those of the current rules.
CURRENT_VERSIONS = frozenset({_WITHOUT_ALTERNATIVES, PROTOCOL_VERSION})


def version_for(gold: Gold) -> str:
    """The version that a result on a dataset names; `gold` is the gold of all its queries."""
    plain = gold.groups is None and gold.forbidden is None
    return _WITHOUT_ALTERNATIVES if plain else PROTOCOL_VERSION
