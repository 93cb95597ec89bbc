"""The products that ``--quantization auto`` times on a GPU compute what is served. How long, only a GPU says."""

from __future__ import annotations

import pytest
import torch

from fastqps.kernels import TRITON_MISSING
from fastqps.models.precision import Product

pytestmark = pytest.mark.skipif(bool(TRITON_MISSING), reason=TRITON_MISSING)


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("fp8", [True, False])
def test_each_weight_is_multiplied_once(fp8: bool, fused: bool) -> None:
    from fastqps.models.cuda_product_times import products

    count, run = products(Product(32, 48, 5, fused, 3), fp8, torch.bfloat16, torch.device("cpu"))
    found = run()
    assert count == 3 and isinstance(found, list) and len(found) == 3
    assert all(out.shape == (5, 32) and out.dtype == torch.bfloat16 and out.isfinite().all() for out in found)


def test_large_weights_are_not_all_held(monkeypatch: pytest.MonkeyPatch) -> None:
    from fastqps.models import cuda_product_times

    monkeypatch.setattr(cuda_product_times, "WEIGHTS_MAX_BYTES", 2 * 32 * 48 * 2 + 1)
    for most, held in ((1, 1), (2, 2), (30, 2)):
        product = Product(32, 48, 5, True, most)
        assert cuda_product_times.products(product, False, torch.bfloat16, torch.device("cpu"))[0] == held
