"""Packed models against transformers and sentence-transformers: alone, and in whatever company."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers as tr
from checkpoints import CLASSIFIERS, FAMILIES, TOKEN_CLASSIFIERS, VOCAB, write_checkpoint, write_sentence_modules
from model_runs import Item, random_items, reference, run

from fastqps.devices import DeviceError, make_runner
from fastqps.devices.cpu.transformer import choose_dtype
from fastqps.host import machine
from fastqps.models import ModelCard, ModelError, load_card
from fastqps.models.checkpoint import Checkpoint

pytestmark = pytest.mark.compute

MAX_ITEMS, MAX_TOKENS = 16, 1024
SIZES = {
    "model_type": "bert",
    "vocab_size": VOCAB,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
}


def check_everywhere(path: Path, items: Sequence[Item], want: np.ndarray) -> None:
    """The rows equal ``want`` within 1e-4 alone and in shuffled batches, and differ by 1e-5 at most between those."""
    runner = make_runner("cpu", load_card(str(path)), MAX_ITEMS, MAX_TOKENS, dtype="float32", threads=1)
    alone = [run(runner, [item]) for item in items]
    assert np.abs(np.concatenate(alone) - want).max() < 1e-4
    rng = np.random.default_rng(1)
    for size in (2, 5, len(items)):
        chosen = rng.permutation(len(items))[:size]
        expected = np.concatenate([alone[i] for i in chosen])
        assert np.abs(run(runner, [items[i] for i in chosen]) - expected).max() <= 1e-5


@pytest.mark.parametrize("pooling", ["mean", "cls", "max", "lasttoken"])
@pytest.mark.parametrize("family", FAMILIES)
def test_embeddings_equal_transformers(tmp_path: Path, family: str, pooling: str) -> None:
    model = write_checkpoint(tmp_path, family)
    write_sentence_modules(tmp_path, pooling)
    items = random_items(np.random.default_rng(0), 9)
    hidden = [reference(model, item, False).last_hidden_state[0] for item in items]
    pooled = {
        "mean": lambda x: x.mean(0),
        "cls": lambda x: x[0],
        "max": lambda x: x.max(0).values,
        "lasttoken": lambda x: x[-1],
    }[pooling]
    check_everywhere(tmp_path, items, torch.stack([pooled(x) for x in hidden]).numpy())


@pytest.mark.parametrize("labels", [1, 3])
@pytest.mark.parametrize("family", CLASSIFIERS)
def test_classifiers_equal_transformers(tmp_path: Path, family: str, labels: int) -> None:
    options = {"classifier_pooling": "mean", "classifier_bias": True} if family == "modernbert" and labels == 3 else {}
    model = write_checkpoint(tmp_path, family, "classify", num_labels=labels, **options)
    items = random_items(np.random.default_rng(0), 9)
    want = torch.cat([reference(model, item, False).logits for item in items]).numpy()
    check_everywhere(tmp_path, items, want)
    card = load_card(str(tmp_path))
    assert (card.task, card.dimensions, len(card.labels)) == ("classify", labels, labels)
    assert card.activation == ("sigmoid" if labels == 1 else "softmax")


@pytest.mark.parametrize("family", TOKEN_CLASSIFIERS)
def test_token_classifiers_equal_transformers(tmp_path: Path, family: str) -> None:
    options = {"classifier_bias": True} if family == "modernbert" else {}
    model = write_checkpoint(tmp_path, family, "classify_tokens", num_labels=5, **options)
    items = random_items(np.random.default_rng(0), 9)
    check_everywhere(tmp_path, items, torch.cat([reference(model, item, False).logits[0] for item in items]).numpy())
    card = load_card(str(tmp_path))
    assert (card.task, card.labels, card.activation) == (
        "classify_tokens",
        tuple(f"LABEL_{i}" for i in range(5)),
        "softmax",
    )


@pytest.mark.parametrize("task", ["embed", "classify"])
def test_pairs_equal_transformers(tmp_path: Path, task: str) -> None:
    model = write_checkpoint(tmp_path, "bert", task)
    items = random_items(np.random.default_rng(0), 9, pairs=True)
    outputs = [reference(model, item, True) for item in items]
    rows = [out.logits if task == "classify" else out.last_hidden_state.mean(1) for out in outputs]
    check_everywhere(tmp_path, items, torch.cat(rows).numpy())


def test_options_that_change_the_numbers(tmp_path: Path) -> None:
    """Other activations, biases and norms than the families' usual ones."""
    biased = {"attention_bias": True, "mlp_bias": True, "norm_bias": True, "num_attention_heads": 2}
    for family, options in (
        ("bert", {"hidden_act": "gelu_new", "layer_norm_eps": 1e-3}),
        ("bert", {"hidden_act": "relu", "type_vocab_size": 1}),
        ("distilbert", {"activation": "relu"}),
        ("deberta-v2", {"share_att_key": False, "norm_rel_ebd": "none", "position_buckets": -1, "type_vocab_size": 2}),
        ("deberta-v2", {"position_biased_input": True, "max_relative_positions": 40, "position_buckets": 14}),
        ("deberta-v2", {"position_buckets": -1, "max_relative_positions": 12, "pos_att_type": "c2p|p2c"}),
        ("jina_bert", {"feed_forward_type": "reglu", "num_attention_heads": 12, "hidden_size": 48}),
        ("t5", {"feed_forward_proj": "relu", "relative_attention_num_buckets": 16}),
        ("t5", {"d_kv": 8, "feed_forward_proj": "gated-silu", "relative_attention_max_distance": 20}),
        ("modernbert", {**biased, "hidden_activation": "gelu_pytorch_tanh"}),
        ("modernbert", {"layer_types": ["sliding_attention", "full_attention", "full_attention"]}),
    ):
        path = tmp_path / f"{family}-{len(list(tmp_path.iterdir()))}"
        model = write_checkpoint(path, family, **options)
        items = random_items(np.random.default_rng(0), 5)
        want = torch.cat([reference(model, item, False).last_hidden_state.mean(1) for item in items]).numpy()
        check_everywhere(path, items, want)


