"""The products that ``--quantization auto`` times on a GPU compute what is served. How long, only a GPU says."""

from __future__ import annotations

import pytest
import torch

from fastqps.kernels import TRITON_MISSING
from fastqps.ops.precision import Epilogue, Kind, Product

pytestmark = pytest.mark.skipif(bool(TRITON_MISSING), reason=TRITON_MISSING)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("fp8", [True, False])
def test_each_weight_is_multiplied_once(fp8: bool, fused: bool) -> None:
    from fastqps.ops.cuda.product_times import products

    count, run = products(Product(Kind(32, 48, fused), 5, 3), fp8, torch.bfloat16, torch.device("cpu"))
    found = run()
    assert count == 3 and isinstance(found, list) and len(found) == 3
    assert all(out.shape == (5, 32) and out.dtype == torch.bfloat16 and out.isfinite().all() for out in found)


@pytest.mark.parametrize("epilogue", ["residual", "gelu"])
@pytest.mark.parametrize("fp8", [True, False])
def test_what_follows_is_timed_with_the_product(fp8: bool, epilogue: Epilogue) -> None:
    """FP8 moves the residual and gelu into the next kernel, which writes FP8 rows then."""
    from fastqps.ops.cuda.product_times import products

    product = Product(Kind(32, 48, True, epilogue), 5, 2)
    _, run = products(product, fp8, torch.float32, torch.device("cpu"))
    found = run()
    assert isinstance(found, list) and len(found) == 2
    for rows in found:
        if epilogue == "residual":
            total, rows = rows
            assert total.shape == (5, 32) and total.any()
        written, other = (rows.fp8, rows.values) if fp8 else (rows.values, rows.fp8)
        assert written.shape == (5, 32) and other is None


def test_large_weights_are_not_all_held(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastqps.ops.cuda import product_times as cuda_product_times

    monkeypatch.setattr(cuda_product_times, "WEIGHTS_MAX_BYTES", 2 * 32 * 48 * 2 + 1)
    for most, held in ((1, 1), (2, 2), (30, 2)):
        product = Product(Kind(32, 48, True), 5, most)
        assert cuda_product_times.products(product, False, torch.bfloat16, torch.device("cpu"))[0] == held
