"""A model's parameters in memory that processes share, on the fake CUDA runtime and with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import fake_cuda
import numpy as np
import pytest
import torch
from checkpoints import write_checkpoint
from padded import PaddedEncoder
from test_models import random_items, run

from fastqps._core import CudaApi, CudaError
from fastqps.devices.cuda.arena import block_at, check_allocator, check_layout, map_arena, write_arena
from fastqps.devices.cuda.manifest import Manifest, await_manifest, publish
from fastqps.devices.errors import DeviceError
from fastqps.errors import ConfigError
from fastqps.models import load_card
from fastqps.models.card import ModelError
from fastqps.models.packed import PackedModel
from fastqps.models.parameters import Parameters, SharedParameters
from fastqps.models.reference_encoder_ops import ReferenceEncoderOps

CPU = torch.device("cpu")

# Holds the model of the checkpoint in argv[1] until it is told to end, its manifest in descriptor argv[2].
_HOLDER = """
import signal, sys, torch
from fastqps._core import CudaApi
from fastqps.devices.cuda.arena import write_arena
from fastqps.devices.cuda.manifest import publish
from fastqps.models import load_card
from fastqps.models.packed import PackedModel
from fastqps.models.reference_encoder_ops import ReferenceEncoderOps
path, fd, library = sys.argv[1:]
build = lambda parameters: PackedModel(load_card(path), ReferenceEncoderOps(torch.bfloat16, parameters))
publish(int(fd), write_arena(CudaApi(library), torch.device("cpu"), build, {"model": "m@1"}))
signal.pause()
"""


def load(path: str, parameters: Parameters) -> PackedModel:
    return PackedModel(load_card(path), ReferenceEncoderOps(torch.bfloat16, parameters))


def answers(model: PackedModel) -> np.ndarray:
    items = random_items(np.random.default_rng(3), 6, longest=20, pairs=False)
    return np.array(run(PaddedEncoder(model, 8, 200), items))


@pytest.fixture(scope="module")
def api() -> CudaApi:
    return CudaApi(fake_cuda.library())


@pytest.fixture
def holders() -> Iterator[list[subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def hold(path: Path, holders: list[subprocess.Popen[bytes]]) -> Manifest:
    fd = os.memfd_create("manifest")
    command = [sys.executable, "-c", _HOLDER, str(path), str(fd), fake_cuda.library()]
    holders.append(subprocess.Popen(command, pass_fds=(fd,), cwd=fake_cuda.ROOT))
    try:
        return await_manifest(fd, 60)
    finally:
        os.close(fd)


@pytest.mark.parametrize("family", ["bert", "modernbert"])
def test_a_model_over_anothers_memory_answers_the_same(
    tmp_path: Path, family: str, api: CudaApi, holders: list[subprocess.Popen[bytes]]
) -> None:
    write_checkpoint(tmp_path, family, "embed")
    manifest = hold(tmp_path, holders)
    manifest.check({"model": "m@1"})
    own = load(str(tmp_path), Parameters("cpu"))
    free = api.memory()[0]
    parameters = map_arena(api, CPU, manifest)
    shared = load(str(tmp_path), parameters)
    check_layout(parameters, manifest)
    assert api.memory()[0] == free  # nothing of its own
    assert (answers(shared) == answers(own)).all()
    again = map_arena(api, CPU, manifest)  # in one process the same memory
    assert (answers(load(str(tmp_path), again)) == answers(own)).all()


def test_every_parameter_lies_in_the_block(
    tmp_path: Path, api: CudaApi, holders: list[subprocess.Popen[bytes]]
) -> None:
    """What is written into the block changes the answers, and a model that reads nothing reads no file's data."""
    write_checkpoint(tmp_path, "bert", "embed")
    manifest = hold(tmp_path, holders)
    pointer = api.ipc_open(bytes.fromhex(manifest.handle))
    model = load(str(tmp_path), SharedParameters(block_at(pointer, manifest.size_bytes, CPU), write=False))
    before = answers(model)
    block_at(pointer, manifest.size_bytes, CPU).zero_()
    assert not (answers(model) == before).any()
    assert not answers(model).any()


def test_another_model_is_refused(tmp_path: Path, api: CudaApi, holders: list[subprocess.Popen[bytes]]) -> None:
    write_checkpoint(tmp_path / "one", "bert", "embed")
    write_checkpoint(tmp_path / "two", "roberta", "embed")
    manifest = hold(tmp_path / "one", holders)
    with pytest.raises(DeviceError, match="what is shared is of model m@1, not m@2; dtype None, not float32"):
        manifest.check({"model": "m@2", "dtype": "float32"})
    parameters = map_arena(api, CPU, manifest)
    with pytest.raises((DeviceError, ModelError), match=r"not those of this model|do not fit"):
        load(str(tmp_path / "two"), parameters)
        check_layout(parameters, manifest)


def test_memory_that_is_too_small_is_told(tmp_path: Path, api: CudaApi) -> None:
    write_checkpoint(tmp_path, "bert", "embed")
    knobs = fake_cuda.Knobs()
    free, total = api.memory()
    knobs.set("memory_bytes", total - free + 1000)
    try:
        with pytest.raises(ModelError, match=r"its weights take 0.0 GiB, and the GPU has less free"):
            write_arena(api, CPU, lambda parameters: load(str(tmp_path), parameters), {})
    finally:
        knobs.set("memory_bytes", total)


def test_what_is_not_there_any_more_is_an_error(
    tmp_path: Path, api: CudaApi, holders: list[subprocess.Popen[bytes]]
) -> None:
    write_checkpoint(tmp_path, "bert", "embed")
    manifest = hold(tmp_path, holders)
    holders[0].send_signal(signal.SIGKILL)
    holders[0].wait()
    with pytest.raises(CudaError, match="cudaIpcOpenMemHandle"):
        map_arena(api, CPU, manifest)
    with pytest.raises(CudaError, match="cudaIpcOpenMemHandle: invalid device context"):  # as with CUDA, not one's own
        api.ipc_open(api.ipc_export(api.malloc(100)))
    with pytest.raises(ValueError, match="64 bytes"):
        api.ipc_open(b"short")


@pytest.mark.parametrize("name", ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"])
def test_expandable_segments_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("", "max_split_size_mb:64", "expandable_segments:False,max_split_size_mb:64"):
        monkeypatch.setenv(name, value)
        check_allocator()
    monkeypatch.setenv(name, "max_split_size_mb:64, expandable_segments:True")
    with pytest.raises(ConfigError, match=f"--share-weights: {name} asks for expandable_segments"):
        check_allocator()


def test_a_manifest_is_seen_whole_or_not_at_all() -> None:
    fd = os.memfd_create("manifest")
    try:
        with pytest.raises(DeviceError, match=r"took more than 0.1 s"):
            await_manifest(fd, 0.1)
        manifest = Manifest("00" * 64, 5, "ab", {"model": "m@1"})
        threading.Timer(0.2, publish, (fd, manifest)).start()
        begun = time.monotonic()
        assert await_manifest(fd, 30) == manifest
        assert time.monotonic() - begun > 0.1
    finally:
        os.close(fd)
