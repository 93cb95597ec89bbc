"""``python -m bench.peers.export CHECKPOINT FILE``: MiniLM from token ids to its normalized embedding, as ONNX."""

from __future__ import annotations

import sys

import torch
from transformers import AutoModel


class Embedder(torch.nn.Module):
    """Mean of the last hidden states, and its norm: in the graph, where each runtime may fuse them."""

    def __init__(self, checkpoint: str) -> None:
        super().__init__()
        # Plain attention, which the peers' optimizers recognize and fuse.
        self.encoder = AutoModel.from_pretrained(checkpoint, attn_implementation="eager").eval()

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """int64 [items, tokens] each → float32 [items, width]."""
        types = torch.zeros_like(input_ids)
        hidden = self.encoder(input_ids, attention_mask=attention_mask, token_type_ids=types).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1)


def main() -> int:
    """Writes the file."""
    checkpoint, file = sys.argv[1:]
    ids = torch.ones(2, 8, dtype=torch.int64)
    axes = {name: {0: "items", 1: "tokens"} for name in ("input_ids", "attention_mask")}
    torch.onnx.export(
        Embedder(checkpoint),
        (ids, ids),
        file,
        input_names=list(axes),
        output_names=["embedding"],
        dynamic_axes=axes,
        opset_version=17,
        dynamo=False,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
