"""Results are written as a whole or not at all: by the load generator, and by the bench."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loadgen.atomic_file import replace_file


@contextmanager
def full_disk() -> Iterator[None]:
    """No file grows beyond 4 KiB."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_leaves_what_was_there(tmp_path: Path) -> None:
    kept, new = tmp_path / "kept", tmp_path / "new"
    replace_file(kept, "old")
    for path in (kept, new):
        with full_disk(), pytest.raises(OSError, match="File too large"):
            replace_file(path, "x" * 10_000)
    assert kept.read_text() == "old" and [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_device_takes_what_it_can_and_a_link_stays_one(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No space left on device: '/dev/full'"):
        replace_file(Path("/dev/full"), "x")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "file")
    replace_file(link, "x")
    assert link.is_symlink() and (tmp_path / "file").read_text() == "x"
