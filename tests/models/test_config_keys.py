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
from fastqps.models.families import FAMILIES, DecoderFamily, EncoderFamily
from fastqps.models.families.llama_encoder import encoder_of
from fastqps.models.files.config_document import page
from fastqps.models.files.keys import Keys

pytestmark = pytest.mark.compute

GENERATORS = [kind for kind, family in FAMILIES.items() if isinstance(family, DecoderFamily)]
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
    known = FAMILIES[kind].rules(generation_config)
    assert wanted - known.honoured - known.irrelevant - known.refused.keys() == set()
    if kind in GENERATORS:
        known = _encodes(kind).keys
        assert wanted - known.honoured - known.irrelevant - known.refused.keys() == set()


LLAMA_ROPE = {"rope_parameters": LLAMA3_SHAPE, "original_max_position_embeddings": 16}
READ_WITH: dict[str, list[dict[str, Any]]] = {
    # beside what a checkpoint of the family has anyway: what makes its rarer keys be read
    "bert": [{}, {"id2label": None, "num_labels": 2}],
    "gte": [{"rope_parameters": None}],
    "nomic_bert": [{"rope_parameters": None, "hidden_act": None, "activation_function": "swiglu"}],
    "modernbert": [{"layer_types": None, "rope_parameters": None, "global_attn_every_n_layers": 3}],
    "llama": [LLAMA_ROPE],
    "mistral": [LLAMA_ROPE],
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
    [(kind, False) for kind, family in FAMILIES.items() if family.name == kind] + [(kind, True) for kind in GENERATORS],
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
    tokens = ("classify_tokens",) if encodes else ()
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


# ---- values that would change an answer


@pytest.mark.parametrize(
    ("kind", "changes", "key"),
    [
        ("bert", {"is_decoder": True}, "is_decoder"),
        ("roberta", {"is_decoder": True}, "is_decoder"),
        ("bert", {"add_cross_attention": True}, "add_cross_attention"),
        ("bert", {"is_encoder_decoder": True}, "is_encoder_decoder"),
        ("bert", {"pruned_heads": {"0": [1]}}, "pruned_heads"),
        ("bert", {"position_embedding_type": "relative_key_query"}, "position_embedding_type"),
        ("bert", {"layer_norm_eps": None}, "layer_norm_eps"),
        ("bert", {"layer_norm_eps": "1e-5"}, "layer_norm_eps"),
        ("bert", {"hidden_act": None}, "hidden_act"),
        ("bert", {"hidden_act": "quick_gelu"}, "hidden_act"),
        ("bert", {"hidden_size": 32.0}, "hidden_size"),
        ("bert", {"num_attention_heads": 5}, "num_attention_heads"),
        ("bert", {"type_vocab_size": 0}, "type_vocab_size"),
        ("bert", {"per_layer_config": {"0": {"layer_norm_eps": 1.0}}}, "per_layer_config"),
        ("bert", {"transformers_weights": "other.safetensors"}, "transformers_weights"),
        ("roberta", {"pad_token_id": None}, "pad_token_id"),
        ("roberta", {"pad_token_id": -1}, "pad_token_id"),
        ("distilbert", {"activation": "silu"}, "activation"),
        ("deberta-v2", {"relative_attention": False}, "relative_attention"),
        ("deberta-v2", {"relative_attention": None}, "relative_attention"),
        ("deberta-v2", {"pos_att_type": "c2p"}, "pos_att_type"),
        ("deberta-v2", {"pos_att_type": None}, "pos_att_type"),
        ("deberta-v2", {"norm_rel_ebd": "rms"}, "norm_rel_ebd"),
        ("deberta-v2", {"conv_kernel_size": 3}, "conv_kernel_size"),
        ("deberta-v2", {"embedding_size": 16}, "embedding_size"),
        ("deberta-v2", {"attention_head_size": 16}, "attention_head_size"),
        ("deberta-v2", {"position_buckets": 1}, "position_buckets 1 "),
        ("deberta-v2", {"max_relative_positions": 9}, "position_buckets 16 .* max_relative_positions 9"),
        ("t5", {"feed_forward_proj": "closed-gelu"}, "feed_forward_proj"),
        ("t5", {"relative_attention_num_buckets": 6}, "relative_attention_num_buckets 6"),
        ("t5", {"relative_attention_max_distance": 8}, "relative_attention_max_distance 8"),
        ("t5", {"architectures": ["T5ForSequenceClassification"]}, "classifiers of a t5"),
        ("nomic_bert", {"use_rms_norm": True}, "use_rms_norm true"),
        ("nomic_bert", {"rotary_emb_fraction": 0.5}, "rotary_emb_fraction 0.5"),
        ("new", {"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_scaling"),
        ("new", {"rope_scaling": {"type": "ntk", "factor": 2.0, "mixed_b": 0.6}}, "rope_scaling"),
        ("new", {"rope_scaling": {"type": "ntk", "factor": 0.5}}, "rope_scaling"),
        ("new", {"logn_attention_scale": True}, "logn_attention_scale"),
        ("new", {"layer_norm_type": "rms_norm"}, "layer_norm_type"),
        ("new", {"position_embedding_type": "absolute"}, "position_embedding_type"),
        ("jina_bert", {"feed_forward_type": "original"}, "feed_forward_type"),
        ("jina_bert", {"feed_forward_type": None}, "feed_forward_type"),
        ("modernbert", {"local_attention": 1}, "local_attention"),
        ("modernbert", {"local_attention": 0}, "local_attention"),
        ("modernbert", {"local_attention": -4}, "local_attention"),
        ("modernbert", {"sliding_window": 8}, "sliding_window"),
        ("modernbert", {"global_attn_every_n_layers": 0, "layer_types": None}, "global_attn_every_n_layers"),
        ("modernbert", {"layer_types": ["full_attention"]}, "layer_types"),
        ("modernbert", {"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "rope_scaling"),
        ("modernbert", {"rope_parameters": {"rope_theta": 5.0, "rope_type": "default"}}, "rope_parameters"),
        ("modernbert", {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "rope_parameters"),
        ("modernbert", {"rope_parameters": None, "local_rope_theta": None}, "local_rope_theta"),
        ("modernbert", {"norm_bias": "yes"}, "norm_bias"),
        ("llama", {"is_causal": False}, "is_causal"),
        ("qwen3", {"is_causal": False}, "is_causal"),
        ("llama", {"sliding_window": 4}, "sliding_window"),
        ("llama", {"layer_types": ["sliding_attention"] * 2}, "layer_types"),
        ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ("llama", {"rope_parameters": None, "rope_theta": None}, "rope_theta"),
        ("llama", {"rope_scaling": {"rope_type": "yarn", "factor": 2.0}}, "rope_type 'yarn'"),
        ("llama", {"tie_word_embeddings": None}, "tie_word_embeddings"),
        ("llama", {"rms_norm_eps": None}, "rms_norm_eps"),
        ("llama", {"num_local_experts": 4}, "num_local_experts"),
        ("qwen2", {"layer_types": ["sliding_attention"] * 2}, "layer_types"),
        (
            "qwen2",
            {"use_sliding_window": True, "sliding_window": 0, "layer_types": None, "max_window_layers": 0},
            "slid",
        ),
        ("qwen3", {"head_dim": None}, "head_dim"),
        ("mistral", {"sliding_window": 0}, "sliding_window 0"),
        ("mistral", {"layer_types": ["sliding_attention"] * 2}, "layer_types"),
        ("gemma3_text", {"sliding_window": 1}, "a token sees itself alone"),
        ("gemma3_text", {"attn_logit_softcapping": 50.0}, "attn_logit_softcapping 50.0"),
        ("gemma3_text", {"is_causal": True}, "use_bidirectional_attention says"),
        ("gemma3_text", {"hidden_activation": "tanh"}, "hidden_activation"),
        ("gemma3_text", {"query_pre_attn_scalar": 0}, "query_pre_attn_scalar"),
        ("gemma3_text", {"rope_parameters": {"rope_theta": 5.0}}, "rope_parameters.rope_theta is not supported"),
        ("gemma3_text", {"rope_parameters": {"full_attention": 5}}, "rope_parameters is not supported"),
        ("gemma3_text", {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "rope_type 'yarn'"),
        ("gemma3_text", {"rope_parameters": None, "rope_local_base_freq": "x"}, "rope_local_base_freq"),
        ("gemma3_text", {"layer_types": None, "sliding_window_pattern": 0}, "sliding_window_pattern"),
        ("gemma3_text", {"architectures": ["Gemma3ForCausalLM"]}, "Gemma3ForCausalLM is not supported"),
    ],
)
def test_values_that_are_refused(kind: str, changes: dict[str, Any], key: str, tmp_path: Path) -> None:
    _write(tmp_path, kind)
    _load(tmp_path)
    _change(tmp_path, changes)
    with pytest.raises(ModelError, match=key):
        load_card(str(tmp_path), 40, max_output_tokens=8)


@pytest.mark.parametrize(
    ("changes", "labels"),
    [
        ({"id2label": {"0": "a", "1": "b", "3": "c"}}, "id2label"),
        ({"id2label": ["a", "b", "c"]}, "id2label"),
        ({"id2label": {}}, "id2label"),
        ({"num_labels": None}, "num_labels"),
        (
            {"id2label": {"0": "no", "1": "entailment", "2": "x"}, "label2id": {"Entailed": 2, "no": 0}},
            "label2id says that entailment is 2, and id2label that it is 1",
        ),
    ],
)
def test_labels_that_are_refused(changes: dict[str, Any], labels: str, tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "bert", "classify", num_labels=3)
    _change(tmp_path, changes)
    with pytest.raises(ModelError, match=labels):
        load_card(str(tmp_path))


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
    assert torch.allclose(rotary_table(config.rope, config.head_dim, 100)[:, 0], cos[0, :, : config.head_dim // 2])


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
