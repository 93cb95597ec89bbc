"""Generate: tokens as they are made, and every way in which a stream can end."""

from __future__ import annotations

import itertools
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from echo_generator import DIE, END, PACE, VOCAB, write_generator
from raw import (
    CANCEL,
    DATA,
    EH,
    ES,
    HEADERS,
    PATH,
    RST_STREAM,
    WINDOW_UPDATE,
    Answer,
    Peer,
    block,
    frame,
    message,
    setting,
    u32,
)
from raw import request as headers
from serving import Server, descriptors, until
from test_grpc import DEADLINE_EXCEEDED, INTERNAL, INVALID_ARGUMENT, OK, RESOURCE_EXHAUSTED, check_error
from tries import until_in_time

from fastqps.v1 import predict_pb2 as pb
from fastqps.v1.predict_pb2_grpc import PredictServiceStub

OUTPUT_MAX = 3500
MESSAGE_BYTES_MAX = 64 << 10
FLAGS = ("--frontdoors=1", "--dispatchers=1", f"--max-output-tokens={OUTPUT_MAX}", "--max-running=256")
TEXT = "A tiny prompt, with an é, a € and a 🙂 of four bytes."
SLOT_S = 30.0  # a stream that has ended has given back its slot by then; by itself it would last longer


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("echo")
    write_generator(path)
    return path


def start(model: Path, *flags: str) -> Server:
    return Server(f"--model=echo={model}", f"--max-message-bytes={MESSAGE_BYTES_MAX}", *FLAGS, *flags, echo=True)


@pytest.fixture(scope="module")
def generator(model: Path) -> Iterator[Server]:
    """One dispatcher that echoes; after all cases nothing is left of them."""
    server = start(model)
    try:
        door = server.child("frontdoor 0")
        before = descriptors(door)
        yield server
        server.until_idle()
        until(lambda: descriptors(door) == before, "its descriptors")
        assert not server.metrics()["fastqps_restarts_total"]
        server.stop()
    finally:
        server.kill()


@pytest.fixture
def stub(generator: Server) -> Iterator[PredictServiceStub]:
    with grpc.insecure_channel(generator.address) as channel:
        yield PredictServiceStub(channel)


@pytest.fixture
def peer(generator: Server) -> Iterator[Peer]:
    with Peer(generator.address) as peer:
        yield peer


def endless(pace_ms: int = 10, **more: Any) -> pb.PredictRequest:
    """Runs for OUTPUT_MAX steps of at least that long."""
    more.setdefault("generate", {"ignore_eos": True})
    return pb.PredictRequest(token_ids={"ids": [PACE + pace_ms, *b"ab"]}, **more)


def ask(peer: Peer, stream: int, request: pb.PredictRequest, *extra: tuple[str, str]) -> None:
    peer.send(*asking(stream, request, *extra))


def asking(stream: int, request: pb.PredictRequest, *extra: tuple[str, str]) -> tuple[bytes, bytes]:
    return (
        frame(HEADERS, EH, stream, block(headers(PATH + "Generate", *extra))),
        frame(DATA, ES, stream, message(request.SerializeToString())),
    )


def chunks_of(answer: Answer) -> list[pb.GenerateChunk]:
    return [pb.GenerateChunk.FromString(m) for m in answer.messages]


def check_chunks(chunks: list[pb.GenerateChunk], text: str, finish: int = pb.FINISH_REASON_STOP) -> None:
    """The whole text and its ids, once, and an end that only the last chunk tells."""
    assert "".join(chunk.text for chunk in chunks) == text
    ids = [i for chunk in chunks for i in chunk.token_ids]
    assert ids == [*text.encode(), *([END] if finish == pb.FINISH_REASON_STOP else [])]
    assert all(not chunk.finish_reason and not chunk.HasField("usage") for chunk in chunks[:-1])
    assert chunks[-1].finish_reason == finish
    assert chunks[-1].usage.output_tokens == len(ids)


