"""FP8 on a GPU: its products, its quantiser, and whole models against the CPU's in FP8."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from checkpoints import VOCAB, write_checkpoint
from compressed import compress
from decoders import VOCAB as DECODER_VOCAB
from decoders import write_decoder

from fastqps import Engine
from fastqps.kernels.torch_ops.rows import quantise_rows
from fastqps.ops import fp8
from fastqps.ops.fp8 import quantise_weight

HAS_FP8 = torch.cuda.is_available() and torch.cuda.get_device_capability() >= (8, 9)
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not HAS_FP8, reason="needs a GPU with FP8 (8.9 or later)")]
# Products of MiniLM, of a 135M Llama, of Qwen2.5-0.5B and of Llama-1B.
SHAPES = ((1152, 384), (384, 1536), (960, 576), (576, 1536), (9728, 896), (896, 4864), (16384, 2048), (2048, 8192))


def relative(found: torch.Tensor, want: torch.Tensor) -> float:
    return float((found.float() - want.float()).norm() / want.float().norm())


@pytest.mark.parametrize("rows", [1, 16, 17, 300, 4096])
@pytest.mark.parametrize(("outputs", "inputs"), SHAPES)
def test_products_are_those_of_the_dequantised(outputs: int, inputs: int, rows: int) -> None:
    torch.manual_seed(rows)
    assert fp8.has_product(torch.device("cuda"))
    weight = quantise_weight(torch.randn(outputs, inputs, device="cuda") * 0.05)
    x, scales = quantise_rows(torch.randn(rows, inputs, device="cuda"))
    bias = torch.randn(outputs, device="cuda").bfloat16()
    want = (x.double() * scales) @ weight.dequantised().double().T
    # bf16 costs 1.7e-3 on average; the rest is for the 14 bits that the tensor cores keep of sums of FP8.
    for added, expected in ((None, want), (bias, want + bias)):
        for dtype in (torch.bfloat16, torch.float16, torch.float32):
            found = fp8.multiply(x, scales, weight, added, dtype)
            assert found.dtype == dtype and found.shape == (rows, outputs)
            assert relative(found, expected) < 8e-3


def test_a_row_without_numbers_spoils_no_other() -> None:
    """Rows behind the last are whatever memory holds."""
    weight = quantise_weight(torch.randn(64, 128, device="cuda"))
    x, scales = quantise_rows(torch.randn(40, 128, device="cuda"))
    want = fp8.multiply(x, scales, weight, None, torch.bfloat16)
    x.view(torch.uint8)[32:] = 0x7F
    scales[32:] = float("nan")
    found = fp8.multiply(x, scales, weight, None, torch.bfloat16)
    assert torch.equal(found[:32], want[:32]) and found[32:].isnan().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_the_kernel_quantises_as_the_cpu_does(dtype: torch.dtype) -> None:
    from fastqps.kernels.quantise_rows import quantise_rows as kernel

    x = torch.randn(500, 896, dtype=dtype) * torch.logspace(-6, 4, 500)[:, None]
    x[7] = 0
    values, scales = kernel(x.to(dtype).cuda())
    want, want_scales = quantise_rows(x.to(dtype))
    assert torch.allclose(scales.cpu(), want_scales, rtol=1e-6)
    off = values.cpu().float() != want.float()
    assert off.float().mean() < 1e-3, "a last bit may decide on which side of a limit a number is rounded"


ITEMS = [[(11 * i + 5 * j) % VOCAB for j in range(n)] for i, n in enumerate((2, 7, 16, 33))]
PROMPTS = [[(7 * i + 3 * j) % DECODER_VOCAB for j in range(n)] for i, n in enumerate((1, 5, 9, 20))]


@pytest.mark.parametrize("held", [False, True], ids=["quantised-here", "quantised-before"])
@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_encoders(tmp_path: Path, family: str, held: bool, capfd: pytest.CaptureFixture[str]) -> None:
    write_checkpoint(tmp_path, family, num_hidden_layers=4)
    if held:
        compress(tmp_path, r"(encoder\.layer|layers)\.\d+\..*(query|key|value|dense|Wqkv|Wo|Wi)\.weight")
    found = {}
    for device, dtype, quantization in (
        ("cpu", "float32", "fp8"),
        ("cuda", "bfloat16", "fp8"),
        ("cuda", "bfloat16", "none"),
    ):
        engine = Engine(str(tmp_path), device, dtype, quantization=quantization)
        found[device, quantization] = np.stack(engine.predict(ITEMS))  # type: ignore[arg-type]
        engine.close()
    cosines = [
        float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
        for a, b in zip(found["cpu", "fp8"], found["cuda", "fp8"], strict=True)
    ]
    assert min(cosines) > 0.998
    assert not np.array_equal(found["cuda", "fp8"], found["cuda", "none"])
    assert f"{16 if held else 6} of 16 matrix products in FP8" in capfd.readouterr().err


@pytest.mark.parametrize("held", [False, True], ids=["quantised-here", "quantised-before"])
@pytest.mark.parametrize("kind", ["llama-gqa-tied", "qwen2", "qwen3"])
def test_decoders(tmp_path: Path, kind: str, held: bool) -> None:
    """By the log-probability of the first token, where both have made the same one.

    Products come out in bf16, so the yardstick is what bf16 costs on the CPU.
    """
    write_decoder(tmp_path, kind, num_hidden_layers=4)
    if held:
        compress(tmp_path, r"model\.layers\.\d+\.(self_attn|mlp)\.\w+_proj\.weight")
    found = []
    for device, dtype in (("cpu", "float32"), ("cpu", "bfloat16"), ("cuda", "float32")):
        engine = Engine(str(tmp_path), device, dtype, quantization="fp8", max_output_tokens=8, max_running=4)
        answers = engine.generate(PROMPTS, logprobs=True)
        found.append([(each.token_ids[0], each.logprobs[0]) for each in answers if each.logprobs])
        engine.close()
    usual, errors = (
        [abs(a - b) for (one, a), (same, b) in zip(found[0], other, strict=True) if one == same] for other in found[1:]
    )
    assert len(errors) >= 3
    assert np.median(errors) < 1.5 * np.median(usual) + 0.02
