"""Checkpoints that are FP8 already: as compressed-tensors describes them, or refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from compressed import quantization
from safetensors.torch import save_file

from fastqps.architectures.weights import Weights
from fastqps.errors import ModelError
from fastqps.models.files.compressed_tensors import check_quantization
from fastqps.ops.fp8 import Quantised, quantise_weight

pytestmark = pytest.mark.compute

WEIGHTS, ACTIVATIONS = "config_groups.group_0.weights", "config_groups.group_0.input_activations"


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {f"{WEIGHTS}.strategy": "tensor"},
        {"quantization_status": "frozen", "sparsity_config": None, "ignore": []},
        {"sparsity_config": {"format": "dense"}},
        {f"{ACTIVATIONS}.observer": "memoryless", f"{WEIGHTS}.scale_dtype": None},
    ],
)
def test_supported(changes: dict[str, Any]) -> None:
    check_quantization({"quantization_config": quantization(**changes)})
    check_quantization({"compression_config": quantization(**changes)})
    check_quantization({"quantization_config": None})


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"quant_method": "gptq"}, r"\(gptq\)"),
        ({"quant_method": "fp8"}, r"\(fp8\)"),
        ({"format": "int-quantized"}, 'quantization_config.format "int-quantized"'),
        ({"format": "mixed-precision"}, 'format "mixed-precision"'),
        ({"quantization_status": "calibration"}, 'quantization_status "calibration"'),
        ({"kv_cache_scheme": {"num_bits": 8}}, "kv_cache_scheme {"),
        ({"sparsity_config": {"format": "sparse-24-bitmask"}}, "sparsity_config {"),
        ({"transform_config": {"config_groups": {"R1": {}}}}, "transform_config {"),
        ({"something_new": 1}, "something_new 1"),
        ({"config_groups": {}}, r"config_groups \{\}"),
        ({"config_groups.group_1": {"targets": ["Linear"], "weights": None}}, "group_1.weights null"),
        ({"config_groups.group_0.format": "naive-quantized"}, 'group_0.format "naive-quantized"'),
        ({"config_groups.group_0.output_activations": {"num_bits": 8}}, "output_activations {"),
        ({f"{WEIGHTS}.num_bits": 4}, "weights.num_bits 4"),
        ({f"{WEIGHTS}.type": "int"}, 'weights.type "int"'),
        ({f"{WEIGHTS}.strategy": "block"}, 'weights.strategy "block"'),
        ({f"{WEIGHTS}.block_structure": [128, 128]}, r"weights.block_structure \[128, 128\]"),
        ({f"{WEIGHTS}.group_size": 128}, "weights.group_size 128"),
        ({f"{WEIGHTS}.symmetric": False}, "weights.symmetric false"),
        ({f"{WEIGHTS}.dynamic": True}, "weights.dynamic true"),
        ({ACTIVATIONS: None}, "input_activations null"),
        ({f"{ACTIVATIONS}.dynamic": False}, "input_activations.dynamic false"),
        ({f"{ACTIVATIONS}.dynamic": "local"}, 'input_activations.dynamic "local"'),
        ({f"{ACTIVATIONS}.strategy": "tensor"}, 'input_activations.strategy "tensor"'),
        ({f"{ACTIVATIONS}.num_bits": 4}, "input_activations.num_bits 4"),
    ],
)
def test_the_rest_is_refused_by_name(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ModelError, match=named):
        check_quantization({"quantization_config": quantization(**changes)})


@pytest.mark.parametrize("missing", ["format", f"{WEIGHTS}.num_bits", f"{ACTIVATIONS}.strategy"])
def test_what_has_to_be_said(missing: str) -> None:
    found = quantization()
    *parents, last = missing.split(".")
    at = found
    for parent in parents:
        at = at[parent]
    del at[last]
    with pytest.raises(ModelError, match=f"{last} null"):
        check_quantization({"quantization_config": found})


@pytest.mark.parametrize("found", [7, [], "fp8", {"config_groups": 3}])
def test_no_configuration_at_all(found: Any) -> None:
    with pytest.raises(ModelError, match=r"quantised weights \(unknown\)"):
        check_quantization({"quantization_config": found})


def weights(folder: Path, **tensors: torch.Tensor) -> Weights:
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, folder / "model.safetensors")
    return Weights([folder / "model.safetensors"])


@pytest.mark.parametrize(("shape", "dtype"), [((16, 1), torch.float32), ((16,), torch.bfloat16), ((1,), torch.float32)])
def test_weights_with_scales(tmp_path: Path, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    values = quantise_weight(torch.randn(16, 32)).values
    scales = torch.rand(shape).to(dtype)
    found = weights(tmp_path, w=values, w_scale=scales, b=torch.ones(16))
    matrix = found.matrix("w", 16, 32)
    assert isinstance(matrix, Quantised)
    assert torch.equal(matrix.values.float(), values.float())
    assert torch.equal(matrix.dequantised(), values.float() * scales.float().reshape(-1, 1))
    assert torch.equal(found("w", 16, 32), matrix.dequantised())
    assert set(found.unread()) == {"b"}


def test_plain_weights_are_plain(tmp_path: Path) -> None:
    plain = torch.randn(4, 8)
    found = weights(tmp_path, w=plain.bfloat16())
    assert torch.equal(found.matrix("w", 4, 8), plain.bfloat16().float())  # type: ignore[arg-type]
    with pytest.raises(ModelError, match=r"w has shape \(4, 8\), config.json says \(8, 8\)"):
        found.matrix("w", 8, 8)
    with pytest.raises(ModelError, match="no tensor 'v'"):
        found.matrix("v", 8, 8)


@pytest.mark.parametrize(
    ("tensors", "said"),
    [
        ({"w": torch.zeros(16, 16).to(torch.float8_e4m3fn)}, "w is float8_e4m3fn without scales"),
        ({"w": torch.zeros(16, 16).to(torch.float8_e5m2), "w_scale": torch.ones(16, 1)}, "w is float8_e5m2$"),
        ({"w": torch.zeros(16, 16, dtype=torch.int8), "w_scale": torch.ones(16, 1)}, "w is int8$"),
        ({"w": torch.zeros(16, 16).to(torch.float8_e4m3fn), "w_scale": torch.ones(2, 2)}, r"scales of shape \(2, 2\)"),
        ({"w": torch.zeros(16, 16).to(torch.float8_e4m3fn), "w_scale": torch.ones(16).int()}, r"has int32 scales"),
        (
            {"w": torch.zeros(16, 16).to(torch.float8_e4m3fn), "w_scale": torch.ones(16) / 0},
            "w_scale holds what is no n",
        ),
    ],
)
def test_weights_that_cannot_be_read(tmp_path: Path, tensors: dict[str, torch.Tensor], said: str) -> None:
    found = weights(tmp_path, **tensors)
    for read in (found, found.matrix):
        with pytest.raises(ModelError, match=said):
            read("w", 16, 16)
