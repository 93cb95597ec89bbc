"""Whatever takes the place of a file of a checkpoint or a cache, its reader neither waits nor reads without end."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from fastqps.architectures.tensor_files import load_tensors
from fastqps.bench.measure.workload import read_texts
from fastqps.config import sources
from fastqps.devices.profile_file import load_profile
from fastqps.dispatcher.stored_steps import Circumstances, read_choice
from fastqps.errors import FastqpsError
from fastqps.files.regular import open_regular, read_regular
from fastqps.models.files.reading import read_json
from fastqps.models.files.tensors import read_tensors
from fastqps.models.hub.cached import Cached, check_content
from fastqps.models.hub.reference import HubReference
from fastqps.models.tokenizers.tokenizer import Tokenizer
from fastqps.models.tokenizers.vocabulary import content_of, ids_of_tokens
from fastqps.process.credentials import read_credential
from fastqps.runners.tensor_values import read_values
from fastqps.supervisor.model_options import read_prefixes
from fastqps.telemetry.capacity import read_capacity

Reader = Callable[[Path], object]


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))


def _sparse(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(1 << 40)


PLACES: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "socket": _socket,
    "endless device": lambda path: path.symlink_to("/dev/zero"),
    "terminal": lambda path: path.symlink_to("/dev/ptmx"),
    "link to a pipe": lambda path: (os.mkfifo(f"{path}.pipe"), path.symlink_to(f"{path}.pipe")),
    "loop of links": lambda path: path.symlink_to(path),
    "dangling link": lambda path: path.symlink_to("nowhere"),
    "a terabyte": _sparse,
}


def _commit(path: Path) -> object:
    """The file in which the hub's cache notes the commit of a branch."""
    storage = path.parent / "cache/models--owner--name"
    (storage / "refs").mkdir(parents=True)
    path.rename(storage / "refs/main") if not path.is_symlink() else (storage / "refs/main").symlink_to(path)
    return Cached(HubReference("owner/name"), path.parent / "cache")


def _mapped(path: Path) -> object:
    """Weights whose place something else takes after their header was read."""
    whole = path.with_name("whole.safetensors")
    save_file({"a": np.zeros(4, np.float32)}, whole)
    tensor = read_tensors(whole)["a"]
    whole.unlink()
    whole.symlink_to(path)
    return read_values(tensor)


READERS: dict[str, Reader] = {
    "open": lambda path: open_regular(path).read(1 << 20) and read_regular(path, 100),
    "JSON": read_json,
    "tensors' header": read_tensors,
    "tensors": load_tensors,
    "mapped tensors": _mapped,
    "tokenizer": lambda path: Tokenizer.from_source(str(path)),
    "tokenizer's file": lambda path: Tokenizer.from_file(path) and content_of(str(path)),
    "vocabulary": lambda path: ids_of_tokens(str(path), ["a"]),
    "a file of the hub": lambda path: check_content(path, "0" * 40),
    "a commit of the hub": _commit,
    "credential": lambda path: read_credential("--tls-key", str(path)),
    "configuration": lambda path: sources.load({}, {}, str(path)),
    "capacity": lambda path: read_capacity(str(path)),
    "prefix": lambda path: read_prefixes([str(path)], []),
    "texts of the bench": read_texts,
    "profile": lambda path: load_profile(f"{path.parent}/{path.name}"),
    "step size": lambda path: read_choice(path, Circumstances("", "", "", "", "", 1, 1, 1, True, 1, 1)),
}
# Of which all bytes count, however many there are; the hub states how many.
_WHOLE = ("a file of the hub", "mapped tensors")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("reader", READERS)
def test_its_reader_says_so_at_once(tmp_path: Path, reader: str, place: str) -> None:
    if place == "a terabyte" and reader in _WHOLE:
        pytest.skip("its length is right")
    path = tmp_path / "file.toml"
    PLACES[place](path)
    with pytest.raises((FastqpsError, OSError, ValueError)) as refused:
        READERS[reader](path)
    assert "\n" not in str(refused.value) and ("/" in str(refused.value) or reader == "a commit of the hub")


def test_links_to_a_file_are_followed(tmp_path: Path) -> None:
    """As in the hub's cache, and in volumes of Kubernetes, where a folder is a link, too."""
    (tmp_path / "data").mkdir()
    (tmp_path / "data/file").write_text("content")
    (tmp_path / "now").symlink_to("data")
    (tmp_path / "file").symlink_to("now/file")
    assert read_regular(tmp_path / "file", 7) == b"content"
    with pytest.raises(OSError, match="longer than 6 bytes"):
        read_regular(tmp_path / "file", 6)


def test_a_device_is_not_even_opened(tmp_path: Path) -> None:
    """Opening one may already change it, as a watchdog's or a tape's. Opening this one makes a new terminal."""
    before = set(os.listdir("/dev/pts"))
    (tmp_path / "file").symlink_to("/dev/ptmx")
    with pytest.raises(OSError, match="no regular file"):
        open_regular(tmp_path / "file")
    assert set(os.listdir("/dev/pts")) <= before
