"""The keys of config.json: which of them are honoured, irrelevant or refused in each family, as transformers has them.

tests/test_config_keys.py compares these rules with transformers' configuration classes, and with what code reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastqps.models.files.keys import Keys, Refused, Rules, rules

CONFIG = "config.json"
_NO = (False,)

_QUANTIZED = ("quantization_config", "compression_config")

# What every model may say. The second group is about training, saving, or what Python objects a call returns.
_COMMON = rules(
    honoured=("model_type", "architectures", "auto_map", "tokenizer_class", *_QUANTIZED),
    irrelevant=(
        *("_name_or_path", "name_or_path", "_commit_hash", "transformers_version", "transformers.js_config"),
        *("dtype", "torch_dtype", "use_bfloat16", "tf_legacy_loss", "torchscript", "xla_device"),
        *("output_hidden_states", "output_attentions", "return_dict", "use_return_dict", "output_past", "use_cache"),
        *("attn_implementation", "_attn_implementation", "_attn_implementation_autoset", "experts_implementation"),
        *("chunk_size_feed_forward", "gradient_checkpointing", "initializer_range", "tie_last_hidden_states"),
        *("finetuning_task", "task_specific_params", "label2id", "prefix", "language"),
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

# How transformers generates where there is no generation_config.json. Requests have options of their own for the first
# group; in the second, beams and scores that nobody asks for change nothing.
_SAMPLING = ("do_sample", "temperature", "top_k", "top_p", "max_length", "max_new_tokens")
_GENERATION_IRRELEVANT = (
    *("length_penalty", "early_stopping", "num_return_sequences", "return_dict_in_generate", "output_scores"),
    *("assistant_confidence_threshold", "assistant_lookbehind", "target_lookbehind", "num_assistant_tokens"),
    *("num_assistant_tokens_schedule", "remove_invalid_values"),
)
_GENERATION_NEUTRAL: Mapping[str, tuple[Any, ...]] = {
    "repetition_penalty": (1, 1.0),
    "encoder_repetition_penalty": (1, 1.0),
    "no_repeat_ngram_size": (0,),
    "encoder_no_repeat_ngram_size": (0,),
    "min_length": (0,),
    "min_new_tokens": (0,),
    "num_beams": (1,),
    "num_beam_groups": (1,),
    "diversity_penalty": (0, 0.0),
    "typical_p": (1, 1.0),
    "epsilon_cutoff": (0, 0.0),
    "eta_cutoff": (0, 0.0),
    "exponential_decay_length_penalty": (),
    "bad_words_ids": ([],),
    "suppress_tokens": ([],),
    "begin_suppress_tokens": ([],),
    "forced_bos_token_id": (),
    "forced_eos_token_id": (),
    "sequence_bias": ({}, []),
}
GENERATION_KEYS = (*_SAMPLING, *_GENERATION_IRRELEVANT, *_GENERATION_NEUTRAL)

_ENCODER = _COMMON | rules(
    honoured=(
        *("vocab_size", "max_position_embeddings", "id2label", "num_labels", "problem_type"),
        *("pad_token_id", "bos_token_id", "cls_token_id", "eos_token_id", "sep_token_id"),
        *("sentence_transformers", "sbert_ce_default_activation_function"),
    ),
    # An encoder's output embeddings are left out, so that it does not matter to which they are tied.
    irrelevant=("tie_word_embeddings", "classifier_dropout", *GENERATION_KEYS),
    refused={
        "is_decoder": Refused(_NO, "an encoder's attention sees both directions"),
        "is_causal": Refused(_NO, "an encoder's attention sees both directions"),
        "position_embedding_type": Refused(("absolute",), "only absolute position embeddings are supported"),
    },
)
_BERT = _ENCODER | rules(
    honoured=(
        *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
        *("hidden_act", "layer_norm_eps", "type_vocab_size"),
    ),
    irrelevant=(
        *("hidden_dropout_prob", "attention_probs_dropout_prob", "directionality"),
        *("pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers"),
        *("pooler_size_per_head", "pooler_type"),
    ),
)
_DISTILBERT = _ENCODER | rules(
    honoured=("dim", "hidden_dim", "n_layers", "n_heads", "activation"),
    irrelevant=(
        *("dropout", "attention_dropout", "qa_dropout", "seq_classif_dropout"),
        *("sinusoidal_pos_embds", "layer_norm_eps", "hidden_act", "type_vocab_size"),  # the first: they are in the file
    ),
)
_MODERNBERT = _ENCODER | rules(
    honoured=(
        *("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
        *("hidden_activation", "norm_eps", "norm_bias", "attention_bias", "mlp_bias"),
        *("layer_types", "global_attn_every_n_layers", "local_attention"),
        *("rope_parameters", "global_rope_theta", "local_rope_theta"),
        *("classifier_pooling", "classifier_bias", "classifier_activation"),
    ),
    irrelevant=(
        *("attention_dropout", "embedding_dropout", "mlp_dropout", "initializer_cutoff_factor", "decoder_bias"),
        *("deterministic_flash_attn", "reference_compile", "repad_logits_with_grad"),
        *("sparse_prediction", "sparse_pred_ignore_index", "layer_norm_eps", "hidden_act", "rope_theta"),
    ),
    refused={
        "sliding_window": Refused((), "write local_attention, which is twice as large"),
        "rope_scaling": Refused(({},), "an encoder's rotary positions cannot be scaled"),
    },
)

_DECODER = _COMMON | rules(
    honoured=(
        *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "max_position_embeddings"),
        *("num_attention_heads", "num_key_value_heads", "head_dim", "hidden_act", "rms_norm_eps"),
        *("tie_word_embeddings", "layer_types", "eos_token_id"),
        *("rope_parameters", "rope_scaling", "rope_theta", "original_max_position_embeddings"),
    ),
    irrelevant=(
        *("attention_dropout", "bos_token_id", "pad_token_id", "sep_token_id", "cls_token_id", "is_decoder"),
        *("id2label", "num_labels", "problem_type", "rope_interleaved", "is_llama_config"),
    ),
    refused={
        "is_causal": Refused((True,), "a decoder's attention sees what came before alone"),
        "partial_rotary_factor": Refused((1, 1.0), "rotary positions turn the whole of each head"),
        "attention_chunk_size": Refused((), "attention in chunks is not computed"),
        "num_kv_shared_layers": Refused((0,), "every layer has keys and values of its own"),
        "num_experts": Refused((0,), "mixtures of experts are not computed; dense decoders are"),
        "num_local_experts": Refused((0,), "mixtures of experts are not computed; dense decoders are"),
        "n_routed_experts": Refused((0,), "mixtures of experts are not computed; dense decoders are"),
    },
)
_WINDOWS = rules(honoured=("use_sliding_window", "sliding_window", "max_window_layers"))
_LLAMA = _DECODER | rules(
    honoured=("attention_bias", "mlp_bias"),
    refused={
        "use_sliding_window": Refused(_NO, "a llama's attention has no window"),
        "sliding_window": Refused((), "a llama's attention has no window"),
    },
)

FAMILY_RULES: Mapping[str, Rules] = {
    "bert": _BERT,
    "distilbert": _DISTILBERT,
    "roberta": _BERT,
    "modernbert": _MODERNBERT,
    "llama": _LLAMA,
    "qwen2": _DECODER | _WINDOWS | rules(irrelevant=("attention_bias", "mlp_bias", "use_mrope")),
    "qwen3": _DECODER | _WINDOWS | rules(honoured=("attention_bias",), irrelevant=("mlp_bias",)),
}
_GENERATION = {
    False: rules(
        irrelevant=(*_SAMPLING, *_GENERATION_IRRELEVANT),
        refused={key: Refused(neutral, "it changes what is generated") for key, neutral in _GENERATION_NEUTRAL.items()},
    ),
    True: rules(irrelevant=GENERATION_KEYS),
}
# Names that transformers' class takes for its own. Where both are there, the alias decides.
_ALIASES = {"distilbert": {"hidden_size": "dim", "num_attention_heads": "n_heads", "num_hidden_layers": "n_layers"}}


def config_rules(family: str, generation_config: bool = False) -> Rules:
    """The rules of a family. ``generation_config``: the checkpoint has that file, and it alone says how to generate."""
    found = FAMILY_RULES[family]
    return found | _GENERATION[generation_config] if "rms_norm_eps" in found.honoured else found


def config_keys(found: Mapping[str, Any], family: str, generation_config: bool = False) -> Keys:
    """The object of a config.json of that family; ``ModelError`` names a key that is refused."""
    aliases = _ALIASES.get(family, {})
    renamed = {key: value for key, value in found.items() if key not in aliases}
    renamed |= {aliases[key]: value for key, value in found.items() if key in aliases}
    return Keys(CONFIG, renamed, config_rules(family, generation_config))


def config_warnings(config: Keys) -> tuple[str, ...]:
    """What an operator should know of the file's keys, a sentence each."""
    found = [*config.warnings()]
    if config.get("auto_map"):
        found.append(
            f"{CONFIG} names code of its own (auto_map), which is not run: answers are those of transformers' "
            f"{config['model_type']}, as without trust_remote_code."
        )
    return tuple(found)
