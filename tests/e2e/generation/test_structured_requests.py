"""Texts with a structure at a server: valid, the Engine's tokens, beside others, and after a dispatcher has died."""

from __future__ import annotations

import itertools
import json
import re
import string
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import jsonschema
import pytest
from generators import write_generator
from hostile_structures import HOSTILE, TOO_MUCH
from posting import Poster
from serving import Server

import fastqps
from fastqps import errors
from fastqps.v1 import predict_pb2 as pb
from fastqps.v1 import predict_pb2_grpc

SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 6}, "old": {"type": "boolean"}},
    "required": ["name", "old"],
    "additionalProperties": False,
}
FLAGS = ("--device=cpu", "--dtype=float32", "--max-output-tokens=96", "--max-running=8", "--dispatchers=2")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_generator(tmp_path_factory.mktemp("structured") / "tiny")
    (folder / "chat_template.jinja").write_text("{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")
    return folder


@pytest.fixture(scope="module")
def server(module_server: Callable[..., Server], checkpoint: Path) -> Server:
    return module_server(*FLAGS, f"--model={checkpoint}")


def test_a_hundred_structures_in_flight_beside_none(client: fastqps.Client, checkpoint: Path) -> None:
    """Each text is its own structure's, and has the tokens that it has in process."""
    asked: list[dict[str, Any]] = [{"regex": f"{i}(a|b){{2,8}}"} for i in range(100)]
    asked += [{} for _ in range(50)] + [
        {"json_schema": SCHEMA},
        {"grammar": 'start: "x" /[0-9]+/'},
        {"json_object": True},
    ]
    engine = fastqps.Engine(str(checkpoint), dtype="float32", max_output_tokens=96)
    prompts = [f"The cat {i % 7}" for i in range(len(asked))]
    want = [engine.generate([p], max_tokens=24, **o)[0].token_ids for p, o in zip(prompts, asked, strict=True)]

    def generate(prompt: str, options: dict[str, Any]) -> list[int]:
        return client.generate(prompt, max_tokens=24, **options).token_ids

    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(generate, prompts, asked)) == want


def test_requests_of_one_structure_that_come_at_any_time(client: fastqps.Client) -> None:
    """It is known at once: one joins a step while another is claimed."""

    def generate(seed: int) -> str:
        return client.generate("The cat", regex="[ab]{3,20}c", temperature=1.0, seed=seed, max_tokens=40).text

    generate(0)
    with ThreadPoolExecutor(24) as pool:
        for text in pool.map(generate, range(400)):
            assert re.fullmatch("[ab]{3,20}c", text), text


def test_choices_with_a_structure(client: fastqps.Client) -> None:
    """Their prompt is computed once; each is the text of a request by itself."""
    asked: dict[str, Any] = {"json_schema": SCHEMA, "temperature": 1.0, "max_tokens": 40}
    prompt = "The cat sat on the mat, and the other cat sat on the other mat. " * 2

    def generate(seed: int, n: int) -> list[list[int]]:
        first = client.generate(prompt, seed=seed, n=n, **asked)
        return [each.token_ids for each in (first, *first.other_choices)]

    alone = [generate(seed, 1)[0] for seed in range(16)]
    with ThreadPoolExecutor(8) as pool:
        for seed, found in enumerate(pool.map(generate, range(8), [8] * 8)):
            assert found == alone[seed : seed + 8]


def test_a_bad_structure_is_the_requests_fault(client: fastqps.Client) -> None:
    for options, place in (
        ({"json_schema": {"type": "strin"}}, "strin"),
        ({"json_schema": "{"}, "no JSON: .*column 2"),
        ({"regex": "(a"}, "regex"),
        ({"grammar": "start: a"}, "generate.structure"),
        ({"grammar": 'root ::= "a"'}, "must have Lark's form, and looks like GBNF: .*::="),
        ({"regex": "a" * 70_000}, "at most 65536"),
    ):
        with pytest.raises(errors.InvalidArgument, match=place):
            client.generate("a", **options)  # type: ignore[arg-type]
    assert client.generate("a", regex="[ab]").text in ("a", "b")


