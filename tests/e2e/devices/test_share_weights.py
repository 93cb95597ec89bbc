"""``--share-weights`` on a fake GPU: one process holds a model's weights there, and its dispatchers map them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch
from checkpoints import write_checkpoint
from decoders import write_decoder
from fake_cuda import environment
from safetensors.torch import load_file, save_file
from serving import Server, title_of

from fastqps import Client, Engine
from fastqps.ops.fp8 import refused

Serve = Callable[..., Server]

IDS = [[2, 7, 9, 3], [2, 3], [2, *range(5, 25), 3]]
FLAGS = (
    *("--device=cuda:0", "--lanes=1", "--mps=off", "--share-weights=on", "--dtype=float32", "--frontdoors=1"),
    *("--max-batch-tokens=128", "--max-batch-items=8", "--max-input-tokens=40"),
)


@pytest.fixture
def gpu(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a server with fake GPUs that no other test's processes know of."""
    return environment() | {"TMPDIR": str(tmp_path_factory.mktemp("t"))}


def holder(server: Server) -> psutil.Process:
    return server.child("weights of")


def held_kib(process: psutil.Process) -> int:
    """Device memory that it has mapped, its own or another's."""
    return sum(int(m.size) for m in process.memory_maps(grouped=False) if "memfd:fake cuda" in m.path) // 1024


def check_answers(server: Server, path: Path) -> None:
    exact = np.array(Engine(str(path), device="cpu", dtype="float32").predict(IDS))
    with Client(server.address) as client:
        found = client.embed(IDS)
    np.testing.assert_allclose(found, exact, rtol=0, atol=1e-5)


def until_filled(server: Server, dispatchers: list[psutil.Process]) -> None:
    for i, old in enumerate(dispatchers):
        server.until_filled(f"dispatcher {i}", old)


def test_one_copy_for_all(serve: Serve, gpu: dict[str, str], tmp_path: Path) -> None:
    """The copy outlives one dispatcher's fault; without the process that holds it, all start again."""
    write_checkpoint(tmp_path, "bert")
    server = serve(f"--model=m={tmp_path}", "--dispatchers=2", *FLAGS, env=gpu)
    first = holder(server)
    assert title_of(first).startswith("fastqps: weights of m (cuda:0)")
    size = held_kib(first)
    assert size > 50
    assert server.metrics()["fastqps_memory_bytes{holder}"] > 1 << 20
    dispatchers = [server.child(f"dispatcher {i}") for i in (0, 1)]
    assert [held_kib(p) for p in dispatchers] == [size, size], "the copy, and nothing of their own"
    check_answers(server, tmp_path)

    dispatchers[0].kill()
    until_filled(server, dispatchers)  # both: a fault is one of all
    assert holder(server) == first
    check_answers(server, tmp_path)

    dispatchers = [server.child(f"dispatcher {i}") for i in (0, 1)]
    first.kill()
    until_filled(server, dispatchers)  # both: none maps what nobody holds
    assert holder(server) != first
    check_answers(server, tmp_path)
    assert "weights of m (cuda:0) was ended by SIGKILL: restarting all 2 dispatchers of cuda:0" in server.log()


@pytest.mark.nightly  # test_one_copy_for_all shares always, and tests/cuda/test_cuda_arena.py lays out every decoder
def test_a_generator_over_shared_weights(serve: Serve, gpu: dict[str, str], tmp_path: Path) -> None:
    write_decoder(tmp_path, "llama-gqa-tied")
    flags = ("--dispatchers=1", "--max-output-tokens=16", "--max-running=8")
    server = serve(f"--model=m={tmp_path}", *FLAGS, *flags, env=gpu)
    assert held_kib(server.child("dispatcher 0")) == held_kib(holder(server)) > 10
    engine = Engine(str(tmp_path), device="cpu", dtype="float32", max_input_tokens=40, max_output_tokens=16)
    prompts = [[5, 6], [7, 8, 9, 10]]
    exact = [made.token_ids for made in engine.generate(prompts, max_tokens=12, ignore_eos=True)]
    with Client(server.address) as client:
        assert [client.generate(ids, max_tokens=12, ignore_eos=True).token_ids for ids in prompts] == exact


@pytest.mark.nightly  # test_one_copy_for_all shares always, and tests/cuda/test_cuda_arena.py lays out FP8 weights
def test_quantised_weights_are_shared(serve: Serve, gpu: dict[str, str], tmp_path: Path) -> None:
    if reason := refused(torch.device("cpu")):
        pytest.skip(f"this torch multiplies no FP8 on a CPU: {reason}")
    write_checkpoint(tmp_path, "bert", num_hidden_layers=4)
    server = serve(f"--model=m={tmp_path}", "--dispatchers=2", "--quantization=fp8", *FLAGS, env=gpu)
    counted = ": quantization fp8: 6 of 16 matrix products in FP8"
    said = [line for line in server.log().splitlines() if line.endswith(counted)]
    assert sorted(line.removesuffix(counted)[-12:] for line in said) == ["r 0 (cuda:0)", "r 1 (cuda:0)"], said
    exact = np.array(Engine(str(tmp_path), device="cpu", dtype="float32", quantization="fp8").predict(IDS))
    with Client(server.address) as client:
        found = [client.embed(IDS) for _ in range(4)]
    np.testing.assert_allclose(found, np.broadcast_to(exact, (4, *exact.shape)), rtol=0, atol=2e-3)


def test_weights_that_cannot_be_held_end_the_start(serve: Serve, gpu: dict[str, str], tmp_path: Path) -> None:
    write_checkpoint(tmp_path, "bert")
    with pytest.raises(AssertionError, match="ended with 4") as caught:
        serve(f"--model=m={tmp_path}", *FLAGS, env=gpu | {"FASTQPS_FAKE_CUDA": "memory_bytes=1000"})
    assert "weights of m (cuda:0) ended with exit code 4: m: its weights take" in str(caught.value)
    assert "the checkpoint is too large" in str(caught.value)


@pytest.mark.nightly
def test_a_reload_has_a_holder_of_its_own(serve: Serve, gpu: dict[str, str], tmp_path: Path) -> None:
    """The new weights are held beside the old ones until the old dispatchers are gone. A copy that cannot be made ends
    nobody who serves."""
    one, two, torn = (tmp_path / name for name in ("one", "two", "torn"))
    for path, seed in ((one, 1), (two, 2), (torn, 3)):
        write_checkpoint(path, "bert", seed=seed)
    tensors = load_file(torn / "model.safetensors")
    save_file(dict(list(tensors.items())[1:]), torn / "model.safetensors")
    server = serve(f"--model=m={one}", "--dispatchers=2", *FLAGS, env=gpu)
    check_answers(server, one)
    before = [holder(server), *(server.child(f"dispatcher {i}") for i in (0, 1))]
    failed = server.reload(**{"from": str(torn)})[1]
    assert failed["outcome"] == "failed" and "weights of m (cuda:0)" in failed["reason"], failed
    assert [holder(server), *(server.child(f"dispatcher {i}") for i in (0, 1))] == before
    check_answers(server, one)
    done = server.reload(**{"from": str(two)})[1]
    assert done["outcome"] == "reloaded", (done, server.log())
    assert not any(process.is_running() for process in before)
    check_answers(server, two)
    assert [held_kib(server.child(f"dispatcher {i}")) > 0 for i in (2, 3)] == [True, True]
    assert "restarting all" not in server.log()
