"""What a server that generates answers: by all methods the same, and what the engine makes of each prompt alone."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
import tokenizers as tk
import torch
from busy import sees
from generators import BOS, Alone, Asked, joined, requests, write_generator
from nightly import nightly
from serving import PATIENCE_S, Server, until
from tries import unmet, until_in_time

import fastqps
from fastqps import errors
from fastqps.cli import main
from fastqps.v1 import predict_pb2 as pb

ROOT = Path(fastqps.__file__).parents[1]
MAX_TOKENS = 3400  # of an answer: long enough to be met in the middle
FLAGS = ("--device=cpu", "--dtype=float32", f"--max-output-tokens={MAX_TOKENS}", "--max-running=24", "--slots=512")
FEW_TOKENS = 200  # what is made while a client's cancel is on its way
ASKED = requests(48, 24)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_generator(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def alone(checkpoint: Path) -> Alone:
    return Alone(checkpoint, MAX_TOKENS)


@pytest.fixture(scope="module")
def server(module_server: Callable[..., Server], checkpoint: Path) -> Server:
    return module_server(*FLAGS, f"--model={checkpoint}", "--frontdoors=2", "--dispatchers=2")


# ---- the same answers everywhere


def test_predict_equals_the_engine(client: fastqps.Client, alone: Alone) -> None:
    for asked in ASKED[:8]:
        alone.check(asked, client.generate(asked.prompt, **asked.options))


async def test_at_once_equals_alone(server: Server, alone: Alone) -> None:
    """All of them share steps, in changing company; a stream's chunks are its answer in pieces."""
    async with fastqps.AsyncClient(server.address, timeout_s=PATIENCE_S, channels=2) as client:

        async def whole(asked: Asked) -> None:
            alone.check(asked, await client.generate(asked.prompt, **asked.options))

        async def stream(asked: Asked) -> None:
            chunks = [chunk async for chunk in client.generate_stream(asked.prompt, **asked.options)]
            alone.check(asked, joined(chunks))

        await asyncio.gather(*(call(asked) for asked in ASKED * 3 for call in (whole, stream)))


def test_batches_and_streams(client: fastqps.Client, alone: Alone) -> None:
    for asked in ASKED[:3]:
        items = [asked.prompt] * 7
        options = asked.options
        for found in [*client.predict_batch(items, **options), *client.predict_stream(items, **options)]:
            assert isinstance(found, fastqps.Prediction), found
            alone.check(asked, found.generation)


@pytest.fixture(scope="module")
def few(module_server: Callable[..., Server], checkpoint: Path) -> Server:
    """Of one dispatcher that runs three at a time, one step after the other."""
    return module_server(*FLAGS, f"--model={checkpoint}", "--max-running=3", "--async-steps=off", "--dispatchers=1")


def test_one_step_in_flight_gives_the_same(few: Server, alone: Alone) -> None:
    with fastqps.Client(few.address) as client:
        for asked in ASKED[8:24]:
            alone.check(asked, client.generate(asked.prompt, **asked.options))


def test_tokens_come_as_they_are_made(client: fastqps.Client) -> None:
    counts: list[int] = []
    while len(counts) < 5 and max(counts, default=0) <= 20:  # who stands still gets more of them at a time
        chunks = list(client.generate_stream([5, 6, 7], max_tokens=600, ignore_eos=True))
        assert len(joined(chunks).token_ids) == 600
        counts.append(len(chunks))
    assert max(counts) > 20, counts


def test_a_sampled_answer_without_a_seed_varies(client: fastqps.Client) -> None:
    found = {tuple(client.generate("The cat", temperature=1.0, max_tokens=8).token_ids) for _ in range(8)}
    assert len(found) > 1


def test_usage_and_limits(client: fastqps.Client, alone: Alone) -> None:
    (model,) = client.models()
    assert (model.name, model.task, model.output_tokens_max, model.dimensions) == ("tiny", "generate", MAX_TOKENS, 0)
    assert model.input_tokens_max == 512
    found = client.generate([5] * 512, max_tokens=1)
    assert found.usage == fastqps.api.prediction.Usage(512, 1, False) and found.finish_reason == "length"
    cut = client.predict([5] * 600, truncate=True, max_tokens=1)
    assert cut.usage == fastqps.api.prediction.Usage(512, 1, True, 512)
    assert cut.generation.token_ids == found.token_ids
    assert client.predict("", max_tokens=2, timings=True).timings["device"] > 0  # BOS alone is a prompt


# ---- stop strings


