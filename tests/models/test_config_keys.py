"""Rules of config.json's keys: they name all of transformers' keys, honoured ones are read, others are refused."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import tokenizers as tk
import torch
import transformers as tr
from checkpoints import write_checkpoint, write_sentence_modules
from decoders import write_decoder
from paths import ROOT
from safetensors.torch import load_file, save_file
from sparse_encoders import write_splade
from word_files import write_words

from fastqps.architectures.rope import rotary_table
from fastqps.devices import make_runner
from fastqps.models import ModelError, load_card
from fastqps.models.checkpoint import Checkpoint
from fastqps.models.config_document import page
from fastqps.models.families import FAMILIES, DecoderFamily, EncoderFamily
from fastqps.models.families.llama_encoder import encoder_of
from fastqps.models.files.keys import Keys

pytestmark = pytest.mark.compute

GENERATORS = [kind for kind, family in FAMILIES.items() if isinstance(family, DecoderFamily)]
ENCODES = [kind for kind, family in FAMILIES.items() if isinstance(family, DecoderFamily) and family.encodes]
TASKS = {"t5": ("embed",)}
LLAMA3_SHAPE = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
LLAMA3 = LLAMA3_SHAPE | {"rope_theta": 5e5}


def _change(path: Path, changes: dict[str, Any], without: tuple[str, ...] = ()) -> None:
    file = path / "config.json"
    found = {key: value for key, value in json.loads(file.read_text()).items() if key not in without}
    file.write_text(json.dumps(found | changes))


def _write(path: Path, kind: str, task: str = "embed", **options: Any) -> Any:
    if kind in GENERATORS:
        return write_decoder(path, kind, **options)
    return write_checkpoint(path, "roberta" if kind == "camembert" else kind, task, **options)


def _write_tokenizer(path: Path, kind: str) -> None:
    if kind in GENERATORS:
        tk.Tokenizer(tk.models.BPE({"a": 0}, [])).save(str(path / "tokenizer.json"))
    else:
        write_words(path)


def _encodes(kind: str) -> EncoderFamily:
    family = FAMILIES[kind]
    assert isinstance(family, DecoderFamily)
    return encoder_of(family)


def _load(path: Path) -> Any:
    card = load_card(str(path), 40, max_output_tokens=8)
    return make_runner("cpu", card, 2, 64, dtype="float32", threads=1)


# ---- the rules are whole


@pytest.mark.parametrize("generation_config", [False, True])
@pytest.mark.parametrize("kind", FAMILIES)
def test_rules_name_every_key_of_transformers(kind: str, generation_config: bool) -> None:
    """The fields of the class, what the class takes beside them, and what generation once kept there."""
    config = tr.CONFIG_MAPPING[{"new": "gte", "jina_bert": "bert"}.get(kind, kind)]
    wanted = {field.name for field in dataclasses.fields(config)} | set(config().to_dict())
    wanted |= {"output_attentions", "per_layer_config", "tie_last_hidden_states", "torch_dtype", "num_labels"}
    wanted |= set(tr.GenerationConfig._get_default_generation_params())
    if "rope_parameters" in wanted:
        wanted |= {"rope_scaling", "rope_theta"}
    wanted -= FAMILIES[kind].older.keys() | FAMILIES[kind].aliases.keys()
    known = FAMILIES[kind].rules(generation_config)
    assert wanted - known.honoured - known.irrelevant - known.refused.keys() == set()
    if kind in ENCODES:
        known = _encodes(kind).keys
        assert wanted - known.honoured - known.irrelevant - known.refused.keys() == set()


LLAMA_ROPE = {"rope_parameters": LLAMA3_SHAPE, "original_max_position_embeddings": 16}
LLAMA_TOP = {"original_max_position_embeddings": 64, "rope_theta": 500.0}
READ_WITH: dict[str, list[dict[str, Any]]] = {
    # beside what a checkpoint of the family has anyway: what makes its rarer keys be read
    "bert": [{}, {"id2label": None, "num_labels": 2}],
    "gte": [{"rope_parameters": None}],
    "nomic_bert": [{"rope_parameters": None, "hidden_act": None, "activation_function": "swiglu"}],
    "modernbert": [{"layer_types": None, "rope_parameters": None, "global_attn_every_n_layers": 3}],
    "llama": [LLAMA_ROPE],
    "mistral": [LLAMA_ROPE],
    **{kind: [LLAMA_ROPE] for kind in ("olmo2", "granite", "granitemoehybrid", "stablelm")},
    "ministral": [LLAMA_ROPE],
    "phi3": [{"rope_parameters": None, "partial_rotary_factor": 1.0} | LLAMA_TOP],
    "smollm3": [
        LLAMA_ROPE,
        {"no_rope_layers": None, "rope_parameters": None},
        {"use_sliding_window": True, "sliding_window": 64, "layer_types": None},
    ],
    "gemma": [LLAMA_ROPE],
    "gemma2": [LLAMA_ROPE],
    "gemma3_text": [
        {"layer_types": None, "rope_parameters": None, "sliding_window_pattern": 2, "rope_local_base_freq": 1e4}
    ],
    "qwen2": [
        LLAMA_ROPE,
        {"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 0, "layer_types": None},
    ],
    "qwen3": [
        LLAMA_ROPE,
        {"use_sliding_window": True, "sliding_window": 64, "max_window_layers": 0, "layer_types": None},
    ],
}


@pytest.mark.parametrize(
    ("kind", "encodes"),
    [(kind, False) for kind, family in FAMILIES.items() if family.name == kind] + [(kind, True) for kind in ENCODES],
)
def test_honoured_keys_are_read(kind: str, encodes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``encodes``: of a decoder that embeds or gives scores."""
    read: set[str] = set()
    plain = Keys.__getitem__

    def seen(self: Keys, key: str) -> Any:
        read.add(key)
        return plain(self, key)

    monkeypatch.setattr(Keys, "__getitem__", seen)
    generates = kind in GENERATORS and not encodes
    tokens = ("classify_tokens",) if encodes and _encodes(kind).read_token_head else ()
    sparse = ("embed_sparse",) if getattr(FAMILIES[kind], "read_vocabulary_head", None) else ()
    for task in ("generate",) if generates else TASKS.get(kind, ("embed", "classify", *tokens, *sparse)):
        for i, changes in enumerate([{}, *READ_WITH.get(kind, [])]):
            path = tmp_path / f"{task}{i}"
            if encodes:
                write_checkpoint(path, kind, task)
                if task == "embed":
                    write_sentence_modules(path)
                if task == "classify_tokens":
                    _write_tokenizer(path, kind)
            else:
                _write(path, kind, task)
            if task == "embed_sparse":
                write_splade(path)
            _change(path, changes)
            checkpoint = Checkpoint.open(path)
            if generates:
                checkpoint.decoder_config()
            _load(path)
            _write_tokenizer(path, kind)
            assert "tokenizer.json" in Checkpoint.open(path).tokenizer()
            assert Checkpoint.open(path).tokenizer_files.input_limit is None
    honoured = (_encodes(kind) if encodes else FAMILIES[kind]).rules().honoured
    assert honoured - read == set()


