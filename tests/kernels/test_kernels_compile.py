"""What the kernels compile to, ahead of time and without a GPU: no spills, enough memory, the right instructions."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from typing import Any

import pytest
from nightly import nightly
from paths import ROOT

from fastqps.kernels import TRITON_MISSING

pytestmark = [pytest.mark.compute, pytest.mark.timeout(600)]

if TRITON_MISSING:
    pytest.skip(TRITON_MISSING, allow_module_level=True)

SHARED_BYTES_MAX = 227 << 10  # of one program, sm_90
AMD_SHARED_BYTES_MAX = 64 << 10  # gfx942; gfx950 has more
AMD_REGISTERS_MAX = 512  # of a thread


@cache
def builds(*flags: str) -> tuple[dict[str, Any], ...]:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "bench.kernels", "--brief", "--json", *flags]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stdout, done.stderr
    return tuple(json.loads(done.stdout))


def named(word: str) -> list[dict[str, Any]]:
    found = [b for b in builds() if word in b["kernel"]]
    assert found, f"no kernel is called {word}"
    return found


def test_all_compile_and_fit() -> None:
    assert not [(b["case"], b["error"]) for b in builds() if b["error"]]
    assert not [b["case"] for b in builds() if b["spill_bytes"]]
    assert not [b["case"] for b in builds() if b["shared_bytes"] > SHARED_BYTES_MAX]


def test_attention_multiplies_by_tensor_cores() -> None:
    for build in named("tile_attention"):
        assert build["instructions"].get("wgmma") or build["instructions"].get("mma"), build
        assert build["instructions"].get("async_copy"), build
    assert any(build["instructions"].get("wgmma") for build in named("tile_attention"))


@pytest.mark.parametrize("kernel", ["embed_norm", "add_norm", "activate_kernel", "activate_fp8", "quantise_rows"])
def test_rows_move_16_bytes_at_a_time(kernel: str) -> None:
    for build in named(kernel):
        assert build["instructions"]["load_16_bytes"] and build["instructions"]["store_16_bytes"], build


@pytest.mark.parametrize("kernel", ["embed_norm", "add_norm"])
def test_rows_of_a_program_share_their_weights(kernel: str) -> None:
    """4 rows of MiniLM take fewer loads than four programs of one, and more of them fit a multiprocessor."""
    one, four = (next(b for b in builds() if b["case"] == f"MiniLM-L6 bfloat16 {kernel}{n}") for n in (" few rows", ""))
    assert four["instructions"]["load_16_bytes"] <= 3 * one["instructions"]["load_16_bytes"]
    assert four["instructions"]["all"] < 3.7 * one["instructions"]["all"]
    assert 4 * four["occupancy"] >= 1.5 * one["occupancy"]


def test_an_older_gpu_has_no_fp8_but_all_else() -> None:
    older = builds("--arch=80", "--only=MiniLM.*(attention|add_norm)")
    assert {b["kernel"] for b in older} == {"tile_attention_kernel", "add_norm_kernel"}
    assert not [b["error"] for b in older if b["error"]]
    assert all(b["instructions"].get("mma") for b in older if b["kernel"] == "tile_attention_kernel")
    assert not any("fp8" in b["case"] for b in older)


@pytest.mark.nightly  # in between, all cases are compiled for sm_90, and those of MiniLM for an MI300X
@pytest.mark.parametrize("architecture", ["gfx942", "gfx950"])
def test_all_compile_for_amd(architecture: str) -> None:
    found = builds(f"--arch={architecture}")
    assert not [(b["case"], b["error"]) for b in found if b["error"]]
    assert {(b["case"], b["kernel"]) for b in found} == {(b["case"], b["kernel"]) for b in builds()}
    assert not [b["case"] for b in found if b["spill_bytes"] or b["instructions"].get("local")]
    assert not [b["case"] for b in found if b["shared_bytes"] > AMD_SHARED_BYTES_MAX]
    assert not [b["case"] for b in found if not 0 < b["registers"] <= AMD_REGISTERS_MAX]
    assert not [b["case"] for b in found if not 0 < b["occupancy"] <= 1]


@pytest.mark.parametrize(("model", "n_attention", "n_fp8"), [("MiniLM.*", 3, 4), *nightly(("", 12, 8))])
def test_an_mi300x_multiplies_by_matrix_cores_and_converts_to_its_own_float8(
    model: str, n_attention: int, n_fp8: int
) -> None:
    found = builds("--arch=gfx942", f"--only={model}(attention|fp8|quantise)")
    attention = [b for b in found if "attention" in b["kernel"]]
    assert len(attention) == n_attention and all(b["instructions"].get("mfma") for b in attention)
    to_fp8 = [b for b in found if "fp8" in b["case"] or "quantise" in b["case"]]
    assert len(to_fp8) >= n_fp8 and all(b["instructions"].get("to_fp8") for b in to_fp8)
    assert all(b["instructions"]["load_16_bytes"] for b in to_fp8)
