"""Damages every file of a model in every way, and asks each of them something, within limits of memory and time.

``python bad_files.py FOLDER MODEL …`` prints a JSON line for each: what was damaged, how, the exit code, what stderr
said, and the seconds. It runs in a process of its own, whose address space may grow by ``MEMORY_BYTES`` and no more.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import resource
import shutil
import signal
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MEMORY_BYTES = 1 << 30
SECONDS = 30
Damage = Callable[[Path], object]


def header_of(path: Path) -> tuple[dict[str, Any], bytes]:
    """(header, data) of a safetensors file."""
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    return json.loads(content[8 : 8 + length]), content[8 + length :]


def write_tensors(path: Path, header: Any, data: bytes) -> None:
    """A file with this header, whatever it says."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def _text(content: bytes) -> Damage:
    return lambda path: path.write_bytes(content)


def _large(size: int) -> Damage:
    def damage(path: Path) -> None:
        with path.open("r+b") as stream:
            stream.truncate(size)

    return damage


def _other(make: Damage) -> Damage:
    def damage(path: Path) -> None:
        path.unlink()
        make(path)

    return damage


def _values(value: Any) -> Damage:
    """Every value of an object, or of the objects in a list, is another one."""

    def damage(path: Path) -> None:
        found = json.loads(path.read_text())
        of = found if isinstance(found, list) else [found]
        for each in of:
            each.update(dict.fromkeys([key for key in each if key not in ("model_type", "peft_type")], value))
        path.write_text(json.dumps(found))

    return damage


def _changed(change: Callable[[dict[str, Any], str], object]) -> Damage:
    """A safetensors file whose header has changed at its largest tensor."""

    def damage(path: Path) -> None:
        header, data = header_of(path)
        names = [name for name in header if name != "__metadata__"]
        change(header, max(names, key=lambda name: header[name]["data_offsets"][1] - header[name]["data_offsets"][0]))
        write_tensors(path, header, data)

    return damage


def _typed(kind: str, item_bytes: int) -> Damage:
    """All tensors are of this type, in a file that is otherwise right."""

    def damage(path: Path) -> None:
        header, _ = header_of(path)
        end = 0
        for name in [name for name in header if name != "__metadata__"]:
            size = item_bytes
            for n in header[name]["shape"]:
                size *= n
            header[name] = {"dtype": kind, "shape": header[name]["shape"], "data_offsets": [end, end + size]}
            end += size
        write_tensors(path, header, b"\1" * end)

    return damage