def test_old_modernbert_and_tensorflow_names(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    items = random_items(np.random.default_rng(0), 5)
    model = write_checkpoint(tmp_path / "modern", "modernbert")
    path = tmp_path / "modern/config.json"
    config = json.loads(path.read_text())
    del config["layer_types"], config["rope_parameters"]
    config |= {"global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "local_rope_theta": 10000.0}
    path.write_text(json.dumps(config))
    want = torch.cat([reference(model, item, False).last_hidden_state.mean(1) for item in items]).numpy()
    check_everywhere(tmp_path / "modern", items, want)

    model = write_checkpoint(tmp_path / "old", "bert", "classify")
    tensors = load_file(tmp_path / "old/model.safetensors")
    renamed = {
        k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v
        for k, v in tensors.items()
    }
    names = sorted(renamed)
    shards = {"model-1.safetensors": names[::2], "model-2.safetensors": names[1::2]}
    for file, part in shards.items():
        save_file({k: renamed[k] for k in part}, tmp_path / "old" / file)
    where = {"weight_map": {k: file for file, part in shards.items() for k in part}}
    (tmp_path / "old/model.safetensors.index.json").write_text(json.dumps(where))
    (tmp_path / "old/model.safetensors").unlink()
    want = torch.cat([reference(model, item, False).logits for item in items]).numpy()
    check_everywhere(tmp_path / "old", items, want)


def test_shards_beside_a_whole_file_are_not_read(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    items = random_items(np.random.default_rng(0), 5)
    write_checkpoint(tmp_path, "bert")
    tensors = load_file(tmp_path / "model.safetensors")
    save_file({name: tensor + 1 for name, tensor in tensors.items()}, tmp_path / "model-1.safetensors")
    where = {"weight_map": dict.fromkeys(tensors, "model-1.safetensors")}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(where))
    theirs = tr.AutoModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
    want = torch.cat([reference(theirs, item, False).last_hidden_state.mean(1) for item in items]).numpy()
    check_everywhere(tmp_path, items, want)

    digest = Checkpoint.open(tmp_path).digest()
    (tmp_path / "model-1.safetensors").unlink()
    assert Checkpoint.open(tmp_path).digest() == digest


WORDS = "embeddings.word_embeddings.weight"
NORM = "embeddings.LayerNorm.weight"


@pytest.mark.parametrize(
    ("name", "other"),
    [
        (WORDS, f"bert.{WORDS}"),
        (NORM, NORM.replace("weight", "gamma")),
        (NORM, f"bert.{NORM}".replace("weight", "gamma")),
    ],
)
def test_two_names_of_one_tensor(tmp_path: Path, name: str, other: str) -> None:
    from safetensors.torch import load_file, save_file

    write_checkpoint(tmp_path, "bert")
    tensors = load_file(tmp_path / "model.safetensors")
    save_file({**tensors, other: tensors[name] + 1}, tmp_path / "model.safetensors")
    with pytest.raises(ModelError) as caught:
        make_runner("cpu", load_card(str(tmp_path)), MAX_ITEMS, MAX_TOKENS)
    assert repr(name) in str(caught.value) and repr(other) in str(caught.value)


def test_one_tensor_in_two_shards(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    write_checkpoint(tmp_path, "bert")
    tensors = load_file(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").unlink()
    save_file(tensors, tmp_path / "model-1.safetensors")
    save_file({WORDS: tensors[WORDS] + 1}, tmp_path / "model-2.safetensors")
    where = {"weight_map": {**dict.fromkeys(tensors, "model-1.safetensors"), WORDS: "model-2.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(where))
    with pytest.raises(ModelError, match=r"of model-1.safetensors and .* of model-2.safetensors are the same tensor"):
        make_runner("cpu", load_card(str(tmp_path)), MAX_ITEMS, MAX_TOKENS)


def test_dense_and_normalize(tmp_path: Path) -> None:
    from safetensors.torch import load_file

    model = write_checkpoint(tmp_path, "bert")
    write_sentence_modules(tmp_path, dense=True, normalize=True)
    items = random_items(np.random.default_rng(0), 5)
    hidden = torch.cat([reference(model, item, False).last_hidden_state.mean(1) for item in items])
    dense = load_file(tmp_path / "2_Dense/model.safetensors")
    want = torch.tanh(hidden @ dense["linear.weight"].T + dense["linear.bias"])
    check_everywhere(tmp_path, items, want.numpy())
    card = load_card(str(tmp_path))
    assert (card.dimensions, card.normalize) == (24, True)


def test_card(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "roberta", "classify", id2label={i: f"L{i}" for i in range(11)})
    card = load_card(str(tmp_path), name="other")
    assert ModelCard.from_json(card.to_json()) == card
    assert (card.name, card.family, card.position_offset, card.second_segment_type) == ("other", "roberta", 2, 0)
    assert card.labels == tuple(f"L{i}" for i in range(11))
    assert card.max_input_tokens == 64
    assert load_card(str(tmp_path), max_input_tokens=20).max_input_tokens == 20
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 40}))
    assert load_card(str(tmp_path)).max_input_tokens == 40
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 10**30}))
    assert load_card(str(tmp_path)).max_input_tokens == 64
    assert len(card.version) == 12
    assert load_card(str(tmp_path)).version != card.version, "other limits, another version"