def test_the_page_is_that_of_the_rules() -> None:
    assert (ROOT / "docs/config-keys.md").read_text() == page()


# ---- values that change an answer


def test_num_labels_decides_over_names_as_in_transformers(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "bert", "classify", num_labels=3)
    _change(tmp_path, {"id2label": {"0": "a", "1": "b"}, "num_labels": 3})
    assert load_card(str(tmp_path)).labels == tuple(tr.AutoConfig.from_pretrained(tmp_path).id2label.values())


@pytest.mark.parametrize("rope", [{}, {"original_max_position_embeddings": 64}])
def test_original_context_at_the_top_of_the_file_decides(rope: dict[str, Any], tmp_path: Path) -> None:
    write_decoder(tmp_path, "llama3-rope")
    _change(tmp_path, {"rope_parameters": LLAMA3 | rope, "original_max_position_embeddings": 16})
    config = Checkpoint.open(tmp_path).decoder_config()
    model = tr.AutoModel.from_pretrained(tmp_path)
    cos, _ = model.rotary_emb(torch.zeros(1), torch.arange(100)[None])
    assert torch.allclose(rotary_table(config.ropes[0], config.head_dim, 100)[:, 0], cos[0, :, : config.head_dim // 2])


LONG = {"rope_type": "longrope", "short_factor": [1.0, 1.5, 2.0, 4.0], "long_factor": [9.0] * 4}
YARN = {"rope_type": "yarn", "factor": 8.0}


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "default"},
        {"rope_type": "linear", "factor": 3.0},
        {"rope_type": "dynamic", "factor": 3.0},
        LLAMA3 | {"original_max_position_embeddings": 16},
        YARN,
        YARN | {"original_max_position_embeddings": 16, "rope_theta": 300.0},
        YARN | {"original_max_position_embeddings": 4096, "truncate": False},
        YARN | {"original_max_position_embeddings": 32, "beta_fast": 4, "beta_slow": 0.5, "truncate": False},
        YARN | {"original_max_position_embeddings": 32, "attention_factor": 0.7},
        YARN | {"original_max_position_embeddings": 32, "mscale": 0.9, "mscale_all_dim": 0.4},
        YARN | {"original_max_position_embeddings": 32, "mscale": 0.9},
        LONG,
        LONG | {"original_max_position_embeddings": 64},
        LONG | {"original_max_position_embeddings": 64, "factor": 1.0},
        LONG | {"original_max_position_embeddings": 64, "attention_factor": 1.3},
    ],
)
def test_positions_are_those_of_transformers(rope: dict[str, Any], tmp_path: Path) -> None:
    write_decoder(tmp_path, "llama")
    _change(tmp_path, {"rope_parameters": {"rope_theta": 1e4} | rope})
    config = Checkpoint.open(tmp_path).decoder_config()
    assert config.context == (64 if rope["rope_type"] == "longrope" and len(rope) > 3 else 128)
    found = rotary_table(config.ropes[0], config.head_dim, config.context)  # type: ignore[arg-type]
    rotary = tr.AutoModel.from_pretrained(tmp_path).rotary_emb
    wanted = rotary(torch.zeros(1), torch.arange(config.context)[None])
    for turns, want in zip(found.unbind(1), wanted, strict=True):
        torch.testing.assert_close(turns, want[0, :, : config.head_dim // 2], rtol=1e-6, atol=2e-6)


def test_a_qwen_without_kv_heads_has_as_many_as_transformers_says(tmp_path: Path) -> None:
    write_decoder(tmp_path, "qwen2", hidden_size=128, num_attention_heads=64, num_key_value_heads=32)
    _change(tmp_path, {}, ("num_key_value_heads",))
    assert Checkpoint.open(tmp_path).decoder_config().kv_heads == 32
    assert tr.AutoConfig.from_pretrained(tmp_path).num_key_value_heads == 32


@pytest.mark.parametrize("equal", [False, True])
def test_a_tied_head_beside_one_of_its_own(equal: bool, tmp_path: Path) -> None:
    """transformers 5 takes the file's, transformers 4 the embeddings: refused unless they are the same."""
    write_decoder(tmp_path, "llama-gqa-tied")
    file = tmp_path / "model.safetensors"
    tensors = load_file(file)
    words = tensors["model.embed_tokens.weight"]
    save_file(tensors | {"lm_head.weight": words.clone() if equal else words + 1}, file)
    if equal:
        _load(tmp_path)
    else:
        with pytest.raises(ModelError, match="tie_word_embeddings"):
            _load(tmp_path)


@pytest.mark.parametrize("flag", ["attention_bias", "mlp_bias", "norm_bias"])
def test_biases_of_modernbert_follow_their_flags(flag: str, tmp_path: Path) -> None:
    """Refused: a flag without biases, which transformers makes up, and biases without their flag, which it drops."""
    write_checkpoint(tmp_path / "with", "modernbert", **{flag: True})
    _load(tmp_path / "with")
    _change(tmp_path / "with", {flag: False})
    with pytest.raises(ModelError, match=r"bias.* has no place"):
        _load(tmp_path / "with")
    write_checkpoint(tmp_path / "without", "modernbert")
    _change(tmp_path / "without", {flag: True})
    with pytest.raises(ModelError, match=r"no tensor .*bias"):
        _load(tmp_path / "without")


def test_distilbert_takes_the_common_names_as_transformers_does(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "distilbert")
    _change(tmp_path, {"num_attention_heads": 2, "layer_norm_eps": 0.5})
    config = Checkpoint.open(tmp_path).config
    assert config["n_heads"] == 2 == tr.AutoConfig.from_pretrained(tmp_path).n_heads


# ---- generation keys of config.json


def test_generation_keys_count_where_no_generation_config_is(tmp_path: Path) -> None:
    write_decoder(tmp_path, "llama")
    _change(tmp_path, {"repetition_penalty": 1.3, "temperature": 0.7})
    _load(tmp_path)
    (tmp_path / "generation_config.json").unlink()
    with pytest.raises(ModelError, match=r"repetition_penalty 1\.3"):
        _load(tmp_path)
    _change(tmp_path, {"force_bos_token_to_be_generated": True, "bos_token_id": 7}, ("repetition_penalty",))
    assert tr.GenerationConfig.from_model_config(tr.AutoConfig.from_pretrained(tmp_path)).forced_bos_token_id == 7
    with pytest.raises(ModelError, match=r"force_bos_token_to_be_generated true"):
        _load(tmp_path)


# ---- warnings


def test_unknown_keys_and_foreign_code_are_warned_of(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "bert")
    write_sentence_modules(tmp_path)
    write_words(tmp_path)
    assert load_card(str(tmp_path)).warnings == ()
    _change(tmp_path, {"logit_shift": 3, "depth": 1, "auto_map": {"AutoModel": "mine.Model"}})
    unknown, foreign = load_card(str(tmp_path)).warnings
    assert "logit_shift, depth" in unknown and "auto_map" in foreign
    _change(tmp_path, {f"key{i}": i for i in range(50)})
    assert "and 44 more" in load_card(str(tmp_path)).warnings[0]
