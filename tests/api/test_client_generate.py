"""Both clients' generate calls against a small server on grpcio, whose answers show what was asked."""

import math
import threading
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import grpc
import pytest
from grpc_server import grpc_server
from serving import PATIENCE_S

from fastqps import errors
from fastqps.api.prediction import Chunk, Generation, Usage
from fastqps.cli import main
from fastqps.v1 import predict_pb2 as pb
from fastqps.v1 import predict_pb2_grpc

USAGE = pb.Usage(input_tokens=5, output_tokens=3)


def generation(item: pb.PredictRequest) -> pb.PredictResponse:
    """The words of the request's options; "vector" is an embedding instead."""
    out = pb.PredictResponse(request_id=item.request_id, usage=USAGE)
    if item.text == "vector":
        out.embedding.values.extend([1.0])
        return out
    asked = item.generate
    made = out.generation
    made.text = f"{item.text}|{asked.max_tokens}|{asked.temperature}|{list(asked.stop)}"
    made.token_ids.extend([7, 8, 9])
    made.finish_reason = pb.FINISH_REASON_LENGTH if item.text == "long" else pb.FINISH_REASON_STOP
    if item.text == "endless":
        made.finish_reason = pb.FINISH_REASON_UNSPECIFIED
    if asked.logprobs or asked.top_logprobs:
        made.logprobs.extend([-0.5, -1.0, -2.0])
    if asked.top_logprobs:
        made.top_logprobs.CopyFrom(top(made.token_ids))
    for each in asked.choices:
        made.choice_scores.add(logprob=-len(each), score=1 / len(asked.choices))
    for choice in range(1, asked.n):
        made.other_choices.add(text=f"choice {choice}", token_ids=[choice], finish_reason=made.finish_reason)
    return out


def item_choices(n: int) -> Iterator[pb.GenerateChunk]:
    """One chunk of each, the last choice first."""
    for choice in reversed(range(n)):
        yield pb.GenerateChunk(text=str(choice), choice=choice, finish_reason=pb.FINISH_REASON_STOP, usage=USAGE)


def top(ids: Sequence[int]) -> pb.TopLogprobs:
    """Two for each: itself, and one that cannot be chosen."""
    return pb.TopLogprobs(token_ids=[i for id in ids for i in (id, 0)], logprobs=[-0.5, -math.inf] * len(ids))


class Servicer(predict_pb2_grpc.PredictServiceServicer):
    def __init__(self) -> None:
        self.asked: list[pb.PredictRequest] = []
        self.over = threading.Event()

    def Predict(self, item: pb.PredictRequest, context: Any) -> pb.PredictResponse:
        self.asked.append(item)
        return generation(item)

    def PredictBatch(self, batch: pb.PredictBatchRequest, context: Any) -> pb.PredictBatchResponse:
        return pb.PredictBatchResponse(items=[generation(item) for item in batch.items])

    def PredictStream(self, items: Iterator[pb.PredictRequest], context: Any) -> Iterator[pb.PredictResponse]:
        for item in items:
            yield generation(item)

    def Generate(self, item: pb.PredictRequest, context: Any) -> Iterator[pb.GenerateChunk]:
        self.asked.append(item)
        if not context.add_callback(self.over.set):
            self.over.set()
        likely = top([7, 8]) if item.generate.top_logprobs else None
        logprobs = [-0.5, -1.0] if item.generate.logprobs else []
        yield pb.GenerateChunk(text="Grü", token_ids=[7, 8], logprobs=logprobs, top_logprobs=likely)
        yield pb.GenerateChunk(token_ids=[9], logprobs=[-2.0] if item.generate.logprobs else [])
        match item.text:
            case "wait":
                self.over.wait(PATIENCE_S)
            case "break":
                context.abort(grpc.StatusCode.INTERNAL, "its dispatcher died")
            case "stop short":
                return
            case "choices":
                yield from item_choices(item.generate.n)
            case _:
                last = pb.GenerateChunk(text="ße", finish_reason=pb.FINISH_REASON_LENGTH, usage=USAGE)
                if item.output.timings:
                    last.timings.device_us = 200
                yield last


