"""The nearest checkpoint that is served in the place of one whose ``model_type`` is not."""

from __future__ import annotations

from collections.abc import Mapping

_QWEN, _SMOL, _GEMMA = "Qwen/Qwen3-0.6B", "HuggingFaceTB/SmolLM2-135M-Instruct", "google/gemma-3-1b-it"
_MISTRAL, _PHI, _LLAMA = (
    "mistralai/Ministral-8B-Instruct-2410",
    "microsoft/Phi-4-mini-instruct",
    "meta-llama/Llama-3.2-1B",
)

# By the reason, and by type.
NEAREST: Mapping[str, Mapping[str, str]] = {
    "mixtures of experts are not computed": {
        **dict.fromkeys(
            ("gpt_oss", "deepseek_v2", "deepseek_v3", "glm4_moe", "olmoe", "qwen2_moe", "qwen3_moe"), _QWEN
        ),
        **dict.fromkeys(("phimoe", "granitemoe"), _PHI),
        "mixtral": _MISTRAL,
    },
    "layers that keep a state in the place of keys and values are not computed": {
        **dict.fromkeys(("falcon_mamba", "mamba", "mamba2", "recurrent_gemma", "rwkv", "lfm2"), _SMOL),
        **dict.fromkeys(("bamba", "falcon_h1", "jamba", "qwen3_next", "zamba2"), _QWEN),
    },
    "models of images or sounds are not computed, not even for texts": {
        **dict.fromkeys(("gemma3", "gemma3n", "gemma4", "paligemma"), _GEMMA),
        **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_5"), _QWEN),
        **dict.fromkeys(("idefics3", "smolvlm"), _SMOL),
        **dict.fromkeys(("llama4", "mllama"), _LLAMA),
        "mistral3": _MISTRAL,
        "phi4_multimodal": _PHI,
    },
    "decoders that read an encoder are not computed": dict.fromkeys(
        ("bart", "led", "m2m_100", "marian", "mbart", "mt5", "pegasus", "t5gemma", "umt5"), _SMOL
    ),
    "its layers are not computed": {
        **dict.fromkeys(("bloom", "codegen", "falcon", "gpt_bigcode", "gpt_neo", "gptj", "mpt", "xglm"), _SMOL),
        **dict.fromkeys(("cohere", "cohere2", "exaone4", "glm", "glm4", "internlm3", "qwen"), _QWEN),
        "ministral3": _MISTRAL,
        "phi": _PHI,
    },
}


def advice(model_type: object) -> str:
    """What ends the sentence about a type that is not served; empty for a type that is not in the table."""
    for why, nearest in NEAREST.items():
        if isinstance(model_type, str) and model_type in nearest:
            return f": {why}; the nearest that generates is {nearest[model_type]}"
    return ""
