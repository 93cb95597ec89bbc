"""LoRA adapters: merged as PEFT merges them, each key honoured or refused, and part of the model's version."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers as tr
from adapter_files import write_adapter
from checkpoints import VOCAB, write_checkpoint, write_sentence_modules
from decoders import DECODERS, write_decoder
from peft import PeftModel
from safetensors.torch import load_file, save_file
from sparse_encoders import write_splade

from fastqps import Engine
from fastqps.cli import main
from fastqps.models import ModelCard, ModelError, load_card

pytestmark = [pytest.mark.compute, pytest.mark.filterwarnings("ignore::UserWarning")]
ITEMS = [[1, 5, 9, 30], [2, 7], [11] * 12]


def merged(path: Path, auto: Any, base: Path, adapter: Path, **options: Any) -> str:
    """The folder of the model that PEFT makes of base and adapter."""
    found = PeftModel.from_pretrained(auto.from_pretrained(base, **options), adapter).merge_and_unload()
    found.save_pretrained(path)
    return str(path)


ENCODERS: list[tuple[str, dict[str, Any]]] = [
    ("bert", {"target_modules": "all-linear"}),
    ("bert", {"target_modules": ["query", "word_embeddings"], "use_rslora": True}),
    ("roberta", {"target_modules": r".*\.(query|value)", "lora_alpha": 3, "bias": "none"}),
    ("distilbert", {"target_modules": ["q_lin", "lin1"], "layers_to_transform": [0, 2], "layers_pattern": "layer"}),
    ("albert", {"target_modules": ["query", "ffn"], "exclude_modules": r".*groups\.1\..*"}),
    ("electra", {"target_modules": ["dense", "embeddings_project"], "rank_pattern": {"intermediate.dense": 2}}),
    ("mpnet", {"target_modules": ["attn.q", "o"], "alpha_pattern": {r"layer\.[01]\..*q": 9, "^encoder.*o": 1}}),
    (
        "modernbert",
        {
            "target_modules": ["Wqkv", "Wo"],
            "layers_to_transform": 1,
            "layers_pattern": "layers",
            "modules_to_save": ["norm"],
        },
    ),
]


@pytest.mark.parametrize(("family", "options"), ENCODERS, ids=lambda value: value if isinstance(value, str) else "")
def test_an_encoder_answers_as_what_peft_merges(tmp_path: Path, family: str, options: dict[str, Any]) -> None:
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    write_adapter(adapter, write_checkpoint(base, family), **options)
    expected = Engine(merged(tmp_path / "merged", tr.AutoModel, base, adapter), dtype="float32").predict(ITEMS)
    engine = Engine(str(base), dtype="float32", adapter=str(adapter))
    np.testing.assert_allclose(engine.predict(ITEMS), expected, atol=2e-5)
    plain = Engine(str(base), dtype="float32")
    assert np.abs(np.stack(plain.predict(ITEMS)) - np.stack(expected)).max() > 1e-3, "it changes something"
    assert engine.card.version != plain.card.version and ModelCard.from_json(engine.card.to_json()) == engine.card


@pytest.mark.parametrize("family", ["bert", "roberta"])
@pytest.mark.parametrize("labels", [1, 3])
def test_an_adapter_makes_a_classifier(tmp_path: Path, family: str, labels: int) -> None:
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    write_checkpoint(base, family)
    tuned = tr.AutoModelForSequenceClassification.from_pretrained(base, num_labels=labels)
    write_adapter(adapter, tuned, task_type="SEQ_CLS", target_modules=["query", "value"])
    auto = tr.AutoModelForSequenceClassification
    expected = Engine(merged(tmp_path / "merged", auto, base, adapter, num_labels=labels), dtype="float32")
    engine = Engine(str(base), dtype="float32", adapter=str(adapter))
    assert engine.card.task == "classify" and engine.card.labels == expected.card.labels
    assert engine.card.activation == expected.card.activation and len(engine.card.labels) == labels
    for found, wanted in zip(engine.predict(ITEMS), expected.predict(ITEMS), strict=True):
        assert dict(found) == pytest.approx(dict(wanted), abs=1e-5)


_LLAMAS = ["q_proj", "v_proj", "o_proj", "up_proj", "down_proj", "lm_head"]


@pytest.mark.parametrize(
    ("kind", "targets"),
    [
        ("llama", _LLAMAS),
        ("qwen3-biased", _LLAMAS),
        ("gpt2", ["c_attn", "c_proj", "c_fc"]),
        ("gpt_neox", ["query_key_value", "dense", "embed_out"]),
    ],
)
def test_a_decoder_generates_as_what_peft_merges(tmp_path: Path, kind: str, targets: list[str]) -> None:
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    write_adapter(adapter, write_decoder(base, kind), task_type="CAUSAL_LM", target_modules=targets)
    limits: dict[str, Any] = {"dtype": "float32", "max_output_tokens": 12}
    expected = Engine(merged(tmp_path / "merged", tr.AutoModelForCausalLM, base, adapter), **limits)
    found = Engine(str(base), **limits, adapter=str(adapter)).generate(ITEMS, max_tokens=12, logprobs=True)
    for one, other in zip(found, expected.generate(ITEMS, max_tokens=12, logprobs=True), strict=True):
        assert one.token_ids == other.token_ids
        np.testing.assert_allclose(one.logprobs, other.logprobs, atol=1e-4)


def test_it_is_merged_before_weights_are_quantised(tmp_path: Path) -> None:
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    write_adapter(adapter, write_checkpoint(base, "bert"), target_modules=["query", "dense"])
    path = merged(tmp_path / "merged", tr.AutoModel, base, adapter)
    expected = Engine(path, dtype="float32", quantization="int8").predict(ITEMS)
    found = Engine(str(base), dtype="float32", quantization="int8", adapter=str(adapter)).predict(ITEMS)
    np.testing.assert_allclose(found, expected, atol=2e-3)  # rounding to int8 may differ by a unit here and there
    plain = Engine(path, dtype="float32").predict(ITEMS)
    assert np.abs(np.stack(plain) - np.stack(expected)).max() > 0


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A base and its adapter."""
    path = tmp_path_factory.mktemp("models")
    write_adapter(path / "adapter", write_checkpoint(path / "base", "bert"), target_modules=["query", "value"])
    return path / "base", path / "adapter"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"peft_type": "IA3"}, 'peft_type "IA3" is not supported; supported: LORA'),
        ({"task_type": "QUESTION_ANS"}, 'task_type "QUESTION_ANS" is not supported'),
        ({"task_type": ["SEQ_CLS"]}, 'task_type ["SEQ_CLS"] is not supported'),
        ({"use_dora": True}, "use_dora true is not supported: DoRA"),
        ({"bias": "all"}, 'bias "all" is not supported'),
        ({"lora_bias": True}, "lora_bias true"),
        ({"init_lora_weights": "pissa"}, 'init_lora_weights "pissa" is not supported: PEFT changes the base'),
        ({"layer_replication": [[0, 2]]}, "layer_replication"),
        ({"trainable_token_indices": [5]}, "trainable_token_indices"),
        ({"alora_invocation_tokens": [5]}, "alora_invocation_tokens"),
        ({"use_newer_trick": True}, "use_newer_trick is not supported: the key is unknown"),
        ({"use_newer_trick": None, "r": 4}, ""),
        ({"r": 8}, "has factors of rank 4, and adapter_config.json says 8"),
        ({"r": 0}, "r 0, which is no possible size"),
        ({"r": 8, "rank_pattern": {"query": 4, "value": 4}}, ""),
        ({"lora_alpha": "6"}, 'lora_alpha "6" is no number'),
        ({"target_modules": ["query"]}, "target_modules does not name it"),
        ({"target_modules": None}, "target_modules does not name it"),
        ({"target_modules": "(x+)+query"}, "target_modules does not name it"),
        ({"target_modules": "(?!x).*"}, ""),
        ({"target_modules": "["}, "is no regular expression"),
        ({"target_modules": {"query": 1}}, "neither a regular expression nor a list"),
        ({"exclude_modules": ["layer.1.attention.self.query"]}, "target_modules does not name it"),
        ({"layers_to_transform": [0, 1]}, "target_modules does not name it"),
        ({"layers_to_transform": [0, 1, 2]}, ""),
        ({"modules_to_save": "classifier"}, "modules_to_save"),
        ({"fan_in_fan_out": True, "lora_dropout": 0.1, "target_modules": "all-linear"}, ""),
    ],
    ids=str,
)
def test_every_key_is_honoured_or_refused(
    written: tuple[Path, Path], tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    base, adapter = written
    shutil.copytree(adapter, tmp_path / "adapter")
    file = tmp_path / "adapter/adapter_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))
    if not said:
        Engine(str(base), adapter=str(tmp_path / "adapter"))
        return
    with pytest.raises(ModelError) as refusal:
        load_card(str(base), adapter=str(tmp_path / "adapter"))
    assert said in str(refusal.value) and "\n" not in str(refusal.value)


A, B = (f"base_model.model.encoder.layer.0.attention.self.query.lora_{end}.weight" for end in "AB")


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({A: None}, "has up of the factors up, down"),
        ({A: torch.zeros(3, 32)}, "has factors of shapes"),
        ({A: torch.zeros(4, 31)}, r"of shape \[32, 31\], and its base has \[32, 32\]"),
        ({A: torch.zeros(4, 32, dtype=torch.int64)}, "is I64; supported"),
        ({A.replace("layer.0", "layer.7"): torch.zeros(4, 32), B.replace("layer.0", "layer.7"): torch.zeros(32, 4)},
         "the adapter changes encoder.layer.7.attention.self.query.weight, and its base has no such tensor"),
        ({"base_model.model.encoder.layer.0.attention.self.query.lora_magnitude_vector": torch.ones(32)},
         "neither a factor of LoRA nor of a module in modules_to_save"),
        ({"model.x": torch.ones(1)}, "its name does not begin with base_model.model."),
        (dict.fromkeys([A, B]), ""),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_every_tensor_is_merged_or_refused(
    written: tuple[Path, Path], tmp_path: Path, tensors: dict[str, torch.Tensor | None], said: str
) -> None:
    base, adapter = written
    shutil.copytree(adapter, tmp_path / "adapter")
    file = tmp_path / "adapter/adapter_model.safetensors"
    found = load_file(file) | tensors
    save_file({name: tensor for name, tensor in found.items() if tensor is not None}, file)
    if not said:
        Engine(str(base), adapter=str(tmp_path / "adapter"))
        return
    with pytest.raises(ModelError, match=said):
        Engine(str(base), adapter=str(tmp_path / "adapter"))


def test_what_does_not_go_together(written: tuple[Path, Path], tmp_path: Path, capsys: Any) -> None:
    base, adapter = written

    def refused(said: str, model: Path, adapter: Path = adapter) -> None:
        with pytest.raises(ModelError, match=said):
            Engine(str(model), adapter=str(adapter))

    # An adapter's folder is no model, with or without a configuration of its own.
    assert main(["predict", "--model", str(adapter), "x"]) == 4
    assert "serve its base with --model, and add --adapter" in capsys.readouterr().err
    refused("has no adapter_config.json: an adapter is a directory that PEFT has saved", base, base)
    # A quantised base, and one of another task.
    shutil.copytree(base, tmp_path / "quantised")
    config = json.loads((base / "config.json").read_text())
    group = {"weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}
    group["input_activations"] = {"num_bits": 8, "type": "float", "strategy": "token", "dynamic": True}  # type: ignore
    config["quantization_config"] = {"quant_method": "compressed-tensors", "format": "float-quantized"}
    config["quantization_config"]["config_groups"] = {"group_0": group}
    (tmp_path / "quantised/config.json").write_text(json.dumps(config))
    refused("its weights are quantised", tmp_path / "quantised")
    refused("a static model has no layers", Path("wordllama"))
    # Modules behind the transformer: the base's own do, others do not.
    shutil.copytree(base, tmp_path / "sentence")
    write_sentence_modules(tmp_path / "sentence", "cls", normalize=True)
    shutil.copytree(adapter, tmp_path / "with_modules")
    write_sentence_modules(tmp_path / "with_modules", "cls", normalize=True)
    Engine(str(tmp_path / "sentence"), adapter=str(tmp_path / "with_modules"))
    refused("other modules behind the transformer", base, tmp_path / "with_modules")
    # Pickles.
    shutil.copytree(adapter, tmp_path / "pickled")
    (tmp_path / "pickled/adapter_model.safetensors").rename(tmp_path / "pickled/adapter_model.bin")
    refused(r"no adapter_model.safetensors, and adapter_model.bin is never read", base, tmp_path / "pickled")


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize(
    ("kind", "module"), [("llama-gqa-tied", "embed_tokens"), ("t5", "shared"), ("bert", "word_embeddings")]
)
def test_tied_tensors_are_not_changed(tmp_path: Path, kind: str, module: str, saved: bool) -> None:
    """``saved``: the module as a whole, not factors. Of a BERT: that of sparse embeddings."""
    base = tmp_path / "base"
    if kind in DECODERS:
        model = write_decoder(base, kind)
    else:
        model = write_checkpoint(base, kind, "embed_sparse" if kind == "bert" else "embed")
    if kind == "bert":
        write_splade(base)
    other = {"llama-gqa-tied": "q_proj", "t5": "wo", "bert": "query"}[kind]
    own = {"target_modules": [other], "modules_to_save": [module]} if saved else {"target_modules": [module]}
    write_adapter(tmp_path / "adapter", model, **own)
    with pytest.raises(ModelError, match=f"{module}.weight, which is one tensor with another of its base"):
        Engine(str(base), adapter=str(tmp_path / "adapter"))


@pytest.mark.parametrize("kind", ["nomic_bert", "llama"])
def test_what_replaces_nothing_is_refused(tmp_path: Path, kind: str) -> None:
    """transformers renames a NomicBERT's modules, and a base may be another than an adapter's."""
    base, adapter = tmp_path / "base", tmp_path / "adapter"
    model = write_decoder(base, kind) if kind in DECODERS else write_checkpoint(base, kind, "classify")
    target = "down_proj" if kind == "llama" else "dense"
    write_adapter(adapter, model, target_modules=[target], modules_to_save=["LayerNorm", "norm"])
    file = adapter / "adapter_model.safetensors"
    found = {name.replace(".norm.", ".other.norm."): tensor for name, tensor in load_file(file).items()}
    save_file(found, file)
    with pytest.raises(ModelError, match=r"the adapter replaces .*, and its base has no such tensor"):
        Engine(str(base), max_output_tokens=8, adapter=str(adapter))


def test_vocabulary_is_the_bases(written: tuple[Path, Path]) -> None:
    base, adapter = written
    assert load_card(str(base), adapter=str(adapter)).vocab_size == VOCAB