def test_stop_strings(client: fastqps.Client, checkpoint: Path) -> None:
    """The text ends before the first of them, wherever the borders of tokens are; nothing behind it is sent."""
    tokenizer = tk.Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    for prompt in ("The cat sat", "She sells", "Zürich", "mat. "):
        options: dict[str, Any] = {"max_tokens": 120, "temperature": 1.0, "seed": 11, "ignore_eos": True}
        whole = client.generate(prompt, **options)
        assert whole.text == tokenizer.decode(whole.token_ids)
        for start in range(4, len(whole.text) - 3, 47):
            stop = whole.text[start : start + 3]
            if "\ufffd" in stop:
                continue
            expected = whole.text[: whole.text.index(stop)]
            found = client.generate(prompt, stop=["never in it", stop], **options)
            assert (found.text, found.finish_reason) == (expected, "stop")
            assert found.token_ids == whole.token_ids[: len(found.token_ids)]
            assert stop in tokenizer.decode(found.token_ids) and stop not in tokenizer.decode(found.token_ids[:-1])
            chunks = list(client.generate_stream(prompt, stop=[stop], **options))
            assert joined(chunks) == found


# ---- ends before the end


def running(server: Server) -> float:
    return server.metrics()["fastqps_cache_slots_used"]


def tokens_made(server: Server) -> float:
    return server.metrics()["fastqps_generated_tokens_total"]


def test_a_deadline_of_the_item_in_the_middle(server: Server, stub: Any) -> None:
    """Only the server watches it: a generation ends when its time is over, streamed or not."""
    allowed_s = 0.15
    generate = {"max_tokens": MAX_TOKENS, "ignore_eos": True}
    request = pb.PredictRequest(text="The cat", timeout_us=round(allowed_s * 1e6), generate=generate)

    def late_s(call: Callable[[Any], Any]) -> float:
        start = time.monotonic()
        with pytest.raises(grpc.RpcError) as caught:
            call(request)
        assert caught.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
        return time.monotonic() - start - allowed_s

    def attempt() -> str:
        whole_s, streamed_s = late_s(stub.Predict), late_s(lambda asked: list(stub.Generate(asked)))
        return unmet(whole=whole_s < 0.5, streamed=streamed_s < 0.5)

    until_in_time(attempt)
    until(lambda: running(server) == 0 and not any(server.work().values()), "the cache slots are free")


def test_more_than_can_run_wait_for_their_turn(few: Server, alone: Alone) -> None:
    with fastqps.Client(few.address, timeout_s=PATIENCE_S) as client:
        found = {}
        for answer in client.predict_stream([a.prompt for a in ASKED] * 2, max_tokens=20, timeout_s=PATIENCE_S):
            assert isinstance(answer, fastqps.Prediction), answer
            found[answer.request_id] = answer.generation.token_ids
            if answer.request_id % 16 == 0:
                assert running(few) <= 3
    assert len(found) == 2 * len(ASKED)
    for i, asked in enumerate(ASKED):
        greedy = Asked(asked.prompt, {"max_tokens": 20})
        assert all(found[i + k * len(ASKED)] == alone.answer(greedy).token_ids for k in range(2))


def test_a_drain_lets_streams_end(serve: Callable[..., Server], checkpoint: Path, alone: Alone) -> None:
    server = serve(*FLAGS, f"--model={checkpoint}", "--dispatchers=1")
    asked = Asked("The cat", {"max_tokens": 400, "ignore_eos": True})  # seconds, and far fewer than a drain may take
    with fastqps.Client(server.address, timeout_s=PATIENCE_S) as client:
        stream = client.generate_stream(asked.prompt, **asked.options)
        chunks = [next(stream)]
        server.signal(signal.SIGTERM)
        chunks.extend(stream)
        alone.check(asked, joined(chunks))
    assert server.wait() == 0


# ---- a dispatcher dies


