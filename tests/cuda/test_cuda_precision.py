"""--quantization on the device cuda, which is a fake one here: whole models, GPUs without FP8."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from checkpoints import VOCAB, write_checkpoint
from decoders import VOCAB as DECODER_VOCAB
from decoders import write_decoder
from fake_cuda import VARIABLE, library

from fastqps import Engine
from fastqps.devices import DeviceError
from fastqps.devices.cuda import precision
from fastqps.devices.cuda.precision import make_precision
from fastqps.devices.place import Place
from fastqps.ops.fp8 import refused

pytestmark = pytest.mark.compute

ITEMS = [[(11 * i + 5 * j) % VOCAB for j in range(n)] for i, n in enumerate((2, 7, 16, 33))]
PROMPTS = [[(7 * i + 3 * j) % DECODER_VOCAB for j in range(n)] for i, n in enumerate((1, 5, 9, 20))]

REFUSED = refused(torch.device("cpu"))  # the fake GPU's products are the CPU's
needs_fp8 = pytest.mark.skipif(bool(REFUSED), reason=f"this torch multiplies no FP8 on a CPU: {REFUSED}")


@pytest.fixture
def _fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, library())


@needs_fp8
@pytest.mark.usefixtures("_fake")
def test_an_encoder_in_fp8_is_that_of_the_cpu(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_checkpoint(tmp_path, "bert", num_hidden_layers=4)
    found = {}
    for device in ("cpu", "cuda"):
        for quantization in ("none", "fp8"):
            engine = Engine(str(tmp_path), device, "float32", quantization=quantization)
            found[device, quantization] = np.stack(engine.predict(ITEMS))
            engine.close()
    cost = np.linalg.norm(found["cpu", "fp8"] - found["cpu", "none"])
    assert np.linalg.norm(found["cuda", "fp8"] - found["cpu", "fp8"]) < 0.1 * cost
    assert "quantization fp8: 6 of 16 matrix products in FP8" in capfd.readouterr().err


@needs_fp8
@pytest.mark.usefixtures("_fake")
def test_a_decoder_in_fp8_is_that_of_the_cpu(tmp_path: Path) -> None:
    write_decoder(tmp_path, "qwen3", num_hidden_layers=4)
    found: list[list[Any]] = []
    for device in ("cpu", "cuda"):
        engine = Engine(str(tmp_path), device, "float32", quantization="fp8", max_output_tokens=8, max_running=4)
        found.append(engine.generate(PROMPTS, logprobs=True))
        engine.close()
    errors = [np.abs(np.subtract(a.logprobs[0], b.logprobs[0])) for a, b in zip(*found, strict=True)]
    assert np.median(errors) < 1e-4 and np.max(errors) < 0.1


def gpu() -> Any:
    return SimpleNamespace(device=torch.device("cpu"), where="cuda:0")


def test_a_gpu_without_fp8(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(precision, "refused", lambda device: "not implemented")
    with pytest.raises(DeviceError, match=r"cuda:0 multiplies no FP8; GPUs from compute.* not implemented") as caught:
        make_precision(Place("cuda:0", quantization="fp8"), gpu())
    assert caught.value.exit_code == 3
    found = make_precision(Place("cuda:0", quantization="auto"), gpu())
    assert found.quantization == "none"
    assert "cuda:0 multiplies no FP8" in capsys.readouterr().err
    make_precision(Place("cuda:0"), gpu())


def test_what_is_no_quantization() -> None:
    with pytest.raises(DeviceError, match="no quantization 'int4'"):
        make_precision(Place("cuda:0", quantization="int4"), gpu())
