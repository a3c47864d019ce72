"""A language model in a GGUF file on this machine: its name, and the llama.cpp server that runs it.

`local:FILE.gguf` is named by the file's name and the sha256 of its content, wherever it is:
`local:FILE.gguf@sha256:DIGITS`. Specs, journals and results contain this name, which also specifies the model: the
digits pin the content, and the file is found where it was last used. GGUF is the format of llama.cpp
(https://github.com/ggml-org/ggml/blob/master/docs/gguf.md).

The server is a separate process (this module, run as a program), because llama.cpp exits if it cannot handle a file or
a prompt. It listens on loopback, requires a generated key, and ends with the process that started it.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import secrets
import subprocess
import sys
import tempfile
import threading
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator

from bench.base.errors import UnavailableError, UsageError, require
from bench.base.paths import cache_folder, remembered_sha256, write_text
from bench.base.text import one_line
from bench.models.llm.completion import ChatTransport
from bench.models.llm.settings import EndpointSettings, chat_settings

_NAMED = re.compile(r"local:(?P<file>.+\.gguf)(@sha256:(?P<pin>[0-9a-f]+))?", re.IGNORECASE | re.DOTALL)
_PART = re.compile(r"-\d{5}-of-\d{5}\.gguf$", re.IGNORECASE)
#: Hexadecimal digits of the sha256 in a name, and their minimum in a pin.
_DIGITS = 12
#: Tokens of prompts and replies in flight; fewer if the model supports fewer.
_CONTEXT = 16384
#: Seconds for one reply: a small computer with shared cores may take minutes for a long prompt.
_TIMEOUT = 3600.0
_READY = "listening at "


def is_file_model(name: str) -> bool:
    """Whether a name is that of a model in a GGUF file."""
    return _NAMED.fullmatch(name) is not None


def name_by_content(name: str) -> str:
    """The name of a model by its content, if it is in a GGUF file; any other name unchanged.

    The file may be missing if its sha256 is pinned: the journal may have all replies.

    Raises:
        UsageError: the file does not exist, is not GGUF, is one of several parts, or has another sha256.
    """
    named = _NAMED.fullmatch(name)
    if named is None:
        return name
    path, pin = Path(named["file"]).expanduser(), (named["pin"] or "").lower()
    if named["pin"] is not None and not _DIGITS <= len(pin) <= 64:
        raise UsageError(f"{name} has {len(pin)} digits of a sha256; give {_DIGITS} to 64.")
    digits = pin[:_DIGITS]
    if path.is_file():
        digits = _checked_sha256(path, pin)[:_DIGITS]
        write_text(_note(digits), json.dumps(str(path.absolute())))
    elif not pin:
        raise UsageError(
            f"there is no file {path}; correct the path, or name the model by its sha256, as in "
            f"local:{path.name}@sha256:…, to replay a journal without it."
        )
    return f"local:{path.name}@sha256:{digits}"


def short_name(name: str) -> str:
    """The name of a model for readers: of a model file, its name without folder, ending and checksum."""
    named = _NAMED.fullmatch(name)
    return name if named is None else Path(named["file"]).stem


#: A language model as parameters name it.
ModelName = Annotated[str, AfterValidator(name_by_content)]


def _checked_sha256(path: Path, pin: str) -> str:
    with path.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        raise UsageError(f"{path} is not a GGUF file (it begins with {magic!r}); name a model that llama.cpp can read.")
    if _PART.search(path.name):
        raise UsageError(f"{path} is one part of a model; join the parts with `llama-gguf-split --merge`.")
    digest = remembered_sha256(path)
    if not digest.startswith(pin):
        raise UsageError(f"{path} has the sha256 {digest}, not {pin}; fetch the file again, or correct the pin.")
    return digest


def _note(digits: str) -> Path:
    """The record of the file in which a model was last found."""
    return cache_folder() / "gguf" / digits


def _find_file(name: str) -> tuple[Path, str] | None:
    """File and sha256 of a model named by its content; None if it is no longer here."""
    digits = name[-_DIGITS:]
    note = _note(digits)
    path = Path(json.loads(note.read_text("utf-8"))) if note.is_file() else None
    digest = remembered_sha256(path) if path is not None and path.is_file() else ""
    return (path, digest) if path is not None and digest.startswith(digits) else None


def file_settings(name: str) -> EndpointSettings:
    """Settings for a model named by its content; `named` says whether its file is here.

    The endpoint is recorded as the whole sha256, because the address changes each time.
    """
    settings, found = chat_settings(), _find_file(name)
    return replace(
        settings,
        url=f"sha256:{found[1]}" if found else "",
        key="",
        named=found is not None,
        price=None,
        limit=None,
        # Replies made together differ in the last bits of sums from those made alone, and so in words.
        concurrency=settings.concurrency if os.environ.get("BENCH_LLM_CONCURRENCY", "").strip() else 1,
        timeout=settings.timeout if os.environ.get("BENCH_LLM_TIMEOUT", "").strip() else _TIMEOUT,
    )


class FileTransport(ChatTransport):
    """Calls the server of a file, which starts with the first call; one per process, however many use it."""

    def __init__(self, name: str, settings: EndpointSettings) -> None:
        super().__init__(settings)
        self._name = name
        self._server: _Server | None = None

    def start(self) -> None:
        """Start the server, if it is not running.

        Raises:
            UnavailableError: a package is not installed, the file is missing, llama.cpp cannot load it, or its
                process has ended.
        """
        require("openai", "xllamacpp", what=f"the language model {self._name}")
        found = _find_file(self._name)
        if found is None:
            raise UnavailableError(f"the file of {self._name} is not here any more; name it with its folder.")
        with _STARTING:
            server = self._server = _SERVERS.get(found[1]) or _Server(found[0], self._settings.concurrency)
            _SERVERS[found[1]] = server
        self._settings = replace(self._settings, url=server.url, key=server.key)

    def _try(self, send: Any) -> Any:
        if self._server is None:
            self.start()
        assert self._server is not None
        self._server.check()
        return super()._try(send)


class _Server:
    """A process in which llama.cpp serves a file.

    Attributes:
        url, key: for its clients.
    """

    def __init__(self, path: Path, slots: int) -> None:
        self._path = path
        self.key = secrets.token_hex()
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        # In its own session: Ctrl-C is for the parent, and the server ends when its input does.
        self._process = subprocess.Popen(
            # Named by the function, so that its code and its package count as the method's.
            [sys.executable, "-m", _serve.__module__, str(path.absolute()), str(slots)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
            start_new_session=True,
        )
        atexit.register(self._stop)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(f"{self.key}\n".encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        said = self._process.stdout.readline().decode(errors="replace")
        if not said.startswith(_READY):
            self._stop()
            raise UnavailableError(f"llama.cpp cannot load {path}: {self._reason()}.")
        self.url = said.removeprefix(_READY).strip() + "/v1"

    def check(self) -> None:
        """Raises `UnavailableError` if the process has ended."""
        code = self._process.poll()
        if code is not None:
            raise UnavailableError(
                f"llama.cpp has ended with code {code} while it served {self._path} ({self._reason()}); what was "
                "answered is kept, and the same command continues."
            )

    def _reason(self) -> str:
        """llama.cpp's description of the problem, on one line."""
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines()
        # Python warns that a module of a package is run; that is not the reason.
        lines = [line for line in lines if "RuntimeWarning: " not in line] or ["it does not say why"]
        told = [line for line in lines if "error loading model: " in line] or lines[-1:]
        return one_line(told[0].rpartition("error loading model: ")[2].strip(" ."), 300)

    def _stop(self) -> None:
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


