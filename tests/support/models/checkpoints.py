"""Small random checkpoints of every supported family, written by transformers as its users write theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tokenizers as tk
import torch
import transformers as tr
from jina_bert import JinaBert

VOCAB = 200
_SIZES = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "intermediate_size": 64}
_MODERN = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2}
_DISTANCES = {"relative_attention": True, "pos_att_type": ["p2c", "c2p"], "position_buckets": 16}
_DISTANCES |= {"norm_rel_ebd": "layer_norm", "share_att_key": True, "position_biased_input": False}
_DECODES = {"num_key_value_heads": 2, "max_position_embeddings": 64, "pad_token_id": 0}
# By family, the name of its configuration's class in transformers, and sizes.
_CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert": ("BertConfig", {**_SIZES, "max_position_embeddings": 64}),
    "distilbert": (
        "DistilBertConfig",
        {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 64, "max_position_embeddings": 64},
    ),
    "roberta": ("RobertaConfig", {**_SIZES, "max_position_embeddings": 66, "type_vocab_size": 1}),
    "xlm-roberta": ("XLMRobertaConfig", {**_SIZES, "max_position_embeddings": 66, "type_vocab_size": 1}),
    "jina_bert": (
        "BertConfig",
        {
            **_SIZES,
            "max_position_embeddings": 64,
            "position_embedding_type": "alibi",
            "feed_forward_type": "geglu",
            "emb_pooler": "mean",
        },
    ),
    "electra": ("ElectraConfig", {**_SIZES, "embedding_size": 16, "max_position_embeddings": 64}),
    "albert": (
        "AlbertConfig",
        {**_SIZES, "embedding_size": 16, "num_hidden_layers": 4, "num_hidden_groups": 2, "max_position_embeddings": 64},
    ),
    "mpnet": ("MPNetConfig", {**_SIZES, "max_position_embeddings": 66}),
    "deberta-v2": ("DebertaV2Config", {**_SIZES, **_DISTANCES, "max_position_embeddings": 64}),
    "nomic_bert": ("NomicBertConfig", {**_SIZES, "max_position_embeddings": 64}),
    "gte": ("GteConfig", {**_SIZES, "max_position_embeddings": 64}),
    "new": ("GteConfig", {**_SIZES, "max_position_embeddings": 64}),
    "t5": (
        "T5Config",
        {"d_model": 32, "d_kv": 12, "d_ff": 64, "num_layers": 3, "num_heads": 4, "feed_forward_proj": "gated-gelu"},
    ),
    "qwen3": ("Qwen3Config", {**_SIZES, **_DECODES, "head_dim": 16}),
    "qwen2": (
        "Qwen2Config",
        {**_SIZES, **_DECODES, "use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1},
    ),
    "mistral": ("MistralConfig", {**_SIZES, **_DECODES, "num_key_value_heads": 1, "sliding_window": 12}),
    "ministral": ("MinistralConfig", {**_SIZES, **_DECODES, "head_dim": 16, "sliding_window": 12}),
    "smollm3": ("SmolLM3Config", {**_SIZES, **_DECODES, "no_rope_layer_interval": 2}),
    "phi3": ("Phi3Config", {**_SIZES, **_DECODES, "sliding_window": 12}),
    "llama": ("LlamaConfig", {**_SIZES, **_DECODES, "attention_bias": True, "mlp_bias": True}),
    "gemma": ("GemmaConfig", {**_SIZES, **_DECODES, "num_key_value_heads": 1, "head_dim": 16}),
    "gemma3_text": (
        "Gemma3TextConfig",
        {
            **_SIZES,
            **_DECODES,
            "head_dim": 16,
            "query_pre_attn_scalar": 24,
            "sliding_window": 16,
            "use_bidirectional_attention": True,
            "sliding_window_pattern": 2,
        },
    ),
    "modernbert": ("ModernBertConfig", {**_SIZES, "max_position_embeddings": 64, "local_attention": 16, **_MODERN}),
}
# Families without classifiers, and the classes of their encoders. By name, because looking one up imports Triton, which
# has to find out first how kernels are to run.
_EMBEDDERS = {"t5": "T5EncoderModel"}
FAMILIES = tuple(family for family, (name, _) in _CONFIGS.items() if hasattr(tr, name))  # of the installed transformers
_AUTO: dict[str, Any] = {
    "embed": tr.AutoModel,
    "classify": tr.AutoModelForSequenceClassification,
    "classify_tokens": tr.AutoModelForTokenClassification,
    "embed_sparse": tr.AutoModelForMaskedLM,
}
CLASSIFIERS = tuple(family for family in FAMILIES if family not in _EMBEDDERS)
# transformers has no such Gemma, and a Qwen 2 reads no other tokenizer than its own.
TOKEN_CLASSIFIERS = tuple(family for family in CLASSIFIERS if family not in ("gemma3_text", "qwen2"))
_FAMILIES = {"embed": FAMILIES, "classify": CLASSIFIERS, "classify_tokens": TOKEN_CLASSIFIERS}
TASKS = tuple((family, task) for task, families in _FAMILIES.items() for family in families)
# One for each kind of attention and each kind of answer.
FEW_TASKS = (
    *(("albert", "embed"), ("deberta-v2", "classify"), ("gemma3_text", "embed"), ("jina_bert", "embed")),
    *(("modernbert", "classify_tokens"), ("new", "classify"), ("qwen2", "embed"), ("roberta", "classify_tokens")),
    ("t5", "embed"),
)
MODES = ("cls_token", "mean_tokens", "max_tokens", "lasttoken")


def write_checkpoint(path: Path, family: str, task: str = "embed", seed: int = 0, **options: Any) -> Any:
    """Writes a checkpoint with random weights, norms and biases included, and returns the transformers model."""
    torch.manual_seed(seed)
    name, sizes = _CONFIGS[family]
    config = getattr(tr, name)(**{"vocab_size": VOCAB, **sizes, **options})
    if family == "jina_bert":
        model = JinaBert(config, task)
    else:
        make_model = getattr(tr, _EMBEDDERS[family])._from_config if family in _EMBEDDERS else _AUTO[task].from_config
        model = make_model(config, attn_implementation="eager").float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            # Default weights are so small, and norms and biases so plain, that many a mistake would not show.
            parameter.add_(torch.randn_like(parameter) * 0.15)
    model.save_pretrained(path)
    if task == "classify_tokens":  # it says where in a text its labels are
        one_word = tk.Tokenizer(tk.models.WordLevel({"a": 0}, unk_token="a"))
        one_word.save(str(path / "tokenizer.json"))
        (path / "tokenizer_config.json").write_text('{"tokenizer_class": "PreTrainedTokenizerFast"}')
    if family == "new":
        file = path / "config.json"
        file.write_text(json.dumps(config_of_new(json.loads(file.read_text()))))
    return model


def config_of_new(config: dict[str, Any]) -> dict[str, Any]:
    """A GTE's configuration as files of the type ``new`` have it."""
    rope = config.pop("rope_parameters")
    config["architectures"] = [name.replace("Gte", "New") for name in config["architectures"]]
    return config | {
        "model_type": "new",
        "rope_theta": rope["rope_theta"],
        **dict.fromkeys(("logn_attention_clip1", "logn_attention_scale", "unpad_inputs"), False),
        "use_memory_efficient_attention": False,
        "layer_norm_type": "layer_norm",
        "position_embedding_type": "rope",
        "rope_scaling": None,
        "pack_qkv": True,
    }


