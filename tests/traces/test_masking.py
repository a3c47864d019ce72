"""Masks: nothing of a secret is left, and ordinary words stay as they are."""

from __future__ import annotations

import base64
import json
import random
import re
import string
import time

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bench.traces.masking import _PREFIXED, EMAIL, KEY, NUMBER, mask_text
from bench.traces.traces import read_traffic

ALNUM = string.ascii_letters + string.digits
#: Random, whatever hypothesis shrinks: a key of 24 times the letter a is none.
RANDOM = st.integers(0, 2**32).map(random.Random)
MIXED = RANDOM.map(lambda r: "".join(r.choices(ALNUM, k=r.randint(24, 60))))
CAPITALS = RANDOM.map(lambda r: "".join(r.choices(string.ascii_uppercase + "0123456789", k=16)))
HEX = st.binary(min_size=16, max_size=32).map(bytes.hex).filter(lambda text: any(c.isdigit() for c in text))
TOKEN = RANDOM.map(
    lambda r: base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "n": r.random()}).encode()).decode().rstrip("=")
)
DIGITS = st.integers(8, 19).flatmap(lambda n: st.text("0123456789", min_size=n, max_size=n))
LABEL = st.from_regex(r"[a-z0-9][a-z0-9-]{0,20}[a-z0-9]", fullmatch=True)


def grouped(digits: str, sign: str, size: int) -> str:
    return sign.join(digits[at : at + size] for at in range(0, len(digits), size))


CARD = st.tuples(st.text("0123456789", min_size=16, max_size=16), st.sampled_from(" -")).map(lambda p: grouped(*p, 4))
PHONE = st.tuples(
    st.sampled_from(["+49 ", "+1-", "0", "(030) ", "+44 (0)"]),
    st.text("0123456789", min_size=9, max_size=10),
    st.sampled_from([" ", "-", ".", "/"]),
    st.integers(2, 4),
).map(lambda p: p[0] + grouped(p[1], p[2], p[3]))
EMAILS = st.builds(
    "{}@{}.{}".format,
    st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._%+-]{0,30}", fullmatch=True),
    LABEL,
    st.sampled_from(["com", "co.uk"]),
)
SECRETS = st.one_of(
    st.builds(
        "{}{}".format,
        st.sampled_from(["sk-", "sk-proj-", "sk-ant-api03-", "sk-lf-", "pk_live_", "ghp_", "gho_"]),
        MIXED,
    ),
    st.builds(
        "{}{}".format, st.sampled_from(["github_pat_", "glpat-", "xoxb-", "hf_", "npm_", "AIza", "lsv2_pt_"]), MIXED
    ),
    st.builds("AKIA{}".format, CAPITALS),
    st.builds("{}.{}.{}".format, TOKEN, TOKEN, MIXED),
    HEX,
    st.uuids().map(str),
    CARD,
    PHONE,
    DIGITS,
    EMAILS,
    st.just("DE89 3704 0044 0532 0130 00"),
    st.just("-----BEGIN RSA PRIVATE KEY-----\nMIIEow IBAAKC\nAQEA\n-----END RSA PRIVATE KEY-----"),
)
AROUND = st.sampled_from([" ", ", ", ": ", "'", '"', "(", "\n", " for ", "=", "/", "?a=", "и "])


def leftovers(secret: str, text: str) -> list[str]:
    """Pieces of a secret of six signs or more that a text has."""
    pieces = re.findall(r"\w+", secret.removeprefix("github_pat_"))
    return [piece[at : at + 6] for piece in pieces for at in range(len(piece) - 5) if piece[at : at + 6] in text]


@given(SECRETS, AROUND, AROUND)
def test_nothing_of_a_secret_is_left(secret: str, before: str, after: str) -> None:
    text, counts = mask_text(f"Please use{before}{secret}{after} now")
    assert secret not in text
    assert leftovers(secret, text) == []
    assert sum(counts.values()) >= 1
    assert text.startswith("Please use")
    assert text.endswith(" now")


