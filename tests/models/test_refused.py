"""What files of a checkpoint may not say: each value is refused, by the name of its key, before anything is served."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from checkpoints import write_checkpoint
from decoders import DECODERS, write_decoder
from file_forms import write_cross_encoder, write_embedder
from multi_vectors import EXPANDED, write_multi
from sentence_files import MODEL_FILE, add, write, write_modules
from sparse_encoders import FILL_MASK, SPELLINGS, write_sparse_encoder

from fastqps.devices import make_runner
from fastqps.models import ModelError, load_card

pytestmark = pytest.mark.compute

LLAMA3 = {"type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0}
CONFIG, OWN, MASK = "config.json", "sentence_bert_config.json", "3_MultiVectorMask/config.json"
POOLING, DENSE, NORMALIZE = "1_Pooling/config.json", "2_Dense/config.json", "3_Normalize/config.json"
MESSAGES = {kind: {"method": "forward", "method_output_name": "last_hidden_state"} for kind in ("text", "message")}
MLM, SPLADE = SPELLINGS[0]
BASES: dict[str, Callable[[Path], Any]] = {
    "classifier": lambda path: write_checkpoint(path, "bert", "classify", num_labels=3),
    "sentence": write_embedder,
    "cross-encoder": write_cross_encoder,
    "sparse": lambda path: write_sparse_encoder(path, "bert"),
    "multi-vector": lambda path: shutil.copytree(write_multi(path.parent / "made"), path),
}
Rows = list[tuple[Any, str]]  # what is changed, and what the refusal names
# Of config.json, by base.
CONFIGS: dict[str, Rows] = {
    "bert": [
        ({"is_decoder": True}, "is_decoder"),
        ({"add_cross_attention": True}, "add_cross_attention"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder"),
        ({"pruned_heads": {"0": [1]}}, "pruned_heads"),
        ({"position_embedding_type": "relative_key_query"}, "position_embedding_type"),
        ({"layer_norm_eps": None}, "layer_norm_eps"),
        ({"layer_norm_eps": "1e-5"}, "layer_norm_eps"),
        ({"hidden_act": None}, "hidden_act"),
        ({"hidden_act": "quick_gelu"}, "hidden_act"),
        ({"hidden_size": 32.0}, "hidden_size"),
        ({"num_attention_heads": 5}, "num_attention_heads"),
        ({"type_vocab_size": 0}, "type_vocab_size"),
        ({"per_layer_config": {"0": {"layer_norm_eps": 1.0}}}, "per_layer_config"),
        ({"transformers_weights": "other.safetensors"}, "transformers_weights"),
        ({"architectures": ["BertForQuestionAnswering"]}, "ForSequenceClassification"),
        ({"hidden_size": 48}, "config.json says"),
        ({"num_hidden_layers": 4}, "no tensor"),
    ],
    "roberta": [
        ({"is_decoder": True}, "is_decoder"),
        ({"pad_token_id": None}, "pad_token_id"),
        ({"pad_token_id": -1}, "pad_token_id"),
    ],
    "distilbert": [
        ({"activation": "silu"}, "activation"),
    ],
    "deberta-v2": [
        ({"relative_attention": False}, "relative_attention"),
        ({"relative_attention": None}, "relative_attention"),
        ({"pos_att_type": "c2p"}, "pos_att_type"),
        ({"pos_att_type": None}, "pos_att_type"),
        ({"norm_rel_ebd": "rms"}, "norm_rel_ebd"),
        ({"conv_kernel_size": 3}, "conv_kernel_size"),
        ({"embedding_size": 16}, "embedding_size"),
        ({"attention_head_size": 16}, "attention_head_size"),
        ({"position_buckets": 1}, "position_buckets 1 "),
        ({"max_relative_positions": 9}, "position_buckets 16 .* max_relative_positions 9"),
    ],
    "t5": [
        ({"is_gated_act": False}, r"no tensor .*wi\.weight"),
        ({"feed_forward_proj": "closed-gelu"}, "feed_forward_proj"),
        ({"relative_attention_num_buckets": 6}, "relative_attention_num_buckets 6"),
        ({"relative_attention_max_distance": 8}, "relative_attention_max_distance 8"),
        ({"architectures": ["T5ForSequenceClassification"]}, "classifiers of a t5"),
    ],
    "nomic_bert": [
        ({"use_rms_norm": True}, "use_rms_norm true"),
        ({"rotary_emb_fraction": 0.5}, "rotary_emb_fraction 0.5"),
    ],
    "new": [
        ({"rope_scaling": {"type": "linear", "factor": 2.0}}, "rope_scaling"),
        ({"rope_scaling": {"type": "ntk", "factor": 2.0, "mixed_b": 0.6}}, "rope_scaling"),
        ({"rope_scaling": {"type": "ntk", "factor": 0.5}}, "rope_scaling"),
        ({"logn_attention_scale": True}, "logn_attention_scale"),
        ({"layer_norm_type": "rms_norm"}, "layer_norm_type"),
        ({"position_embedding_type": "absolute"}, "position_embedding_type"),
    ],
    "jina_bert": [
        ({"feed_forward_type": "original"}, "feed_forward_type"),
        ({"feed_forward_type": None}, "feed_forward_type"),
    ],
    "modernbert": [
        ({"local_attention": 1}, "local_attention"),
        ({"local_attention": 0}, "local_attention"),
        ({"local_attention": -4}, "local_attention"),
        ({"sliding_window": 8}, "sliding_window"),
        ({"global_attn_every_n_layers": 0, "layer_types": None}, "global_attn_every_n_layers"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"rope_scaling": {"rope_type": "linear", "factor": 2.0}}, "rope_scaling"),
        ({"rope_parameters": {"rope_theta": 5.0, "rope_type": "default"}}, "rope_parameters"),
        ({"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}, "rope_parameters"),
        ({"rope_parameters": None, "local_rope_theta": None}, "local_rope_theta"),
        ({"norm_bias": "yes"}, "norm_bias"),
    ],
    "llama": [
        ({"is_causal": False}, "see those behind them"),
        ({"sliding_window": 4}, "sliding_window"),
        ({"layer_types": ["sliding_attention"] * 2}, "layer_types"),
        ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
        ({"rope_parameters": None, "rope_theta": None}, "rope_theta"),
        ({"rope_scaling": {"rope_type": "proportional", "factor": 2.0}}, "rope_type 'proportional'"),
        ({"rope_scaling": {"rope_type": "longrope", "long_factor": [1.0]}}, "lacks short_factor"),
        ({"rope_scaling": {"rope_type": "longrope", "long_factor": [1.0], "short_factor": [1, 0]}}, "short_factor is"),
        ({"rope_scaling": {"rope_type": "longrope", "long_factor": [1.0], "short_factor": [1]}}, "4, by the heads"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2, "mscale": "1"}}, 'mscale "1"'),
        ({"tie_word_embeddings": None}, "tie_word_embeddings"),
        ({"rms_norm_eps": None}, "rms_norm_eps"),
        ({"num_local_experts": 4}, "num_local_experts"),
        ({"model_type": "phi"}, "'phi' is not supported: .* nearest .* is microsoft/Phi-4-mini-.*; supported: .*qwen3"),
        (
            {"model_type": "bloom", "architectures": ["BloomForCausalLM"]},
            "generation .* 'bloom' is not supported: its layers .* nearest .* is HuggingFaceTB/SmolLM2",
        ),
        (
            {"model_type": "nobody", "architectures": ["NobodyModel"]},
            "'nobody' is not supported; supported: bert, .*llama, mistral, .*qwen3",
        ),
        ({"architectures": ["LlamaModel"]}, "has to be ForCausalLM, ForSequenceClassification or .*, or have a"),
        ({"rope_scaling": {"type": "dynamic"}}, "lacks factor, .*'dynamic' needs$"),
        (
            {"rope_parameters": {"rope_type": "llama3", "factor": 4.0}},
            "lacks low_freq_factor and high_freq_factor, .*'llama3' needs$",
        ),
        ({"rope_scaling": {"type": "linear"}}, "rope_scaling of config.json lacks factor, .*'linear' needs$"),
        ({"rope_scaling": {"type": "linear", "factor": "4"}}, 'says factor "4", which is no positive number$'),
        ({"rope_scaling": {"type": "linear", "factor": True}}, "factor true, which is no positive number$"),
        ({"rope_scaling": {"type": "linear", "factor": 0}}, "factor 0, which is no positive number$"),
        ({"rope_scaling": {"type": ["linear"]}}, r"rope_type \['linear'\] is not supported; supported: default, "),
        ({"rope_scaling": [4.0]}, r"config.json says rope_scaling \[4.0\], which is no object$"),
        ({"architectures": 5}, "config.json says architectures 5, which is no list of names$"),
        ({"architectures": {"0": "LlamaForCausalLM"}}, "which is no list of names$"),
        ({"architectures": [["LlamaForCausalLM"]]}, "which is no list of names$"),
        ({"rope_parameters": {"rope_theta": "10000"}}, 'rope_theta "10000", which is no positive number$'),
        (
            {"rope_scaling": {"type": "llama3", "factor": 8, "low_freq_factor": 4, "high_freq_factor": 4}},
            "low_freq_factor that is not below its high_freq_factor$",
        ),
        (
            {"rope_scaling": {**LLAMA3, "original_max_position_embeddings": "8192"}},
            '"8192", which is no possible size: 1 to',
        ),
        ({"hidden_size": [32]}, r"hidden_size \[32\]"),
        ({"rope_parameters": {"full_attention": {"rope_type": "default"}}}, "by kind of layer"),
        ({"hidden_act": "gelu"}, '"gelu".*supported: silu'),
        ({"quantization_config": {"quant_method": "gptq"}}, r"quantised weights \(gptq\)"),
        ({"num_key_value_heads": 3}, "num_attention_heads 4 cannot share num_key_value_heads 3"),
        ({"num_attention_heads": 0}, "num_attention_heads 0"),
        ({"head_dim": 7}, "must be even"),
        ({"head_dim": None, "hidden_size": 30}, "do not divide its width 30"),
        ({"vocab_size": "many"}, 'vocab_size "many"'),
        ({"num_hidden_layers": 3}, "2 tensors have it, and 3 layers need it"),
        ({"num_hidden_layers": 1}, r"tensor 'layers\.1\..*', but config.json says num_hidden_layers 1$"),
        ({"intermediate_size": 64}, "config.json says"),
        ({"attention_bias": True}, "no tensor.*bias"),
    ],
    "qwen3": [
        ({"architectures": ["Qwen3Model"]}, "Qwen3Model is not supported.*or have a modules.json that says how"),
        ({"is_causal": False}, "see those behind them"),
        ({"head_dim": None}, "head_dim"),
        ({"model_type": "llama", "architectures": None}, r"self_attn\.\w_norm\.weight', for which"),
        ({"layer_types": ["full_attention", "linear_attention"]}, "linear_attention"),
    ],
    "qwen2": [
        ({"layer_types": ["sliding_attention"] * 2}, "layer_types"),
        ({"use_sliding_window": True, "sliding_window": 0, "layer_types": None, "max_window_layers": 0}, "slid"),
    ],
    "mistral": [
        ({"sliding_window": 0}, "sliding_window 0"),
        ({"layer_types": ["sliding_attention"] * 2}, "layer_types"),
        ({"sliding_window": 1}, "a token sees itself alone"),
        ({"architectures": ["MistralForQuestionAnswering"]}, "MistralForQuestionAnswering is not supported"),
    ],
    "gemma": [
        ({"hidden_activation": "gelu"}, "hidden_act says which"),
        ({"hidden_act": "tanh"}, 'hidden_act "tanh"'),
        ({"use_bidirectional_attention": True}, "tokens see those before them"),
        ({"is_causal": False}, "see those behind them"),
    ],
    "gemma3_text": [
        ({"rope_scaling": [4.0]}, r"config.json says rope_scaling \[4.0\], which is no object$"),
        ({"rope_scaling": "linear"}, 'config.json says rope_scaling "linear", which is no object$'),
        ({"sliding_window": 1}, "sliding_window 1, which is no possible size: 2 to"),
        ({"use_bidirectional_attention": True}, "see those behind them"),
        ({"attn_logit_softcapping": 50.0}, "attn_logit_softcapping 50.0"),
        ({"is_causal": True}, "use_bidirectional_attention says"),
        ({"hidden_activation": "tanh"}, "hidden_activation"),
        ({"query_pre_attn_scalar": 0}, "query_pre_attn_scalar"),
        ({"rope_parameters": {"rope_theta": 5.0}}, "rope_parameters.rope_theta is not supported"),
        ({"rope_parameters": {"full_attention": 5}}, "rope_parameters is not supported"),
        ({"rope_parameters": {"full_attention": {"rope_type": "su"}}}, "rope_type 'su'"),
        ({"rope_parameters": None, "rope_local_base_freq": "x"}, "rope_local_base_freq"),
        ({"layer_types": None, "sliding_window_pattern": 0}, "sliding_window_pattern"),
        ({"architectures": ["Gemma3TextModel"]}, "Gemma3TextModel is not supported"),
    ],
    "granitemoehybrid": [
        ({"num_local_experts": 8}, "experts are not computed; granite-4.0-350m"),
        ({"layer_types": ["mamba", "attention"]}, "Mamba layers are not computed; granite-4.0-350m"),
        ({"layer_types": None}, "Mamba layers are not computed"),
        ({"position_embedding_type": "alibi"}, "position_embedding_type"),
    ],
    "stablelm": [
        ({"qk_layernorm": True}, "stablelm-2-1_6b has no"),
        ({"architectures": ["StableLmForSequenceClassification"]}, "a stablelm is served as a generator alone"),
    ],
    "gpt_neox": [
        ({"rotary_pct": 0.1, "rope_parameters": None}, "turns 0 of a head's numbers"),
        ({"hidden_act": "silu"}, "hidden_act"),
    ],
    "gpt2": [
        ({"scale_attn_by_inverse_layer_idx": True}, "scores of all layers have one scale"),
        ({"n_layer": 3}, "2 tensors have it, and 3 layers need it"),
        ({"sliding_window": 5}, "the attention of this family has no window"),
    ],
    "opt": [
        ({"_remove_final_layer_norm": True}, "the last norm is computed"),
        ({"word_embed_proj_dim": 16}, "config.json says"),
    ],
    "olmo2": [({"hidden_act": "relu"}, '"relu".*supported: silu')],
    "granite": [({"residual_multiplier": 0}, "residual_multiplier 0")],
    "llama-biased": [
        ({"mlp_bias": False}, r"'layers\.0\.mlp\.\w+\.bias', for which config.json's model has no place$"),
    ],
    "qwen3-biased": [
        ({"attention_bias": False}, r"self_attn\.\w+\.bias', for which .* no place$"),
    ],
    "llama-gqa-tied": [
        ({"tie_word_embeddings": False}, r"no tensor 'lm_head\.weight'"),
    ],
    "classifier": [
        ({"id2label": {"0": "a", "1": "b", "3": "c"}}, "id2label"),
        ({"id2label": ["a", "b", "c"]}, "id2label"),
        ({"id2label": {}}, "id2label"),
        ({"num_labels": None}, "num_labels"),
        (
            {"id2label": {"0": "no", "1": "entailment", "2": "x"}, "label2id": {"Entailed": 2, "no": 0}},
            "entailment is 2, and id2label that it is 1",
        ),
    ],
}
# Of other files, too.
FILES: dict[str, dict[str, Rows]] = {
    "sentence": {
        POOLING: [
            ({"new_key": 1}, "new_key"),
            ({"include_prompt": "yes"}, "include_prompt 'yes'"),
            ({"pooling_mode": "weightedmean"}, "pooling_mode weightedmean"),
        ],
        OWN: [
            ({"transformer_task": "fill-mask"}, "transformer_task 'fill-mask'"),
            ({"processing_kwargs": {"text": {"max_length": 4}}}, "processing_kwargs"),
            ({"tokenizer_args": {"do_lower_case": True}}, "do_lower_case in tokenizer_args"),
            ({"processor_kwargs": {"x": 1}}, "x in processor_kwargs"),
            ({"config_args": {"hidden_act": "relu"}}, "hidden_act in config_args"),
            ({"model_kwargs": {"model_max_length": 3}}, "model_max_length in model_kwargs"),
            ({"model_args": [1]}, "model_args is no object"),
            ({"max_seq_length": "4"}, "a limit of '4' tokens"),
            ({"query_length": 4}, "query_length 4"),
            ({"tokenizer_name_or_path": "other"}, "tokenizer_name_or_path"),
            ({"modality_config": {"text": {"method": "f"}}}, "modality_config"),
            ({"modality_config": MESSAGES}, "message in modality_config"),
            ({"processor_kwargs": {"padding_side": "left"}}, 'padding_side "left"'),
            ({"processor_kwargs": {"model_max_length": None}}, "a limit of None tokens"),
            ({"new_key": 1}, "new_key"),
            ({"do_lower_case": True}, "do_lower_case"),
        ],
        "adapter_config.json": [
            ({"peft_type": "LORA"}, "an adapter is no model: serve its base"),
        ],
        MODEL_FILE: [
            ({"model_type": "CrossEncoder"}, "model_type 'CrossEncoder'"),
            ({"default_prompt_name": "p"}, "default_prompt_name 'p'"),
            ({"truncate_dim": 4}, "truncate_dim 4"),
            ({"model_type": "SparseEncoder"}, "model_type 'SparseEncoder'"),
            ({"prompts": {"q": 5}}, "the prompt 'q' is 5"),
            ({"prompts": ["q"]}, "prompts is no object"),
        ],
        DENSE: [
            ({"activation_function": "my_code.Tanh"}, "activation_function my_code.Tanh"),
            ({"activation_function": "torch.nn.my_code.Tanh"}, "activation_function torch.nn.my"),
            ({"use_residual": True}, "use_residual true"),
            ({"module_input_name": "token_embeddings"}, "module_input_name"),
        ],
        NORMALIZE: [
            ({"module_input_name": "token_embeddings"}, "module_input_name"),
            ({"module_output_name": "other"}, "module_output_name"),
        ],
    },
    "cross-encoder": {
        MODEL_FILE: [
            ({"activation_fn": "my_code.Identity"}, "activation_fn 'my_code.Identity'"),
            ({"activation_fn": "torch.nn.ReLU"}, "activation_fn 'torch.nn.ReLU'"),
            ({"default_prompt_name": "query"}, "default_prompt_name 'query'"),
        ],
        CONFIG: [
            ({"sentence_transformers": {"activation_fn": "x.Sigmoid"}}, "activation_fn in sentence_transformers"),
            ({"sbert_ce_default_activation_function": "x.Sigmoid"}, "sbert_ce_default_activation_function"),
        ],
        OWN: [
            ({"transformer_task": "fill-mask"}, "transformer_task 'fill-mask'"),
        ],
    },
    "sparse": {
        "1_SpladePooling/config.json": [
            ({"pooling_strategy": "sum"}, "pooling_strategy 'sum' is not supported; supported: max"),
            ({"activation_function": "gelu"}, "activation_function 'gelu' is not supported"),
            ({"temperature": 2}, "temperature is not supported"),
        ],
        MODEL_FILE: [
            ({"model_type": "SparseEncoder", "max_active_dims": 0}, "max_active_dims 0 is impossible"),
            ({"model_type": "SentenceTransformer"}, "model_type 'SentenceTransformer' does not fit modules.json"),
            ({}, "model_type 'SentenceTransformer' does not fit modules.json"),
        ],
        OWN: [
            ({"transformer_task": "feature-extraction"}, "transformer_task 'feature-extraction'"),
            ({**FILL_MASK, "module_output_name": "x"}, "module_output_name 'x'"),
        ],
        "modules.json": [
            ([(MLM, ""), (SPLADE, "1_SpladePooling"), (SPLADE, "2")], "MLMTransformer, SpladePooling, SpladePool"),
            ([("sentence_transformers.models.Transformer", ""), (SPLADE, "1_SpladePooling")], "task is missing"),
            ([("sentence_transformers.base.modules.router.Router", "")], "what a text is for would decide"),
            ([("sentence_transformers.sparse_encoder.models.IDF", "")], "look them up where queries are made"),
            ([(MLM, ""), (f"{MLM[:-14]}SparseAutoEncoder", "1")], "masked language model, with SpladePooling"),
        ],
        CONFIG: [
            ({"architectures": ["BertModel"]}, "BertModel is not supported; sparse embeddings are of a ForMask"),
            ({"vocab_size": 2**24 + 1}, "vocab_size 16777217; a sparse embedding has at most 16777216"),
            ({"model_type": "nomic_bert", "architectures": ["NomicBertForMaskedLM"]}, "embeddings of a nomic_bert"),
        ],
    },
    "multi-vector": {
        OWN: [
            ({"query_expansion": EXPANDED | {"length": 90}}, "expanded to 90 tokens, and inputs"),
            ({"query_expansion": EXPANDED | {"strategy": "all"}}, "strategy 'all' is neither"),
            ({"query_expansion": EXPANDED | {"more": 1}}, "more is not supported"),
            ({"query_expansion": EXPANDED | {"token": "[ELSE]"}}, r"expanded by '\[ELSE\]'"),
            ({"query_length": 5, "query_expansion": EXPANDED}, "query_length 5 is below"),
            ({"document_length": "12"}, "document_length '12' is no number of tokens"),
        ],
        "1_Dense/config.json": [
            ({"use_residual": True}, "use_residual true is not supported"),
            ({"module_input_name": "sentence_embedding"}, "module_input_name .* is not supported"),
        ],
        MASK: [
            ({"keep_only_token_ids": [5]}, r"keep_only_token_ids \[5\] is not supported"),
            ({"skiplist_words": "abc"}, "skiplist_words 'abc' is no list"),
        ],
        MODEL_FILE: [
            ({"truncate_dim": 4}, "truncate_dim 4 is not supported"),
            ({"model_type": "ColBERT"}, "model_type ColBERT are not supported"),
        ],
        "tokenizer.json": [
            (None, r"needs a tokenizer\.json"),
        ],
    },
}


def write_base(path: Path, base: str) -> None:
    """A generator where a kind of that name generates; else an encoder that embeds."""
    if base in BASES:
        BASES[base](path)
    elif base in DECODERS:
        write_decoder(path, base)
    else:
        write_checkpoint(path, base)


def load(path: Path) -> None:
    make_runner("cpu", load_card(str(path), 40, max_output_tokens=24), 2, 64, dtype="float32", threads=1)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Each base once, which is served as it is."""

    @cache
    def written(base: str) -> Path:
        path = tmp_path_factory.mktemp("base") / "model"
        write_base(path, base)
        load(path)
        return path

    return written


@pytest.mark.parametrize(
    ("base", "file", "changes", "said"),
    [
        *((base, CONFIG, *row) for base, rows in CONFIGS.items() for row in rows),
        *((base, file, *row) for base, files in FILES.items() for file, rows in files.items() for row in rows),
    ],
)
def test_refused_by_name(
    base: str, file: str, changes: Any, said: str, served: Callable[[str], Path], tmp_path: Path
) -> None:
    path = shutil.copytree(served(base), tmp_path / "model")
    if changes is None:
        (path / file).unlink()
    elif file == "modules.json":
        write_modules(path, changes)
    else:
        (add if changes else write)(path / file, changes)
    with pytest.raises(ModelError, match=said):
        load(path)