def write_sentence_modules(path: Path, pooling: str = "mean", dense: bool = False, normalize: bool = False) -> None:
    """Adds what makes a directory a sentence-transformers checkpoint; the projection is random, 32 to 24, tanh."""
    modules = [("Transformer", ""), ("Pooling", "1_Pooling")]
    (path / "1_Pooling").mkdir()
    old = {f"pooling_mode_{mode}": pooling == mode.split("_")[0] for mode in MODES}
    (path / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": 32, **old}))
    if dense:
        from safetensors.torch import save_file

        modules.append(("Dense", "2_Dense"))
        (path / "2_Dense").mkdir()
        config = {"in_features": 32, "out_features": 24, "bias": True}
        config["activation_function"] = "torch.nn.modules.activation.Tanh"
        (path / "2_Dense/config.json").write_text(json.dumps(config))
        tensors = {"linear.weight": torch.randn(24, 32), "linear.bias": torch.randn(24)}
        save_file(tensors, path / "2_Dense/model.safetensors")
    if normalize:
        modules.append(("Normalize", "3_Normalize"))
    listing = [
        {"idx": i, "name": str(i), "path": folder, "type": f"sentence_transformers.models.{kind}"}
        for i, (kind, folder) in enumerate(modules)
    ]
    (path / "modules.json").write_text(json.dumps(listing))
