"""Step sizes that starts have measured, in this user's cache: a file for each shape of a model and circumstances.

Deleting a file only has the step size measured again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fastqps.devices.errors import DeviceError
from fastqps.devices.start_lock import alone
from fastqps.files.documents import parse_json
from fastqps.files.regular import read_regular
from fastqps.host import machine
from fastqps.models.files.deciding_files import shape_of
from fastqps.terminal import Level, say

FORMAT = 4  # to be raised when something else is measured: older files are then ignored
_BYTES_MAX = 1 << 20
_DIGITS = 12


@dataclass(frozen=True)
class Circumstances:
    """The circumstances under which a stored choice is valid for models of one shape."""

    device: str  # its make
    torch: str  # "": the device does without
    dtype: str
    quantization: str
    kernels: str
    threads: int
    dispatchers: int
    lanes: int
    async_steps: bool
    max_items: int
    max_tokens: int


@dataclass(frozen=True)
class Choice:
    """The size, the rates that it follows from, and the time of measurement: ISO 8601, UTC."""

    measured: str
    items: int
    rates: tuple[tuple[int, float], ...]


def folder_of(root: Path) -> Path | None:
    """The folder for models of the shape of the one in ``root``. None: this user has none that can be written to."""
    return machine.cache_folder(f"steps/{shape_of(root)}")


def path_of(root: Path, where: Circumstances) -> Path | None:
    """The file of a choice; None as ``folder_of``."""
    folder = folder_of(root)
    digest = hashlib.sha256(json.dumps(asdict(where), sort_keys=True).encode()).hexdigest()[:_DIGITS]
    return folder / f"{digest}.json" if folder else None


def find(path: Path | None, where: Circumstances) -> Choice | None:
    """The stored choice. A file that cannot be used is logged and ignored."""
    try:
        return read_choice(path, where) if path else None
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        say(f"step size: {path} holds no choice that can be used ({why}); it is ignored", Level.WARNING)
        return None


def store(path: Path | None, where: Circumstances, choice: Choice) -> None:
    """Logs a warning if the choice cannot be stored."""
    try:
        if path is None:
            raise OSError("no folder of this user can be written to")
        _replace(path, json.dumps({"format": FORMAT, "where": asdict(where), "choice": asdict(choice)}))
    except OSError as error:
        why = f"{path}: {error.strerror}" if error.strerror else error
        say(f"step size: the choice cannot be stored ({why}); the next start measures again", Level.WARNING)
        return
    say(f"step size: choice stored in {path}")


def forget(root: Path) -> None:
    """Deletes what is stored for a model, so that the next start measures again. ``OSError`` if that is refused."""
    if folder := folder_of(root):
        shutil.rmtree(folder)


@contextmanager
def measuring() -> Iterator[None]:
    """Keeps other processes of this user that would measure waiting, also for other models: they would share the
    machine, and each would see the other's load as noise. If the lock cannot be had, that is logged, and this process
    goes on without it."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(alone("steps", "measuring for step size"))
        except DeviceError as error:
            say(f"step size: {error}; this process measures for itself", Level.WARNING)
        yield


def read_choice(path: Path, where: Circumstances) -> Choice:
    """``OSError`` or ``ValueError`` where the file is not one of ours, unharmed and of this version."""
    document = parse_json(read_regular(path, _BYTES_MAX))
    try:
        if document["format"] != FORMAT:
            raise ValueError(f"its format is {document['format']}, not {FORMAT}")
        if document["where"] != asdict(where):
            raise ValueError("it is of other circumstances")
        return _checked(document["choice"], where)
    except (KeyError, TypeError) as error:
        raise ValueError(f"not a file of fastqps: {error!r}") from None


def _checked(document: dict[str, Any], where: Circumstances) -> Choice:
    choice = Choice(document["measured"], document["items"], tuple((size, rate) for size, rate in document["rates"]))
    if type(choice.measured) is not str:
        raise ValueError(f"{choice.measured!r} is no time")
    if type(choice.items) is not int or not 1 <= choice.items <= where.max_items:
        raise ValueError(f"steps of {choice.items} items, where {where.max_items} is the most")
    valid = [type(size) is int and type(rate) in (int, float) and rate > 0 for size, rate in choice.rates]
    if not valid or not all(valid):
        raise ValueError("not the rates of sizes")
    return choice


def _replace(path: Path, text: str) -> None:
    """Replaces the file as a whole, for readers and other writers at the same time."""
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)  # less the umask
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(text + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
