"""A model's parameters in memory that processes share, on the fake CUDA runtime and with real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import fake_cuda
import numpy as np
import pytest
import torch
from checkpoints import FAMILIES, write_checkpoint, write_sentence_modules
from decoders import DECODERS, write_decoder
from model_runs import random_items, run
from padded import PaddedEncoder, TorchEncoderOps
from paths import python_path
from serving import PATIENCE_S

from fastqps._core import CudaApi, CudaError
from fastqps.architectures.packed import PackedModel
from fastqps.devices.cuda.arena import block_at, check_allocator, check_layout, map_arena, write_arena
from fastqps.devices.cuda.manifest import Manifest, await_manifest, publish
from fastqps.devices.errors import DeviceError
from fastqps.errors import ConfigError, ModelError
from fastqps.models import load_card
from fastqps.ops.cuda.decode_ops import CudaDecodeOps
from fastqps.ops.cuda.encoder_ops import CudaEncoderOps
from fastqps.ops.parameters import Parameters, SharedParameters
from fastqps.ops.precision import Precision
from fastqps.runners.decoder import load_llama

CPU = torch.device("cpu")

# Holds the model of the checkpoint in argv[1] until it is told to end, its manifest in descriptor argv[2].
_HOLDER = """
import signal, sys, torch
from fastqps._core import CudaApi
from fastqps.devices.cuda.arena import write_arena
from fastqps.devices.cuda.manifest import publish
from fastqps.models import load_card
from fastqps.architectures.packed import PackedModel
from padded import TorchEncoderOps
path, fd, library = sys.argv[1:]
build = lambda parameters: PackedModel(load_card(path), TorchEncoderOps(torch.bfloat16, parameters))
publish(int(fd), write_arena(CudaApi(library), torch.device("cpu"), build, {"model": "m@1"}))
signal.pause()
"""


def load(path: str, parameters: Parameters) -> PackedModel:
    return PackedModel(load_card(path), TorchEncoderOps(torch.bfloat16, parameters))


def answers(model: PackedModel) -> np.ndarray:
    items = random_items(np.random.default_rng(3), 6, longest=20, pairs=False)
    return np.array(run(PaddedEncoder(model, 8, 200), items))


@pytest.fixture(scope="module")
def api() -> CudaApi:
    return CudaApi(fake_cuda.library())


@dataclass(frozen=True)
class Held:
    path: Path
    manifest: Manifest
    holder: subprocess.Popen[bytes]


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Held]:
    """A model that another process holds."""
    path = tmp_path_factory.mktemp("held")
    write_checkpoint(path, "modernbert", "embed")
    fd = os.memfd_create("manifest")
    command = [sys.executable, "-c", _HOLDER, str(path), str(fd), fake_cuda.library()]
    holder = subprocess.Popen(command, pass_fds=(fd,), env={**os.environ, "PYTHONPATH": python_path()})
    try:
        yield Held(path, await_manifest(fd, PATIENCE_S), holder)
    finally:
        os.close(fd)
        holder.kill()
        holder.wait()


def test_a_model_over_anothers_memory_answers_the_same(api: CudaApi, held: Held) -> None:
    held.manifest.check({"model": "m@1"})
    own = load(str(held.path), Parameters("cpu"))
    free = api.memory()[0]
    parameters = map_arena(api, CPU, held.manifest)
    shared = load(str(held.path), parameters)
    check_layout(parameters, held.manifest)
    assert api.memory()[0] == free  # nothing of its own
    assert (answers(shared) == answers(own)).all()
    again = map_arena(api, CPU, held.manifest)  # in one process the same memory
    assert (answers(load(str(held.path), again)) == answers(own)).all()


def test_every_parameter_lies_in_the_block(api: CudaApi, held: Held) -> None:
    """What is written into the block changes the answers."""
    block = block_at(api.ipc_open(bytes.fromhex(held.manifest.handle)), held.manifest.size_bytes, CPU)
    model = load(str(held.path), SharedParameters(block, write=False))
    before, kept = answers(model), block.clone()
    block.zero_()
    assert not answers(model).any()
    block.copy_(kept)
    assert (answers(model) == before).all()


def test_another_model_is_refused(tmp_path: Path, api: CudaApi, held: Held) -> None:
    write_checkpoint(tmp_path, "distilbert", "embed")
    with pytest.raises(DeviceError, match="what is shared is of model m@1, not m@2; dtype None, not float32"):
        held.manifest.check({"model": "m@2", "dtype": "float32"})
    parameters = map_arena(api, CPU, held.manifest)
    with pytest.raises((DeviceError, ModelError), match=r"not those of this model|do not fit"):
        load(str(tmp_path), parameters)
        check_layout(parameters, held.manifest)


@pytest.mark.parametrize("quantization", ["none", "fp8"])
def test_every_model_is_laid_out_alike_by_all(tmp_path: Path, quantization: str) -> None:
    """Measured, written, and mapped without reading weights; also by the ops of a GPU, which is not needed for that."""

    def check(build: Callable[[Parameters], object]) -> None:
        measured = SharedParameters.measuring()
        build(measured)
        block = torch.zeros(measured.used_bytes, dtype=torch.uint8)
        written = SharedParameters(block, write=True)
        build(written)
        before = block.clone()
        mapped = SharedParameters(block, write=False)
        build(mapped)
        assert measured.layout == written.layout == mapped.layout
        assert measured.used_bytes == written.used_bytes == mapped.used_bytes
        assert torch.equal(block, before)

    def precision() -> Precision:
        return Precision(quantization, log=lambda line: None)

    for family in FAMILIES:
        write_checkpoint(tmp_path / family, family, "embed")
        write_sentence_modules(tmp_path / family, pooling="mean", dense=True)
        card = load_card(str(tmp_path / family))
        check(lambda where, card=card: PackedModel(card, CudaEncoderOps(torch.bfloat16, where, precision())))
    for kind in DECODERS:
        path = tmp_path / "decoders" / kind
        write_decoder(path, kind)
        card = load_card(str(path), 40, max_output_tokens=16)
        check(lambda where, card=card: load_llama(card, CudaDecodeOps(torch.bfloat16, where, precision())))


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
        os.pwrite(fd, b"{" * 1000, 8)  # whoever publishes has come half way: its length is written last
        with pytest.raises(DeviceError, match=r"took more than 0.1 s"):
            await_manifest(fd, 0.1)
        threading.Timer(0.1, publish, (fd, manifest)).start()
        assert await_manifest(fd, PATIENCE_S) == manifest
    finally:
        os.close(fd)


def test_what_is_not_there_any_more_is_an_error(api: CudaApi, held: Held) -> None:
    """The last one: it ends the holder."""
    handle = bytes.fromhex(held.manifest.handle)
    mapped = api.ipc_open(handle)
    held.holder.send_signal(signal.SIGKILL)
    held.holder.wait()
    api.ipc_close(api.ipc_open(handle))  # it is mapped here, and so still there
    api.ipc_close(mapped)
    with pytest.raises(CudaError, match="cudaIpcOpenMemHandle"):
        CudaApi(fake_cuda.library()).ipc_open(bytes(64))
    with pytest.raises(CudaError, match="cudaIpcOpenMemHandle: invalid device context"):  # as with CUDA, not one's own
        api.ipc_open(api.ipc_export(api.malloc(100)))
    with pytest.raises(ValueError, match="64 bytes"):
        api.ipc_open(b"short")