def test_hostile_structures_harm_nobody(serve: Callable[..., Server], checkpoint: Path) -> None:
    """Each is refused. Meanwhile others are answered, also those with a structure that is known, by the same processes,
    which do not grow."""
    server = serve(*FLAGS[:-1], "--dispatchers=1", f"--model={checkpoint}")
    with fastqps.Client(server.address) as client, ThreadPoolExecutor(len(TOO_MUCH)) as pool:

        def refused(name: str) -> str:
            kind, text = HOSTILE[name]
            with pytest.raises(errors.InvalidArgument, match=r"generate\.structure: ") as error:
                client.generate("a", max_tokens=4, **{kind: text})  # type: ignore[arg-type]
            return str(error.value)

        assert client.generate("a", regex="[ab]").text in ("a", "b")
        dispatcher = server.child("dispatcher 0")
        resident = dispatcher.memory_info().rss
        asked = [pool.submit(refused, name) for name in TOO_MUCH]
        others = 0
        while not all(each.done() for each in asked):
            assert client.generate("a", regex="[ab]").text in ("a", "b")
            assert client.generate("a", max_tokens=4).token_ids
            others += 1
        assert all(each.result() for each in asked)
        assert others > len(TOO_MUCH), "they waited"
        assert server.child("dispatcher 0") == dispatcher
        assert dispatcher.memory_info().rss - resident < 64 << 20


def test_others_are_answered_while_more_structures_compile_than_can_run(
    serve: Callable[..., Server], checkpoint: Path
) -> None:
    """For longer than a dispatcher may leave its canaries unanswered, and each structure is a new one."""
    limits = ("--max-running=4", "--dispatchers=1", "--canary-interval=100ms")
    server = serve("--device=cpu", "--dtype=float32", "--max-output-tokens=96", *limits, f"--model={checkpoint}")
    divisors, over = itertools.count(1_000_003), threading.Event()
    refusals: list[str] = []

    def attack() -> None:
        with fastqps.Client(server.address, timeout_s=60) as attacker:
            while not over.is_set():
                with pytest.raises(errors.InvalidArgument) as error:
                    attacker.generate("a", json_schema={"type": "integer", "multipleOf": next(divisors)})
                refusals.append(str(error.value))

    with fastqps.Client(server.address) as client, ThreadPoolExecutor(20) as pool:
        assert client.generate("a", regex="[ab]").text in ("a", "b")
        dispatcher = server.child("dispatcher 0")
        attacks = [pool.submit(attack) for _ in range(20)]
        try:
            slowest_s, until_s = 0.0, time.monotonic() + 6
            while time.monotonic() < until_s:
                asked_s = time.monotonic()
                assert len(client.generate("The cat", max_tokens=4, ignore_eos=True).token_ids) == 4
                slowest_s = max(slowest_s, time.monotonic() - asked_s)
                if until_s - time.monotonic() < 4:
                    time.sleep(0.5)  # canaries come to dispatchers that finish no step
        finally:
            over.set()
        for each in attacks:
            each.result()
        assert slowest_s < 2
        assert len(refusals) > 20
        assert server.child("dispatcher 0") == dispatcher


def test_a_structure_that_has_used_up_its_states_works_again(serve: Callable[..., Server], checkpoint: Path) -> None:
    """The text that would need more ends with an error; it is never called complete."""
    server = serve("--device=cpu", "--dtype=float32", "--max-output-tokens=1500", f"--model={checkpoint}")
    letters = string.ascii_letters + string.digits
    asked = {"regex": "(" + "|".join(f".*{letter}.{{200}}" for letter in letters) + ")!", "temperature": 1.0}
    with fastqps.Client(server.address) as client:
        for seed in range(2):
            with pytest.raises(errors.ResourceExhausted, match="too many states: 20000"):
                client.generate("The cat", max_tokens=1500, seed=seed, **asked)  # type: ignore[arg-type]
            with pytest.raises(errors.ResourceExhausted, match="too many states: 20000"):
                list(client.generate_stream("The cat", max_tokens=1500, seed=seed, **asked))  # type: ignore[arg-type]
            made = client.generate("The cat", max_tokens=30, seed=seed, **asked)  # type: ignore[arg-type]
            assert (made.finish_reason, len(made.token_ids)) == ("length", 30)


