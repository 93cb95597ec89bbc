"""The keys of adapter_config.json, as PEFT 0.21 writes them for LoRA."""

from __future__ import annotations

from fastqps.models.files.keys import Refused, rules

_OFF = (False,)
_NONE: tuple[object, ...] = ([], {})
_OF_TRAINING = ("lora_dropout", "inference_mode", "loftq_config", "eva_config", "corda_config", "lora_ga_config")
_OF_LOADING = ("auto_mapping", "peft_version", "revision", "runtime_config", "megatron_config", "megatron_core")
_WITH_OTHERS = ("qalora_group_size", "velora_config", "ensure_weight_tying")  # mean nothing without what is refused

ADAPTER_KEYS = rules(
    honoured=(
        *("peft_type", "task_type", "base_model_name_or_path", "r", "lora_alpha", "use_rslora", "rank_pattern"),
        *("alpha_pattern", "target_modules", "exclude_modules", "layers_to_transform", "layers_pattern"),
        *("modules_to_save",),
    ),
    # fan_in_fan_out is for weights that lie transposed; PEFT ignores it where a module is linear, as all are here.
    irrelevant=(*_OF_TRAINING, *_OF_LOADING, *_WITH_OTHERS, "fan_in_fan_out"),
    refused={
        "use_dora": Refused(_OFF, "DoRA scales each merged row by a norm of its own"),
        "use_qalora": Refused(_OFF, "QALoRA pools a product's inputs"),
        "use_bdlora": Refused(_OFF, "block-diagonal factors are not multiplied"),
        "bias": Refused(("none",), "trained biases are not merged"),
        "lora_bias": Refused(_OFF, "biases of the factors are not merged"),
        "init_lora_weights": Refused(
            (True, False, "gaussian", "orthogonal", "eva"),
            "PEFT changes the base's weights for it; save the adapter with path_initial_model_for_weight_conversion",
        ),
        "layer_replication": Refused(_NONE, "layers are not replicated"),
        "target_parameters": Refused(_NONE, "parameters of mixtures of experts are not adapted"),
        "trainable_token_indices": Refused(_NONE, "rows of trained tokens are not merged; merge them with PEFT"),
        "alora_invocation_tokens": Refused(_NONE, "an activated adapter changes a part of each text alone"),
        # An empty object switches these on.
        "arrow_config": Refused((), "there is one adapter, and no routing among several"),
        "kasa_config": Refused((), "KaSA changes the base's weights"),
        "monteclora_config": Refused((), "an adapter of random weights is not merged"),
    },
)