@pytest.mark.parametrize("dispatchers", [*nightly(1), 2])  # all die in either
def test_dispatchers_killed_in_the_middle(
    serve: Callable[..., Server], checkpoint: Path, alone: Alone, dispatchers: int
) -> None:
    """Whole answers run again, to the same tokens; a stream that has begun cannot and ends with INTERNAL."""
    server = serve(*FLAGS, f"--model={checkpoint}", f"--dispatchers={dispatchers}")
    options: dict[str, Any] = {"ignore_eos": True, "temperature": 1.0, "max_tokens": MAX_TOKENS}
    penalised = {**options, "max_tokens": 600, "repetition_penalty": 1.05, "suppress_token_ids": [5]}
    whole = [Asked([9, 1], {**options, "max_tokens": 600, "seed": 1}), Asked([9, 2], {**penalised, "seed": 2})]
    streamed = [Asked([9, i], {**options, "seed": i}) for i in (3, 4)]
    broken: list[str] = []

    async def read(client: fastqps.AsyncClient, asked: Asked, first: asyncio.Event) -> None:
        chunks = []
        try:
            async for chunk in client.generate_stream(asked.prompt, **asked.options):
                chunks.append(chunk)
                first.set()
        except errors.Internal as error:
            assert chunks, "it could have run again"
            broken.append(str(error))
        else:  # it ended before, or had not begun
            alone.check(asked, joined(chunks))

    async def main() -> None:
        async with fastqps.AsyncClient(server.address, timeout_s=PATIENCE_S) as client:
            for _ in range(4):  # rounds, until a stream is met in its middle
                processes = [server.child(f"dispatcher {i}") for i in range(dispatchers)]
                first = asyncio.Event()
                tasks = [asyncio.create_task(read(client, asked, first)) for asked in streamed]
                answers = [asyncio.create_task(client.generate(a.prompt, **a.options)) for a in whole]
                await first.wait()
                for process in processes:
                    process.kill()
                for asked, answer in zip(whole, answers, strict=True):
                    alone.check(asked, await answer)
                await asyncio.gather(*tasks)
                await sees(lambda: all(map(server.ready, workers)), "they are back")
                if broken and server.metrics()["fastqps_requeued_total"]:
                    return

    workers = [f"dispatcher {i}" for i in range(dispatchers)]
    asyncio.run(main())
    assert broken and all("it cannot run again" in text for text in broken), broken
    assert server.metrics()["fastqps_requeued_total"] > 0
    server.until_idle()
    until(lambda: running(server) == 0, "every cache slot is free")


# ---- a shared prefix


def test_a_prefix_stands_before_every_prompt(
    serve: Callable[..., Server], checkpoint: Path, client: fastqps.Client, alone: Alone, tmp_path: Path
) -> None:
    """The same tokens as with ids(prefix) + ids(text) sent by the client, and another version."""
    text = "She sells sea shells. \n"
    (tmp_path / "prefix.txt").write_text(text)
    server = serve(*FLAGS, f"--model={checkpoint}", f"--prefix={tmp_path / 'prefix.txt'}", "--dispatchers=1")
    tokenizer = tk.Tokenizer.from_file(str(checkpoint / "tokenizer.json"))
    prefix = tokenizer.encode(text).ids
    assert prefix[0] == BOS and len(prefix) > 5
    with fastqps.Client(server.address) as prefixed:
        (model,) = prefixed.models()
        assert model.version != client.models()[0].version
        for asked in ASKED[:12]:
            prompt = asked.prompt
            own = tokenizer.encode(prompt, add_special_tokens=False).ids if isinstance(prompt, str) else prompt
            if not own:
                continue
            found = prefixed.generate(prompt, **asked.options)
            alone.check(Asked([*prefix, *own], asked.options), found, usage=False)
            assert found.usage.input_tokens == len(own)
        with pytest.raises(errors.InvalidArgument, match="text: 0 tokens, at least 1"):
            prefixed.generate("")


@pytest.mark.parametrize("native", [False, *nightly(True)])
def test_a_prefix_where_special_tokens_end_a_text(serve: Callable[..., Server], tmp_path: Path, native: bool) -> None:
    """Those that begin a text stand in the prefix, those that end one behind each text, an empty one too."""
    (tmp_path / "prefix.txt").write_text("He go. ")
    limits = ("--device=cpu", "--dtype=float32", "--max-output-tokens=24", "--max-running=4", "--dispatchers=1")
    whole = fastqps.Engine("grammar", dtype="float32", max_output_tokens=24)
    model = tmp_path / "grammar"
    shutil.copytree(whole.card.path, model)
    if not native:
        file = json.loads((model / "tokenizer.json").read_text())
        file["normalizer"] = {"type": "Strip", "strip_left": False, "strip_right": False}  # does nothing
        (model / "tokenizer.json").write_text(json.dumps(file))
    server = serve(f"--model={model}", f"--prefix={tmp_path / 'prefix.txt'}", *limits)
    tokenizer = tk.Tokenizer.from_file(whole.card.tokenizer)

    def ids(text: str) -> list[int]:
        found: list[int] = tokenizer.encode(text, add_special_tokens=False).ids
        return found

    first, last = ids("<s>"), ids("<sep>")
    with fastqps.Client(server.address) as prefixed:
        assert prefixed.models()[0].native_tokenizer == native
        for text in ("She go to school.", "", "They was late", "<s> a<sep>"):
            found = prefixed.generate(text)
            joined_ids = [*first, *ids("He go. "), *ids(text), *last]
            assert found.token_ids == whole.generate([joined_ids])[0].token_ids
            assert found.usage and found.usage.input_tokens == len(ids(text)) + 1
            assert prefixed.generate([*ids(text), *last]).token_ids == found.token_ids
        with pytest.raises(errors.InvalidArgument, match="at most"):
            prefixed.generate("She go to school. " * 200)


