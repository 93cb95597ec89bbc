"""The shapes that are measured: those of well-known checkpoints, and tiny ones of each family."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

TINY_VOCAB = 512


@dataclass(frozen=True)
class Shape:
    """A checkpoint's sizes. ``family``: transformers' ``model_type``. ``inner``: of the feed-forward layers; ``more``:
    keys of its config beside these."""

    name: str
    family: Literal["bert", "llama", "qwen2", "qwen3"]
    hidden: int
    layers: int
    heads: int
    kv_heads: int
    inner: int
    vocab: int
    head_dim: int
    more: dict[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> Literal["encoder", "decoder"]:
        return "encoder" if self.family == "bert" else "decoder"

    @property
    def config(self) -> dict[str, Any]:
        """The keys of transformers' config.json."""
        keys: dict[str, Any] = {"hidden_size": self.hidden, "num_hidden_layers": self.layers}
        keys |= {"num_attention_heads": self.heads, "intermediate_size": self.inner, "vocab_size": self.vocab}
        if self.kind == "encoder":
            return keys | {"max_position_embeddings": 512} | self.more
        keys |= {"num_key_value_heads": self.kv_heads, "head_dim": self.head_dim, "tie_word_embeddings": True}
        keys |= {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}  # answers end at their limit alone
        return keys | {"max_position_embeddings": 4096, "rms_norm_eps": 1e-6} | self.more

    def products(self) -> tuple[tuple[str, int, int], ...]:
        """(name, K, N) of a layer's matrix products, as they are computed: Q, K and V in one, gate and up in one."""
        attention = self.heads * self.head_dim
        return (
            ("qkv", self.hidden, attention + 2 * self.kv_heads * self.head_dim),
            ("out", attention, self.hidden),
            ("up", self.hidden, self.inner if self.kind == "encoder" else 2 * self.inner),
            ("down", self.inner, self.hidden),
        )

    @property
    def body_parameters(self) -> int:
        """Parameters of the layers' matrix products, the cost of a token; embeddings and head are not counted."""
        return self.layers * sum(k * n for _, k, n in self.products())

    @property
    def kv_bytes(self) -> int:
        """Bytes of one position in the KV cache, at two bytes a number."""
        return 2 * 2 * self.layers * self.kv_heads * self.head_dim

    def tiny(self) -> Shape:
        """The same family with as few numbers as show every path: two layers, narrow, the same ratio of heads."""
        return dataclasses.replace(
            self, name=f"{self.name}-tiny", hidden=64, layers=2, heads=4, inner=96, vocab=TINY_VOCAB, head_dim=16,
            kv_heads=max(1, 4 * self.kv_heads // self.heads), more={**self.more, "max_position_embeddings": 256},
        )  # fmt: skip


def _rope(theta: float, kind: str = "default", **more: float) -> dict[str, Any]:
    return {"rope_parameters": {"rope_type": kind, "rope_theta": theta, **more}}


_LLAMA3 = {"factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192}
SHAPES = {
    shape.name: shape
    for shape in (
        Shape("minilm-l6", "bert", 384, 6, 12, 12, 1536, 30522, 32),
        Shape("smollm2-135m", "llama", 576, 30, 9, 3, 1536, 49152, 64, {"rms_norm_eps": 1e-5, **_rope(100_000.0)}),
        Shape("qwen2.5-0.5b", "qwen2", 896, 24, 14, 2, 4864, 151936, 64, _rope(1e6)),
        Shape("qwen3-0.6b", "qwen3", 1024, 28, 16, 8, 3072, 151936, 128, _rope(1e6)),
        Shape(
            "llama-1b", "llama", 2048, 16, 32, 8, 8192, 128256, 64,
            {"rms_norm_eps": 1e-5, **_rope(500_000.0, "llama3", **_LLAMA3)},
        ),
    )
}  # fmt: skip