def test_a_stream(stub: PredictServiceStub) -> None:
    request = pb.PredictRequest(text=TEXT, request_id=5, generate={"logprobs": True}, output={"timings": True})
    call = stub.Generate(request)
    chunks = list(call)
    check_chunks(chunks, TEXT)
    assert all(chunk.request_id == 5 for chunk in chunks)
    assert [p for chunk in chunks for p in chunk.logprobs] == [-0.5 - i for i in range(len(TEXT.encode()) + 1)]
    assert chunks[-1].usage.input_tokens == len(TEXT.encode())
    assert chunks[-1].HasField("timings") and not chunks[0].HasField("timings")
    assert call.code() == grpc.StatusCode.OK
    assert dict(call.initial_metadata())["fastqps-model"].startswith("echo@")


def test_tokens_come_as_they_are_made(generator: Server, stub: PredictServiceStub) -> None:
    """The first is there while the second cannot be."""
    with generator.gate() as gate:
        call = stub.Generate(pb.PredictRequest(token_ids={"ids": [gate.id, *b"slow"]}))
        first = next(call)
        assert first.text == "s"
    check_chunks([first, *call], "slow")


def test_predict_and_batch_give_the_whole(stub: PredictServiceStub) -> None:
    whole = stub.Predict(pb.PredictRequest(text=TEXT, request_id=6))
    assert (whole.generation.text, whole.request_id) == (TEXT, 6)
    assert list(whole.generation.token_ids) == [*TEXT.encode(), END]
    assert whole.generation.finish_reason == pb.FINISH_REASON_STOP
    assert whole.usage.output_tokens == len(TEXT.encode()) + 1
    texts = [f"{i}{TEXT}" for i in range(50)]
    items = [pb.PredictRequest(text=text, generate={"stop": ["four"]}) for text in texts]
    answers = stub.PredictBatch(pb.PredictBatchRequest(items=items)).items
    assert [answer.generation.text for answer in answers] == [text[: text.index("four")] for text in texts]
    short = stub.Predict(pb.PredictRequest(text=TEXT, generate={"max_tokens": 3})).generation
    assert (short.text, short.finish_reason) == (TEXT[:3], pb.FINISH_REASON_LENGTH)


def test_many_streams_on_one_connection(stub: PredictServiceStub) -> None:
    texts = [f"{i:04}: {TEXT}" for i in range(300)]
    calls = [stub.Generate(pb.PredictRequest(text=text)) for text in texts]
    for call, text in zip(calls, texts, strict=True):
        check_chunks(list(call), text)


def test_many_connections(generator: Server) -> None:
    def run(which: int) -> None:
        with grpc.insecure_channel(generator.address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
            for i in range(5):
                text = f"{which}-{i} {TEXT}"
                check_chunks(list(PredictServiceStub(channel).Generate(pb.PredictRequest(text=text))), text)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(run, range(24)))


def test_stop_strings(generator: Server, stub: PredictServiceStub) -> None:
    """Found across tokens, never sent, and the sequence leaves its dispatcher."""
    request = endless(generate={"stop": ["never", "baba"], "ignore_eos": True})
    chunks = list(stub.Generate(request))
    assert "".join(chunk.text for chunk in chunks) == "a"
    assert [i for chunk in chunks for i in chunk.token_ids] == [*b"ababa"]
    assert chunks[-1].finish_reason == pb.FINISH_REASON_STOP
    assert chunks[-1].usage.output_tokens == 5
    generator.until_idle(SLOT_S)
    whole = stub.Predict(request)
    assert (whole.generation.text, len(whole.generation.token_ids)) == ("a", 5)
    generator.until_idle(SLOT_S)


def test_deadline_in_mid_stream(generator: Server, stub: PredictServiceStub) -> None:
    timeouts_s = iter((0.5, 2, 8))

    def attempt() -> str:
        call, ids = stub.Generate(endless(), timeout=next(timeouts_s)), []
        with pytest.raises(grpc.RpcError) as failed:
            for chunk in call:
                ids += chunk.token_ids
        assert failed.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        assert len(ids) < OUTPUT_MAX
        generator.until_idle(SLOT_S)
        return "" if len(ids) > 5 else f"{len(ids)} tokens"

    until_in_time(attempt, tries=3)


