"""Small random decoders of every supported family, written by transformers as its users write theirs."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
import transformers as tr

VOCAB = 96
_SIZES = {"num_hidden_layers": 2, "intermediate_size": 48, "max_position_embeddings": 128, "rms_norm_eps": 1e-5}
_ENDS = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
_YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 1000.0}
_LONG = {"short_factor": [1.0 + i / 8 for i in range(12)], "long_factor": [4.0] * 12}
_SLIDES = {
    "use_sliding_window": True,
    "sliding_window": 9,
    "layer_types": ["sliding_attention", "full_attention"],
}
_CAPS = {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0}
_GEMMA = {"sliding_window": 13, "sliding_window_pattern": 2, "query_pre_attn_scalar": 24}

_FACTORS = {
    "embedding_multiplier": 6.0,
    "residual_multiplier": 0.3,
    "attention_multiplier": 0.2,
    "logits_scaling": 3.0,
}
_DENSE = {
    "shared_intermediate_size": 48,
    "num_local_experts": 0,
    "layer_types": ["full_attention"] * 2,
    "mamba_n_heads": 4,
}


def _heads(hidden: int, heads: int, kv_heads: int, **more: Any) -> dict[str, Any]:
    return {"hidden_size": hidden, "num_attention_heads": heads, "num_key_value_heads": kv_heads, **more}


# Between them: one head for each key, shared and single keys, odd numbers of heads, all biases, tied and own heads,
# every kind of positions, heads of another size than the width's share.
DECODERS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", _heads(32, 4, 4)),
    "llama-gqa-tied": ("llama", _heads(32, 4, 2, tie_word_embeddings=True)),
    "llama-5-heads": ("llama", _heads(40, 5, 5, num_hidden_layers=3)),
    "llama-mqa-5": ("llama", _heads(40, 5, 1, tie_word_embeddings=True)),
    "llama-9-3": ("llama", _heads(72, 9, 3)),
    "llama-biased": ("llama", _heads(32, 4, 2, attention_bias=True, mlp_bias=True)),
    "llama3-rope": ("llama", _heads(48, 3, 1, rope_parameters={**_LLAMA3, "rope_theta": 500_000.0})),
    "llama-linear-rope": ("llama", _heads(32, 2, 1, rope_parameters={"rope_type": "linear", "factor": 4.0})),
    "llama-head-dim": ("llama", _heads(32, 4, 2, head_dim=24)),
    "llama-1-layer": ("llama", _heads(32, 2, 2, num_hidden_layers=1)),
    "qwen2": ("qwen2", _heads(32, 4, 2)),
    "qwen2-mqa-tied": ("qwen2", _heads(56, 7, 1, tie_word_embeddings=True)),
    "qwen3": ("qwen3", _heads(32, 4, 2, head_dim=16, tie_word_embeddings=True)),
    "mistral": ("mistral", _heads(32, 4, 2, head_dim=16, sliding_window=None)),
    "qwen3-biased": ("qwen3", _heads(40, 5, 5, head_dim=32, attention_bias=True)),
    "llama-yarn": ("llama", _heads(32, 2, 1, rope_parameters=_YARN)),
    "llama-dynamic": ("llama", _heads(32, 2, 1, rope_parameters={"rope_type": "dynamic", "factor": 2.0})),
    "mistral-window": ("mistral", _heads(32, 4, 2, head_dim=16, sliding_window=7)),
    "qwen2-window": ("qwen2", _heads(32, 4, 2, use_sliding_window=True, sliding_window=11, max_window_layers=1)),
    "qwen3-window": ("qwen3", _heads(32, 4, 2, head_dim=16, **_SLIDES)),
    "ministral": ("ministral", _heads(32, 4, 2, head_dim=16, sliding_window=9, layer_types=_SLIDES["layer_types"])),
    "smollm3": ("smollm3", _heads(32, 4, 2, no_rope_layer_interval=2)),
    "smollm3-window": (
        "smollm3",
        _heads(32, 4, 2, no_rope_layers=[0, 1], use_sliding_window=True, sliding_window=9, attention_bias=True),
    ),
    "phi3": ("phi3", _heads(32, 4, 2, sliding_window=20)),
    "phi3-longrope": (
        "phi3",
        _heads(64, 2, 1, tie_word_embeddings=True, original_max_position_embeddings=104)
        | {"rope_parameters": {"rope_type": "longrope", "partial_rotary_factor": 0.75} | _LONG},
    ),
    "gemma": ("gemma", _heads(32, 4, 1, head_dim=16)),
    "gemma2": ("gemma2", _heads(32, 4, 2, head_dim=16, sliding_window=13, query_pre_attn_scalar=24, **_CAPS)),
    "gemma3_text": ("gemma3_text", _heads(32, 4, 2, head_dim=16, num_hidden_layers=4, **_GEMMA)),
    "gpt2": ("gpt2", {"n_embd": 32, "n_head": 4, "n_inner": 48}),
    "opt": ("opt", {"hidden_size": 32, "num_attention_heads": 4, "ffn_dim": 48, "activation_function": "gelu"}),
    "opt-normed-sums": (
        "opt",
        {"hidden_size": 40, "num_attention_heads": 5, "ffn_dim": 48, "word_embed_proj_dim": 24}
        | {"do_layer_norm_before": False},
    ),
    "gpt_neox": ("gpt_neox", {"hidden_size": 32, "num_attention_heads": 4}),
    "gpt_neox-in-turn": (
        "gpt_neox",
        {"hidden_size": 40, "num_attention_heads": 2, "use_parallel_residual": False, "hidden_act": "gelu_fast"}
        | {"rope_parameters": {"partial_rotary_factor": 0.5}},
    ),
    "olmo2": ("olmo2", _heads(32, 4, 2, attention_bias=True)),
    "granite": ("granite", _heads(32, 4, 2, mlp_bias=True, tie_word_embeddings=True, **_FACTORS)),
    "granitemoehybrid": ("granitemoehybrid", _heads(32, 4, 2, position_embedding_type="rope", **_DENSE)),
    "granitemoehybrid-placeless": ("granitemoehybrid", _heads(32, 4, 2, **_FACTORS, **_DENSE)),
    "stablelm": ("stablelm", _heads(32, 4, 2, use_qkv_bias=True)),
    "stablelm-parallel": ("stablelm", _heads(40, 5, 1, use_parallel_residual=True, partial_rotary_factor=0.5)),
}


def write_decoder(path: Path, kind: str = "llama", seed: int = 0, spread: float = 0.2, **options: Any) -> Any:
    """Writes a checkpoint with random weights, norms and biases included, and returns the transformers model."""
    torch.manual_seed(seed)
    family, own = DECODERS[kind]
    shards = {"max_shard_size": options.pop("max_shard_size")} if "max_shard_size" in options else {}
    kind_of = tr.CONFIG_MAPPING[family]
    known = {field.name for field in fields(kind_of)} | kind_of.attribute_map.keys()
    sizes = {key: value for key, value in _SIZES.items() if key in known}
    config = kind_of(**{"vocab_size": VOCAB, **sizes, **_ENDS, **own, **options})
    model = tr.AutoModelForCausalLM.from_config(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            # Default weights are so small, and norms and biases so plain, that many a mistake would not show.
            parameter.add_(torch.randn_like(parameter) * spread)
    model.generation_config.eos_token_id = options.get("eos_token_id")
    model.save_pretrained(path, **shards)
    return model


def expected(model: Any, ids: list[int], max_tokens: int, eos_ids: list[int] | None = None) -> list[int]:
    """What ``transformers.generate`` makes of a prompt alone, greedily."""
    config = tr.GenerationConfig(max_new_tokens=max_tokens, do_sample=False, eos_token_id=eos_ids, pad_token_id=0)
    with torch.inference_mode():
        found = model.generate(torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), generation_config=config)
    return found[0, len(ids) :].tolist()


def write_byte_tokenizer(path: Path) -> None:
    """A tokenizer.json whose tokens are the 256 bytes, and <begin> (256, before every text) and <end> (257)."""
    import tokenizers as tk

    letters = sorted(tk.pre_tokenizers.ByteLevel.alphabet())
    tokenizer = tk.Tokenizer(tk.models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = tk.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tk.decoders.ByteLevel()
    tokenizer.add_special_tokens(["<begin>", "<end>"])
    tokenizer.post_processor = tk.processors.TemplateProcessing("<begin> $A", None, [("<begin>", 256)])
    tokenizer.save(str(path / "tokenizer.json"))


_CHATML = """{%- for m in messages %}{{ '<begin>' + m.role + '\\n' + m.content + '<end>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<begin>assistant\\n' }}{% endif %}"""


def write_instruct(path: Path, **options: Any) -> Any:
    """A random decoder with ``write_byte_tokenizer`` and a chat template; returns the transformers model."""
    sizes = {"vocab_size": 258, "max_position_embeddings": 512, **options}
    model = write_decoder(path, "llama", eos_token_id=257, **sizes)
    write_byte_tokenizer(path)
    (path / "chat_template.jinja").write_text(_CHATML)
    return model
