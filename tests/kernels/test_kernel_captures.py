"""Operations in plain torch can be captured in a CUDA graph: run on another device than the host's, none waits for it.

That device is ``meta``: its tensors have no numbers, so whatever looks at one fails there as well.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kernel_calls import calls, moved
from torch.utils._python_dispatch import TorchDispatchMode

from fastqps.kernels import torch_ops
from fastqps.kernels.layers import Attention

pytestmark = pytest.mark.compute
# Each waits for the device, or makes a tensor whose size the device decides.
WAITS = {"_local_scalar_dense", "nonzero", "masked_select", "unique", "equal", "is_nonzero", "repeat_interleave"}
COPIES = {"_to_copy", "copy_", "lift_fresh"}


class NoWaiting(TorchDispatchMode):
    """Raises at what cannot be captured: waits, and copies between the host and the device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = func.overloadpacket.__name__, kwargs or {}
        assert name not in WAITS, f"{name} waits for the device"
        if name == "index" or name.startswith("index_put"):
            assert all(i is None or i.dtype != torch.bool for i in args[1]), f"{name} by a mask waits for the device"
        if name in COPIES:
            devices = [x.device for x in args if isinstance(x, torch.Tensor)]
            devices += [kwargs["device"]] if kwargs.get("device") else []
            assert len({device.type for device in devices}) == 1, f"{name} between {devices}"
        return func(*args, **kwargs)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_operations_can_be_captured(dtype: torch.dtype) -> None:
    for name, arguments in calls(dtype):
        own = {key: moved(value, "meta") for key, value in arguments.items()}
        with torch.inference_mode(), NoWaiting():
            returned = getattr(torch_ops, name)(**own)
        for x in [returned] if isinstance(returned, torch.Tensor) else returned or ():
            assert x is None or x.is_meta, name


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda x: x[x > 0], "by a mask"),
        (lambda x: x.sum().item(), "waits"),
        (lambda x: x.nonzero(), "waits"),
        (lambda x: x + torch.tensor([1.0, 2.0]).to(x.device), "_to_copy between"),
        (lambda x: x.cpu(), "_to_copy between"),
    ],
)
def test_what_cannot_be_captured_is_seen(wrong: Any, message: str) -> None:
    x = torch.zeros(2, device="meta")
    with pytest.raises(AssertionError, match=message), NoWaiting():
        wrong(x)


@pytest.mark.parametrize("spoiled", [torch.nan, torch.inf])
def test_what_is_no_number_stays_in_its_item(spoiled: float) -> None:
    """A weight of zero does not keep a neighbour's value away: 0 times infinity is not 0."""
    qkv, marks = torch.randn(12, 3 * 8), torch.tensor([[0, 5]] * 5 + [[5, 12]] * 7, dtype=torch.int32)
    start, end = marks.t().contiguous()
    right = torch_ops.tile_attention(qkv, start, end, Attention(2, 2), longest=7)
    qkv[3, 20] = spoiled  # a value of the second head
    found = torch_ops.tile_attention(qkv, start, end, Attention(2, 2), longest=7)
    assert torch.equal(found[5:], right[5:]) and torch.equal(found[:5, :4], right[:5, :4])
    assert not found[:5, 4].isfinite().any()
