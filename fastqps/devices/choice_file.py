"""Files of choices beside a model: each was measured once, and is read by all that serve the model from then on.

A file holds choices for several circumstances (devices, versions of torch, sizes of steps), the newest last. It does
not belong to the checkpoint: no digest covers it, and deleting it only has the choice measured again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from fastqps.devices.errors import DeviceError
from fastqps.devices.start_lock import alone
from fastqps.files.documents import parse_json
from fastqps.files.regular import read_regular
from fastqps.host import machine
from fastqps.models.hub import in_cache
from fastqps.models.names import PACKAGED, packaged

CHOICES_MAX = 32  # in a file; the oldest go first
_BYTES_MAX = 1 << 20

Log = Callable[[str], None]
W = TypeVar("W", bound=Hashable)  # the circumstances under which a choice is valid
V = TypeVar("V")


@dataclass(frozen=True)
class ChoiceFile(Generic[W, V]):
    """One kind of choice, and how its files are read and written.

    ``parse`` may raise ``ValueError``, ``KeyError``, ``TypeError`` or ``AttributeError`` for what ``entry`` did not
    write.
    """

    subject: str  # begins each line of the log
    file: str
    cache: str  # the folder below this user's cache, for models whose own cannot be written to
    format: int  # to be raised when something else is measured: older files are then ignored
    entry: Callable[[W, V], dict[str, Any]]
    parse: Callable[[dict[str, Any]], tuple[W, V]]

    def places(self, root: Path) -> list[Path]:
        """Where the choices for the model in ``root`` are looked for and stored, the preferred place first.

        The folder of a model that a Python package or the hub's cache carries belongs to that, so nothing is written
        there.
        """
        cache = machine.cache_folder(self.cache)
        others = in_cache(root) or root in [packaged(name) for name in PACKAGED]
        beside = [] if others else [root / self.file]
        return beside + ([cache / f"{_digest(root)}.json"] if cache else [])

    def find(self, paths: Sequence[Path], where: W, log: Log) -> tuple[Path, V] | None:
        """The stored choice and its file. A file that cannot be used is logged and ignored."""
        for path in paths:
            try:
                found = self._read(path).get(where)
            except FileNotFoundError:
                continue
            except (OSError, ValueError) as error:
                why = getattr(error, "strerror", None) or error
                log(f"{self.subject}: warning: {path} holds no choices that can be used ({why}); it is ignored")
                continue
            if found is not None:
                return path, found
        return None

    def store(self, paths: Sequence[Path], where: W, choice: V, log: Log) -> None:
        """Writes the choice to the first of ``paths`` that takes it. Logs a warning if none does."""
        reason = "no folder of this user can be written to"
        for path in paths:
            try:
                kept = self._read(path)
            except (OSError, ValueError):
                kept = {}
            kept.pop(where, None)
            newest = dict([*kept.items(), (where, choice)][-CHOICES_MAX:])
            entries = [self.entry(*item) for item in newest.items()]
            try:
                _write(path, json.dumps({"format": self.format, "choices": entries}))
            except OSError as error:
                reason = f"{path}: {error.strerror}"
                continue
            log(f"{self.subject}: choice stored in {path}")
            return
        log(f"{self.subject}: warning: the choice cannot be stored ({reason}); the next start measures again")

    def forget(self, root: Path) -> None:
        """Deletes what is stored for a model, so that the next start measures again. ``OSError`` if that is refused."""
        for path in self.places(root):
            path.unlink(missing_ok=True)

    @contextmanager
    def measuring(self, log: Log) -> Iterator[None]:
        """Keeps other processes of this user that would measure for this choice waiting, also for other models: they
        would share the machine, and each would see the other's load as noise. Nor do they write over what this one
        stores. If the lock cannot be had, that is logged, and this process goes on without it."""
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(alone(self.cache, f"measuring for {self.subject}"))
            except DeviceError as error:
                log(f"{self.subject}: warning: {error}; this process measures for itself")
            yield

    def _read(self, path: Path) -> dict[W, V]:
        """``OSError`` or ``ValueError`` where the file is not one of ours, unharmed and of this version."""
        text = read_regular(path, _BYTES_MAX)
        try:
            found = parse_json(text)
            if found["format"] != self.format:
                raise ValueError(f"its format is {found['format']}, not {self.format}")
            return dict(self.parse(entry) for entry in found["choices"])
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"not a file of fastqps: {error!r}") from None


def checked(value: Any, kind: type) -> Any:
    """The value; ``ValueError`` where it is of another type."""
    if type(value) is not kind:
        raise ValueError(f"{value!r} is not of type {kind.__name__}")
    return value


def now_utc() -> str:
    """The time of a measurement: ISO 8601, UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _digest(root: Path) -> str:
    return hashlib.sha256(str(root).encode()).hexdigest()[:16]


def _write(path: Path, text: str) -> None:
    """Replaces the file as a whole, for readers and other writers at the same time."""
    written = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    handle = os.open(written, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)  # less the umask
    try:
        with os.fdopen(handle, "w") as stream:
            stream.write(text + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(written, path)
    except OSError:
        with contextlib.suppress(OSError):
            written.unlink()
        raise
