"""Writes the type stubs of the extensions that this Python imports beside them. setup.py does so after a build.

pybind11-stubgen reads the signatures that pybind11 puts in front of docstrings. This adds what it does not know: the
types of a module's tuples and dicts, and that callers give numbers as ``int`` and ``float``.
"""

from __future__ import annotations

import importlib
import re
import tempfile
import zlib
from importlib.util import find_spec
from pathlib import Path

MODULES = ("fastqps._core", "fastqps._front", "loadgen._native")
SIMPLER = {
    "typing.SupportsInt | typing.SupportsIndex": "int",
    "typing.SupportsFloat | typing.SupportsIndex": "float",
}


def main() -> None:
    for name in MODULES:
        spec = find_spec(name)
        assert spec and spec.origin
        extension = Path(spec.origin)
        stub = extension.with_name(name.rpartition(".")[2] + ".pyi")
        made_from = zlib.crc32(Path(__file__).read_bytes(), zlib.crc32(extension.read_bytes()))
        head = f"# Written by tools/stubs.py from an extension of this checksum: {made_from:08x}\n"
        if not stub.is_file() or not stub.read_text().startswith(head):
            stub.write_text(head + generated(name))


def generated(name: str) -> str:
    """The stub of an extension."""
    import pybind11_stubgen  # most builds need no new stubs

    with tempfile.TemporaryDirectory() as folder:
        pybind11_stubgen.main(["--exit-code", "--output-dir", folder, name])
        text = Path(folder, *name.split(".")).with_suffix(".pyi").read_text()
    for attribute, annotation in importlib.import_module(name).__annotations__.items():
        text = re.sub(rf"^{attribute}: .*", f"{attribute}: {annotation.replace(f'{name}.', '')}", text, flags=re.M)
    for written, meant in SIMPLER.items():
        text = text.replace(written, meant)
    return text


if __name__ == "__main__":
    main()