# What may not be read as a file, whatever its name.
OTHERS: dict[str, Damage] = {
    "fifo": _other(os.mkfifo),
    "folder": _other(lambda path: path.mkdir()),
    "loop": _other(lambda path: path.symlink_to(path.name)),
    "dangling": _other(lambda path: path.symlink_to("nowhere")),
    "device": _other(lambda path: path.symlink_to("/dev/zero")),
    "empty": _text(b""),
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-20]),
}
JSON: dict[str, Damage] = {
    **OTHERS,
    "nested lists": _text(b"[" * 1_000_000),
    "nested objects": _text(b'{"a":' * 1_000_000),
    "list": _text(b"[]"),
    "number": _text(b"1"),
    "null": _text(b"null"),
    "list of numbers": _text(b"[1, 2]"),
    "digits": _text(b'{"vocab_size": ' + b"9" * 100_000 + b"}"),
    "no UTF-8": _text(b'{"a": "\xff"}'),
    "zeros": _large(300 << 20),
    "many": _text(b"[" + b"[]," * 1_000_000 + b"[]]"),
    **{f"all {value!r}": _values(value) for value in ([], {}, "x", -1, 0, True, None, 1e300, 1 << 62, [{}], {"a": {}})},
}
TENSORS: dict[str, Damage] = {
    **OTHERS,
    "header of 10 GB": lambda path: path.write_bytes(struct.pack("<Q", 10 << 30) + path.read_bytes()[8:]),
    "header of 2^64": lambda path: path.write_bytes(b"\xff" * 8 + path.read_bytes()[8:]),
    "no JSON": lambda path: write_tensors(path, b"{" * 1000, b""),
    "nested header": lambda path: write_tensors(path, b"[" * 1_000_000, b""),
    "list": lambda path: write_tensors(path, [1], b""),
    "no tensors": lambda path: write_tensors(path, {}, b""),
    "many tensors": lambda path: write_tensors(
        path, {f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(100_001)}, b""
    ),
    "10 GB": _changed(lambda header, name: header[name].update(shape=[10 << 28], data_offsets=[0, 10 << 30])),
    "overlap": _changed(lambda header, name: header[name].update(data_offsets=[4, header[name]["data_offsets"][1]])),
    "behind the end": _changed(lambda header, name: header[name].update(data_offsets=[1 << 40, (1 << 40) + 64])),
    "negative": _changed(lambda header, name: header[name].update(data_offsets=[-8, 8], shape=[4])),
    "no numbers": _changed(lambda header, name: header[name].update(data_offsets=["a", None])),
    "overflow": _changed(lambda header, name: header[name].update(shape=[1 << 62, 1 << 62])),
    "infinite shape": _changed(lambda header, name: header[name].update(shape=[math.inf])),
    "infinite place": _changed(lambda header, name: header[name].update(data_offsets=[0, math.inf])),
    "fractions": _changed(lambda header, name: header[name].update(shape=[n + 0.5 for n in header[name]["shape"]])),
    "negative shape": _changed(lambda header, name: header[name].update(shape=[-1, -1])),
    "other shape": _changed(lambda header, name: header[name].update(shape=[*header[name]["shape"][::-1], 1])),
    "unknown type": _changed(lambda header, name: header[name].update(dtype="F99")),
    "missing": _changed(lambda header, name: header.update({"other": header.pop(name)})),
    "int64": _typed("I64", 8),
    "bool": _typed("BOOL", 1),
    "complex": _typed("C64", 8),
    "fp8": _typed("F8_E4M3", 1),
    "sparse": _large(10 << 30),
}


def damages(path: Path) -> dict[str, Damage]:
    """How this file can be damaged."""
    return TENSORS if path.suffix == ".safetensors" else JSON


def outcomes(models: dict[str, tuple[Path, list[str]]]) -> Iterator[dict[str, Any]]:
    """For each file of each model, and each damage, what ``fastqps predict`` says. Models: (folder, arguments)."""
    for model, (folder, arguments) in models.items():
        for file in sorted(path.relative_to(folder) for path in folder.rglob("*") if path.is_file()):
            for kind, damage in damages(folder / file).items():
                kept = folder.with_name(folder.name + ".kept")
                shutil.copytree(folder, kept)
                try:
                    damage(folder / file)
                    yield {"model": model, "file": str(file), "damage": kind, **_ask(arguments)}
                finally:
                    shutil.rmtree(folder)
                    kept.rename(folder)


def _ask(arguments: list[str]) -> dict[str, Any]:
    from fastqps.cli import main

    began, said, answer = time.process_time(), io.StringIO(), io.StringIO()
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(answer):
            code: int | str = main(["predict", *arguments, "ba de"])
    except BaseException as error:
        code = f"{type(error).__name__}: {error}"
    signal.setitimer(signal.ITIMER_PROF, 0)
    lines = [line for line in said.getvalue().splitlines() if line.strip()]
    return {"code": code, "said": lines[-3:], "lines": len(lines), "s": round(time.process_time() - began, 1)}


class _Late(BaseException):
    """No answer in time."""


def _ring(number: int, frame: object) -> None:
    raise _Late


def run(root: Path, names: list[str]) -> None:
    """Damages these models in ``root``: {name: arguments} in models.json there."""
    import fastqps.engine.engine  # noqa: F401  what is imported takes address space, too

    signal.signal(signal.SIGPROF, _ring)
    listed = json.loads((root / "models.json").read_text())
    for name in names:
        assert _ask(listed[name])["code"] == 0  # with it come threads and libraries, which take address space, too
    used = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY_BYTES,) * 2)
    models = {name: (root / name, listed[name]) for name in names}
    for found in outcomes(models):
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    run(Path(sys.argv[1]), sys.argv[2:])
