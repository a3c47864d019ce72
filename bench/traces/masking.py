"""Masking of personal data and secrets in texts that leave a log.

E-mail addresses, keys and tokens in common forms, and long numbers (cards, phones, accounts) are masked. Names of
people and places are not, because no pattern finds them. Every expression reads a text in linear time.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable

from bench.base import secrets

EMAIL, KEY, NUMBER = "[email]", "[key]", "[number]"

_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", re.DOTALL
)
#: JSON Web Tokens: they begin with `{"` in base64.
_JWT = re.compile(r"(?<![\w-])eyJ[\w-]++(?:\.[\w-]*+){1,4}")
#: `user:password` before the host of a URL.
_URL = re.compile(r"(?<=://)[^\s/@:]{0,256}+:[^\s/@]{1,256}+(?=@)")
_EMAIL = re.compile(r"(?<![\w.+%-])(?:[\w.+%-]++@|[\w.+-]++%40)[\w-]++(?:\.[\w-]++)++")
#: Keys with a provider's prefix.
_PREFIXED = re.compile(
    r"(?<![A-Za-z0-9])(?:[srp]k[-_]|gh[pousr]_|github_pat_|gl[a-z]{1,6}-|xox[a-z]-|xapp-|hf_|npm_|pypi-|lsv2_|whsec_|SG\.|"
    r"ya29\.|AIza|dop_v1_|shp[a-z]{2}_|pat[-_]|key-|xai-|gsk_|tvly-|r8_|dapi|fc-|nvapi-)(?P<rest>[A-Za-z0-9_.\-]{12,}+)"
)
_AWS = re.compile(r"(?<![A-Za-z0-9])A(?:KIA|SIA|GPA|IDA|ROA|NPA|NVA)[A-Z0-9]{16,}+")
#: Secrets after the name of a scheme or of a secret.
_BEARER = re.compile(r"(?<![a-z])(bearer|basic|token)(\s+)(?P<rest>[A-Za-z0-9._~+/=-]{8,}+)", re.IGNORECASE)
_ASSIGNED = re.compile(
    r"(?<![a-z])(api[_ -]?key|access[_ -]?key|secret|token|password|passwd|pwd)(\w*[\"']?\s{0,4}[:=]\s{0,4}[\"']?)"
    r"(?P<rest>[^\s\"',;&\[\]]{6,}+)",
    re.IGNORECASE,
)
#: The same for secrets that look like words: after a colon or an equals sign that follows such a name.
_SAID = re.compile(
    r"(?:(?<![A-Za-z])|(?<=[a-z])(?=[A-Z]))(?i:(?:api|access|private)[_ -]?key|secret|token|authorization|password|"
    r"passwd|passphrase|pwd)(?:_\w{1,40}|\d{1,3})?[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?i:(?:bearer|basic|digest|token)\s{1,4})?"
    r"(?P<rest>(?<=\")[^\"\n\[\]]{4,200}(?=\")|[^\s\"',;&\[\]]{4,}+)"
)
#: Words in that position in schemas and messages that are not secrets.
_NO_SECRET = frozenset(
    "basic bearer boolean digest expired false invalid missing none null number object optional required string "
    "token true undefined".split()
)
_UUID = re.compile(r"(?<![0-9A-Za-z])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![0-9A-Za-z])")
_HEX = re.compile(r"(?<![0-9A-Za-z])(?:0x)?[0-9a-fA-F]{24,}+(?![0-9A-Za-z])")
_RANDOM = re.compile(r"[A-Za-z0-9+/_=-]{32,}+")
#: The words of an identifier such as `listOpenPullRequests2`, or of a path.
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+|[0-9]+")
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?![A-Za-z0-9])")
#: Digits, alone or in groups: a space, a dot, a hyphen, a slash or parentheses between two groups.
_DIGITS = re.compile(r"(?:\+|\()?\d++(?:(?:[ \u00a0\u2009\u202f]{1,2}|[._\-/]|\) ?|[ -]\()\d++)*+")
_DATE = re.compile(r"(?<!\d)(?:\d{4}-\d\d?-\d\d?|\d\d?[./-]\d\d?[./-]\d{4}|\d{4}/\d\d?/\d\d?)(?!\d)")
#: Minimum digits of a masked number: contiguous, and in groups.
_MOST_DIGITS, _MOST_GROUPED = 7, 8


def _has_digit(text: str) -> bool:
    return any(sign.isdecimal() for sign in text)


def _is_no_word(text: str) -> bool:
    """Whether a text has a digit, or inner capitals: `Bearer securities` is a phrase, `bearer eR4tz...` is not."""
    return _has_digit(text) or (any(sign.isupper() for sign in text[1:]) and not text.isupper())


def _is_random(text: str) -> bool:
    """Whether letters and digits alternate as in base64, and not as in names, paths and slugs.

    In random base64, runs of one kind of character have 1.9 characters on average; the words of names have four or
    more. Of random texts with 32 characters, about one in 600 is mistaken for a name; with 48, one in 6,000.
    """
    words = _WORDS.findall(text)
    dense = any(_has_digit(run) for run in re.findall(r"[A-Za-z0-9]{16,}", text))
    return len(words) > 1 and sum(map(len, words)) < (4.0 if dense else 2.7) * len(words)


def _is_long_number(text: str) -> bool:
    """Whether digits, contiguous or grouped, are a card, phone or account number, not a date, amount or list."""
    rest = _DATE.sub(" ", text)
    groups = re.findall(r"\d+", rest)
    if any(len(group) > _MOST_DIGITS for group in groups):
        # A fraction with many digits is a measurement.
        return re.fullmatch(r"\d{1,7}\.\d+", text) is None
    if sum(map(len, groups)) <= _MOST_GROUPED or len(groups) < 2:
        return False
    # Phone numbers begin with +, 0 or a parenthesis. In other numbers, small groups form a list.
    return text[0] in "+(0" or "-" in rest or min(map(len, groups[1:])) >= 3


_Test = Callable[[str], bool]
_NAMED = frozenset({_BEARER, _ASSIGNED, _SAID})
#: In order of application: the pattern, its placeholder, and when a match does not count.
_MASKS: tuple[tuple[re.Pattern[str], str, _Test], ...] = (
    *((pattern, KEY, bool) for pattern in (_PRIVATE_KEY, _JWT, _URL)),
    (_EMAIL, EMAIL, bool),
    # `sk-learn-contrib` has neither a digit nor a capital.
    (_PREFIXED, KEY, lambda text: _has_digit(text) or text != text.lower()),
    (_AWS, KEY, bool),
    (_BEARER, KEY, _is_no_word),
    (_ASSIGNED, KEY, _is_no_word),
    (_SAID, KEY, lambda text: text.casefold().strip(".,!?(){}<>") not in _NO_SECRET),
    (_UUID, KEY, bool),
    (_IBAN, NUMBER, lambda text: sum(map(str.isdecimal, text)) >= 8),
    (_HEX, KEY, _has_digit),
    (_RANDOM, KEY, _is_random),
    (_DIGITS, NUMBER, _is_long_number),
)


def mask_text(text: str) -> tuple[str, Counter[str]]:
    """A text with placeholders for what is masked, and the number of each placeholder."""
    known = secrets.mask(text)
    counts = Counter({KEY: added} if (added := known.count(secrets.MASK) - text.count(secrets.MASK)) else {})
    text = known
    for pattern, placeholder, holds in _MASKS:

        def put(match: re.Match[str], placeholder: str = placeholder, holds: _Test = holds) -> str:
            rest = match["rest"] if "rest" in match.re.groupindex else match[0]
            if not holds(rest):
                return match[0]
            counts[placeholder] += 1
            # Keep the scheme, or the name of the secret.
            return match[0].removesuffix(rest) + placeholder if match.re in _NAMED else placeholder

        text = pattern.sub(put, text)
    return text, counts
