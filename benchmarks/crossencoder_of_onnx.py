"""A cross-encoder that is stored as a dynamically quantised ONNX graph, as a transformers folder that can be trained.

    pip install onnx onnxruntime
    python benchmarks/crossencoder_of_onnx.py FOLDER OUT [--dataset toollens-unseen]

FOLDER has `model.onnx` (a BERT with one output, quantised to 8 bits by onnxruntime) and its tokenizer's files. The
weights in OUT are the quantised ones times their scales: what the quantisation has rounded off stays lost. onnxruntime
also rounds the activations, which the converted model does not; so their logits differ a little. The script prints by
how much, over 200 pairs of a dataset's dev queries (or of its first ones) and its tools.
"""

from __future__ import annotations

import argparse
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import numpy_helper
from scipy.stats import kendalltau
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification

from bench.registry import load_dataset

_PAIRS, _LISTS = 200, 20


def weights(model: Any) -> dict[str, NDArray[np.float32]]:
    """The graph's weights as float32, by the names that transformers gives them."""
    held = {part.name: numpy_helper.to_array(part) for part in model.graph.initializer}

    def dequantised(name: str) -> NDArray[np.float32]:
        zero, scale = held[f"{name}_zero_point"], held[f"{name}_scale"]
        whole: NDArray[np.float32] = (held[f"{name}_quantized"].astype(np.float32) - zero.astype(np.float32)) * scale
        return whole.astype(np.float32)

    found = {name: value for name, value in held.items() if name.startswith(("bert.", "classifier."))}
    found = {
        name: value
        for name, value in found.items()
        if value.dtype == np.float32 and value.ndim and not name.endswith("_scale")
    }
    for node in model.graph.node:
        stored = str(node.input[1]).removesuffix("_quantized") if node.op_type == "MatMulInteger" else ""
        if stored:
            # /bert/encoder/layer.0/attention/self/query/MatMul_quant, and Gemm_MatMul_quant where there is a bias.
            name = re.sub(r"/(Gemm_)?MatMul_quant$", "", node.name).strip("/").replace("/", ".")
            # (inputs, outputs) there, (outputs, inputs) in torch.
            found[f"{name}.weight"] = np.ascontiguousarray(dequantised(stored).T)
    for name in held:
        if name.startswith("bert.embeddings.") and name.endswith("_quantized"):
            found[name.removesuffix("_quantized")] = dequantised(name.removesuffix("_quantized"))
    return found


def convert(folder: Path, out: Path) -> BertForSequenceClassification:
    """Write OUT; every weight of the network must be in the graph, in its shape, and the reverse."""
    found = weights(onnx.load(str(folder / "model.onnx")))
    words, width = found["bert.embeddings.word_embeddings.weight"].shape
    layers = {int(place) for name in found for place in re.findall(r"layer\.(\d+)\.", name)}
    config = BertConfig(
        vocab_size=words,
        hidden_size=width,
        num_hidden_layers=len(layers),
        # The graph has it in shapes only; all MiniLM have heads of 32.
        num_attention_heads=width // 32,
        intermediate_size=len(found["bert.encoder.layer.0.intermediate.dense.bias"]),
        max_position_embeddings=len(found["bert.embeddings.position_embeddings.weight"]),
    )
    config.num_labels = 1
    network = BertForSequenceClassification(config)
    network.load_state_dict({name: torch.from_numpy(value.copy()) for name, value in found.items()}, strict=True)
    network.eval().save_pretrained(str(out))
    for path in folder.iterdir():
        if path.name in {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"}:
            shutil.copyfile(path, out / path.name)
    return network


def compare(folder: Path, network: BertForSequenceClassification, pairs: list[tuple[str, str]]) -> None:
    """Print how the logits of the two agree; consecutive pairs of one query are a list."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    theirs, ours = [], []
    for query, tool in pairs:
        given = tokenizer(query, tool, truncation=True, max_length=128, return_tensors="np")
        arrays = {name: np.asarray(given[name], dtype=np.int64) for name in given}
        theirs.append(float(session.run(None, arrays)[0][0, 0]))
        with torch.inference_mode():
            ours.append(
                float(network(**{name: torch.from_numpy(value) for name, value in arrays.items()}).logits[0, 0])
            )
    left, right = np.array(theirs), np.array(ours)
    lists = range(0, len(pairs), len(pairs) // _LISTS)
    step = lists.step
    agreement = [kendalltau(left[i : i + step], right[i : i + step]).statistic for i in lists]
    same = [left[i : i + step].argmax() == right[i : i + step].argmax() for i in lists]
    differences = np.abs(left - right)
    print(
        f"{len(pairs)} pairs: Pearson correlation {np.corrcoef(left, right)[0, 1]:.4f}; differences of logits: mean "
        f"{differences.mean():.3f}, maximum {differences.max():.3f}, of a range of {np.ptp(left):.1f}; within a query "
        f"Kendall's tau {np.mean(agreement):.3f}, the same first tool for {sum(same)} of {len(same)} queries"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--dataset", default="toollens-unseen")
    given = parser.parse_args()
    network = convert(given.folder, given.out)
    dataset = load_dataset(given.dataset)
    rows = dataset.rows("dev")[:_LISTS]
    random = np.random.default_rng(0)
    pairs = []
    for row in rows:
        gold = dataset.gold.row(int(row)).tolist()
        others = np.setdiff1d(np.arange(len(dataset.tools)), gold)
        tools = [*gold, *random.choice(others, _PAIRS // _LISTS - len(gold), replace=False).tolist()]
        pairs += [(dataset.queries[int(row)].text, dataset.tools[tool].text(dataset.card.template)) for tool in tools]
    compare(given.folder, network, pairs)


if __name__ == "__main__":
    main()
