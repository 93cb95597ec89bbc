"""Results are written as a whole or not at all: by the load generator, and by the bench."""

from __future__ import annotations

import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import fastqps.bench.results.atomic_file
import loadgen.atomic_file
from loadgen.errors import LoadgenError


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


@pytest.mark.parametrize("write", [fastqps.bench.results.atomic_file.replace_file, loadgen.atomic_file.replace_file])
def test_a_full_disk_leaves_what_was_there(tmp_path: Path, write: Callable[[Path, str], object]) -> None:
    kept, new = tmp_path / "kept", tmp_path / "new"
    write(kept, "old")
    for path in (kept, new):
        with full_disk(), pytest.raises((OSError, LoadgenError), match="File too large"):
            write(path, "x" * 10_000)
    assert kept.read_text() == "old" and [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_a_device_takes_what_it_can_and_a_link_stays_one(tmp_path: Path) -> None:
    with pytest.raises(LoadgenError, match="cannot write /dev/full: No space left"):
        loadgen.atomic_file.replace_file(Path("/dev/full"), "x")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "file")
    loadgen.atomic_file.replace_file(link, "x")
    assert link.is_symlink() and (tmp_path / "file").read_text() == "x"