@given(st.lists(st.tuples(SECRETS, st.sampled_from([" and ", ", ", "\n", "; "])), min_size=1, max_size=4))
def test_masks_of_several_secrets_do_not_open_each_other(secrets: list[tuple[str, str]]) -> None:
    text, _ = mask_text("".join(f"{secret}{sign}" for secret, sign in secrets) + "please")
    assert not [each for secret, _ in secrets for each in leftovers(secret, text)]
    assert mask_text(text) == (text, {}), "masks are not masked again"


def test_random_base64_without_a_prefix_is_nearly_always_masked() -> None:
    generator = random.Random(7)
    kept = {32: 0, 44: 0, 64: 0}
    for size in kept:
        for _ in range(2000):
            secret = base64.b64encode(generator.randbytes(size * 3 // 4)).decode()
            kept[size] += mask_text(f"the key {secret} is mine")[0] != f"the key {KEY} is mine"
    # The docstring says one in 600 of 32, and far fewer of longer ones.
    assert kept[32] <= 12
    assert kept[44] <= 5
    assert kept[64] <= 1


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("Authorization: Bearer aB3dE5fG7hJ9", f"Authorization: Bearer {KEY}"),
        ("authorization: basic dXNlcjpwYXNz", f"authorization: basic {KEY}"),
        ("password=hunter22 please", f"password={KEY} please"),
        ("log in with password: swordfish, please", f"log in with password: {KEY}, please"),
        ("passwd=letmein", f"passwd={KEY}"),
        ('{"token": "correct horse battery"}', f'{{"token": "{KEY}"}}'),
        ("API key: opensesame\nthen", f"API key: {KEY}\nthen"),
        ("api_key = opensesame", f"api_key = {KEY}"),
        ("client_secret: hush!", f"client_secret: {KEY}"),
        ("clientSecret: hushhush", f"clientSecret: {KEY}"),
        ("Authorization: opensesame", f"Authorization: {KEY}"),
        ("authorization: Bearer opensesame", f"authorization: Bearer {KEY}"),
        ("password_2: swordfish", f"password_2: {KEY}"),
        ('{"api_key": "zx81zx81"}', f'{{"api_key": "{KEY}"}}'),
        ("open https://bob:pa55@db.example.org/x", f"open https://{KEY}@db.example.org/x"),
        ("mail bob.ohara+x@mail.example.co.uk, then", f"mail {EMAIL}, then"),
        ("see /users/bob%40example.org/files", f"see /users/{EMAIL}/files"),
        ("card 4111 1111 1111 1111 exp 12/27", f"card {NUMBER} exp 12/27"),
        ("call +49 (0)30 1234567 or 06 12 34 56 78", f"call {NUMBER} or {NUMBER}"),
        ("ssn 078-05-1120", f"ssn {NUMBER}"),
        ("konto DE89370400440532013000 bitte", f"konto {NUMBER} bitte"),
        ("order 123456789 and account AC98765432", f"order {NUMBER} and account AC{NUMBER}"),
        ("commit 3f786850e387550fdab836ed7e6dc881de23001b of main", f"commit {KEY} of main"),
    ],
)
def test_what_stands_for_what_was_masked(text: str, wanted: str) -> None:
    assert mask_text(text)[0] == wanted