def test_deadline_of_the_item_names_the_stage(generator: Server, peer: Peer) -> None:
    streams, timeouts_ms = itertools.count(1, 2), iter((300, 1500, 5000))

    def attempt() -> str:
        stream, timeout_ms = next(streams), next(timeouts_ms)
        ask(peer, stream, endless(timeout_us=1000 * timeout_ms))
        answer = peer.answer(stream)
        assert answer.status == DEADLINE_EXCEEDED
        generator.until_idle(SLOT_S)
        told, count = answer.text, len(chunks_of(answer))
        good = told == "the deadline passed at stage device" and 2 < count <= timeout_ms / 10
        return "" if good else f"{told}, {count} chunks"

    until_in_time(attempt, tries=3)


def test_deadline_before_the_first_chunk(generator: Server, peer: Peer) -> None:
    streams = itertools.count(1, 2)

    def attempt() -> str:
        stream = next(streams)
        ask(peer, stream, endless(500), ("grpc-timeout", "100m"))
        answer = peer.answer(stream)
        generator.until_idle(SLOT_S)
        if answer.data:
            return "the first chunk was seen before the time that was over by then"
        check_error(answer, DEADLINE_EXCEEDED, "stage")
        return ""

    until_in_time(attempt)


def test_cancel_between_chunks(generator: Server, stub: PredictServiceStub) -> None:
    before = generator.metrics()["fastqps_requests_total"]
    calls = [stub.Generate(endless()) for _ in range(20)]
    for call in calls:
        next(call)
    for call in calls:
        call.cancel()
    generator.until_idle(SLOT_S)
    until(lambda: generator.metrics()["fastqps_requests_total"] == before + 20, "all counted, once")


def test_lost_connection(generator: Server) -> None:
    peer = Peer(generator.address)
    for stream in (1, 3, 5):
        ask(peer, stream, endless())
    peer.until(lambda: all(stream in peer.answers for stream in (1, 3, 5)), "first chunks")
    peer.abort()
    generator.until_idle(SLOT_S)


def test_reset_at_once(generator: Server, peer: Peer) -> None:
    for stream in range(1, 101, 2):
        ask(peer, stream, endless())
        peer.send(frame(RST_STREAM, 0, stream, u32(CANCEL)))
    generator.until_idle(SLOT_S)


def test_a_client_that_does_not_read(generator: Server, stub: PredictServiceStub) -> None:
    """Its sequence is done and its slot free long before it reads; what it reads then is whole."""
    text = TEXT * 5
    with Peer(generator.address, setting(4, 0)) as slow:
        for stream in (1, 3):
            ask(slow, stream, pb.PredictRequest(text=text))
        slow.until(lambda: len(slow.answers) == 2, "headers of both")
        check_chunks(list(stub.Generate(pb.PredictRequest(text=TEXT))), TEXT)  # nobody waits for it
        generator.until_idle(SLOT_S)
        assert not slow.answers[1].data
        for stream in (1, 3):
            slow.send(frame(WINDOW_UPDATE, 0, stream, u32(7)))
        slow.until(lambda: len(slow.answers[1].data) == 7, "seven bytes")
        for stream in (1, 3):
            slow.send(frame(WINDOW_UPDATE, 0, stream, u32(1 << 20)))
            answer = slow.answer(stream)
            assert answer.status == OK
            check_chunks(chunks_of(answer), text)


