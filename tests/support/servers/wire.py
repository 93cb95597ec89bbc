"""The readers and writers of messages (csrc/tests/bind/wire.cpp): built when first imported."""

from __future__ import annotations

import importlib.util
import subprocess
from typing import Any

from paths import ROOT

_LIBRARY = "build/native/fastqps_wire.so"
subprocess.run(["make", "-s", _LIBRARY], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
_spec = importlib.util.spec_from_file_location("fastqps_wire", ROOT / _LIBRARY)
assert _spec and _spec.loader
wire: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(wire)
