"""Keys that bench was given appear in nothing that it writes or prints."""

from __future__ import annotations

import html
import json
import pwd
import re
from base64 import b64encode, urlsafe_b64encode
from pathlib import Path
from urllib.parse import quote, urlencode

import pytest

from bench.__main__ import run
from bench.base import secrets
from bench.base.errors import StorageError
from bench.base.paths import data_folder
from bench.base.secrets import keep, mask, mask_bytes, mask_json, mask_so_far
from bench.remote.answers import Unusable
from bench.remote.servers import servers_in


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """No keys of other tests."""
    monkeypatch.setattr(secrets, "_kept", set())


def test_a_key_is_masked_wherever_it_stands() -> None:
    keep("sk-12345678")
    keep("sk-12345678-and-more")
    assert mask("a sk-12345678-and-more b sk-12345678") == "a [the key] b [the key]"
    assert mask_bytes(b"\xff sk-12345678") == b"\xff [the key]"
    value = {"sk-12345678": ["x", {"y": "is sk-12345678"}, 1, None, True]}
    assert mask_json(value) == {"[the key]": ["x", {"y": "is [the key]"}, 1, None, True]}
    assert str(Unusable("it said sk-12345678")) == "it said [the key]"


@pytest.mark.parametrize("secret", ["sk-12345678", 'a/b+c"d\\é&12==', "pass word 123"])
def test_a_key_is_masked_however_it_is_written(secret: str) -> None:
    # A line end in the environment is no part of it.
    keep(secret + "\n")
    quoted = quote(secret, safe="")
    forms = [secret, json.dumps(secret), json.dumps(secret, ensure_ascii=False), html.escape(secret), quoted]
    forms += [re.sub("%..", lambda item: item[0].lower(), quoted), urlencode({"q": secret})]
    forms += [b64encode(f"{user}:{secret}{end}".encode()).decode() for user in ("a", "bc", "def") for end in ("", "|x")]
    forms += [urlsafe_b64encode(f"{user}:{secret}".encode()).decode() for user in ("a", "bc", "def")]
    for form in forms:
        assert "[the key]" in mask(f"said {form} at last"), form
        assert secret not in mask(form)
        assert b"[the key]" in mask_bytes(form.encode())


def test_keys_in_the_environment_are_known_without_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BENCH_LLM_KEY", " sk-12345678\n")
    assert mask("a sk-12345678 b") == "a [the key] b"
    monkeypatch.setenv("OPENAI_API_KEY", "sk-\udcff12345678")
    assert mask_bytes(b"a sk-12345678 \xff") == b"a [the key] \xff"


@pytest.mark.parametrize("read", range(1, 2 * len("sk-12345678")))
def test_of_a_text_that_is_still_read_no_part_of_a_key_is_left_at_the_end(read: int) -> None:
    keep("sk-12345678")
    said = mask_so_far(f"it said {('sk-12345678' * 2)[:read]}")
    assert not any(part in said for part in ("sk-1", "1234", "5678"))
    assert said.startswith("it said ")
    assert mask_so_far("it said sk-12345678, and more") == "it said [the key], and more"


def test_placeholders_are_no_keys() -> None:
    for word in ("", "none", "EMPTY"):
        keep(word)
    assert mask("none of it is EMPTY") == "none of it is EMPTY"


def test_keys_of_a_configuration_of_servers_are_known(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    remote = {"url": "http://localhost/mcp", "headers": {"Authorization": "Bearer abcdefgh12", "X-Place": "somewhere"}}
    local = {"command": "python", "env": {"GITHUB_TOKEN": "ghp_1234567", "LANG": "en_GB.UTF-8"}}
    file.write_text(json.dumps({"mcpServers": {"a": remote, "b": local}}))
    servers_in(file, print)
    said = "abcdefgh12 ghp_1234567 somewhere en_GB.UTF-8"
    assert mask(said) == "[the key] [the key] somewhere en_GB.UTF-8"


def test_a_user_without_a_home_folder_is_told_so_with_a_key_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.setenv("ANY_KEY", "key of a user without a home")
    for name in ("HOME", "BENCH_DATA"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(StorageError, match="no home folder; name a place in BENCH_DATA"):
        data_folder()


def test_a_message_never_holds_a_key(capsys: pytest.CaptureFixture[str]) -> None:
    keep("sk-12345678")
    assert run(["run", "-m", "sk-12345678", "-d", "starter"]) == 2
    assert run(["show", "sk-12345678"]) == 2
    assert run(["sk-12345678"]) == 2
    said = capsys.readouterr()
    assert "sk-12345678" not in said.err + said.out