def test_a_late_reader(stub: PredictServiceStub) -> None:
    calls = [stub.Generate(pb.PredictRequest(text=TEXT)) for _ in range(20)]
    time.sleep(0.3)
    for call in calls:
        check_chunks(list(call), TEXT)


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (pb.PredictRequest(text="x", generate={"max_tokens": OUTPUT_MAX + 1}), ("generate.max_tokens", "at most 3500")),
        (pb.PredictRequest(text="x", generate={"temperature": -1}), ("generate.temperature", "0 or more")),
        (pb.PredictRequest(text="x", generate={"temperature": float("nan")}), ("generate.temperature", "0 or more")),
        (pb.PredictRequest(text="x", generate={"top_k": 65}), ("generate.top_k", "at most 64")),
        (pb.PredictRequest(text="x", generate={"top_p": 0}), ("generate.top_p", "at most 1")),
        (pb.PredictRequest(text="x", generate={"stop": ["x"] * 17}), ("generate.stop", "16")),
        (pb.PredictRequest(text="x", generate={"stop": ["x" * 257]}), ("generate.stop", "256")),
        (pb.PredictRequest(text="x", generate={"stop_token_ids": [VOCAB]}), ("generate.stop_token_ids", str(VOCAB))),
        (pb.PredictRequest(token_ids={"ids": [VOCAB]}), ("token_ids", str(VOCAB))),
        (pb.PredictRequest(text="x" * 600), ("text", "600 tokens, at most 512")),
        (pb.PredictRequest(pair={"first": "x"}), ("pair", "2 texts, at most 1")),
        (pb.PredictRequest(text="x", output={"top_labels": 1}), ("output.top_labels",)),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_refusals(peer: Peer, request_: pb.PredictRequest, words: tuple[str, ...]) -> None:
    ask(peer, 1, request_)
    check_error(peer.answer(1), INVALID_ARGUMENT, *words)
    ask(peer, 3, pb.PredictRequest(text="good"))
    check_chunks(chunks_of(peer.answer(3)), "good")


def test_a_message_too_large(stub: PredictServiceStub) -> None:
    with pytest.raises(grpc.RpcError) as failed:
        list(stub.Generate(pb.PredictRequest(text="x" * MESSAGE_BYTES_MAX)))
    assert failed.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED


def test_an_encoder_does_not_generate(server: Server) -> None:
    with Peer(server.address) as peer:
        ask(peer, 1, pb.PredictRequest(text="x"))
        check_error(peer.answer(1), INVALID_ARGUMENT, "model", "does not generate")


def test_a_drain_lets_streams_end(model: Path) -> None:
    server = start(model)
    try:
        with Peer(server.address) as peer:
            text = "abcdefghij"
            ask(peer, 1, pb.PredictRequest(token_ids={"ids": [PACE + 100, *text.encode()]}))
            peer.until(lambda: bool(peer.answers.get(1, Answer()).data), "the first chunk")
            server.signal(signal.SIGTERM)
            check_chunks(chunks_of(peer.answer(1)), text)
            assert peer.answers[1].status == OK
            assert peer.end() == OK
        assert server.wait() == 0
        server.check_gone()
    finally:
        server.kill()


def test_death_of_the_dispatcher(model: Path) -> None:
    """A stream that has begun ends; one that has not runs again; one that kills is given up."""
    server = start(model)
    try:
        with Peer(server.address) as peer:
            ask(peer, 1, endless())
            peer.until(lambda: bool(peer.answers.get(1, Answer()).data), "the first chunk")
            killing = pb.PredictRequest(token_ids={"ids": [PACE + 100, DIE]})
            innocent = pb.PredictRequest(token_ids={"ids": [PACE + 100, *b"again"]})
            peer.send(*(part for stream, request in ((3, killing), (5, innocent)) for part in asking(stream, request)))
            begun, killer, again = peer.answer(1), peer.answer(3), peer.answer(5)
            assert begun.status == INTERNAL and "the stream had begun" in begun.text
            assert killer.status == INTERNAL and killer.blocks == 1
            check_chunks(chunks_of(again), "again")
        server.until_idle()
        assert server.metrics()["fastqps_restarts_total"] == 2
        server.stop()
    finally:
        server.kill()


def test_no_room(model: Path) -> None:
    """More than can wait: refused at once, and nothing that was accepted is harmed."""
    server = start(model, "--max-queue-items=4", "--max-running=2")
    try:
        with Peer(server.address) as peer:
            streams = range(1, 41, 2)
            with server.gate() as gate:
                request = pb.PredictRequest(token_ids={"ids": [gate.id, *b"wait"]})
                peer.send(*(part for stream in streams for part in asking(stream, request)))
                peer.until(lambda: sum(map(peer.stopped, streams)) >= 14, "refusals: six have places")
            statuses = [peer.answer(stream).status for stream in streams]
            assert set(statuses) == {OK, RESOURCE_EXHAUSTED}
            for stream, status in zip(streams, statuses, strict=True):
                if status == OK:
                    check_chunks(chunks_of(peer.answers[stream]), "wait")
        server.stop()
    finally:
        server.kill()