@pytest.mark.parametrize(
    ("changes", "activation"),
    [
        ({"problem_type": "multi_label_classification"}, "sigmoid"),
        ({"problem_type": "regression"}, "identity"),
        ({"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"}}, "identity"),
        ({"sbert_ce_default_activation_function": "torch.nn.modules.activation.Sigmoid"}, "sigmoid"),
    ],
)
def test_activation_of_a_classifier(tmp_path: Path, changes: dict[str, object], activation: str) -> None:
    write_checkpoint(tmp_path, "bert", "classify")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    assert load_card(str(tmp_path)).activation == activation


def test_what_is_missing_says_so(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="minilm"):
        load_card("no-such-model")
    with pytest.raises(ModelError, match=r"no config\.json"):
        load_card(str(tmp_path))
    write_checkpoint(tmp_path, "bert")
    (tmp_path / "model.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(ModelError, match=r"model\.safetensors"):
        make_runner("cpu", load_card(str(tmp_path)), 1, 64)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ModelError, match="safetensors"):
        load_card(str(tmp_path))


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("config.json", "[]", "config.json: not a JSON object"),
        ("config.json", "[" * 100_000, "config.json"),
        ("config.json", json.dumps({"model_type": "bert", "hidden_size": 32}), "intermediate_size null"),
        ("config.json", json.dumps({**SIZES, "vocab_size": -5}), "vocab_size -5"),
        ("config.json", json.dumps({**SIZES, "num_attention_heads": 5}), "num_attention_heads 5, which do not divide"),
        ("modules.json", '{"a": 1}', "not a JSON list of modules"),
        ("tokenizer.json", '{"model": {', "tokenizer.json"),
    ],
)
def test_broken_configuration_says_so(tmp_path: Path, file: str, text: str, said: str) -> None:
    write_checkpoint(tmp_path, "bert")
    (tmp_path / file).write_text(text)
    with pytest.raises(ModelError, match=said):
        load_card(str(tmp_path))


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    from fastqps.runners.lane import make_lane

    write_checkpoint(tmp_path, "bert")
    card = load_card(str(tmp_path))
    for broken in (False, True):
        lane = make_lane(make_runner("cpu", card, 4, 64, dtype="float32"), 2)
        if broken:
            with pytest.raises(ModelError, match="not finite"):
                lane.warm_up()
        else:
            lane.warm_up()
        lane.close()
        tensors = load_file(tmp_path / "model.safetensors")
        tensors["encoder.layer.1.output.dense.weight"].fill_(float("nan"))
        save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})


def test_devices() -> None:
    card = load_card("minilm")
    with pytest.raises(DeviceError, match=r"no device .tpu.*cpu, cuda, null"):
        make_runner("tpu", card, 1, 64)
    with pytest.raises(DeviceError, match="float16"):
        make_runner("cpu", card, 1, 64, dtype="float16")


@pytest.mark.parametrize(
    ("said", "found"), [("fpu avx512_bf16 sse", ("avx512_bf16",)), ("amx_bf16", ("amx_bf16",)), ("fpu avx512f", ())]
)
def test_auto_is_bfloat16_where_the_cpu_has_it(
    monkeypatch: pytest.MonkeyPatch, said: str, found: tuple[str, ...]
) -> None:
    monkeypatch.setattr(machine, "cpu_flags", lambda: frozenset(said.split()))
    assert machine.bfloat16_flags() == found
    if not found:
        assert choose_dtype("auto") is torch.float32


def test_null_device_needs_no_torch() -> None:
    code = """
import sys, numpy as np
from fastqps.devices import make_runner
from fastqps.models import load_card
runner = make_runner("null", load_card("minilm"), 8, 512)
runner.run(8, 300, 8)
assert runner.buffers().output.shape == (8, 384)
assert np.allclose(np.linalg.norm(runner.buffers().output, axis=1), 1)
assert all(address % 64 == 0 for address in runner.buffers().addresses().values())
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
