"""Keys that users write where they would be stored are refused: commands, specs, names and files pass here first.

What a key is, and how all else is kept free of it, is in `bench.base.secrets`.
"""

from __future__ import annotations

import os
import re
from urllib.parse import unquote, unquote_plus

from bench.base.errors import UsageError
from bench.base.paths import data_folder
from bench.base.secrets import MASK, QUOTES, SHORTEST, keep, known_secrets, mask, publish_names_in, spellings

#: Addresses of endpoints, which are stored with their replies.
_STORED = ("BENCH_LLM_URL", "BENCH_EMBEDDING_URL", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL")
#: Names of variables as they are usually written; else what stands in place of a name may be the key itself.
_USUAL_NAME = re.compile(r"[A-Z]+(_[A-Z0-9]+)*")

# Tables and messages name the datasets that the user added.
publish_names_in(lambda: data_folder() / "datasets")


def keep_variable(name: str) -> str:
    """The name of an environment variable, as a parameter `token` has it; its value is a secret from now on.

    Raises:
        UsageError: it is not set and does not look like a name, so it may be the key itself.
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
    """Refuse what would be stored and holds a key; the addresses of endpoints in the environment are looked at too.

    Args:
        where: what the texts are, for the sentence.
        texts: what users wrote.

    Raises:
        UsageError: a text holds a key, however it is written; the sentence has the name of its variable.
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
    """A text as it is, with what a URL quotes, and as a shell reads it."""
    once = unquote(text)
    return {text, once, unquote(once), unquote_plus(text), QUOTES.sub("", text)}