def test_starting_says_what_a_dispatcher_holds(server: Server) -> None:
    line = next(line for line in server.lines if "starting tiny@" in line)
    assert "a dispatcher runs 24 sequences; KV cache" in line


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--prefix=none.txt"], "--prefix none.txt: cannot read it: No such file or directory"),
        (["--prefix=empty.txt"], "--prefix empty.txt: the file is empty"),
        (["--prefix=long.txt"], "--prefix"),
        (["--model=minilm", "--prefix=long.txt"], "--prefix: none of the served models generates text"),
        (["--max-output-tokens=5000"], "--max-output-tokens 5000: "),
        (["--max-output-tokens=5000"], "leave no room for a prompt in the model's context of 4096 positions; at most"),
        (["--max-output-tokens=4090", "--prefix=some.txt"], "--max-output-tokens 4090 or --prefix: "),
        (["--max-running=100", "--max-batch-tokens=600"], "that is at least 612"),
    ],
)
def test_what_cannot_start(
    checkpoint: Path, elsewhere: None, capsys: pytest.CaptureFixture[str], flags: list[str], message: str
) -> None:
    for name, text in (("empty", ""), ("some", "0123456789"), ("long", "0123456789" * 1000)):
        Path(f"{name}.txt").write_text(text)
    model = [] if any(flag.startswith("--model") for flag in flags) else [f"--model={checkpoint}"]
    ports = ["--port=0", "--admin-port=0", "--http-port=off"]
    assert main(["serve", *ports, "--device=null", *model, *flags]) == 2
    assert message in capsys.readouterr().err


def test_it_does_not_take_long_to_cancel(server: Server, client: fastqps.Client) -> None:
    """Cancelled sequences are gone within a few steps, not at their end: the best of some tries."""
    options: dict[str, Any] = {"max_tokens": MAX_TOKENS, "ignore_eos": True, "temperature": 1.0}

    def attempt() -> str:
        streams = [client.generate_stream("The cat", **options, seed=seed) for seed in range(5)]
        for stream in streams:
            assert next(stream).token_ids
        before = tokens_made(server)
        for stream in streams:
            stream.close()
        until(lambda: running(server) == 0 and not any(server.work().values()), "free")
        made = tokens_made(server) - before
        return "" if made < FEW_TOKENS * len(streams) else f"{made:.0f} tokens"

    until_in_time(attempt)


def test_the_command_line(
    server: Server, checkpoint: Path, alone: Alone, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same text in process, from the server, and streamed."""
    expected = alone.answer(Asked("The cat", {"max_tokens": 30})).text
    flags = ["--max-tokens=30", "The cat"]
    for where in (
        ["--model", str(checkpoint)],
        ["--address", server.address],
        ["--address", server.address, "--stream"],
    ):
        if "--model" in where:
            monkeypatch.setattr("fastqps.devices.cpu.transformer.choose_dtype", lambda name: torch.float32)
        assert main(["predict", *where, *flags]) == 0
        assert capsys.readouterr().out == expected + "\n"
    long = ["--max-tokens=1100", "--ignore-eos", "--json"]  # more than without the flag
    assert main(["predict", "--model", str(checkpoint), *long, "The cat"]) == 0
    assert json.loads(capsys.readouterr().out)["output_tokens"] == 1100
    assert main(["predict", "--model", str(checkpoint), "--max-tokens=4096", "The cat"]) != 0
    assert "the model's context of 4096 positions; at most 4095 do" in capsys.readouterr().err


def test_the_null_device_answers_at_full_length(serve: Callable[..., Server], checkpoint: Path) -> None:
    server = serve("--device=null", f"--model={checkpoint}")
    with fastqps.Client(server.address) as client:
        found = client.generate("The cat", max_tokens=9)
        assert len(found.token_ids) == 9 and found.finish_reason == "length"
        assert len(joined(list(client.generate_stream("The cat"))).token_ids) == 1024
