"""Texts that hurt the tokenizers package: each fails alone and in time, and nobody else waits for it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

import grpc
import psutil
import pytest
from checkpoints import write_checkpoint
from serving import Server, title_of, until
from word_files import ENDLESS, GROWS, PANICS_SLOWLY, write_words

from fastqps import Client, PredictionError
from fastqps.errors import DeadlineExceeded, InvalidArgument
from fastqps.v1 import predict_pb2 as pb
from fastqps.v1.predict_pb2_grpc import PredictServiceStub


@pytest.fixture(scope="module")
def server(module_server: Callable[..., Server], tmp_path_factory: pytest.TempPathFactory) -> Server:
    path = tmp_path_factory.mktemp("hurtful")
    write_checkpoint(path, "bert")
    write_words(path, hurtful=True)
    return module_server(f"--model=hurtful={path}", "--frontdoors=1", "--dispatchers=1", "--max-input-tokens=64")


def processes(server: Server, title: str = "tokenizer") -> set[psutil.Process]:
    return {process for process in server.processes() if f"fastqps: {title}" in title_of(process)}


def worker(server: Server, lane: str) -> psutil.Process:
    found = set[psutil.Process]()

    def there() -> bool:
        found.clear()
        found.update(process for process in processes(server) if lane in title_of(process))
        return len(found) == 1

    until(there, f"a worker of {lane}")
    return found.pop()


def restarts(server: Server) -> float:
    return server.metrics()["fastqps_tokenizer_restarts_total"]


def test_a_text_that_takes_too_long_fails_alone(server: Server) -> None:
    """Meanwhile another connection is served, and no process but the worker is replaced."""
    before, doors = restarts(server), processes(server, "frontdoor")
    caught: list[grpc.RpcError] = []

    def ask() -> None:
        own_connection = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.insecure_channel(server.address, own_connection) as channel, pytest.raises(grpc.RpcError) as error:
            PredictServiceStub(channel).Predict(pb.PredictRequest(text=ENDLESS, truncate=True))
        caught.append(error.value)

    asking = threading.Thread(target=ask)
    answers = 0
    with Client(server.address) as client:
        client.predict("a b")
        asking.start()
        until(lambda: restarts(server) > before, "it is taken off the short texts")
        while asking.is_alive():
            client.predict("a b")
            answers += 1
    asking.join()
    assert caught[0].code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "text: tokenizing it took more than 2 s of CPU time" in caught[0].details()
    assert answers > 20, "they waited for it"
    assert restarts(server) == before + 2
    assert processes(server, "frontdoor") == doors


def test_its_deadline_ends_its_process(server: Server) -> None:
    old = worker(server, "long texts")
    with Client(server.address) as client:
        with pytest.raises(DeadlineExceeded):
            client.predict(ENDLESS, truncate=True, timeout_s=0.5)
        until(lambda: not old.is_running() or old.status() == psutil.STATUS_ZOMBIE, "its worker has ended")
        client.predict("b " * 3000, truncate=True)
    server.until_idle()


def test_memory_is_bounded(server: Server) -> None:
    with Client(server.address) as client:
        with pytest.raises(InvalidArgument, match="text: the tokenizer's process ended on it, signal 6"):
            client.predict(GROWS, truncate=True)
        answers = client.predict_batch(["a", "b"])
    assert len(answers) == 2


def test_many_bad_texts(server: Server) -> None:
    """More than the restarts that a server makes of its own processes; in a batch each fails alone."""
    assert "tokenizing through the tokenizers package" in server.log()
    before = processes(server, "frontdoor") | processes(server, "dispatcher")
    with Client(server.address) as client:
        for _ in range(8):
            with pytest.raises(InvalidArgument, match="text: the tokenizer refused it"):
                client.predict(PANICS_SLOWLY)
        found = client.predict_batch(["a", PANICS_SLOWLY, "a b", ("a", PANICS_SLOWLY), ("a", "b")])
        client.predict("a b")
    assert [isinstance(answer, PredictionError) for answer in found] == [False, True, False, True, False], found
    assert processes(server, "frontdoor") | processes(server, "dispatcher") == before
    assert "panicked" not in server.log()


@pytest.mark.parametrize("title", ["tokenizers of frontdoor 0", "tokenizer of frontdoor 0, short texts"])
def test_a_killed_process_is_replaced(server: Server, title: str) -> None:
    worker(server, "short texts")
    (old,) = processes(server, title)
    os.kill(old.pid, signal.SIGKILL)
    with Client(server.address) as client:
        for _ in range(3):
            client.predict("a b")
    worker(server, "short texts")
    assert old not in processes(server, title)


def test_none_outlives_its_front_door(server: Server) -> None:
    worker(server, "short texts")
    worker(server, "long texts")
    old, door = processes(server), server.child("frontdoor 0")
    assert len(old) == 3
    os.kill(door.pid, signal.SIGKILL)
    until(lambda: not old & processes(server), "they died with it")
    server.until_filled("frontdoor 0", door)
    with Client(server.address) as client:
        client.predict("a b")
    used = server.metrics()
    assert used["fastqps_memory_bytes{tokenizer}"] > 0
