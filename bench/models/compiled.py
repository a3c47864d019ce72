"""Transformers compiled by OpenVINO for this processor, in float32 or, faster and less precise, in bfloat16."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bench.base.errors import UnavailableError

#: Backends: torch; OpenVINO in float32; OpenVINO in bfloat16. They differ in the last digits.
Backend = Literal["torch", "openvino", "openvino-bf16"]

#: From this many texts on, encoding takes so long that another backend is offered.
_MANY = 1000

#: The matrices of a batch (`input_ids`, `attention_mask`, ...) -> the first output of the model.
Run = Callable[[dict[str, NDArray[np.int64]]], NDArray[np.float32]]


def require_backend(backend: Backend) -> None:
    """Report now what would stop the work later.

    Raises:
        UnavailableError: the backend's package is not installed.
    """
    if backend != "torch" and _openvino() is None:
        raise UnavailableError(f"backend={backend} needs the package openvino; install it with `pip install openvino`.")


def offer_backend(encoded: int, processor: Path = Path("/proc/cpuinfo")) -> str | None:
    """What another backend would change, after torch has encoded so many texts or pairs; None if it is of no use.

    Args:
        encoded: number of texts or pairs.
        processor: the system's description of the processor: it must compute in bfloat16.
    """
    torch = sys.modules.get("torch")
    if encoded < _MANY or _openvino() is None or torch is None or torch.cuda.is_available():
        return None
    if not processor.exists() or not re.search(r"\b(avx512_|amx_)?bf16\b", processor.read_text("utf-8", "replace")):
        return None
    return (
        f"torch encoded {encoded} texts; `backend=openvino-bf16` takes about half the time on this processor. It "
        "changes cosines by up to about 0.0025, so close tools may swap places, and results get other ids."
    )


def computed_by(revision: str, backend: Backend) -> str:
    """The revision of a model, with the backend if it is not torch."""
    return revision if backend == "torch" else f"{revision} {backend} {_openvino()}"


def compile_model(tokenizer: Any, model: Any, backend: Backend) -> Run:
    """A transformer compiled for this processor, for batches of any length."""
    import openvino

    # Pairs and texts give the same matrices.
    example = dict(tokenizer(["one text", "another text"], return_tensors="pt", padding=True))
    with warnings.catch_warnings():
        # Tracing warns about values that depend on text lengths; OpenVINO reads these from the traced code.
        warnings.simplefilter("ignore")
        converted = openvino.convert_model(model, example_input=example)
    precision = "f32" if backend == "openvino" else "bf16"
    network = openvino.Core().compile_model(converted, "CPU", {"INFERENCE_PRECISION_HINT": precision})

    def run(arrays: dict[str, NDArray[np.int64]]) -> NDArray[np.float32]:
        return np.asarray(network({name: arrays[name] for name in example})[0], dtype=np.float32)

    return run


def _openvino() -> str | None:
    try:
        return version("openvino")
    except PackageNotFoundError:
        return None