COMPLETIONS: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"response_format": {"type": "json_schema", "json_schema": {"name": "person", "schema": SCHEMA}}}, SCHEMA),
    ({"response_format": {"type": "json_object"}}, {"type": "object"}),
    ({"guided_json": SCHEMA}, SCHEMA),
    ({"guided_json": json.dumps(SCHEMA)}, SCHEMA),
    ({"guided_regex": "[1-9]{3}"}, {"type": "integer", "minimum": 111, "maximum": 999}),
    ({"guided_grammar": 'start: "[" /[0-9]/ "]"'}, {"type": "array", "maxItems": 1}),
    ({"guided_choice": ['"a.b|c"', '"é\\\\(]"']}, {"enum": ["a.b|c", "é\\(]"]}),
    ({"structured_outputs": {"choice": ["12", "-7"]}}, {"enum": [12, -7]}),
    ({"structured_outputs": {"json": SCHEMA}}, SCHEMA),
    ({"structured_outputs": {"regex": '"a{2,4}"'}}, {"type": "string", "maxLength": 4}),
    ({"structured_outputs": {"json_object": True}}, {"type": "object"}),
]


@pytest.mark.parametrize("chat", [False, True])
@pytest.mark.parametrize(("asked", "schema"), COMPLETIONS)
def test_completions_take_them_as_openai_and_vllm_do(
    post: Poster, asked: dict[str, Any], schema: dict[str, Any], chat: bool
) -> None:
    path = "/v1/chat/completions" if chat else "/v1/completions"
    prompt = {"messages": [{"role": "user", "content": "The cat"}]} if chat else {"prompt": "The cat"}
    for seed in range(9):  # a random model may write spaces up to its limit
        status, answer = post(path, {**prompt, "max_tokens": 96, "seed": seed, **asked})
        assert status == 200, answer
        choice = answer["choices"][0]
        if choice["finish_reason"] == "stop":
            text = choice["message"]["content"] if chat else choice["text"]
            return jsonschema.validate(json.loads(text), schema)
    raise AssertionError("no text has ended")


@pytest.mark.parametrize(
    ("asked", "match"),
    [
        ({"guided_regex": "[1-9]{3}"}, "[1-9]{3}"),
        ({"guided_grammar": 'start: "x" /[0-9]/'}, "x[0-9]"),
        ({"guided_json": json.dumps({"const": [1]})}, r"\s*\[\s*1\s*\]\s*"),
    ],
)
def test_open_inference_takes_them_as_parameters(post: Poster, asked: dict[str, str], match: str) -> None:
    text = {"name": "text", "shape": [1], "datatype": "BYTES", "data": ["The cat"]}
    for seed in range(9):
        parameters = {"max_tokens": 90, "seed": seed, "temperature": 1.0, **asked}
        status, answer = post("/v2/models/tiny/infer", {"inputs": [text], "parameters": parameters})
        assert status == 200, answer
        outputs = {each["name"]: each["data"][0] for each in answer["outputs"]}
        if re.fullmatch(match, outputs["text"]):
            break
    else:
        raise AssertionError(outputs)
    status, answer = post("/v2/models/tiny/infer", {"inputs": [text], "parameters": {"guided_regex": "(a"}})
    assert status == 400 and answer["error"].startswith("guided_regex: "), answer


