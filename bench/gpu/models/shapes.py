"""The shapes that are measured: those of well-known checkpoints, and tiny ones of each family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Kind = Literal["encoder", "decoder"]
TINY_VOCAB = 512
_LLAMA3 = {
    "rope_type": "llama3",
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
    "rope_theta": 500_000.0,
}


@dataclass(frozen=True)
class Shape:
    """A checkpoint's sizes. ``family``: transformers' ``model_type``; ``sizes``: its config's."""

    name: str
    family: Literal["bert", "llama", "qwen2", "qwen3"]
    sizes: dict[str, Any]

    @property
    def kind(self) -> Kind:
        return "encoder" if self.family == "bert" else "decoder"

    @property
    def hidden(self) -> int:
        """The width."""
        return int(self.sizes["hidden_size"])

    @property
    def layers(self) -> int:
        return int(self.sizes["num_hidden_layers"])

    @property
    def vocab(self) -> int:
        return int(self.sizes["vocab_size"])

    @property
    def head_dim(self) -> int:
        return int(self.sizes.get("head_dim") or self.hidden // self.sizes["num_attention_heads"])

    @property
    def kv_heads(self) -> int:
        return int(self.sizes.get("num_key_value_heads") or self.sizes["num_attention_heads"])

    def products(self) -> tuple[tuple[str, int, int], ...]:
        """(name, K, N) of a layer's matrix products, as they are computed: Q, K and V in one, gate and up in one."""
        heads, inner = int(self.sizes["num_attention_heads"]), int(self.sizes["intermediate_size"])
        attention = heads * self.head_dim
        qkv = attention + 2 * self.kv_heads * self.head_dim
        up = inner if self.kind == "encoder" else 2 * inner
        return (
            ("qkv", self.hidden, qkv),
            ("out", attention, self.hidden),
            ("up", self.hidden, up),
            ("down", inner, self.hidden),
        )

    @property
    def body_parameters(self) -> int:
        """Of the layers' matrix products, which are what a token costs; embeddings and head not counted."""
        return self.layers * sum(k * n for _, k, n in self.products())

    @property
    def kv_bytes(self) -> int:
        """Of one position in the KV cache, in two bytes a number."""
        return 2 * 2 * self.layers * self.kv_heads * self.head_dim

    def tiny(self) -> Shape:
        """The same family with as few numbers as show every path: two layers, narrow, the same ratio of heads."""
        heads = 4
        groups = max(1, self.sizes["num_attention_heads"] // self.kv_heads)
        own = {"num_attention_heads": heads, "num_hidden_layers": 2, "hidden_size": 64, "intermediate_size": 96}
        own |= {"vocab_size": TINY_VOCAB, "max_position_embeddings": 256}
        if self.kind == "decoder":
            own |= {"num_key_value_heads": max(1, heads // groups), "head_dim": 16}
        return Shape(f"{self.name}-tiny", self.family, {**self.sizes, **own})


def _bert(name: str, hidden: int, layers: int, heads: int) -> Shape:
    sizes = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads}
    sizes |= {"intermediate_size": 4 * hidden, "max_position_embeddings": 512, "vocab_size": 30522}
    return Shape(name, "bert", sizes)


def _decoder(
    name: str, family: Any, hidden: int, layers: int, heads: tuple[int, int], inner: int, **more: Any
) -> Shape:
    sizes = {"hidden_size": hidden, "num_hidden_layers": layers, "intermediate_size": inner}
    sizes |= {"num_attention_heads": heads[0], "num_key_value_heads": heads[1], "tie_word_embeddings": True}
    return Shape(name, family, {**sizes, "rms_norm_eps": 1e-6, "max_position_embeddings": 4096, **more})


SHAPES = {
    shape.name: shape
    for shape in (
        _bert("minilm-l6", 384, 6, 12),
        _decoder(
            "smollm2-135m", "llama", 576, 30, (9, 3), 1536, vocab_size=49152, rms_norm_eps=1e-5,
            rope_parameters={"rope_type": "default", "rope_theta": 100_000.0},
        ),
        _decoder(
            "qwen2.5-0.5b", "qwen2", 896, 24, (14, 2), 4864, vocab_size=151936,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        ),
        _decoder(
            "qwen3-0.6b", "qwen3", 1024, 28, (16, 8), 3072, vocab_size=151936, head_dim=128,
            rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        ),
        _decoder(
            "llama-1b", "llama", 2048, 16, (32, 8), 8192, vocab_size=128256, head_dim=64, rms_norm_eps=1e-5,
            rope_parameters=_LLAMA3,
        ),
    )
}  # fmt: skip
