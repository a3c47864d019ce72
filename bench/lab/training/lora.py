"""Low-rank adapters (LoRA) with peft, and the memory needed for training.

Hu et al. 2022, "LoRA: Low-Rank Adaptation of Large Language Models": the base's weights are fixed, and each linear
layer but the last learns the product of two low-rank matrices, which is added to its weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from bench.base.config import current_session
from bench.base.errors import UnavailableError, UsageError, require
from bench.evaluation.machine import hardware
from bench.models.files import model_folder, quiet_transformers

if TYPE_CHECKING:
    import torch

FrozenPrecision = Literal["float32", "bfloat16"]
#: Bytes per trained parameter: weight, gradient, and the two moments of AdamW, all in float32.
_LEARNT = 16
_FROZEN: dict[FrozenPrecision, int] = {"float32": 4, "bfloat16": 2}


def add_adapters(network: Any, rank: int, seed: int) -> None:
    """Freeze a transformer, and give its linear layers adapters in float32. Initially they add nothing.

    The network is changed in place. The output of the adapters is scaled by 2: alpha is twice the rank.

    Raises:
        UnavailableError: peft is not installed.
    """
    require("peft", what="LoRA (lora_rank)")
    import torch
    from peft import LoraConfig, inject_adapter_in_model

    torch.manual_seed(seed)
    inject_adapter_in_model(LoraConfig(r=rank, lora_alpha=2 * rank, target_modules="all-linear"), network)
    for part in network.parameters():
        if part.requires_grad:
            part.data = part.data.float()


def merged_weights(network: Any) -> dict[str, torch.Tensor]:
    """The weights of a network with adapters under the base's names, with the adapters added.

    They are copies, in the base's precision: training continues on exact weights.
    """
    from peft.tuners.lora import LoraLayer

    adapted: dict[str, Any] = {name: part for name, part in network.named_modules() if isinstance(part, LoraLayer)}
    merged = {}
    for name, tensor in network.state_dict().items():
        layer, _, kind = name.partition(".base_layer.")
        if layer in adapted and kind == "weight":
            added = adapted[layer].get_delta_weight("default")
            merged[f"{layer}.weight"] = (tensor.float() + added.float()).to(tensor.dtype)
        elif ".lora_" not in name:
            merged[name.replace(".base_layer.", ".")] = tensor
    return merged


def check_memory(base: str, rank: int, frozen: FrozenPrecision) -> str:
    """Check that a model can be trained in this machine's memory, from its config: no weights are read.

    Args:
        base: folder or Hub name of a causal model.
        rank: of the adapters; 0 to train all weights.

    Returns:
        The memory needed, in words. Activations and the checkpoint being written are not included.

    Raises:
        UsageError: it needs more memory than this machine, or its accelerator, has.
        UnavailableError: the model does not exist here, its config cannot be read, or peft is not installed.
    """
    learnt, kept = _count_parameters(base, rank)
    needed, memory = learnt * _LEARNT + kept * _FROZEN[frozen], _machine_memory()
    what = f"{learnt:,} learnt parameters with gradients and AdamW's state in float32"
    if kept:
        what += f", {kept:,} frozen ones in {frozen}"
    if memory is not None and needed > memory:
        smaller = "choose a smaller --base"
        if not rank:
            least = _gigabytes(learnt * _FROZEN["bfloat16"])
            smaller = f"set lora_rank=16 and frozen_precision=bfloat16 ({least} and the adapters), or {smaller}"
        elif frozen != "bfloat16":
            smaller = f"set frozen_precision=bfloat16, or {smaller}"
        raise UsageError(
            f"training {base} takes at least {_gigabytes(needed)} ({what}), and this machine has "
            f"{_gigabytes(memory)}; {smaller}."
        )
    return f"training {base} takes at least {_gigabytes(needed)}: {what}"


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:.3g} GB" if size < 1e12 else f"{size / 1e9:,.0f} GB"


def _count_parameters(base: str, rank: int) -> tuple[int, int]:
    """The numbers of trained and of fixed parameters."""
    import torch

    quiet_transformers()
    from transformers import AutoConfig, AutoModelForCausalLM

    # Their types leave some arguments untyped.
    configs: Any = AutoConfig
    models: Any = AutoModelForCausalLM
    # Only the config from the Hub: this machine may have no room for the weights.
    name = str(model_folder(base)) if Path(base).expanduser().is_dir() else base
    try:
        config = configs.from_pretrained(name, local_files_only=current_session().offline, trust_remote_code=False)
        with torch.device("meta"):
            network = models.from_config(config)
    except Exception as error:  # the readers of these files raise many kinds of errors
        folder = model_folder(base)
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UnavailableError(f"{base!r} cannot be loaded from {folder} as a causal model: {first}.") from None
    if rank:
        add_adapters(network, rank, 0)
    learnt = sum(part.numel() for part in network.parameters() if part.requires_grad)
    return learnt, sum(part.numel() for part in network.parameters()) - learnt


def _machine_memory() -> int | None:
    """Bytes of the accelerator's memory, or of this machine's; None if the system does not say."""
    import torch

    if torch.cuda.is_available():
        return int(torch.cuda.get_device_properties(0).total_memory)
    mebibytes = hardware().get("memory_mib")
    return None if mebibytes is None else int(mebibytes) << 20
