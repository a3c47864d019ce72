"""Dependency edges derived from schemas by rules, without training or annotation.

Two rules, from TGR's two conditions for "a depends on b":

result        a requires a *handle* (an id, a token, a key, ...) that only a few tools return. A handle is something
              that a user cannot make up: names, dates, places and free text are in the request and prove nothing.
verification  b verifies something (its name begins with verify, validate, check, ...), a changes something, both
              belong to the same parent, and everything that b checks is an input that a requires.

The word lists were written from these definitions and checked on the tools and annotated edges of `starter`; no query
of any dataset was used.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import cache

import numpy as np

from bench.data.parents import families, parent_of
from bench.data.tables import Tool
from bench.methods.tgr.edges import Edges

#: Last words of names that represent handles.
_HANDLES = frozenset(
    "id ids identifier uuid guid token key code reference ref handle session ticket slug hash sku otp pin "
    "uri cursor nonce number no address".split()
)
#: Handles that people know by heart or have on their cards.
_STATED = frozenset(
    "phone_number zip_code post_code postal_code country_code currency_code language_code area_code room_number "
    "flight_number train_number house_number card_number ip_address email_address address number code pin no".split()
)
_VERIFIES = frozenset("verify validate check confirm authenticate authorise authorize".split())
_CHANGES = frozenset(
    "add book buy cancel change charge close create deactivate delete disable edit enable issue merge modify move "
    "order pay place post publish purchase register remove reset resize rename schedule sell send set share sign "
    "start stop submit transfer update upload withdraw".split()
)


@cache
def name_words(name: str) -> tuple[str, ...]:
    """Words of an identifier in any style: `orderId`, `order_id`, `Order ID`, `GET /v1/orders` -> lower-case words."""
    # IDs, URLs: a plural of capitals is one word.
    name = re.sub(r"([A-Z]{2,})s(?![a-z])", lambda match: f" {match[1].lower()}s", name)
    spaced = re.sub(r"([a-z0-9])([A-Z])|([A-Z]+)([A-Z][a-z])", r"\1\3 \2\4", name)
    return tuple(re.findall(r"[^\W_]+", spaced.lower()))


def rule_edges(tools: Sequence[Tool], most_producers: int = 3) -> Edges:
    """Edges that the two rules give.

    Args:
        tools: the library, in code order.
        most_producers: a handle that more tools return than this is too common to indicate a dependency.

    Returns:
        (edges, 2) int32 [dependent, prerequisite], sorted, distinct.
    """
    pairs = {*_results(tools, most_producers), *_verifications(tools)}
    return np.array(sorted(pairs), dtype=np.int32).reshape(-1, 2)


def handle_of(name: str) -> str | None:
    """The normal form of a name that represents a handle, else None."""
    words = name_words(name)
    joined = "_".join(words)
    return joined if words and words[-1] in _HANDLES and joined not in _STATED else None


def _results(tools: Sequence[Tool], most_producers: int) -> set[tuple[int, int]]:
    required = [{handle_of(p.name) for p in tool.parameters if p.required} - {None} for tool in tools]
    accepted = [{handle_of(p.name) for p in tool.parameters} for tool in tools]
    producers: defaultdict[str, set[int]] = defaultdict(set)
    for code, tool in enumerate(tools):
        for name in tool.return_names():
            handle = handle_of(name)
            # A tool that takes a handle and returns it does not produce it.
            if handle is not None and handle not in accepted[code]:
                producers[handle].add(code)
    pairs: set[tuple[int, int]] = set()
    for code, handles in enumerate(required):
        for handle in handles:
            makers = producers.get(handle or "", set()) - {code}
            # A bare `id` or `token` means something else for every vendor.
            if handle is not None and "_" not in handle and len(makers) > 1:
                makers = {maker for maker in makers if parent_of(tools[maker]) == parent_of(tools[code])}
            if len(makers) <= most_producers:
                pairs.update((code, maker) for maker in makers)
    return pairs


def _verifications(tools: Sequence[Tool]) -> set[tuple[int, int]]:
    pairs = set()
    for members in families(tools):
        words = {code: name_words(tools[code].name) for code in members}
        checkers = [code for code in members if words[code] and words[code][0] in _VERIFIES]
        changers = [code for code in members if _CHANGES & set(words[code]) and code not in checkers]
        for checker in checkers:
            checked = {"_".join(name_words(p.name)) for p in tools[checker].parameters if p.required}
            for changer in changers:
                needed = {"_".join(name_words(p.name)) for p in tools[changer].parameters if p.required}
                if checked and checked <= needed:
                    pairs.add((changer, checker))
    return pairs