_STARTING = threading.Lock()
#: By the sha256 of the file.
_SERVERS: dict[str, _Server] = {}


def _serve(path: str, slots: int) -> None:
    """Serve a file until the input ends; its first line is the key for clients."""
    import xllamacpp

    asked = xllamacpp.CommonParams()
    asked.model.path, asked.model_alias = path, {Path(path).name}
    asked.hostnames, asked.port, asked.api_keys = ["127.0.0.1"], 0, [sys.stdin.readline().strip()]
    asked.n_ctx, asked.n_parallel, asked.kv_unified = _CONTEXT, slots, True
    # As other numeric libraries understand it; by default llama.cpp takes all cores.
    threads = os.environ.get("OMP_NUM_THREADS", "")
    if threads.isdecimal():
        asked.cpuparams.n_threads = asked.cpuparams_batch.n_threads = int(threads)
    asked.use_jinja = True
    # No web pages, no fitting to GPU memory, no gigabytes of old prompts; log errors only.
    asked.ui = asked.endpoint_slots = asked.fit_params = False
    asked.cache_ram_mib, asked.verbosity = 0, 1
    server = xllamacpp.Server(asked)
    print(f"{_READY}{server.listening_address}", flush=True)  # noqa: T201 - for the process that started it
    sys.stdin.read()
    os._exit(0)  # without waiting for a reply in flight


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]))
