"""The number format that a server says it computes in is the one that its devices take."""

from __future__ import annotations

import pytest

from fastqps.devices.cpu.transformer import choose_dtype
from fastqps.devices.names import resolve_dtype
from fastqps.host import machine


@pytest.mark.parametrize(
    ("device", "dtype", "flags", "expected"),
    [
        ("cpu", "auto", (), "float32"),
        ("cpu", "auto", ("avx512_bf16",), "bfloat16"),
        ("cpu", "float32", ("avx512_bf16",), "float32"),
        ("cuda:0,1", "auto", (), "bfloat16"),
        ("cuda:0", "float16", (), "float16"),
        ("null", "auto", (), "auto"),
        ("sim:h200-minilm-l6", "auto", ("avx512_bf16",), "auto"),
        ("remote", "auto", (), "auto"),
    ],
)
def test_auto_is_what_the_device_takes(
    device: str, dtype: str, flags: tuple[str, ...], expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "bfloat16_flags", lambda: flags)
    assert resolve_dtype(device, dtype) == expected


def test_the_cpu_computes_in_what_is_said() -> None:
    assert str(choose_dtype("auto")) == f"torch.{resolve_dtype('cpu', 'auto')}"
