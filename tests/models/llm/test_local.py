"""A model in a GGUF file: named by its content, refused in a sentence, served by llama.cpp, replayed without it."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kit.gguf import ALPHABET, write_alphabet_model

from bench.base.config import config_context
from bench.base.errors import BenchError, UnavailableError, UsageError
from bench.base.spec import parse
from bench.models.llm import Failure, LanguageModel, Message, Request
from bench.models.llm.local import name_by_content
from bench.registry import build_method
from bench.results.ids import method_hash

served = pytest.mark.skipif(sys.platform == "win32", reason="processes are looked at by their numbers")
Ask = Callable[..., Any]


@pytest.fixture(autouse=True)
def own_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A journal and a cache of the test's own, and no endpoint."""
    for name in ("BENCH_LLM_URL", "OPENAI_BASE_URL", "OPENAI_API_KEY", "BENCH_LLM_CONCURRENCY"):
        monkeypatch.delenv(name, raising=False)
    journal = tmp_path / "journal.jsonl"
    monkeypatch.setenv("BENCH_LLM_JOURNAL", str(journal))
    monkeypatch.setenv("BENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return journal


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model that answers with the alphabet."""
    return write_alphabet_model(tmp_path / "alphabet.gguf")


def digest_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def asked(name: str, text: str = "hello", sample: int = 0) -> Any:
    (answer,) = LanguageModel(name).complete([Request((Message("user", text),), max_tokens=40, sample=sample)])
    return answer


# Names --------------------------------------------------------------------------------------------------------------


def test_a_model_is_named_by_its_content_wherever_it_lies(model: Path, tmp_path: Path) -> None:
    (tmp_path / "else where").mkdir()
    copied = tmp_path / "else where" / "alphabet.gguf"
    copied.write_bytes(model.read_bytes())
    name = f"local:alphabet.gguf@sha256:{digest_of(model)[:12]}"
    assert name_by_content(f"local:{model}") == name
    assert name_by_content(f"local:{copied}") == name
    assert name_by_content(name) == name
    write_alphabet_model(copied, seed=1)
    assert name_by_content(f"local:{copied}") != name


def test_the_name_finds_the_file_until_that_is_another(model: Path) -> None:
    name = name_by_content(f"local:{model}")
    assert LanguageModel(name).identity == f"{name} at sha256:{digest_of(model)}"
    write_alphabet_model(model, seed=1)
    with pytest.raises(UnavailableError, match=r"its file is not here, and the journal .* has no reply from it\."):
        LanguageModel(name).preflight()


def test_other_names_stay(tmp_path: Path) -> None:
    for name in ("rules", "gpt-5", "me/model.gguf", f"local:{tmp_path}", "local:models/mine", ""):
        assert name_by_content(name) == name


@pytest.mark.parametrize("digits", [12, 40, 64])
def test_a_pin_holds(model: Path, digits: int) -> None:
    pinned = f"local:{model}@sha256:{digest_of(model)[:digits].upper()}"
    assert name_by_content(pinned) == name_by_content(f"local:{model}")


def test_another_content_than_the_pinned_is_refused_with_both(model: Path) -> None:
    wrong = "0" * 64
    with pytest.raises(UsageError) as told:
        name_by_content(f"local:{model}@sha256:{wrong}")
    assert str(told.value) == (
        f"{model} has the sha256 {digest_of(model)}, not {wrong}; fetch the file again, or correct the pin."
    )


def test_what_is_no_model_is_refused(tmp_path: Path, model: Path) -> None:
    page = tmp_path / "page.gguf"
    page.write_text("<html>not found</html>")
    part = model.rename(tmp_path / "big-00001-of-00003.gguf")
    for name, said in {
        f"local:{page}": f"{page} is not a GGUF file (it begins with b'<htm'); name a model that llama.cpp can read.",
        f"local:{part}": f"{part} is one part of a model; join the parts with `llama-gguf-split --merge`.",
        f"local:{model}@sha256:abc": f"local:{model}@sha256:abc has 3 digits of a sha256; give 12 to 64.",
        f"local:{model}": f"there is no file {model}; correct the path, or name the model by its sha256, as in "
        "local:alphabet.gguf@sha256:…, to replay a journal without it.",
    }.items():
        with pytest.raises(UsageError) as told:
            name_by_content(name)
        assert str(told.value) == said


def test_a_result_is_the_models_and_not_the_paths(model: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    copied = tmp_path / "other" / model.name
    copied.write_bytes(model.read_bytes())
    name = name_by_content(f"local:{model}")
    spellings = (f"local:{model}", f"local:{copied}", name)
    same = [build_method(parse(f'mcp-zero(llm="{spelling}")')) for spelling in spellings]
    assert len({method_hash(method) for method in same}) == 1
    assert {str(method.spec) for method in same} == {f"mcp-zero(llm={name})"}
    write_alphabet_model(copied, seed=1)
    assert method_hash(build_method(parse(f'mcp-zero(llm="local:{copied}")'))) != method_hash(same[0])


# Serving ------------------------------------------------------------------------------------------------------------


@served
def test_it_answers_the_same_and_its_journal_replays_without_it(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xllamacpp")
    name = name_by_content(f"local:{model}")
    with config_context(offline=True):  # a server on this machine is no network
        first, again = (asked(f"local:{model}", sample=sample) for sample in (0, 1))
        identity = LanguageModel(name).identity
    assert (first.text, first.finish, first.from_journal) == (ALPHABET, "stop", False)
    assert again == first
    too_long = asked(name, "hello " * 100)
    assert isinstance(too_long, Failure)
    assert "exceeds the context length of the model" in too_long.reason
    # Neither the file nor the packages.
    model.unlink()
    for package in ("xllamacpp", "openai"):
        monkeypatch.setitem(sys.modules, package, None)
    replayed = LanguageModel(name)
    replayed.preflight()
    assert replayed.identity == identity
    assert asked(name).text == ALPHABET
    assert asked(name).from_journal
    with pytest.raises(UnavailableError, match=r"lacks 1 of the replies of local:alphabet.* its file is not here"):
        asked(name, "something else")


@served
def test_half_a_file_is_refused_before_anything_is_asked(model: Path) -> None:
    pytest.importorskip("xllamacpp")
    model.write_bytes(model.read_bytes()[:-100_000])
    with pytest.raises(UnavailableError) as told:
        LanguageModel(f"local:{model}").preflight()
    assert str(told.value).startswith(f"llama.cpp cannot load {model}: tensor '")
    assert str(told.value).endswith("data is not within the file bounds, model is corrupted or incomplete.")


@served
def test_a_server_that_was_killed_ends_the_run(model: Path) -> None:
    pytest.importorskip("xllamacpp")
    from bench.models.llm import local

    write_alphabet_model(model, seed=2)  # a server of its own
    name = name_by_content(f"local:{model}")
    assert asked(name).text == ALPHABET
    os.kill(local._SERVERS[digest_of(model)]._process.pid, signal.SIGKILL)
    local._SERVERS[digest_of(model)]._process.wait()
    with pytest.raises(
        BenchError, match=r"llama\.cpp has ended with code -9 while it served .* \(it does not say why\)"
    ):
        asked(name, "more")


@served
def test_the_server_ends_with_the_process_that_started_it(model: Path, process: Ask) -> None:
    pytest.importorskip("xllamacpp")
    program = (
        "import sys; from bench.models.llm import LanguageModel, local; m = LanguageModel(sys.argv[1]); m.preflight(); "
        "print(*(s._process.pid for s in local._SERVERS.values()), flush=True); sys.stdin.read()"
    )
    started = process(program, f"local:{model}")
    server = int(started.stdout.readline())
    started.kill()
    started.wait()
    until = time.monotonic() + 20
    while time.monotonic() < until and _runs(server):
        time.sleep(0.05)
    assert not _runs(server)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # A zombie that nobody waits for has ended, too.
    state = Path(f"/proc/{pid}/stat")
    return not (state.is_file() and state.read_text().rpartition(")")[2].split()[0] == "Z")


def test_without_the_package_the_extra_is_named(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.base.errors.is_installed", lambda module: module != "xllamacpp")
    with pytest.raises(UnavailableError, match=r"needs the package xllamacpp, .*retrieval-bench\[local\]"):
        LanguageModel(f"local:{model}").preflight()
