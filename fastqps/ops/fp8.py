"""FP8 (e4m3): weights scaled by output channel, activations by row, and their product.

The format is that of the device: e4m3fn, or e4m3fnuz on gfx942.
A row of 3 mantissa bits is off by 3 to 4 percent in each number and by far less in a product, whose errors cancel. What
is too small for its row becomes 0; NaN stays in its own row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import TypeVar

import torch

from fastqps.kernels.float8_format import E4M3FN, E4M3FNUZ, format_on
from fastqps.kernels.torch_ops.rows import quantise_rows

E4M3 = E4M3FN.dtype  # of checkpoints
MULTIPLE = 16  # what inputs and outputs of an FP8 product have to be divisible by
_NO_KERNEL = "CUBLAS_STATUS_NOT_SUPPORTED"
_PROBE = 128  # rows, inputs and outputs of the product that is tried: a size that no library leaves out


@dataclass(frozen=True)
class Quantised:
    """A weight: ``values`` float8 [outputs, inputs] times, row by row, ``scales`` float32 [outputs]."""

    values: torch.Tensor
    scales: torch.Tensor

    @property
    def shape(self) -> torch.Size:
        """(outputs, inputs)."""
        return self.values.shape

    def dequantised(self) -> torch.Tensor:
        """float32 [outputs, inputs]."""
        return self.values.float() * self.scales[:, None]


Weight = torch.Tensor | Quantised


def fits(outputs: int, inputs: int) -> bool:
    """Whether a product with a weight of this shape can run in FP8."""
    return outputs % MULTIPLE == 0 and inputs % MULTIPLE == 0


def quantise_weight(weight: torch.Tensor) -> Quantised:
    """weight [outputs, inputs] → its rows scaled one by one."""
    if weight.is_meta:  # see ``joined``
        return Quantised(weight.new_empty(weight.shape, dtype=E4M3), weight.new_empty(len(weight), dtype=torch.float32))
    values, scales = quantise_rows(weight)
    return Quantised(values, scales.squeeze(1))


def quantised_for(device: torch.device, weight: Weight) -> Quantised:
    """The weight in the format that the device multiplies, its values exactly as they were where it is FP8 already."""
    quantised = weight if isinstance(weight, Quantised) else quantise_weight(weight)
    wanted = format_on(device)
    return as_fnuz(quantised) if wanted == E4M3FNUZ and quantised.values.dtype == E4M3 else quantised


def as_fnuz(weight: Quantised) -> Quantised:
    """A weight in e4m3fn, in e4m3fnuz: the same bits stand for half of the number, so that the scales are doubled.

    Two values have other bits. Negative zero becomes zero, as e4m3fnuz has no other; NaN, of which e4m3fn has two,
    becomes its only one.
    """
    if weight.values.is_meta:
        return Quantised(weight.values.new_empty(weight.shape, dtype=E4M3FNUZ.dtype), weight.scales)
    bits = weight.values.view(torch.uint8)
    magnitude = bits & 0x7F
    bits = torch.where(magnitude == 0, 0, torch.where(magnitude == 0x7F, 0x80, bits))
    return Quantised(bits.view(E4M3FNUZ.dtype), weight.scales * 2)


def concatenate(weights: Sequence[Weight]) -> Weight:
    """Weights that read the same input as one, [all outputs, inputs]: quantised where all of them are, else plain."""
    quantised = [weight for weight in weights if isinstance(weight, Quantised)]
    if len(quantised) == len(weights):
        return Quantised(joined([w.values for w in quantised]), joined([w.scales for w in quantised]))
    return joined([plain(weight) for weight in weights])


def joined(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """One behind the other in the first dimension."""
    first = parts[0]
    if first.is_meta:  # torch would first import its compilers to compute with such, which takes seconds
        dtype = reduce(torch.promote_types, (part.dtype for part in parts))
        return first.new_empty((sum(map(len, parts)), *first.shape[1:]), dtype=dtype)
    return torch.cat(tuple(parts))


W = TypeVar("W", torch.Tensor, Weight)


def scaled(weight: W, by: float | None) -> W:
    """The weight, bias or norm multiplied by a number; None leaves it as it is."""
    if by is None or (isinstance(weight, torch.Tensor) and weight.is_meta):  # see ``joined``
        return weight
    return Quantised(weight.values, weight.scales * by) if isinstance(weight, Quantised) else weight * by


def split(weight: W, outputs: Sequence[int]) -> list[W]:
    """The weights or biases of so many outputs each, of which ``weight`` is one."""
    if isinstance(weight, torch.Tensor):
        return list(torch.split(weight, list(outputs)))
    return [Quantised(*part) for part in zip(split(weight.values, outputs), split(weight.scales, outputs), strict=True)]


def by_part(weight: W, heads: int) -> W:
    """Rows of each head's query, key and value in turn → all queries, all keys, all values."""
    if isinstance(weight, Quantised):
        return Quantised(by_part(weight.values, heads), by_part(weight.scales, heads))
    if weight.is_meta:  # see ``joined``
        return weight
    rows: torch.Tensor = weight.view(heads, 3, -1, *weight.shape[1:]).transpose(0, 1)
    return rows.reshape(weight.shape)


