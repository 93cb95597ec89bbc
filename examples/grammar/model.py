"""A small Llama in plain torch, for the training: the names of its weights are those of Hugging Face checkpoints."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from examples.grammar.tokens import BOS_ID, EOS_ID, VOCABULARY


@dataclass(frozen=True)
class Sizes:
    """The configuration of the model, in the words of config.json."""

    hidden_size: int = 192
    intermediate_size: int = 512
    num_hidden_layers: int = 4
    num_attention_heads: int = 6
    num_key_value_heads: int = 2
    head_dim: int = 32
    max_position_embeddings: int = 256
    vocab_size: int = VOCABULARY
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10_000.0

    def config(self) -> dict[str, Any]:
        """config.json."""
        fixed = {
            "architectures": ["LlamaForCausalLM"],
            "model_type": "llama",
            "torch_dtype": "bfloat16",
            "hidden_act": "silu",
            "tie_word_embeddings": True,
            "attention_bias": False,
            "mlp_bias": False,
            "bos_token_id": BOS_ID,
            "eos_token_id": EOS_ID,
        }
        return {**fixed, **asdict(self)}


class Attention(nn.Module):
    """Causal attention with rotary positions; several query heads share one key and value head."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        query, key = sizes.num_attention_heads * sizes.head_dim, sizes.num_key_value_heads * sizes.head_dim
        self.q_proj = nn.Linear(sizes.hidden_size, query, bias=False)
        self.k_proj = nn.Linear(sizes.hidden_size, key, bias=False)
        self.v_proj = nn.Linear(sizes.hidden_size, key, bias=False)
        self.o_proj = nn.Linear(query, sizes.hidden_size, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[items, length, hidden] to the same."""
        items, length, _ = x.shape
        q, k, v = (
            project(x).view(items, length, -1, self.sizes.head_dim).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        groups = self.sizes.num_attention_heads // self.sizes.num_key_value_heads
        k, v = (t.repeat_interleave(groups, 1) for t in (_rotate(k, cos, sin), v))
        # Written out: at 25 tokens the backward pass of torch's fused attention costs as much as all the rest.
        scores = _rotate(q, cos, sin) @ k.transpose(2, 3) / self.sizes.head_dim**0.5
        scores = scores + torch.full((length, length), -torch.inf).triu(1)
        seen = scores.softmax(-1).to(v.dtype) @ v
        out: Tensor = self.o_proj(seen.transpose(1, 2).reshape(items, length, -1))
        return out


class MLP(nn.Module):
    """The gated network after the attention."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(sizes.hidden_size, sizes.intermediate_size, bias=False)
        self.up_proj = nn.Linear(sizes.hidden_size, sizes.intermediate_size, bias=False)
        self.down_proj = nn.Linear(sizes.intermediate_size, sizes.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[…, hidden] to the same."""
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class Layer(nn.Module):
    """One layer."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(sizes.hidden_size, sizes.rms_norm_eps)
        self.self_attn = Attention(sizes)
        self.post_attention_layernorm = nn.RMSNorm(sizes.hidden_size, sizes.rms_norm_eps)
        self.mlp = MLP(sizes)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """[items, length, hidden] to the same."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        out: Tensor = x + self.mlp(self.post_attention_layernorm(x))
        return out


class Decoder(nn.Module):
    """The whole model; its head is the table of embeddings."""

    cos: Tensor  # [positions, head_dim], as sin
    sin: Tensor

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(sizes.vocab_size, sizes.hidden_size)
        self.layers = nn.ModuleList(Layer(sizes) for _ in range(sizes.num_hidden_layers))
        self.norm = nn.RMSNorm(sizes.hidden_size, sizes.rms_norm_eps)
        turns = sizes.rope_theta ** (-torch.arange(0, sizes.head_dim, 2) / sizes.head_dim)
        angles = torch.outer(torch.arange(sizes.max_position_embeddings), turns).repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                deep = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(weight, std=0.02 if not deep else 0.02 / (2 * sizes.num_hidden_layers) ** 0.5)

    def forward(self, ids: Tensor) -> Tensor:
        """Token ids [items, length] to the last layer's normed rows [items, length, hidden]."""
        x, length = self.embed_tokens(ids), ids.shape[1]
        for layer in self.layers:
            x = layer(x, self.cos[:length], self.sin[:length])
        out: Tensor = self.norm(x)
        return out

    def logits(self, rows: Tensor) -> Tensor:
        """[rows, hidden] to [rows, vocabulary]."""
        return F.linear(rows, self.embed_tokens.weight)

    def checkpoint(self) -> dict[str, Tensor]:
        """The weights in bfloat16, by their Hugging Face names."""
        return {f"model.{name}": weight.detach().bfloat16().contiguous() for name, weight in self.state_dict().items()}


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions, in halves: x [items, heads, length, head_dim]."""
    first, second = x.chunk(2, -1)
    return (x * cos + torch.cat((-second, first), -1) * sin).to(x.dtype)