@pytest.fixture
def servicer() -> Servicer:
    return Servicer()


@pytest.fixture
def address(servicer: Servicer) -> Iterator[str]:
    with grpc_server(partial(predict_pb2_grpc.add_PredictServiceServicer_to_server, servicer)) as address:
        yield address


@pytest.fixture
def client(connect: Callable[..., Any], address: str) -> Iterator[Any]:
    with connect(address, model="mine") as client:
        yield client


def test_generate_gives_the_whole_text(client: Any) -> None:
    usage = Usage(input_tokens=5, output_tokens=3, truncated=False)
    assert client.generate("a") == Generation("a|0|0.0|[]", [7, 8, 9], "stop", None, usage)
    found = client.generate("long", max_tokens=3, temperature=0.5, stop="\n", logprobs=True)
    assert found == Generation("long|3|0.5|['\\n']", [7, 8, 9], "length", [-0.5, -1.0, -2.0], usage)
    likely = client.generate("long", top_logprobs=2)
    assert likely.logprobs == [-0.5, -1.0, -2.0]
    assert likely.top_logprobs == [[(7, -0.5)], [(8, -0.5)], [(9, -0.5)]]


def test_every_option_arrives(client: Any, servicer: Servicer) -> None:
    options: dict[str, Any] = {
        "max_tokens": 9, "temperature": 0.5, "top_k": 40, "top_p": 0.75, "seed": 2**64 - 1, "stop": ["\n", "END"],
        "ignore_eos": True, "logprobs": True, "stop_token_ids": [3, 4],
        "repetition_penalty": 1.5, "no_repeat_ngram_size": 0, "min_tokens": 5, "suppress_token_ids": [6, 7],
        "presence_penalty": -0.5, "frequency_penalty": 0.25, "min_p": 0.125, "best_of": 1,
    }  # fmt: skip
    client.generate("a", **options)
    list(client.generate_stream([5, 6], **options, priority="high", timings=True))
    first, second = servicer.asked
    expected = pb.GenerateOptions(**options)
    assert first == pb.PredictRequest(model="mine", text="a", generate=expected)
    assert (second.generate, list(second.token_ids.ids)) == (expected, [5, 6])
    assert (second.priority, second.output.timings, second.model) == (pb.PRIORITY_HIGH, True, "mine")


def test_without_options_the_server_decides(client: Any, servicer: Servicer) -> None:
    client.generate("a")
    client.generate("a", top_p=1.0, seed=0)
    bare, given = servicer.asked
    assert not bare.HasField("generate")
    assert given.generate.HasField("top_p") and given.generate.HasField("seed")


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"max_tokens": -1}, ValueError, "max_tokens: Value out of range: -1"),
        ({"max_tokens": 0}, ValueError, "max_tokens: 0, must be at least 1 without prompt_logprobs"),
        ({"n": 0}, ValueError, "n: 0, must be at least 1"),
        ({"best_of": 0}, ValueError, "best_of: 0, must be at least 1"),
        ({"dimensions": 0}, ValueError, "dimensions: 0, must be at least 1"),
        ({"top_labels": 0}, ValueError, "top_labels: 0, must be at least 1"),
        ({"max_active_dims": 0}, ValueError, "max_active_dims: 0, must be at least 1"),
        ({"seed": 1 << 64}, ValueError, "seed: "),
        ({"temperature": "hot"}, TypeError, "temperature: must be real number, not str"),
        ({"stop": 5}, TypeError, "stop: "),
        ({"stop": [5]}, TypeError, "stop: "),
        ({"max_token": 3}, TypeError, "max_token is no option; there are: max_tokens, .*, model"),
        ({"stop_token_ids": [-1]}, ValueError, "stop_token_ids: Value out of range: -1"),
        ({"suppress_token_ids": [-1]}, ValueError, "suppress_token_ids: Value out of range: -1"),
    ],
)
def test_wrong_options_are_refused_before_they_leave(
    client: Any, options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=f"^{message}"):
        client.generate("a", **options)


