"""Spellings of older versions, each with a sentence that names the new one. `bench.cli.help` looks them up.

The table covers version 0.3; the next version empties it.
"""

from __future__ import annotations

from collections.abc import Sequence

#: What a user types after `bench` -> what replaced it. The words of an option follow those of its command.
_BECAME = {
    "comment": "is gone: the jobs that `bench init` writes post the report themselves",
    "compare --latex": "is now bench compare --format latex",
    "compare --unit": "is gone",
    "curve": "is now bench stress METHOD... -d DATASET -p growth",
    "data check-exact --sample": "is now bench data check-exact --limit",
    "data from-traffic --bridge-tool": "is now the argument bridge_tools of bench.read_traffic in Python",
    "data from-traffic --output": "is now bench data from-traffic --out",
    "data list": "is now bench list datasets",
    "data stats": "is now bench data info --all",
    "data verify": "is now bench data fetch --verify",
    "data write-queries --output": "is now bench data write-queries --out",
    "gate --junit": "is now bench gate --out FILE.xml",
    "gate --markdown": "is now bench gate --out FILE.md",
    "leaderboard serve": "is now bench leaderboard build --serve [PORT]",
    "metrics": "is now bench list metrics",
    "reproduce --markdown": "is now bench reproduce --format markdown",
    "results list": "is now bench list results",
    "run --as": "is now bench run --name",
    "schema": "is now bench list schemas",
    "show --format all": "is now bench show --all",
    "train --settings": "is now bench train KIND without options",
}


def became(command: str, words: Sequence[str]) -> str:
    """The sentence for an old spelling among the words after a command; empty if there is none.

    Args:
        command: the words of the command or group after `bench`, such as `data`.
        words: the words after it.
    """
    above = command.split()
    typed = [part for word in words for part in (word.split("=", 1) if word.startswith("--") else [word])]
    for old, sentence in _BECAME.items():
        path = old.split()
        if path[: len(above)] == above and _contains(typed, path[len(above) :]):
            return f"bench {old} {sentence}."
    return ""


def _contains(words: Sequence[str], part: Sequence[str]) -> bool:
    """Whether the words contain the part: an option anywhere, the name of a command first."""
    if not part:
        return False
    starts = range(len(words)) if part[0].startswith("-") else [0]
    return any([*words[start : start + len(part)]] == [*part] for start in starts)
