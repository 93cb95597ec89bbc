"""Whole steps of models compile for a GPU that is not there: the types that the interpreter cannot compute in."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from paths import ROOT, python_path

from fastqps.kernels import TRITON_MISSING

pytestmark = [pytest.mark.compute, pytest.mark.timeout(600)]

if TRITON_MISSING:
    pytest.skip(TRITON_MISSING, allow_module_level=True)


@pytest.mark.nightly  # in between, all kernels are compiled by themselves
def test_whole_steps_compile(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["PYTHONPATH"] = python_path()
    command = [sys.executable, str(ROOT / "tests/support/kernels/compile_models.py"), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    kernels: dict[str, set[str]] = {"encoder": set(), "decoder": set()}
    for line in done.stdout.splitlines():
        case, kernel, error = (*line.split(maxsplit=2), "")[:3]
        assert not error, f"{case}: {error}"
        kernels[case].add(kernel.lstrip("_").removesuffix("_kernel"))
    both = {"add_norm", "activate", "activate_fp8", "quantise_rows"}
    assert kernels["encoder"] >= {"embed_norm", "tile_attention", "pool", "stamp_end"}
    assert kernels["decoder"] >= {
        "embed_tokens",
        "rope_kv",
        "slot_attention",
        "last_rows",
        "sample_chunks",
        "sample",
        "logit_options",
    }
    assert kernels["encoder"] | kernels["decoder"] >= both
