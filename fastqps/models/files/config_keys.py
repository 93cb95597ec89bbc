"""The keys of config.json that families share: which are honoured, irrelevant or refused, as transformers has them.

Each family adds its own in its module of ``fastqps/models/families``.

tests/models/test_config_keys.py compares these rules with transformers' classes, and with what code reads.
"""

from __future__ import annotations

from fastqps.models.files.generation_keys import GENERATION_KEYS
from fastqps.models.files.keys import Keys, Refused, rules

CONFIG = "config.json"
_NO = (False,)
_NO_WINDOW = "the attention of this family has no window"

_QUANTIZED = ("quantization_config", "compression_config")

# Keys that every model can have. The second group is about training, saving, or what Python objects a call returns.
COMMON_KEYS = rules(
    honoured=("model_type", "architectures", "auto_map", "tokenizer_class", *_QUANTIZED),
    irrelevant=(
        *("_name_or_path", "name_or_path", "_commit_hash", "transformers_version", "transformers.js_config"),
        *("dtype", "torch_dtype", "use_bfloat16", "tf_legacy_loss", "torchscript", "xla_device"),
        *("output_hidden_states", "output_attentions", "return_dict", "use_return_dict", "output_past", "use_cache"),
        *("attn_implementation", "_attn_implementation", "_attn_implementation_autoset", "experts_implementation"),
        *("chunk_size_feed_forward", "gradient_checkpointing", "initializer_range", "tie_last_hidden_states"),
        *("finetuning_task", "task_specific_params", "prefix", "language"),
        *(
            "tie_encoder_decoder",
            "cross_attention_hidden_size",
            "decoder_start_token_id",
            "tie_weights_",
            "tie_weights",
        ),
        *("pretraining_tp", "unsloth_fixed", "unsloth_version", "_num_labels"),
    ),
    refused={
        "is_encoder_decoder": Refused(_NO, "an encoder with a decoder is another kind of model"),
        "add_cross_attention": Refused(_NO, "cross-attention is a decoder's that reads an encoder"),
        "pruned_heads": Refused(({}, []), "every layer must have the same number of attention heads"),
        "per_layer_config": Refused(({},), "all layers must have the same configuration"),
        "transformers_weights": Refused((), "weights are read from model.safetensors or its index"),
    },
)

ENCODER_KEYS = COMMON_KEYS | rules(
    honoured=(
        *("vocab_size", "max_position_embeddings", "id2label", "label2id", "num_labels", "problem_type"),
        *("pad_token_id", "bos_token_id", "cls_token_id", "eos_token_id", "sep_token_id"),
        *("sentence_transformers", "sbert_ce_default_activation_function"),
    ),
    # These families compute no head of a masked language model, so it does not matter whether it is tied.
    irrelevant=("tie_word_embeddings", "classifier_dropout", *GENERATION_KEYS),
    refused={
        "is_decoder": Refused(_NO, "an encoder's attention sees both directions"),
        "is_causal": Refused(_NO, "an encoder's attention sees both directions"),
        "position_embedding_type": Refused(("absolute",), "only absolute position embeddings are supported"),
    },
)
# The keys of families whose head of a masked language model is computed.
VOCABULARY_KEYS = rules(honoured=("tie_word_embeddings",))
# The keys of every family that generates.
GENERATOR_KEYS = COMMON_KEYS | rules(
    honoured=(
        *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings"),
        *("tie_word_embeddings", "eos_token_id"),
    ),
    irrelevant=(
        *("attention_dropout", "bos_token_id", "pad_token_id", "sep_token_id", "cls_token_id", "is_decoder"),
        *("id2label", "label2id", "num_labels", "problem_type", "token_classification_bias"),
    ),
    refused={
        "is_causal": Refused((True,), "a decoder's attention sees what came before alone"),
        "attention_chunk_size": Refused((), "attention in chunks is not computed"),
        "num_kv_shared_layers": Refused((0,), "every layer has keys and values of its own"),
        "sliding_window": Refused((), _NO_WINDOW),
        "use_sliding_window": Refused(_NO, _NO_WINDOW),
    },
)
# Those of a llama's layout.
DECODER_KEYS = GENERATOR_KEYS | rules(
    honoured=(
        *("intermediate_size", "num_key_value_heads", "head_dim", "hidden_act", "rms_norm_eps", "layer_types"),
        "is_causal",
        *("rope_parameters", "rope_scaling", "rope_theta", "original_max_position_embeddings"),
    ),
    irrelevant=("rope_interleaved", "is_llama_config"),
    refused={
        "partial_rotary_factor": Refused((1, 1.0), "rotary positions turn the whole of each head"),
        "num_experts": Refused((0,), "mixtures of experts are not computed; dense decoders are"),
        "num_local_experts": Refused((0,), "mixtures of experts are not computed; dense decoders are"),
        "n_routed_experts": Refused((0,), "mixtures of experts are not computed; dense decoders are"),
    },
)


def config_warnings(config: Keys, code: str = "") -> tuple[str, ...]:
    """Warnings for the operator about the file's keys, a sentence each. ``code`` defines the family, if it is named."""
    warnings = [*config.warnings()]
    if config.get("auto_map"):
        plain = f"transformers' {config['model_type']}, as without trust_remote_code"
        warnings.append(
            f"{CONFIG} names code of its own (auto_map), which is not run: answers are those of {code or plain}."
        )
    return tuple(warnings)
