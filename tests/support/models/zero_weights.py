"""Weights that nobody reads: zeros of the shapes that a configuration speaks of, in a sparse file."""

from __future__ import annotations

import json
import math
from pathlib import Path


def write_zeros(path: Path, text: str = "") -> None:
    """The weights of the checkpoint at ``path``. Those of different ``text`` differ in their header."""
    config = json.loads((path / "config.json").read_text())
    hidden, heads = config["hidden_size"], config["num_attention_heads"]
    shapes = {"words": (config["vocab_size"], hidden)}
    if config["architectures"][0].endswith("ForCausalLM"):
        rows = config.get("num_key_value_heads", heads) * config.get("head_dim", hidden // heads)
        shapes |= {
            f"model.layers.{i}.self_attn.k_proj.weight": (rows, hidden) for i in range(config["num_hidden_layers"])
        }
    if config["architectures"][0].endswith("ForSequenceClassification"):
        shapes["labels"] = (config.get("num_labels") or len(config.get("id2label") or "01"), hidden)
    header: dict[str, object] = {"__metadata__": {"text": text}}
    end = 0
    for name, shape in shapes.items():
        begin, end = end, end + math.prod(shape)
        header[name] = {"dtype": "U8", "shape": shape, "data_offsets": (begin, end)}
    start = json.dumps(header).encode()
    with (path / "model.safetensors").open("wb") as stream:
        stream.write(len(start).to_bytes(8, "little") + start)
        stream.truncate(8 + len(start) + end)
