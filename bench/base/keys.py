"""Refuse keys in text that would be stored: commands, specs, names and files are checked here first.

`bench.base.secrets` defines what a key is and masks keys everywhere else.
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, unquote_plus

from bench.base.errors import UsageError
from bench.base.paths import data_folder
from bench.base.secrets import MASK, QUOTES, SHORTEST, keep, known_secrets, mask, publish_names_in, spellings

#: Variables with addresses of endpoints, which are stored with their replies.
_STORED = ("BENCH_LLM_URL", "BENCH_EMBEDDING_URL", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL")
#: The usual form of a variable name; anything else in its place may be the key itself.
_USUAL_NAME = re.compile(r"[A-Z]+(_[A-Z0-9]+)*")

# Tables and messages name the datasets that the user added.
publish_names_in(lambda: data_folder() / "datasets")


def keep_variable(name: str) -> str:
    """Check the environment variable named by a parameter `token`, and treat its value as a secret from now on.

    Raises:
        UsageError: the variable is not set and its name looks unusual, so it may be the key itself.
    """
    keep(os.environ.get(name, ""))
    if name not in os.environ and len(name) >= SHORTEST and not _USUAL_NAME.fullmatch(name):
        keep(name)
        raise UsageError(
            "the parameter 'token' takes the name of an environment variable, and there is none of the name that it "
            "has; if it is the key itself, put it into a variable, and give token=VARIABLE."
        )
    return name


def refuse(where: str, *texts: str) -> None:
    """Refuse texts to be stored that contain a key; addresses of endpoints in the environment are checked too.

    Args:
        where: what the texts are, for the message.
        texts: texts from the user.

    Raises:
        UsageError: a text contains a key in any spelling; the message names its variable.
    """
    secrets = known_secrets()
    addresses = (f"{name}={os.environ[name]}" for name in _STORED if name in os.environ)
    for text in (*texts, *addresses) if secrets else ():
        for reading in _readings(text):
            for secret in secrets:
                if any(spelling in reading for spelling in spellings(secret)):
                    before, _, after = mask(reading).partition(MASK)
                    name = next((name for name, value in os.environ.items() if value.strip() == secret), "")
                    whose = f"the value of the environment variable {name}" if name else "a key that bench was given"
                    raise UsageError(
                        f"{where} holds {whose} ({before[-30:]}{MASK}{after[:10]}), which would be stored; give a "
                        "service token=VARIABLE, let a program read the variable, or unset it if it holds no key."
                    )


def _readings(text: str) -> set[str]:
    """The text itself, its URL-decoded forms, and the text without shell quotes."""
    once = unquote(text)
    return {text, once, unquote(once), unquote_plus(text), QUOTES.sub("", text)}