def by_columns(weight: W, order: Sequence[int]) -> W:
    """The rows of each head, which make its columns, in that order."""
    if isinstance(weight, Quantised):
        return Quantised(by_columns(weight.values, order), by_columns(weight.scales, order))
    if weight.is_meta:  # see ``joined``
        return weight
    rows: torch.Tensor = weight.view(-1, len(order), *weight.shape[1:])[:, list(order)]
    return rows.reshape(weight.shape)


def transposed(weight: torch.Tensor) -> torch.Tensor:
    """weight [inputs, outputs] → [outputs, inputs]."""
    return weight.new_empty(weight.shape[::-1]) if weight.is_meta else weight.T.contiguous()  # see ``joined``


def projected(table: torch.Tensor, projection: torch.Tensor) -> torch.Tensor:
    """table [rows, width] · projection [width, other] → [rows, other]."""
    return table.new_empty(len(table), projection.shape[1]) if table.is_meta else table @ projection  # see ``joined``


def plain(weight: Weight) -> torch.Tensor:
    """The weight as a tensor, whatever it is held as."""
    return weight.dequantised() if isinstance(weight, Quantised) else weight


def multiply(
    x: torch.Tensor, x_scales: torch.Tensor, weight: Quantised, bias: torch.Tensor | None, dtype: torch.dtype
) -> torch.Tensor:
    """x [rows, inputs] with ``x_scales`` [rows, 1], as ``quantise_rows`` gives them → [rows, outputs] in ``dtype``.

    Sums are fp32. On a GPU the product itself is bf16, whatever ``dtype``, and ``bias`` has to be bf16 too.
    """
    if has_product(x.device):
        return product(x, x_scales, weight, bias, torch.bfloat16 if x.is_cuda else dtype, quick=x.is_cuda).to(dtype)
    out = (x.float() * x_scales) @ weight.dequantised().T
    return (out if bias is None else out + bias).to(dtype)


def has_product(device: torch.device) -> bool:
    """Whether torch multiplies FP8 on this device, with scales by row. Where it does not, ``multiply`` dequantises."""
    return not refused(device)


@cache
def refused(device: torch.device) -> str:
    """The error of torch where it does not multiply FP8 on this device; "" where it does."""
    x = torch.zeros(_PROBE, _PROBE, dtype=format_on(device).dtype, device=device)
    scales = torch.ones(_PROBE, device=device)
    try:
        weight, bias = Quantised(x, scales), scales.bfloat16()
        product(x, scales.unsqueeze(1), weight, bias, torch.bfloat16, quick=x.is_cuda)
    except (RuntimeError, NotImplementedError) as error:
        return " ".join(str(error).split())[:160] or type(error).__name__
    return ""


_precise: set[tuple[object, ...]] = set()  # products of which the library has no quick kernel


def product(
    x: torch.Tensor, x_scales: torch.Tensor, weight: Quantised, bias: torch.Tensor | None, made: torch.dtype, *,
    quick: bool,
) -> torch.Tensor:  # fmt: skip
    """torch's own in ``made``. ``quick``: with the tensor cores' quick sums, where the library has a kernel for them.

    ``RuntimeError`` where the device multiplies no FP8. cuBLAS has no such kernel for some products with a bias: on an
    H200 none for [63, 8192] by [2048, 8192], and one for more rows.
    """
    key = (x.device, x.shape, weight.shape, bias is None, made)

    def asked(quick: bool) -> torch.Tensor:
        scales = weight.scales.unsqueeze(0)
        return torch._scaled_mm(x, weight.values.t(), x_scales, scales, bias=bias, out_dtype=made, use_fast_accum=quick)

    if quick and key not in _precise:
        try:
            return asked(quick=True)
        except RuntimeError as error:
            if _NO_KERNEL not in str(error):
                raise
        _precise.add(key)
    return asked(quick=False)
