"""Files of choices in this user's cache: each was measured once, and is read by all that serve models of this shape.

A file holds choices for several circumstances (devices, versions of torch, sizes of steps), the newest last. Deleting
it only has the choice measured again.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, is_dataclass
from datetime import UTC, datetime
from itertools import repeat
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, get_args, get_origin, get_type_hints

from fastqps.devices.errors import DeviceError
from fastqps.devices.start_lock import alone
from fastqps.files.documents import parse_json
from fastqps.files.regular import read_regular
from fastqps.host import machine
from fastqps.models.shape import shape_of

CHOICES_MAX = 32  # in a file; the oldest go first
_BYTES_MAX = 1 << 20

Log = Callable[[str], None]
W = TypeVar("W", bound=Hashable)  # the circumstances under which a choice is valid
V = TypeVar("V")


@dataclass(frozen=True)
class ChoiceFile(Generic[W, V]):
    """One kind of choice, and its files: an entry has the fields of two dataclasses, as ``made`` reads them."""

    subject: str  # begins each line of the log
    cache: str  # the folder below this user's cache
    format: int  # to be raised when something else is measured: older files are then ignored
    where: type[W]
    choice: type[V]
    check: Callable[[W, V], None]  # raises ``ValueError`` for a choice that nothing can have measured

    def path(self, root: Path) -> Path | None:
        """Where the choices for models of the shape of the one in ``root`` are. None: this user has no folder that can
        be written to."""
        folder = machine.cache_folder(self.cache)
        return folder / f"{shape_of(root)}.json" if folder else None

    def find(self, path: Path | None, where: W, log: Log) -> V | None:
        """The stored choice. A file that cannot be used is logged and ignored."""
        try:
            return self._read(path).get(where) if path else None
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or error
            log(f"{self.subject}: warning: {path} holds no choices that can be used ({why}); it is ignored")
            return None

    def store(self, path: Path | None, where: W, choice: V, log: Log) -> None:
        """Logs a warning if the choice cannot be stored."""
        try:
            if path is None:
                raise OSError("no folder of this user can be written to")
            _write(path, json.dumps({"format": self.format, "choices": self._with(path, where, choice)}))
        except OSError as error:
            why = f"{path}: {error.strerror}" if error.strerror else error
            log(f"{self.subject}: warning: the choice cannot be stored ({why}); the next start measures again")
            return
        log(f"{self.subject}: choice stored in {path}")

    def _with(self, path: Path, where: W, choice: V) -> list[dict[str, Any]]:
        """The entries of a file, with this one as the newest."""
        try:
            kept = self._read(path)
        except (OSError, ValueError):
            kept = {}
        kept.pop(where, None)
        newest = [*kept.items(), (where, choice)][-CHOICES_MAX:]
        return [{**asdict(one), **asdict(other)} for one, other in newest]  # type: ignore[call-overload]

    def forget(self, root: Path) -> None:
        """Deletes what is stored for a model, so that the next start measures again. ``OSError`` if that is refused."""
        if path := self.path(root):
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

    def _parsed(self, entry: dict[str, Any]) -> tuple[W, V]:
        where, choice = made(self.where, entry), made(self.choice, entry)
        self.check(where, choice)
        return where, choice

    def _read(self, path: Path) -> dict[W, V]:
        """``OSError`` or ``ValueError`` where the file is not one of ours, unharmed and of this version."""
        text = read_regular(path, _BYTES_MAX)
        try:
            found = parse_json(text)
            if found["format"] != self.format:
                raise ValueError(f"its format is {found['format']}, not {self.format}")
            return dict(map(self._parsed, found["choices"]))
        except (AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"not a file of fastqps: {error!r}") from None


def made(kind: Any, found: Any) -> Any:
    """Reads what ``asdict`` made of a dataclass, a tuple or a plain value back from JSON. ``ValueError``, ``KeyError``
    or ``TypeError`` where it is of another type."""
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        return kind(**{field.name: made(hints[field.name], found[field.name]) for field in fields(kind)})  # type: ignore[operator]
    inner = get_args(kind)
    if get_origin(kind) is tuple:
        kinds = repeat(inner[0], len(found)) if inner[-1] is ... else inner
        return tuple(made(one, value) for one, value in zip(kinds, found, strict=True))
    if get_origin(kind) is Literal:
        if found not in inner:
            raise ValueError(f"{found!r} is not one of {', '.join(map(repr, inner))}")
        return found
    if kind is float and type(found) is int:
        found = float(found)
    if type(found) is not kind:
        raise ValueError(f"{found!r} is not of type {kind.__name__}")
    return found


def now_utc() -> str:
    """The time of a measurement: ISO 8601, UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


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
