"""What config.json says in the families of published models, which published_configs.py makes its table of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Config = dict[str, Any]


@dataclass(frozen=True)
class Published:
    """``pooling``: of a modules.json; "" where there is none. ``activation`` is a classifier's.

    ``warned``: what one of the card's warnings names.
    """

    name: str
    config: Config
    pooling: str = ""
    normalize: bool = False
    activation: str = ""
    warned: str = ""


def _sizes(hidden: int, intermediate: int, heads: int, layers: int, key_heads: int = 0) -> Config:
    """Shrunk in all of them when a checkpoint is written."""
    keys = ("hidden_size", "intermediate_size", "num_attention_heads", "num_hidden_layers", "num_key_value_heads")
    values = (hidden, intermediate, heads, layers, *([key_heads] if key_heads else []))
    return dict(zip(keys, values, strict=False))


_SIZES = _sizes(768, 3072, 12, 12)
_TRAINING = {"initializer_range": 0.02, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
_USUAL = _SIZES | _TRAINING | {"hidden_act": "gelu", "max_position_embeddings": 512}
BERT: Config = {
    "architectures": ["BertModel"],
    **_USUAL,
    "gradient_checkpointing": False,
    "layer_norm_eps": 1e-12,
    "model_type": "bert",
    "pad_token_id": 0,
    "position_embedding_type": "absolute",
    "type_vocab_size": 2,
    "transformers_version": "4.8.2",
    "use_cache": True,
    "vocab_size": 30522,
}
ROBERTA: Config = {
    "architectures": ["RobertaForMaskedLM"],
    **_USUAL,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "pad_token_id": 1,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 514,
    "model_type": "roberta",
    "type_vocab_size": 1,
    "vocab_size": 50265,
}
XLMR = ROBERTA | {
    "architectures": ["XLMRobertaModel"],
    "model_type": "xlm-roberta",
    "vocab_size": 250002,
    "output_past": True,
    "position_embedding_type": "absolute",
    "use_cache": True,
    "classifier_dropout": None,
}
DISTILBERT: Config = {
    "activation": "gelu",
    "architectures": ["DistilBertForMaskedLM"],
    "attention_dropout": 0.1,
    "dim": 768,
    "dropout": 0.1,
    "hidden_dim": 3072,
    "initializer_range": 0.02,
    "max_position_embeddings": 512,
    "model_type": "distilbert",
    "n_heads": 12,
    "n_layers": 6,
    "pad_token_id": 0,
    "qa_dropout": 0.1,
    "seq_classif_dropout": 0.2,
    "sinusoidal_pos_embds": False,
    "tie_weights_": True,
    "vocab_size": 30522,
}
MPNET: Config = {
    "architectures": ["MPNetForMaskedLM"],
    **_USUAL,
    "bos_token_id": 0,
    "eos_token_id": 2,
    "pad_token_id": 1,
    "layer_norm_eps": 1e-05,
    "max_position_embeddings": 514,
    "model_type": "mpnet",
    "relative_attention_num_buckets": 32,
    "vocab_size": 30527,
}
NEW: Config = {
    **_SIZES,
    "architectures": ["NewModel"],
    "attention_probs_dropout_prob": 0.0,
    "auto_map": {"AutoModel": "Alibaba-NLP/new-impl--modeling.NewModel"},
    "classifier_dropout": 0.0,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "layer_norm_type": "layer_norm",
    "logn_attention_clip1": False,
    "logn_attention_scale": False,
    "max_position_embeddings": 8192,
    "model_type": "new",
    "pack_qkv": True,
    "position_embedding_type": "rope",
    "rope_scaling": {"factor": 8.0, "type": "ntk"},
    "rope_theta": 20000,
    "torch_dtype": "float16",
    "transformers_version": "4.39.1",
    "type_vocab_size": 1,
    "unpad_inputs": False,
    "use_memory_efficient_attention": False,
    "vocab_size": 250048,
}
DEBERTA: Config = {
    "model_type": "deberta-v2",
    **_USUAL,
    "relative_attention": True,
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": "p2c|c2p",
    "layer_norm_eps": 1e-7,
    "max_relative_positions": -1,
    "position_biased_input": False,
    "type_vocab_size": 0,
    "vocab_size": 128100,
}
NOMIC: Config = {
    "architectures": ["NomicBertModel"],
    **_USUAL,
    "auto_map": {"AutoModel": "nomic-ai/nomic-bert-2048--modeling_hf_nomic_bert.NomicBertModel"},
    "hidden_act": "silu",
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 2048,
    "model_type": "nomic_bert",
    "pad_token_id": 0,
    "rope_parameters": {"rope_theta": 1000.0, "rope_type": "default"},
    "type_vocab_size": 2,
    "vocab_size": 30528,
}
ALBERT: Config = {
    **_SIZES,
    "architectures": ["AlbertForMaskedLM"],
    "attention_probs_dropout_prob": 0,
    "hidden_dropout_prob": 0,
    "initializer_range": 0.02,
    "bos_token_id": 2,
    "eos_token_id": 3,
    "pad_token_id": 0,
    "classifier_dropout_prob": 0.1,
    "down_scale_factor": 1,
    "embedding_size": 128,
    "gap_size": 0,
    "hidden_act": "gelu_new",
    "inner_group_num": 1,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "model_type": "albert",
    "net_structure_type": 0,
    "num_hidden_groups": 1,
    "num_memory_blocks": 0,
    "type_vocab_size": 2,
    "vocab_size": 30000,
}
ELECTRA: Config = {
    "architectures": ["ElectraForPreTraining"],
    **_USUAL,
    "embedding_size": 128,
    "hidden_size": 256,
    "intermediate_size": 1024,
    "layer_norm_eps": 1e-12,
    "model_type": "electra",
    "num_attention_heads": 4,
    "pad_token_id": 0,
    "position_embedding_type": "absolute",
    "summary_activation": "gelu",
    "summary_last_dropout": 0.1,
    "summary_type": "first",
    "summary_use_proj": True,
    "type_vocab_size": 2,
    "vocab_size": 30522,
}
T5: Config = {
    "architectures": ["T5EncoderModel"],
    "d_ff": 3072,
    "d_kv": 64,
    "d_model": 768,
    "decoder_start_token_id": 0,
    "dropout_rate": 0.1,
    "eos_token_id": 1,
    "feed_forward_proj": "relu",
    "initializer_factor": 1.0,
    "is_encoder_decoder": True,
    "layer_norm_epsilon": 1e-06,
    "model_type": "t5",
    "n_positions": 512,
    "num_decoder_layers": 12,
    "num_heads": 12,
    "num_layers": 12,
    "output_past": True,
    "pad_token_id": 0,
    "relative_attention_num_buckets": 32,
    "task_specific_params": {"summarization": {"max_length": 200, "num_beams": 4, "prefix": "summarize: "}},
    "torch_dtype": "float16",
    "use_cache": True,
    "vocab_size": 32128,
}
MODERNBERT: Config = {
    **_SIZES,
    "architectures": ["ModernBertForMaskedLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 50281,
    "classifier_activation": "gelu",
    "classifier_bias": False,
    "classifier_dropout": 0.0,
    "classifier_pooling": "mean",
    "cls_token_id": 50281,
    "decoder_bias": True,
    "deterministic_flash_attn": False,
    "embedding_dropout": 0.0,
    "eos_token_id": 50282,
    "global_attn_every_n_layers": 3,
    "gradient_checkpointing": False,
    "global_rope_theta": 160000.0,
    "hidden_activation": "gelu",
    "initializer_cutoff_factor": 2.0,
    "initializer_range": 0.02,
    "intermediate_size": 1152,
    "layer_norm_eps": 1e-05,
    "local_attention": 128,
    "local_rope_theta": 10000.0,
    "max_position_embeddings": 8192,
    "mlp_bias": False,
    "mlp_dropout": 0.0,
    "model_type": "modernbert",
    "norm_bias": False,
    "norm_eps": 1e-05,
    "num_hidden_layers": 22,
    "pad_token_id": 50283,
    "position_embedding_type": "absolute",
    "sep_token_id": 50282,
    "reference_compile": None,
    "repad_logits_with_grad": False,
    "sparse_pred_ignore_index": -100,
    "sparse_prediction": False,
    "torch_dtype": "float32",
    "transformers_version": "4.47.0.dev0",
    "vocab_size": 50368,
}
LLAMA: Config = {
    **_sizes(2048, 5632, 32, 22, 4),
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "max_position_embeddings": 2048,
    "mlp_bias": False,
    "model_type": "llama",
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.35.0",
    "use_cache": True,
    "vocab_size": 32000,
}
SMOLLM2 = LLAMA | {
    **_sizes(576, 1536, 9, 30, 3),
    "is_llama_config": True,
    "max_position_embeddings": 8192,
    "rope_interleaved": False,
    "rope_theta": 100000,
    "tie_word_embeddings": True,
    "vocab_size": 49152,
    "transformers.js_config": {"dtype": "q4"},
}
LLAMA3_ROPE = {
    "factor": 32.0,
    "high_freq_factor": 4.0,
    "low_freq_factor": 1.0,
    "rope_type": "llama3",
    "original_max_position_embeddings": 8192,
}
LLAMA32 = LLAMA | {
    "bos_token_id": 128000,
    "eos_token_id": 128001,
    "head_dim": 64,
    "max_position_embeddings": 131072,
    "num_key_value_heads": 8,
    "rope_scaling": LLAMA3_ROPE,
    "rope_theta": 500000.0,
    "tie_word_embeddings": True,
    "vocab_size": 128256,
    "transformers_version": "4.45.0.dev0",
}
QWEN2: Config = {
    **_sizes(896, 4864, 14, 24, 2),
    "architectures": ["Qwen2ForCausalLM"],
    "attention_dropout": 0.0,
    "bos_token_id": 151643,
    "eos_token_id": 151643,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "max_position_embeddings": 131072,
    "max_window_layers": 24,
    "model_type": "qwen2",
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "sliding_window": 131072,
    "tie_word_embeddings": True,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.40.1",
    "use_cache": True,
    "use_sliding_window": False,
    "vocab_size": 151936,
}
QWEN3 = QWEN2 | {
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": False,
    "head_dim": 128,
    "hidden_size": 1024,
    "max_position_embeddings": 40960,
    "max_window_layers": 28,
    "model_type": "qwen3",
    "num_attention_heads": 16,
    "num_hidden_layers": 28,
    "num_key_value_heads": 8,
    "rope_scaling": None,
    "sliding_window": None,
}
QWEN3_EMBEDDING = QWEN3 | {
    "intermediate_size": 3072,
    "max_position_embeddings": 32768,
    "transformers_version": "4.51.3",
    "vocab_size": 151669,
}
MISTRAL: Config = {
    **_sizes(4096, 14336, 32, 32, 8),
    "architectures": ["MistralForCausalLM"],
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "initializer_range": 0.02,
    "max_position_embeddings": 32768,
    "model_type": "mistral",
    "rms_norm_eps": 1e-05,
    "rope_theta": 10000.0,
    "sliding_window": 4096,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.34.0.dev0",
    "use_cache": True,
    "vocab_size": 32000,
}
GEMMA3: Config = {
    **_sizes(768, 1152, 3, 24, 1),
    "_sliding_window_pattern": 6,
    "architectures": ["Gemma3TextModel"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "attn_logit_softcapping": None,
    "bos_token_id": 2,
    "dtype": "float32",
    "eos_token_id": 1,
    "final_logit_softcapping": None,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "initializer_range": 0.02,
    "layer_types": [*["sliding_attention"] * 5, "full_attention"] * 4,
    "max_position_embeddings": 2048,
    "model_type": "gemma3_text",
    "pad_token_id": 0,
    "query_pre_attn_scalar": 256,
    "rms_norm_eps": 1e-06,
    "rope_local_base_freq": 10000.0,
    "rope_scaling": None,
    "rope_theta": 1000000.0,
    "sliding_window": 512,
    "transformers_version": "4.57.0.dev0",
    "use_bidirectional_attention": True,
    "use_cache": True,
    "vocab_size": 262144,
}
GPT2: Config = {
    "activation_function": "gelu_new",
    "architectures": ["GPT2LMHeadModel"],
    "attn_pdrop": 0.1,
    "bos_token_id": 50256,
    "embd_pdrop": 0.1,
    "eos_token_id": 50256,
    "initializer_range": 0.02,
    "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2",
    "n_ctx": 1024,
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "n_positions": 1024,
    "resid_pdrop": 0.1,
    "summary_activation": None,
    "summary_first_dropout": 0.1,
    "summary_proj_to_labels": True,
    "summary_type": "cls_index",
    "summary_use_proj": True,
    "task_specific_params": {"text-generation": {"do_sample": True, "max_length": 50}},
    "vocab_size": 50257,
}
OPT: Config = {
    "activation_dropout": 0.0,
    "activation_function": "relu",
    "architectures": ["OPTForCausalLM"],
    "attention_dropout": 0.0,
    "bos_token_id": 2,
    "do_layer_norm_before": True,
    "dropout": 0.1,
    "eos_token_id": 2,
    "ffn_dim": 3072,
    "hidden_size": 768,
    "init_std": 0.02,
    "layerdrop": 0.0,
    "max_position_embeddings": 2048,
    "model_type": "opt",
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "pad_token_id": 1,
    "prefix": "</s>",
    "torch_dtype": "float16",
    "transformers_version": "4.21.0.dev0",
    "use_cache": True,
    "vocab_size": 50272,
    "word_embed_proj_dim": 768,
}
GEMMA3_1B = {k: v for k, v in GEMMA3.items() if k not in ("layer_types", "use_bidirectional_attention")} | {
    **_sizes(1152, 6912, 4, 26, 1),
    "architectures": ["Gemma3ForCausalLM"],
    "cache_implementation": "hybrid",
    "eos_token_id": [1, 106],
    "max_position_embeddings": 32768,
    "sliding_window_pattern": 6,
    "torch_dtype": "bfloat16",
}
SMOLLM3: Config = LLAMA | {
    **_sizes(2048, 11008, 16, 36, 4),
    "architectures": ["SmolLM3ForCausalLM"],
    "eos_token_id": 128012,
    "layer_types": ["full_attention"] * 36,
    "max_position_embeddings": 65536,
    "max_window_layers": 28,
    "model_type": "smollm3",
    "no_rope_layer_interval": 4,
    "no_rope_layers": [1, 1, 1, 0] * 9,
    "pad_token_id": 128004,
    "pretraining_tp": 2,
    "rms_norm_eps": 1e-06,
    "rope_theta": 5000000.0,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "vocab_size": 128256,
}
PHI3: Config = {k: v for k, v in LLAMA.items() if k not in ("mlp_bias", "pretraining_tp")} | {
    **_sizes(3072, 8192, 32, 32, 32),
    "architectures": ["Phi3ForCausalLM"],
    "auto_map": {"AutoModelForCausalLM": "modeling_phi3.Phi3ForCausalLM"},
    "embd_pdrop": 0.0,
    "eos_token_id": 32000,
    "max_position_embeddings": 4096,
    "model_type": "phi3",
    "original_max_position_embeddings": 4096,
    "pad_token_id": 32000,
    "resid_pdrop": 0.0,
    "sliding_window": 2047,
    "vocab_size": 32064,
}
PHI4_MINI = PHI3 | {
    **_sizes(3072, 8192, 24, 32, 8),
    "full_attn_mod": 1,
    "interpolate_factor": 1,
    "lm_head_bias": False,
    "max_position_embeddings": 131072,
    "mlp_bias": False,
    "partial_rotary_factor": 0.75,
    "rope_scaling": {
        "long_factor": [1 + i / 2 for i in range(48)],
        "short_factor": [1 + i / 8 for i in range(48)],
        "type": "longrope",
    },
    "sliding_window": 262144,
    "tie_word_embeddings": True,
    "vocab_size": 200064,
}
# What transformers 3 and 4.0 wrote for every model: the defaults of generation and of pruning among them.
DUMP: Config = {
    "add_cross_attention": False,
    "bad_words_ids": None,
    "chunk_size_feed_forward": 0,
    "diversity_penalty": 0.0,
    "do_sample": False,
    "early_stopping": False,
    "finetuning_task": None,
    "is_decoder": False,
    "length_penalty": 1.0,
    "is_encoder_decoder": False,
    "max_length": 20,
    "min_length": 0,
    "no_repeat_ngram_size": 0,
    "num_beams": 1,
    "num_return_sequences": 1,
    "output_attentions": False,
    "output_hidden_states": False,
    "prefix": None,
    "pruned_heads": {},
    "repetition_penalty": 1.0,
    "return_dict": True,
    "temperature": 1.0,
    "top_k": 50,
    "top_p": 1.0,
    "task_specific_params": None,
    "torchscript": False,
    "use_bfloat16": False,
    "xla_device": None,
    "tie_encoder_decoder": False,
    "tie_word_embeddings": True,
    "tokenizer_class": None,
}
POOLER = {
    "directionality": "bidi",
    "pooler_fc_size": 768,
    "pooler_num_attention_heads": 12,
    "pooler_num_fc_layers": 3,
    "pooler_size_per_head": 128,
    "pooler_type": "first_token_transform",
}
CROSS = {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}
NEW_CROSS = {"sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity", "version": "4.1.0.dev0"}}
SENTIMENT = {"id2label": {"0": "negative", "1": "neutral", "2": "positive"}}
SENTIMENT["label2id"] = {name: int(i) for i, name in SENTIMENT["id2label"].items()}  # type: ignore[misc]
ALIBI = {
    "architectures": ["JinaBertForMaskedLM"],
    "attn_implementation": None,
    "emb_pooler": "mean",
    "auto_map": {"AutoConfig": "jinaai/jina-bert-implementation--configuration_bert.JinaBertConfig"},
    "feed_forward_type": "geglu",
    "position_embedding_type": "alibi",
}
GTE_FOREIGN = {
    "auto_map": {
        "AutoModel": "modeling_qwen.Qwen2Model",
        "AutoModelForCausalLM": "modeling_qwen.Qwen2ForCausalLM",
    },
    "is_causal": False,
}


def mean(name: str, config: Config, normalize: bool = True, **more: Any) -> Published:
    return Published(name, config, pooling="mean", normalize=normalize, **more)


def cls(name: str, config: Config, normalize: bool = True, **more: Any) -> Published:
    return Published(name, config, pooling="cls", normalize=normalize, **more)


def last(name: str, config: Config, **more: Any) -> Published:
    return Published(name, config, pooling="lasttoken", normalize=True, **more)


def small(base: Config, hidden: int, layers: int, **more: Any) -> Config:
    return base | {"hidden_size": hidden, "num_hidden_layers": layers, "intermediate_size": 4 * hidden, **more}