@pytest.mark.parametrize(
    "text",
    [
        "What will the weather be in 2027, on 2026-11-20 at 10:30, or on 24.12.2026?",
        "Convert 1,250,000.50 EUR to USD; pi is 3.14159265358979",
        "List pull requests #4711 and #4712 of modelcontextprotocol/servers, sorted by updated_at",
        "Bearer securities and basic internationalisation; the token authentication works",
        "Is the password required? The secret of patience; token: optional, password: string",
        "sk-learn-contrib-packages-of-python and ghp and AKIA and eyJ",
        "get_user_account_information_by_identifier or getUserAccountInformationByIdentifierV2Handler",
        "/usr/local/lib/python3/site-packages/transformers/models/bert/modeling_bert_extended",
        "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft",
        "numbers 1 2 3 4 5 6 7 8 9 10 11 12 and 10 20 30 40 50",
        "article 0123-4567, whose digits are one too few",
        "version 1.22.333, port 8080, 192.168.0.1, room 101-B, 50-60 people, 7/8 of it",
        "@everyone: meet me @ the mill, a@b",
        "supercalifragilisticexpialidocious pneumonoultramicroscopicsilicovolcanoconiosis",
        "Москва, 東京都, القاهرة, São Paulo, naïve, 1.000 €",
    ],
)
def test_ordinary_texts_stay_as_they_are(text: str) -> None:
    assert mask_text(text) == (text, {})


@given(
    st.lists(st.from_regex(r"[A-Za-z][a-z]{0,15}", fullmatch=True), max_size=30),
    st.sampled_from([" ", ", ", "_", "-", "/", "\n"]),
)
def test_words_are_never_masked(words: list[str], sign: str) -> None:
    text = sign.join(words)
    # Words that begin like a key, such as `gla-`, are masked on purpose.
    assume(_PREFIXED.search(text) is None)
    assert mask_text(text) == (text, {})


@given(
    st.text(st.characters(categories=["L", "P", "Z", "S"]), max_size=200).filter(
        lambda text: "@" not in text and "://" not in text
    )
)
def test_letters_and_signs_without_digits_are_left(text: str) -> None:
    if not re.search(r"[A-Za-z0-9+/_=-]{12}|[%]", text):
        assert mask_text(text) == (text, {})


@pytest.mark.parametrize(
    "sign",
    [
        "a",
        "1",
        "@",
        "-",
        ".",
        "a.",
        "1 ",
        "eyJ",
        "a@",
        "Bearer ",
        "://a:",
        "sk-",
        "A1 ",
        "-----BEGIN PRIVATE KEY-----",
        "(1",
    ],
)
def test_masks_read_a_long_text_in_linear_time(sign: str) -> None:
    started = time.perf_counter()
    mask_text(sign * (200_000 // len(sign)))
    assert time.perf_counter() - started < 5, "a quadratic expression takes minutes"


@given(st.lists(SECRETS, min_size=4, max_size=4), st.booleans())
def test_no_secret_of_a_log_is_in_its_queries(
    tmp_path_factory: pytest.TempPathFactory, secrets: list[str], keep: bool
) -> None:
    requests, before, search, session = secrets
    call = {"function": {"name": "find", "arguments": json.dumps({"query": f"of {search}"})}}
    messages = [
        {"role": "user", "content": f"I am {before}"},
        {"role": "assistant", "content": f"Hello {before}"},
        {"role": "user", "content": f"look up {requests}"},
        {"role": "assistant", "tool_calls": [call, {"function": {"name": "look", "arguments": "{}"}}]},
    ]
    path = tmp_path_factory.mktemp("log") / "log.jsonl"
    path.write_text(json.dumps({"session_id": f"s {session}", "messages": messages}))
    traffic = read_traffic(path, search_tools=["find"], keep_personal_data=keep)
    traffic.write(path.with_name("q.jsonl"))
    written = path.with_name("q.jsonl").read_text("utf-8")
    (row,) = (json.loads(line) for line in written.splitlines())
    if keep:
        assert row["query"] == f"look up {requests}".strip()
        assert traffic.masked == {}
        return
    ids = {row.pop("id"), row.pop("group")}
    rest = json.dumps(row, ensure_ascii=False)
    assert not [each for secret in secrets for each in leftovers(secret, rest)]
    assert all(re.fullmatch(r"[0-9a-f]{16}", each) for each in ids)
    assert sum(traffic.masked.values()) >= 4
