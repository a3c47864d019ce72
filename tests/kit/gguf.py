"""A tiny model in a GGUF file, which says the alphabet: its answer to anything is known without running it.

One layer of zeros leaves the embedding of the last token as it is; embeddings are unit vectors, and the output matrix
leads from each token to the next. A line end leads to `a`, and `z` to the end of the text. The format is that of
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, version 3.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

ALPHABET = "abcdefghijklmnopqrstuvwxyz"
#: <unk>, <s>, </s>, and a token for each byte.
_TOKENS = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
_WIDTH = 288  # the next multiple of 32
_ALIGNED = 32
_UINT32, _FLOAT32, _BOOL, _STRING, _ARRAY = 4, 6, 7, 8, 9
_CODES = {_UINT32: "<I", _FLOAT32: "<f", _BOOL: "<?"}


def write_alphabet_model(path: Path, context: int = 256, seed: int = 0) -> Path:
    """Write the model.

    Args:
        path: of the file.
        context: the most tokens of a prompt with its reply.
        seed: changes the content of the file, and nothing else.
    """
    vectors = np.eye(len(_TOKENS), _WIDTH, dtype=np.float32)
    after = {"\n": "a", **dict(pairwise(ALPHABET))}
    output = np.zeros_like(vectors)
    for one, following in after.items():
        output[3 + ord(following)] += vectors[3 + ord(one)]
    output[2] = vectors[3 + ord("z")]
    square, wide = np.zeros((_WIDTH, _WIDTH), np.float32), np.zeros((_ALIGNED, _WIDTH), np.float32)
    tensors = {
        "token_embd.weight": vectors,
        "output_norm.weight": np.ones(_WIDTH, np.float32),
        "output.weight": output,
        **{f"blk.0.{part}.weight": np.ones(_WIDTH, np.float32) for part in ("attn_norm", "ffn_norm")},
        **{f"blk.0.attn_{part}.weight": square for part in ("q", "k", "v", "output")},
        **{f"blk.0.ffn_{part}.weight": wide for part in ("gate", "up")},
        "blk.0.ffn_down.weight": wide.T.copy(),
    }
    pairs: dict[str, tuple[int, Any]] = {
        "general.architecture": (_STRING, "llama"),
        "general.name": (_STRING, f"alphabet {seed}"),
        "llama.context_length": (_UINT32, context),
        "llama.embedding_length": (_UINT32, _WIDTH),
        "llama.block_count": (_UINT32, 1),
        "llama.feed_forward_length": (_UINT32, _ALIGNED),
        "llama.attention.head_count": (_UINT32, 9),
        "llama.attention.layer_norm_rms_epsilon": (_FLOAT32, 1e-5),
        "tokenizer.ggml.model": (_STRING, "llama"),
        "tokenizer.ggml.tokens": (_ARRAY, (_STRING, _TOKENS)),
        "tokenizer.ggml.scores": (_ARRAY, (_FLOAT32, [0.0] * len(_TOKENS))),
        # 2: unknown, 3: control, 6: byte.
        "tokenizer.ggml.token_type": (_ARRAY, (5, [2, 3, 3, *[6] * 256])),
        "tokenizer.ggml.bos_token_id": (_UINT32, 1),
        "tokenizer.ggml.eos_token_id": (_UINT32, 2),
        "tokenizer.ggml.add_space_prefix": (_BOOL, False),
        "tokenizer.chat_template": (_STRING, "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"),
    }
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(pairs))
    for key, (kind, value) in pairs.items():
        head += _text(key) + struct.pack("<I", kind) + _value(kind, value)
    data = b""
    for name, tensor in tensors.items():
        # Kind 0 is float32; the dimension that runs fastest comes first.
        shape = tensor.shape[::-1]
        head += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, len(data))
        data += _padded(tensor.tobytes())
    path.write_bytes(_padded(head) + data)
    return path


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(kind: int, value: Any) -> bytes:
    if kind == _STRING:
        return _text(value)
    if kind == _ARRAY:
        inner, items = value
        return struct.pack("<IQ", inner, len(items)) + b"".join(_value(inner, item) for item in items)
    return struct.pack(_CODES.get(kind, "<i"), value)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % _ALIGNED)
