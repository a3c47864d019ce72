"""Find the servers in configurations of MCP clients, without starting them. `forms` and `bench.remote` call it."""

from __future__ import annotations

import re
from typing import Any

from bench.importing.dialects import TABLE

_PLACES = [tuple(place) for place in TABLE["clients"]["places"]]
#: Keys of how to reach a server: a program, or an HTTP address.
COMMAND, URLS = "command", ("url", "serverUrl", "httpUrl")
_COMMENTS = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|$)|//[^\n]*|/\*.*?(?:\*/|$)', re.DOTALL)
_LAST_COMMAS = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|$)|,(?=\s*[}\]])', re.DOTALL)


def configured_servers(value: Any) -> tuple[tuple[str, ...], dict[str, Any]] | None:
    """The keys that lead to the servers of a client's configuration, and the servers by name; None if it has none."""
    for place in _PLACES:
        listed = value
        for step in place:
            listed = listed.get(step) if isinstance(listed, dict) else None
        if isinstance(listed, list) and place == ("mcpServers",):  # Continue
            listed = {
                each["name"]: each for each in listed if isinstance(each, dict) and isinstance(each.get("name"), str)
            }
        if isinstance(listed, dict) and listed:
            reached = {COMMAND, *URLS}
            reachable = [isinstance(each, dict) and not reached.isdisjoint(each) for each in listed.values()]
            if any(reachable) if place else all(reachable):
                return place, listed
    return None


def without_comments(data: bytes) -> bytes:
    """JSON as some clients write it, without comments and trailing commas; line numbers are unchanged."""
    blank = re.compile(rb"[^\n]")

    def keep_texts(match: re.Match[bytes]) -> bytes:
        return match[0] if match[0].startswith(b'"') else blank.sub(b" ", match[0])

    return _LAST_COMMAS.sub(keep_texts, _COMMENTS.sub(keep_texts, data))
