"""A model runs no code of its own: what its settings ask for is refused by name, before anything is loaded."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.base.errors import UsageError
from bench.methods.late_interaction.tokenvectors import TokenEncoder
from bench.models.causal import load_causal
from bench.models.classifiers import SequenceModel
from bench.models.encoders import Encoder

#: A file of settings, what is put into it, and the key that the sentence names.
ASKING: list[tuple[str, Any, str]] = [
    ("modules.json", [{"idx": 0, "name": "0", "path": "", "type": "own.Evil"}], "type"),
    ("modules.json", [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformersx.Evil"}], "type"),
    ("modules.json", [{"idx": 0, "name": "0", "path": "", "type": "someone/repository--own.Evil"}], "type"),
    ("config.json", {"auto_map": {"AutoModel": "own.Evil"}}, "auto_map"),
    ("config.json", {"text_config": {"auto_map": {"AutoConfig": "own.Evil"}}}, "auto_map"),
    ("config.json", {"trust_remote_code": True}, "trust_remote_code"),
    ("config.json", {"attn_implementation": "someone/kernel"}, "attn_implementation"),
    ("config.json", {"sentence_transformers": {"activation_fn": "own.Evil"}}, "activation_fn"),
    ("config_sentence_transformers.json", {"auto_map": {"a": "own.Evil"}}, "auto_map"),
    ("sentence_bert_config.json", {"model_args": {"trust_remote_code": True}}, "trust_remote_code"),
    ("tokenizer_config.json", {"auto_map": {"AutoTokenizer": ["own.Evil", None]}}, "auto_map"),
    ("preprocessor_config.json", {"auto_map": {"AutoProcessor": "own.Evil"}}, "auto_map"),
    ("router_config.json", {"types": {"query": "own.Evil"}}, "types"),
    ("0_WordEmbeddings/wordembedding_config.json", {"tokenizer_class": "own.Evil"}, "tokenizer_class"),
    ("2_Dense/config.json", {"activation_function": "own.Evil"}, "activation_function"),
    ("2_Router/0_Router/router_config.json", {"types": {"query": "own.Evil"}}, "types"),
]
HARMLESS: list[tuple[str, Any]] = [
    ("2_Dense/config.json", {"activation_function": "torch.nn.modules.activation.Tanh"}),
    ("config.json", {"auto_map": {}, "trust_remote_code": False, "attn_implementation": "sdpa", "type": "a"}),
    ("vocab.json", {"auto_map": 7, "trust_remote_code": 8}),
    ("notes.json", "no settings"),
]


def put(folder: Path, name: str, content: Any) -> str:
    """Merge content into a file of settings of a model that runs code if it is loaded; gives the model's name."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**before, **content} if isinstance(content, dict) else content))
    (folder / "own.py").write_text("raise SystemExit('the code of a model was run')\nclass Evil: pass\n")
    return str(folder)


@pytest.fixture
def folder(tiny_models: dict[str, str], tmp_path: Path) -> Path:
    """The folder of an encoder, to be changed."""
    return Path(shutil.copytree(tiny_models["encoder"], tmp_path / "model"))


@pytest.mark.parametrize(("name", "content", "key"), ASKING)
def test_settings_that_ask_for_code_are_refused_by_file_and_key(
    folder: Path, name: str, content: Any, key: str
) -> None:
    model = Encoder(put(folder, name, content))
    with pytest.raises(UsageError, match=f"{name} requests custom code .{key}: "):
        model.encode(["a text"])


@pytest.mark.parametrize(("name", "content"), HARMLESS)
def test_other_settings_are_not(folder: Path, name: str, content: Any) -> None:
    assert Encoder(put(folder, name, content)).revision


@pytest.mark.parametrize(
    "load",
    [
        lambda name: Encoder(name).preflight(),
        lambda name: SequenceModel(name).logits([("a", "b")]),
        lambda name: TokenEncoder(name).encode(["a text"]),
        load_causal,
    ],
    ids=["encoder", "classifier", "tokens", "causal"],
)
def test_every_door_refuses_them(folder: Path, load: Any) -> None:
    with pytest.raises(UsageError, match="auto_map"):
        load(put(folder, "config.json", {"auto_map": {"AutoModel": "own.Evil"}}))


def test_a_model_in_the_cache_of_the_hub_is_no_exception(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, "modules.json", [{"idx": 0, "name": "0", "path": "", "type": "own.Evil"}])
    cached = tmp_path / "hub" / "models--someone--model"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text("0" * 40)
    shutil.copytree(folder, cached / "snapshots" / ("0" * 40))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(UsageError, match=r"modules\.json requests custom code"):
        Encoder("someone/model").encode(["a text"])


class Runs:
    """A pickle of it runs a command."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return os.system, (self.command,)


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
def test_of_pickled_weights_tensors_alone_are_read(folder: Path, tmp_path: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps({"weight": Runs(f"touch {tmp_path / 'was-run'}")}))
    with pytest.raises(UsageError, match="a pickle of more than tensors"):
        Encoder(str(folder)).encode(["a text"])
    assert not (tmp_path / "was-run").exists()
