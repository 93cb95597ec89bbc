"""ALBERT's layers that share their tensors: held once, and as precise as the first and the last layer must be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import write_checkpoint

from fastqps.architectures.packed import PackedModel
from fastqps.models import load_card
from fastqps.ops.cpu.encoder_ops import CpuEncoderOps
from fastqps.ops.cpu.fp8 import CpuFp8Linear
from fastqps.ops.cpu.ops import CpuOps
from fastqps.ops.precision import Precision

pytestmark = pytest.mark.compute


def products_in_fp8(path: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    made = []
    plain = CpuOps._product

    def counted(self: CpuOps, *given: Any, **named: Any) -> Any:
        product = plain(self, *given, **named)
        made.append(product)
        return product

    monkeypatch.setattr(CpuOps, "_product", counted)
    PackedModel(load_card(str(path)), CpuEncoderOps(torch.float32, Precision("fp8")))
    return sum(isinstance(product, CpuFp8Linear) for product in made)


@pytest.mark.parametrize(("groups", "inner", "products"), [(1, 1, 0), (2, 1, 0), (4, 1, 6), (1, 2, 0), (2, 2, 6)])
def test_only_groups_between_the_ends_are_quantised(
    groups: int, inner: int, products: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_checkpoint(tmp_path, "albert", num_hidden_layers=4, num_hidden_groups=groups, inner_group_num=inner)
    assert products_in_fp8(tmp_path, monkeypatch) == products
