"""The number format that ``--dtype auto`` is on a device."""

from __future__ import annotations

from fastqps.host import machine


def resolve_dtype(device: str, dtype: str) -> str:
    """``auto`` as the device takes it: bfloat16 on a GPU and on a CPU that multiplies it natively, else float32 on a
    CPU. Devices that do not compute keep what they are given."""
    if dtype != "auto" or not device.startswith(("cpu", "cuda")):
        return dtype
    return "bfloat16" if device.startswith("cuda") or machine.bfloat16_flags() else "float32"
