"""How many kernels a step launches and how many bytes they move: docs/kernels.md has the table, and nobody adds to it
unnoticed. ``step_launches`` counts, in a process of its own, because kernels are interpreted in this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

import pytest
from paths import ROOT

from fastqps.kernels import TRITON_MISSING

pytestmark = [pytest.mark.compute, pytest.mark.timeout(600)]

if TRITON_MISSING:
    pytest.skip(TRITON_MISSING, allow_module_level=True)

ENCODER_LAYER = {"linear": 3, "tile_attention": 1, "add_norm": 2, "_addmm_activation": 1}
DECODER_LAYER = {
    "linear": 2,
    "addmm_": 2,
    "add_norm": 2,
    "activate": 1,
    "rope_kv": 1,
    "slot_attention": 1,
}
# FP8 takes as many launches as bf16, but for gelu, which cuBLASLt writes behind no FP8 product.
ENCODER_LAYER_FP8 = {"linear": 1, "_scaled_mm": 3, "tile_attention": 1, "add_norm": 2, "activate_fp8": 1}
DECODER_LAYER_FP8 = {
    "linear": 0,
    "addmm_": 1,
    "_scaled_mm": 3,
    "add_norm": 2,
    "activate_fp8": 1,
    "rope_kv": 1,
    "slot_attention": 1,
}
# A checkpoint that is FP8 in every product needs a kernel for attention's rows.
HELD = {"linear": 0, "addmm_": 0, "_scaled_mm": 4, "quantise_rows": 1}
ENCODER, DECODER = {"embed_norm": 1, "pool": 1}, {"embed_tokens": 1, "add_norm": 1, "linear": 1, "last_rows": 1}
DECODER |= {"logit_options": 1, "sample_chunks": 1, "sample": 1}
LAYERS = {"MiniLM-L6": 6, "SmolLM2-135M": 30, "Llama-3.2-1B": 16}
# Megabytes of a step, by products: what docs/kernels.md says.
MEGABYTES = {
    ("MiniLM-L6", "5,632 tokens"): {"bf16": 711, "fp8": 775, "held": 832},
    ("MiniLM-L6", "16,384 tokens"): {"bf16": 2025, "fp8": 2221, "held": 2395},
    ("SmolLM2-135M", "1,024 rows, 512 runs"): {"bf16": 2454, "fp8": 2244, "held": 2290},
    ("Llama-3.2-1B", "1,024 rows, 512 runs"): {"bf16": 6735, "fp8": 5650, "held": 5565},
}


@cache
def counted() -> dict[tuple[str, str, str], dict[str, Any]]:
    """By model, size and products."""
    clean = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    clean |= {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, str(ROOT / "tests/support/kernels/step_launches.py"), "--json"]
    done = subprocess.run(command, env=clean, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {(c["model"], c["size"], c["quantization"]): c for c in json.loads(done.stdout)}


def layer_of(model: str, quantization: str) -> dict[str, int]:
    encodes = model == "MiniLM-L6"
    if quantization == "bf16":
        found = ENCODER_LAYER if encodes else DECODER_LAYER
    else:
        found = ENCODER_LAYER_FP8 if encodes else DECODER_LAYER_FP8
        found = found | (HELD if quantization == "held" else {})
    return {kernel: count for kernel, count in found.items() if count}


@pytest.mark.parametrize("quantization", ["bf16", "fp8", "held"])
@pytest.mark.parametrize(("model", "size"), MEGABYTES)
def test_launches_and_bytes(model: str, size: str, quantization: str) -> None:
    found = counted()[model, size, quantization]
    assert found["layer"] == layer_of(model, quantization)
    kernels = [launch["kernel"] for launch in found["launches"]]
    once, layers = ENCODER if model == "MiniLM-L6" else DECODER, LAYERS[model]
    edges = 0 if quantization == "held" else 2  # the first and the last layer stay in bf16
    inner, outer = (sum(layer_of(model, name).values()) for name in (quantization, "bf16"))
    assert len(kernels) == sum(once.values()) + (layers - edges) * inner + edges * outer
    assert set(once) <= set(kernels)
    assert round(found["bytes"] / 1e6) == MEGABYTES[model, size][quantization]


def test_no_kernel_only_adds_or_converts() -> None:
    """Sums, casts and quantising are parts of kernels that do more, but for attention's rows where they must be FP8."""
    own = {*ENCODER, *DECODER, *ENCODER_LAYER, *ENCODER_LAYER_FP8, *DECODER_LAYER, *DECODER_LAYER_FP8}
    for (_, _, quantization), found in counted().items():
        more = {"quantise_rows"} if quantization == "held" else set()
        assert {launch["kernel"] for launch in found["launches"]} <= own | more


def test_fp8_moves_fewer_bytes_where_it_pays() -> None:
    """Of a decoder's step; and its products read less than half of what they do in bf16."""
    for model in ("SmolLM2-135M", "Llama-3.2-1B"):
        plain, fp8 = (counted()[model, "1,024 rows, 512 runs", name] for name in ("bf16", "fp8"))
        assert fp8["bytes"] < plain["bytes"]
        assert len(fp8["launches"]) == len(plain["launches"])


def test_the_document_has_these_figures() -> None:
    text = (ROOT / "docs/kernels.md").read_text()
    for (model, size, quantization), found in counted().items():
        row = f"| {model}, {size} | {quantization} | {len(found['launches'])} | {sum(found['layer'].values())} |"
        assert row in text, row