@pytest.mark.parametrize(
    ("asked", "place"),
    [
        ({"response_format": {"type": "yaml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "response_format.json_schema.schema"),
        ({"guided_regex": 5}, "guided_regex"),
        ({"guided_regex": "a", "guided_json": {}}, "another structure"),
        ({"structured_outputs": {"yaml": "a"}}, "structured_outputs"),
        ({"guided_choice": []}, "guided_choice"),
        ({"guided_choice": ["a", ""]}, "guided_choice"),
        ({"guided_json": {"type": "strin"}}, "strin"),
    ],
)
def test_wrong_ones_are_refused_by_name(post: Poster, asked: dict[str, Any], place: str) -> None:
    status, answer = post("/v1/completions", {"prompt": "a", **asked})
    assert status == 400 and place in answer["error"]["message"], answer
    assert "generate." not in answer["error"]["message"], answer


BAD = {"type": "strin"}


@pytest.mark.parametrize("form", [{"prompt": "a"}, {"messages": [{"role": "user", "content": "a"}]}])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"guided_json": BAD}, "guided_json"),
        ({"guided_regex": "(a"}, "guided_regex"),
        ({"guided_grammar": "start: a"}, "guided_grammar"),
        ({"structured_outputs": {"json": BAD}}, "structured_outputs.json"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": BAD}}},
            "response_format.json_schema.schema",
        ),
        ({"guided_regex": "a" * 70_000}, "guided_regex"),  # refused in front of the dispatcher
        ({"guided_json": ""}, "guided_json"),
    ],
)
def test_a_refusal_names_the_field_that_was_given(
    post: Poster, form: dict[str, Any], stream: bool, asked: dict[str, Any], field: str
) -> None:
    path = "/v1/completions" if "prompt" in form else "/v1/chat/completions"
    status, answer = post(path, {**form, **asked, "stream": stream})
    assert status == 400 and answer["error"]["message"].startswith(f"{field}: "), answer
    assert (answer["error"]["param"], answer["error"]["type"]) == (field, "invalid_request_error")


def test_grpc_names_the_field_of_a_dispatchers_refusal(server: Server) -> None:
    request = pb.PredictRequest(text="a", generate=pb.GenerateOptions(structure=3, structure_text="(a"))
    with grpc.insecure_channel(server.address) as channel, pytest.raises(grpc.RpcError) as error:
        predict_pb2_grpc.PredictServiceStub(channel).Predict(request)
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    (details,) = (value for key, value in error.value.trailing_metadata() if key == "grpc-status-details-bin")
    assert b"google.rpc.BadRequest" in details and b"\x12generate.structure" in details


def test_a_dispatcher_that_dies_in_the_middle_changes_no_text(serve: Callable[..., Server], checkpoint: Path) -> None:
    server = serve("--device=cpu", "--dtype=float32", "--max-output-tokens=2000", f"--model={checkpoint}")
    asked: dict[str, Any] = {"max_tokens": 1900, "seed": 5, "temperature": 1.0, "regex": "[ab]{1800}"}
    with fastqps.Client(server.address) as client, ThreadPoolExecutor(1) as pool:
        want = client.generate("The cat", **asked).token_ids
        again = pool.submit(client.generate, "The cat", **asked)
        while not server.claimed(1):
            assert not again.done(), "it was too quick"
        server.child("dispatcher 0").kill()
        assert again.result().token_ids == want


def test_a_reload_changes_each_text_as_a_whole(serve: Callable[..., Server], tmp_path: Path) -> None:
    """Each text is of one version of the model, also one that runs while the route flips, and none fails."""
    versions = [str(write_generator(tmp_path / name, seed)) for seed, name in enumerate(("one", "two"))]
    asked: dict[str, Any] = {"max_tokens": 100, "seed": 5, "temperature": 1.0, "regex": "[ab]{90}"}
    engines = [fastqps.Engine(path, dtype="float32", max_output_tokens=100) for path in versions]
    old, new = (engine.generate(["The cat"], **asked)[0].token_ids for engine in engines)
    assert old != new
    server = serve("--device=cpu", "--dtype=float32", "--max-output-tokens=100", f"--model=m={versions[0]}")
    answers: list[list[int]] = []
    with fastqps.Client(server.address) as client, ThreadPoolExecutor(4) as pool:

        def ask_on(until_over: Callable[[], bool]) -> None:
            while not until_over():
                answers.append(client.generate("The cat", **asked).token_ids)

        assert client.generate("The cat", **asked).token_ids == old
        reloading = pool.submit(server.reload, **{"from": versions[1]})
        asking = [pool.submit(ask_on, reloading.done) for _ in range(3)]
        status, answer = reloading.result()
        assert (status, answer["outcome"]) == (200, "reloaded"), answer
        for each in asking:
            each.result()
        assert client.generate("The cat", **asked).token_ids == new
    assert old in answers and all(each in (old, new) for each in answers)
