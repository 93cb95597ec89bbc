"""Checkpoints as compressed-tensors writes them in FP8: from plain ones, with its names, shapes and configuration."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from fastqps.ops.fp8 import quantise_weight

QUANTIZATION: dict[str, Any] = {
    "config_groups": {
        "group_0": {
            "format": "float-quantized",
            "input_activations": {
                "actorder": None,
                "block_structure": None,
                "dynamic": True,
                "group_size": None,
                "num_bits": 8,
                "observer": None,
                "observer_kwargs": {},
                "strategy": "token",
                "symmetric": True,
                "type": "float",
            },
            "output_activations": None,
            "targets": ["Linear"],
            "weights": {
                "actorder": None,
                "block_structure": None,
                "dynamic": False,
                "group_size": None,
                "num_bits": 8,
                "observer": "minmax",
                "observer_kwargs": {},
                "strategy": "channel",
                "symmetric": True,
                "type": "float",
            },
        }
    },
    "format": "float-quantized",
    "global_compression_ratio": None,
    "ignore": ["lm_head"],
    "kv_cache_scheme": None,
    "quant_method": "compressed-tensors",
    "quantization_status": "compressed",
    "sparsity_config": {},
    "transform_config": {},
    "version": "0.13.0",
}


def quantization(**changes: Any) -> dict[str, Any]:
    """``QUANTIZATION`` with other values at these paths: ``{"config_groups.group_0.weights.num_bits": 4}``."""
    found = copy.deepcopy(QUANTIZATION)
    for path, value in changes.items():
        *parents, last = path.split(".")
        at = found
        for parent in parents:
            at = at[parent]
        at[last] = value
    return found


def compress(path: Path, weights: str, strategy: str = "channel") -> dict[str, Any]:
    """Quantises the weights of a checkpoint whose names match in full, in place; returns the dequantised tensors.

    ``strategy`` "tensor" has one scale for all of a weight.
    """
    file = path / "model.safetensors"
    tensors, plain = {}, {}
    for name, tensor in load_file(file).items():
        tensors[name] = plain[name] = tensor
        if re.fullmatch(weights, name):
            rows = tensor if strategy == "channel" else tensor.reshape(1, -1)
            found = quantise_weight(rows)
            tensors[name] = found.values.reshape(tensor.shape).contiguous()
            tensors[f"{name}_scale"] = found.scales[:, None].contiguous() if strategy == "channel" else found.scales
            plain[name] = found.dequantised().reshape(tensor.shape)
    assert len(tensors) > len(plain), "no weight has such a name"
    save_file(tensors, file, metadata={"format": "pt"})
    config = json.loads((path / "config.json").read_text())
    config["quantization_config"] = quantization(**{"config_groups.group_0.weights.strategy": strategy})
    (path / "config.json").write_text(json.dumps(config))
    return plain
