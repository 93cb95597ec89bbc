"""NVML, the library of the NVIDIA driver that nvidia-smi asks, as far as it is needed to choose GPUs.

By ctypes, so that no package is needed where there is a driver. The functions and structures are those of nvml.h, whose
ABI does not change.
"""

from __future__ import annotations

import ctypes
from ctypes import byref, c_char, c_int, c_uint, c_ulonglong, c_void_p
from functools import cache

LIBRARY = "libnvidia-ml.so.1"
_TEXT_BYTES = 96
_NOT_SUPPORTED, _NOT_FOUND, _INVALID = 3, 6, 2
_COMPUTE_MODES = ("default", "exclusive-thread", "prohibited", "exclusive-process")


class NvmlError(Exception):
    """NVML is not there, or refuses; the message is for people."""


class _Memory(ctypes.Structure):
    _fields_ = [("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong)]


class _Pci(ctypes.Structure):
    _fields_ = [
        ("bus_id_legacy", c_char * 16),
        ("domain", c_uint),
        ("bus", c_uint),
        ("device", c_uint),
        ("device_id", c_uint),
        ("subsystem_id", c_uint),
        ("bus_id", c_char * 32),
    ]


@cache
def open_nvml() -> Nvml:
    """The library, initialised once: where nothing keeps the driver's state, that takes a second."""
    return Nvml(LIBRARY)


class Nvml:
    """The library. Handles are opaque. Everything raises ``NvmlError``."""

    def __init__(self, library: str) -> None:
        try:
            self._library = ctypes.CDLL(library)
        except OSError:
            raise NvmlError(f"no NVIDIA driver is here ({library} cannot be loaded)") from None
        self._call("nvmlInit_v2")

    def driver_version(self) -> str:
        """ "580.65.06"."""
        return self._text("nvmlSystemGetDriverVersion")

    def count(self) -> int:
        """GPUs of this machine, as far as this container may see them."""
        found = c_uint()
        self._call("nvmlDeviceGetCount_v2", byref(found))
        return found.value

    def device(self, index: int) -> c_void_p:
        """In the order of the PCI bus."""
        handle = c_void_p()
        self._call("nvmlDeviceGetHandleByIndex_v2", c_uint(index), byref(handle))
        return handle

    def name(self, device: c_void_p) -> str:
        """ "NVIDIA H200"."""
        return self._text("nvmlDeviceGetName", device)

    def uuid(self, device: c_void_p) -> str:
        """ "GPU-…", of a MIG instance "MIG-…"."""
        return self._text("nvmlDeviceGetUUID", device)

    def memory_bytes(self, device: c_void_p) -> int:
        """All of it."""
        memory = _Memory()
        self._call("nvmlDeviceGetMemoryInfo", device, byref(memory))
        return int(memory.total)

    def pci_bus_id(self, device: c_void_p) -> str:
        """As sysfs writes it: "0000:18:00.0"."""
        pci = _Pci()
        self._call("nvmlDeviceGetPciInfo_v3", device, byref(pci))
        domain, _, rest = pci.bus_id.decode().lower().partition(":")
        return f"{domain[-4:]}:{rest}"

    def capability(self, device: c_void_p) -> tuple[int, int]:
        """Compute capability: (9, 0)."""
        major, minor = c_int(), c_int()
        self._call("nvmlDeviceGetCudaComputeCapability", device, byref(major), byref(minor))
        return major.value, minor.value

    def compute_mode(self, device: c_void_p) -> str:
        """How many processes may use it: "default" says any number."""
        mode = c_uint()
        self._call("nvmlDeviceGetComputeMode", device, byref(mode))
        return _COMPUTE_MODES[mode.value] if mode.value < len(_COMPUTE_MODES) else f"mode {mode.value}"

    def mig_instances(self, device: c_void_p) -> list[c_void_p] | None:
        """The MIG instances that this container may see; None where the GPU is not cut into such."""
        now, pending, most = c_uint(), c_uint(), c_uint()
        if not self._call("nvmlDeviceGetMigMode", device, byref(now), byref(pending), may=(_NOT_SUPPORTED,)):
            return None
        if not now.value:
            return None
        self._call("nvmlDeviceGetMaxMigDeviceCount", device, byref(most))
        found = []
        for i in range(most.value):
            handle = c_void_p()
            here = self._call(
                "nvmlDeviceGetMigDeviceHandleByIndex", device, c_uint(i), byref(handle), may=(_NOT_FOUND, _INVALID)
            )
            if here:
                found.append(handle)
        return found

    def _text(self, function: str, *arguments: c_void_p) -> str:
        text = ctypes.create_string_buffer(_TEXT_BYTES)
        self._call(function, *arguments, text, c_uint(_TEXT_BYTES))
        return text.value.decode(errors="replace")

    def _call(self, function: str, *arguments: object, may: tuple[int, ...] = ()) -> bool:
        """False: it said one of ``may``."""
        try:
            code = getattr(self._library, function)(*arguments)
        except AttributeError:
            raise NvmlError(f"the NVIDIA driver is too old: its NVML has no {function}") from None
        if code and code not in may:
            raise NvmlError(f"the NVIDIA driver does not answer: {function}: {self._reason(code)}")
        return not code

    def _reason(self, code: int) -> str:
        say = self._library.nvmlErrorString
        say.restype = ctypes.c_char_p
        return f"{(say(code) or b'').decode(errors='replace')} ({code})"