def test_a_stream_gives_chunks(client: Any) -> None:
    first, second, last = client.generate_stream("a", logprobs=True, top_logprobs=2, timings=True)
    assert first == Chunk("Grü", [7, 8], [-0.5, -1.0], top_logprobs=[[(7, -0.5)], [(8, -0.5)]])
    assert second == Chunk("", [9], [-2.0])
    assert (last.text, last.token_ids, last.logprobs, last.finish_reason) == ("ße", [], None, "length")
    assert last.usage == Usage(5, 3, False) and last.timings["device"] == 200


def test_choices(client: Any, servicer: Servicer) -> None:
    found = client.generate("a", n=3)
    assert [each.text for each in found.other_choices] == ["choice 1", "choice 2"]
    assert found.usage == Usage(5, 3, False) and not any(each.usage for each in found.other_choices)
    chunks = list(client.generate_stream("choices", n=2))
    assert [(chunk.choice, chunk.finish_reason) for chunk in chunks] == [(0, None), (0, None), (1, "stop"), (0, "stop")]
    assert [asked.generate.n for asked in servicer.asked] == [3, 2]
    with pytest.raises(errors.Internal, match="the server ended the stream before the text was complete"):
        list(client.generate_stream("a", n=2))


def test_a_stream_that_is_left_early_is_cancelled(client: Any, servicer: Servicer) -> None:
    chunks = client.generate_stream("wait")
    assert next(chunks).text == "Grü"
    assert not servicer.over.is_set()
    chunks.close()
    assert servicer.over.wait(PATIENCE_S)


def test_a_stream_has_its_time(client: Any) -> None:
    with pytest.raises(errors.DeadlineExceeded):
        list(client.generate_stream("wait", timeout_s=0.2))


@pytest.mark.parametrize(
    ("text", "message"),
    [("break", "its dispatcher died"), ("stop short", "the server ended the stream before the text was complete")],
)
def test_a_stream_that_breaks_is_an_error(client: Any, text: str, message: str) -> None:
    chunks = client.generate_stream(text)
    assert [next(chunks).token_ids, next(chunks).token_ids] == [[7, 8], [9]]
    with pytest.raises(errors.Internal, match=message):
        next(chunks)


def test_a_model_that_does_not_generate(client: Any) -> None:
    with pytest.raises(errors.Unimplemented, match="this model does not generate text"):
        client.generate("vector")
    with pytest.raises(errors.Unimplemented, match="this model makes no embeddings"):
        client.embed(["a"])


def test_an_answer_without_an_end_makes_no_sense(client: Any) -> None:
    with pytest.raises(errors.Internal, match="does not say why its text ended"):
        client.generate("endless")


def test_batches_and_streams_of_prompts(client: Any) -> None:
    prompts = [f"prompt {i}" for i in range(300)]
    texts = [f"prompt {i}|2|0.0|[]" for i in range(300)]
    assert [found.generation.text for found in client.predict_batch(prompts, max_tokens=2)] == texts
    streamed = {found.request_id: found.generation.text for found in client.predict_stream(prompts, max_tokens=2)}
    assert streamed == dict(enumerate(texts))


# ---- the command line


