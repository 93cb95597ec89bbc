"""Three dispatchers share a GPU under MPS, and one of them dies under load: all restart, and by the client's ledger
nothing is lost, answered twice or swapped. The GPU and the MPS daemon are the tests', all else is real."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from ledger import OK, Ledger, Load, batch_of, channel_to, unary
from paths import FAKE_MPS
from serving import Server, until
from versions import write_version

from fastqps.v1 import predict_pb2_grpc

KILL_TOKEN = 29_999
DISPATCHERS = [f"dispatcher {i}" for i in range(3)]


@pytest.fixture
def gpus(serve: Callable[..., Server], tmp_path: Path) -> Callable[..., Server]:
    """Starts a server on GPUs; its temporary files are its own."""
    temporary = tmp_path.parent / "t"  # short: sockets would be in it
    temporary.mkdir(exist_ok=True)
    environment = {
        "FASTQPS_TEST_FAKE_CUDA": "/libfakecudart.so",
        "FASTQPS_TEST_KILL_TOKEN": str(KILL_TOKEN),
        "TEST_DISPATCHER": "cuda_echo_dispatcher",
        "PATH": f"{FAKE_MPS}:{os.environ['PATH']}",
        "TMPDIR": str(temporary),
        "XDG_CACHE_HOME": str(tmp_path),
    }

    def start(*flags: str) -> Server:
        return serve("--frontdoors=2", "--mps=on", "--lanes=1", *flags, echo=True, env=environment)

    return start


@pytest.fixture
def gpu(gpus: Callable[..., Server]) -> Server:
    return gpus("--device=cuda:0", "--dispatchers=3")


def until_whole(server: Server, restarts: int) -> None:
    until(lambda: server.metrics()["fastqps_restarts_total{dispatcher}"] == restarts, f"restarts\n{server.log()}")
    until(lambda: all(map(server.ready, DISPATCHERS)), f"all are ready\n{server.log()}")


async def test_one_of_three_killed(gpu: Server) -> None:
    """All three restart, once; whatever any of them held is answered all the same."""
    ledger = Ledger()
    before = [gpu.child(worker) for worker in DISPATCHERS]
    async with Load(gpu.address, ledger) as load:
        await load.more(200)
        before[1].kill()
        await asyncio.to_thread(until_whole, gpu, 3)
        await load.more(200)
    ledger.check()
    gpu.until_idle()
    assert not any(process.is_running() for process in before)
    found = gpu.metrics()
    assert found["fastqps_restarts_total{dispatcher}"] == 3 and found["fastqps_memory_bytes{mps}"] > 0
    assert gpu.log().count("restarting all 3 dispatchers of cuda:0") == 1


async def test_poison(gpu: Server) -> None:
    """A request that kills its dispatcher takes the others of its GPU with it, once: then it runs alone. Who ran beside
    it is answered: nobody fails for a neighbour."""
    ledger = Ledger()
    async with Load(gpu.address, ledger, channels=1, workers=2) as load, channel_to(gpu.address) as channel:
        await load.more(50)
        stub = predict_pb2_grpc.PredictServiceStub(channel)
        requests = [ledger.ask(*([KILL_TOKEN] if i == 3 else [])) for i in range(7)]
        await batch_of(stub, ledger, requests)
        await asyncio.to_thread(until_whole, gpu, 4)  # all three, and the first one again, which ran it alone
        assert ledger.ends[requests[3].request_id] == "INTERNAL"
        assert await unary(stub, ledger) == OK
        await load.more(50)
    ledger.check("INTERNAL")
    assert ledger.counts["INTERNAL"] == 1, ledger.texts
    gpu.until_idle()
    metrics = gpu.metrics()
    assert metrics["fastqps_restarts_total{dispatcher}"] == 4 and metrics["fastqps_poisoned_total"] == 1


@pytest.mark.nightly
async def test_a_reload_that_fails_ends_nobody_who_serves(gpus: Callable[..., Server], tmp_path: Path) -> None:
    """Its dispatchers crash, or have to be killed: those of the same GPU that serve go on."""
    one = write_version(tmp_path / "one", "1")
    crash, deaf = (write_version(tmp_path / name, name, name) for name in ("crash", "deaf"))
    server = gpus(f"--model=m={one}", "--device=cuda:0", "--dispatchers=2")
    before = [server.child(worker) for worker in DISPATCHERS[:2]]
    ledger = Ledger()
    async with Load(server.address, ledger) as load:
        for path, reason in ((crash, "SIGSEGV"), (deaf, "the weights are torn")):
            await load.more(50)
            status, answer = await asyncio.to_thread(server.reload, **{"from": path})
            assert (status, answer["outcome"]) == (422, "failed"), answer
            assert reason in answer["reason"] or reason in server.log()
        await load.more(50)
    ledger.check()
    assert [server.child(worker) for worker in DISPATCHERS[:2]] == before
    assert server.log().count("it did not leave by itself") == 1 and "restarting all" not in server.log()
    server.until_idle()