@pytest.mark.parametrize(
    ("arguments", "printed"),
    [
        (["a", "b"], "a|0|0.0|[]\nb|0|0.0|[]\n"),
        (["a", "--max-tokens=5", "--temperature=0.5", "--stop=x", "--stop=y"], "a|5|0.5|['x', 'y']\n"),
        (
            ["long", "--json", "--logprobs"],
            '{"text": "long|0|0.0|[]", "token_ids": [7, 8, 9], "finish_reason": "length", '
            '"logprobs": [-0.5, -1.0, -2.0], "input_tokens": 5, "output_tokens": 3}\n',
        ),
        (
            ["a", "--n=2", "--json"],
            '{"text": "a|0|0.0|[]", "token_ids": [7, 8, 9], "finish_reason": "stop", "input_tokens": 5, '
            '"output_tokens": 3, "other_choices": [{"text": "choice 1", "token_ids": [1], "finish_reason": "stop"}]}\n',
        ),
        (
            ["a", "--json", "--top-logprobs=2"],
            '{"text": "a|0|0.0|[]", "token_ids": [7, 8, 9], "finish_reason": "stop", "logprobs": [-0.5, -1.0, -2.0], '
            '"top_logprobs": [[{"id": 7, "logprob": -0.5}], [{"id": 8, "logprob": -0.5}], '
            '[{"id": 9, "logprob": -0.5}]], "input_tokens": 5, "output_tokens": 3}\n',
        ),
        *(
            (
                ["a", "--json", *choices],
                '{"text": "a|0|0.0|[]", "token_ids": [7, 8, 9], "finish_reason": "stop", "choice_scores": '
                '[{"logprob": -2.0, "score": 0.5}, {"logprob": -3.0, "score": 0.5}], "input_tokens": 5, '
                '"output_tokens": 3}\n',
            )
            for choices in (["--choices=no", "--choices=yes"], ["--choices=no,yes"], ["--choices=a,", "--choices=b,c"])
        ),
        (["--stream", "a", "b"], "Grüße\nGrüße\n"),
        (
            ["--stream", "--json", "a"],
            '{"text": "Grü", "token_ids": [7, 8]}\n{"text": "", "token_ids": [9]}\n'
            '{"text": "ße", "token_ids": [], "finish_reason": "length", "input_tokens": 5, "output_tokens": 3}\n',
        ),
    ],
)
def test_the_command_prints_texts(
    address: str, capsys: pytest.CaptureFixture[str], arguments: list[str], printed: str
) -> None:
    assert main(["predict", "--address", address, *arguments]) == 0
    assert capsys.readouterr().out == printed


def test_the_command_passes_options_on(address: str, servicer: Servicer) -> None:
    flags = ["--top-k=3", "--top-p=0.5", "--seed=9", "--ignore-eos", "--model=other", "--truncate"]
    assert main(["predict", "--address", address, "--stream", *flags, "a"]) == 0
    options = pb.GenerateOptions(top_k=3, top_p=0.5, seed=9, ignore_eos=True)
    assert servicer.asked == [pb.PredictRequest(model="other", text="a", truncate=True, generate=options)]


def test_the_command_begins_conversations(address: str, servicer: Servicer) -> None:
    assert main(["predict", "--address", address, "--chat", "--system", "Be brief", "--stream", "hi"]) == 0
    (asked,) = servicer.asked
    assert [(each.role, each.content) for each in asked.chat.messages] == [("system", "Be brief"), ("user", "hi")]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--stream", "--pair", "--address", "127.0.0.1:1", "a", "b"], 2, "which take no pairs"),
        (["--chat", "--pair", "--address", "127.0.0.1:1", "a", "b"], 2, "which take no pairs"),
        (["--system=Be brief", "a"], 2, "--system is a message of a conversation: add --chat"),
        (["--device", "null", "--chat", "a"], 2, "--chat: the model minilm does not generate text"),
        (["--logprobs", "a"], 2, "--logprobs has no place in bare text: add --json"),
        (["--top-logprobs=2", "a"], 2, "--top-logprobs has no place in bare text: add --json"),
        (["--max-tokens=two", "a"], 2, "invalid int value: 'two'"),
        (["--address", "127.0.0.1:1", "--seed=-1", "a"], 2, "seed: Value out of range: -1"),
        (["--address", "127.0.0.1:1", "--stream", "--max-tokens=-1", "a"], 2, "max_tokens: Value out of range: -1"),
        (["--device", "null", "--top-k", "3", "a"], 2, "--top-k: the model minilm does not generate text"),
        (["--address", "127.0.0.1:1", "--stream", "a"], 1, "no server can be reached"),
    ],
)
def test_the_command_says_what_is_wrong(
    arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["predict", *arguments]) == code
    assert message in capsys.readouterr().err


def test_the_command_tells_a_broken_stream(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", "--address", address, "--stream", "break"]) == 1
    shown = capsys.readouterr()
    assert shown.out.startswith("Grü") and "its dispatcher died" in shown.err
