"""The front door's own protobuf code against the protobuf runtime: both must accept the same bytes and see the same
values. FASTQPS_FUZZ=SECONDS runs the random tests for that long each (`make fuzz-wire`)."""

import os
import random
import struct
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from google import protobuf
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError
from wire import wire

from fastqps._core import TASKS
from fastqps.v1 import predict_pb2 as pb

pytestmark = pytest.mark.compute

# Older runtimes differ in two corners: they take lengths of ten bytes, and refuse field number 0 in unknown groups.
if int(protobuf.__version__.split(".")[0]) < 7:
    pytest.skip("wants protobuf 7 as the measure", allow_module_level=True)

FUZZ_SECONDS = float(os.environ.get("FASTQPS_FUZZ", "0"))


def seeds(count: int) -> Iterator[random.Random]:
    """`count` random generators; or, for a long run, new ones until the time is over."""
    first, end = (random.SystemRandom().getrandbits(48), time.monotonic() + FUZZ_SECONDS) if FUZZ_SECONDS else (0, 0.0)
    number = 0
    while number < count or time.monotonic() < end:
        yield random.Random(first + number)
        number += 1


# ---- what both sides are compared by


def bits(value: float) -> bytes:
    return struct.pack("<f", value)  # so that a NaN equals itself, and -0.0 is not 0.0


def values_of(message: Any) -> dict[str, Any]:
    """Its own fields by name: floats as their bits, None for what was not given
    where that can be told, and of many ids eight."""

    def value(field: FieldDescriptor) -> Any:
        found = getattr(message, field.name)
        if field.is_repeated:
            return list(found) if field.type == field.TYPE_STRING else (len(found), list(found[:8]))
        if field.has_presence and not message.HasField(field.name):
            return None
        return bits(found) if field.cpp_type == FieldDescriptor.CPPTYPE_FLOAT else found

    found = {field.name: value(field) for field in message.DESCRIPTOR.fields if not field.message_type}
    if isinstance(message, pb.GenerateOptions):
        found["logit_bias"] = {id: bits(bias) for id, bias in message.logit_bias.items()}
    return found


ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


def seen_by_runtime(message: bytes) -> dict[str, Any] | None:
    try:
        r = pb.PredictRequest.FromString(message)
    except DecodeError:
        return None
    given: Any = {"text": r.text, "pair": (r.pair.first, r.pair.second), "token_ids": list(r.token_ids.ids), None: None}
    mode = "continue" if r.chat.continue_final_message else "generate"
    given["chat"] = ([(ROLES.get(m.role, ""), m.content) for m in r.chat.messages], mode, r.chat.variables)
    found = values_of(r) | {"input": given[r.WhichOneof("input")], "keep_second": r.pair.keep_second}
    del found["text"]
    for name in ("output", "generate"):
        found[name] = values_of(getattr(r, name)) if r.HasField(name) else None
    return found


def seen_by_us(message: bytes) -> dict[str, Any] | None:
    try:
        r: dict[str, Any] = wire.parse_request(message)
    except ValueError:
        return None
    for part in ("output", "generate"):
        if r[part]:
            r[part] = {name: bits(value) if type(value) is float else value for name, value in r[part].items()}
    if r["generate"]:
        biases = r["generate"]["logit_bias"]
        r["generate"]["logit_bias"] = {id: bits(bias) for id, bias in biases.items()}
    return r


def compare(message: bytes) -> bool:
    """Asserts that both see the same. Returns whether both accepted the bytes."""
    ours, theirs = seen_by_us(message), seen_by_runtime(message)
    assert ours == theirs, message.hex()
    return ours is not None


def test_tasks_have_the_names_and_numbers_of_the_contract() -> None:
    named = {f"TASK_{task.name.upper()}": task.number for task in TASKS.values()}
    assert {"TASK_UNSPECIFIED": 0} | named == dict(pb.Task.items())
    assert list(TASKS) == [task.name for task in TASKS.values()]


# ---- random messages, written by hand so that they may be as odd as the format allows

TEXTS = [
    "",
    "a",
    "hello world",
    "x" * 127,
    "y" * 128,
    "żółć",
    "日本語",
    "🙂" * 9,
    "\0",
    "mixed ascii and é " * 12,
    "\U0010ffff",
]
BAD_TEXTS = [b"\xff", b"abc\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80", b"a" * 40 + b"\xe2\x82"]
NUMBERS = [0, 1, 2, 3, 127, 128, 300, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**32 + 1, 2**63, 2**64 - 1]
FLOATS = [0.0, -0.0, 0.5, 1.0, float("inf"), float("nan"), 3.4e38, -1.0]


def varint(value: int, extra: int = 0) -> bytes:
    """`extra`: bytes more than needed, which the format allows up to a limit."""
    out = bytearray()
    while value > 0x7F or extra:
        if value <= 0x7F:
            extra -= 1
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def odd_varint(rng: random.Random, value: int, bytes_max: int) -> bytes:
    """Sometimes longer than needed, and rarely a byte longer than the format allows."""
    if rng.random() < 0.95:
        return varint(value)
    most = bytes_max if rng.random() < 0.95 else bytes_max + 1
    return varint(value, rng.randint(0, max(0, most - len(varint(value)))))


def tag(rng: random.Random, number: int, wire_type: int) -> bytes:
    return odd_varint(rng, number << 3 | wire_type, 5)


def delimited(rng: random.Random, number: int, data: bytes) -> bytes:
    return tag(rng, number, 2) + odd_varint(rng, len(data), 5) + data


def number_field(rng: random.Random, number: int) -> bytes:
    return tag(rng, number, 0) + odd_varint(rng, rng.choice(NUMBERS), 10)


def float_field(rng: random.Random, number: int) -> bytes:
    return tag(rng, number, 5) + bits(rng.choice(FLOATS))


def string_field(rng: random.Random, number: int) -> bytes:
    return delimited(rng, number, rng.choice(BAD_TEXTS) if rng.random() < 0.01 else rng.choice(TEXTS).encode())


def numbers_field(rng: random.Random, number: int) -> bytes:
    if rng.random() < 0.4:
        return number_field(rng, number)
    run = b"".join(odd_varint(rng, rng.choice(NUMBERS), 10) for _ in range(rng.choice([0, 1, 2, 5, 40])))
    return delimited(rng, number, run)


def unknown_field(rng: random.Random, depth: int = 0) -> bytes:
    """Any field number and wire type: also known numbers with a type that is not theirs."""
    # The runtime lets number 0 pass in groups, and only there.
    number = rng.choice(
        [0 if depth and rng.random() < 0.1 else 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 1000, 2**29 - 1]
    )
    match rng.choice([0, 1, 2, 3, 5]):
        case 0:
            return number_field(rng, number)
        case 1:
            return tag(rng, number, 1) + rng.randbytes(8)
        case 2:
            return delimited(rng, number, rng.randbytes(rng.choice([0, 1, 7, 130])))
        case 5:
            return tag(rng, number, 5) + rng.randbytes(4)
        case _:
            inside = [unknown_field(rng, depth + 1) for _ in range(rng.randint(0, 3))] if depth < 4 else []
            end = number if rng.random() < 0.98 else number + 1
            return tag(rng, number, 3) + b"".join(inside) + tag(rng, end, 4)


def fields(rng: random.Random, makers: list[Any], most: int) -> bytes:
    parts = []
    for _ in range(rng.randint(0, most)):
        make, number = rng.choice(makers)
        parts.append(unknown_field(rng) if rng.random() < 0.05 else make(rng, number))
    return b"".join(parts)


def submessage(makers: list[Any]) -> Any:
    return lambda rng, number: delimited(rng, number, fields(rng, makers, 5))


TOKEN_IDS = submessage([(numbers_field, 1)])
PAIR = submessage([(string_field, 1), (string_field, 2)])
OUTPUT = submessage([(number_field, n) for n in range(1, 9)])
GENERATE_FIELDS = [(number_field, n) for n in (1, 3, 5, 7, 8, 11, 12, 26)] + [(float_field, n) for n in (2, 4, 10, 19)]
GENERATE_FIELDS += [(submessage([(number_field, 1), (float_field, 2)]), 25)] * 2
GENERATE = submessage(GENERATE_FIELDS + [(string_field, 6), (numbers_field, 9), (numbers_field, 13)] * 2)
REQUEST = [(string_field, 1), (string_field, 2), (TOKEN_IDS, 3), (number_field, 4), (number_field, 5), (GENERATE, 6)]
REQUEST += [(OUTPUT, 7), (number_field, 8), (number_field, 9), (PAIR, 10), (TOKEN_IDS, 3), (PAIR, 10)]
REQUEST += [(string_field, n) for n in (11, 12, 13)]


def random_request(rng: random.Random) -> bytes:
    return fields(rng, REQUEST, rng.choice([1, 3, 8, 20]))


def mutated(rng: random.Random, message: bytes) -> bytes:
    data = bytearray(message)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data)) if data else 0
        match rng.randrange(5):
            case 0 if data:
                data[at] ^= 1 << rng.randrange(8)
            case 1 if data:
                data[at] = rng.choice([0, 0x7F, 0x80, 0xFF, rng.randrange(256)])
            case 2:
                del data[at:]
            case 3:
                del data[at : at + rng.randint(1, 4)]
            case _:
                data[at:at] = rng.randbytes(rng.randint(1, 4))
    return bytes(data)


# ---- requests


def test_random_requests_are_seen_alike() -> None:
    accepted = total = 0
    for rng in seeds(20_000):
        total += 1
        accepted += compare(random_request(rng))
    assert 0.3 < accepted / total < 0.98, "the messages are all good or all bad: nothing is proved"


def test_mutated_requests_are_seen_alike() -> None:
    accepted = total = 0
    for rng in seeds(20_000):
        total += 1
        accepted += compare(mutated(rng, random_request(rng)))
    assert 0.1 < accepted / total < 0.9, "the messages are all good or all bad: nothing is proved"


FIELDS_OF_NUMBER_0 = ["0005", "010102030405060708", "020161", "0304", "0501020304", "0308010c", "06", "04"]


@pytest.mark.parametrize("bad", FIELDS_OF_NUMBER_0)
def test_field_number_0_is_seen_alike(bad: str) -> None:
    data = bytes.fromhex(bad)
    for message in (
        data,
        b"\x7b" + data + b"\x7c",
        b"\x7b\x7b" + data + b"\x7c\x7c",
        b"\x3a" + varint(len(data)) + data,
    ):
        compare(message)


def test_random_bytes_are_seen_alike() -> None:
    for rng in seeds(10_000):
        compare(rng.randbytes(rng.randint(0, 24)))


def test_every_truncation_of_a_full_request_is_seen_alike() -> None:
    message = pb.PredictRequest(
        model="m",
        token_ids=pb.TokenIds(ids=[1, 300, 70000]),
        request_id=2**40,
        priority=pb.PRIORITY_HIGH,
        generate=pb.GenerateOptions(
            top_p=0.5,
            seed=7,
            stop=["a", "bé"],
            stop_token_ids=[1, 2],
            repetition_penalty=1.5,
            suppress_token_ids=[3],
            logit_bias={5: -1.5, 700: 100},
        ),
        output=pb.OutputOptions(normalize=False, dimensions=300),
        timeout_us=10_000,
        truncate=True,
        tenant="acme",
        group="run 7",
        prompt_name="query",
    ).SerializeToString()
    accepted = [size for size in range(len(message) + 1) if compare(message[:size])]
    assert len(message) in accepted and 0 in accepted and len(accepted) < len(message) / 2


@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("depth", [1, 98, 99, 100, 101, 5000])
def test_nesting_ends_at_the_same_depth(depth: int, inside: bool) -> None:
    groups = b"\x7b" * depth + b"\x7c" * depth
    compare(b"\x3a" + varint(len(groups)) + groups if inside else groups)


# ---- batches


def test_batches_are_split_alike() -> None:
    def batch(rng: random.Random) -> bytes:
        parts = [
            unknown_field(rng) if rng.random() < 0.1 else delimited(rng, 1, random_request(rng))
            for _ in range(rng.randint(0, 6))
        ]
        data = b"".join(parts)
        return mutated(rng, data) if rng.random() < 0.3 else data

    accepted = 0
    for rng in seeds(5_000):
        message = batch(rng)
        try:
            items = wire.split_batch(message, 64)
        except ValueError:
            items = None
        try:
            theirs = pb.PredictBatchRequest.FromString(message)
        except DecodeError:
            # The runtime gives up the batch for one bad item; here the others are served.
            assert items is None or any(seen_by_us(item) is None for item in items), message.hex()
            continue
        assert items is not None, message.hex()
        assert [seen_by_us(item) for item in items] == [seen_by_runtime(i.SerializeToString()) for i in theirs.items]
        accepted += 1
    assert accepted > 1000


def test_a_batch_above_the_limit_is_refused() -> None:
    message = pb.PredictBatchRequest(items=[pb.PredictRequest(text="a")] * 5).SerializeToString()
    assert len(wire.split_batch(message, 5)) == 5
    with pytest.raises(ValueError, match=r"^items: 5 items, at most 4$"):
        wire.split_batch(message, 4)


# ---- responses

COUNTS = [0, 1, 127, 128, 16_383, 16_384, 2**31, 2**32 - 1]


def random_floats(rng: random.Random) -> list[float]:
    count = rng.choice([0, 1, 3, 31, 32, 384])
    return np.random.default_rng(rng.getrandbits(32)).standard_normal(count, dtype=np.float32).tolist()


def random_generation(rng: random.Random) -> tuple[Any, ...]:
    ids = [rng.choice(COUNTS) for _ in range(rng.choice([0, 1, 60]))]
    top = [rng.choice(COUNTS) for _ in range(rng.choice([0, 0, 1, 60]))]
    likeliest = (top, random_floats(rng) if top else [])
    prompt = [rng.choice(COUNTS) for _ in range(rng.choice([0, 0, 1, 60]))]
    return rng.choice(TEXTS), ids, rng.choice([0, 1, 2, -1]), random_floats(rng), *likeliest, prompt, random_floats(rng)


def generation_fields(made: tuple[Any, ...]) -> dict[str, Any]:
    """Those of a Generation and of a GenerateChunk."""
    text, ids, reason, logprobs, top_ids, top_logprobs, prompt_ids, prompt_logprobs = made
    fields = {"text": text, "token_ids": ids, "finish_reason": reason, "logprobs": logprobs}
    top = {"top_logprobs": pb.TopLogprobs(token_ids=top_ids, logprobs=top_logprobs)} if top_ids else {}
    if not prompt_ids:
        return fields | top
    return fields | top | {"prompt_logprobs": pb.PromptLogprobs(token_ids=prompt_ids, logprobs=prompt_logprobs, **top)}


def random_response(rng: random.Random) -> dict[str, Any]:
    out: dict[str, Any] = {"request_id": rng.choice(NUMBERS)}
    match rng.randrange(7):
        case 0:
            raw = rng.randbytes(rng.choice([0, 1, 384]))
            out["embedding"] = (random_floats(rng), raw, rng.choice([0, 1, 2, 3, -5]), 0)
        case 1:
            labels = [(rng.choice(TEXTS), rng.choice(FLOATS), rng.choice(COUNTS)) for _ in range(rng.choice([0, 1, 9]))]
            out["classification"] = labels
        case 2:
            out["generation"] = random_generation(rng)
            out["other_choices"] = [random_generation(rng) for _ in range(rng.choice([0, 0, 1, 3]))]
        case 3:
            size = rng.choice([0, 1, 9])
            out["entities"] = [
                (rng.choice(TEXTS), rng.choice(FLOATS), rng.choice(COUNTS), rng.choice(COUNTS)) for _ in range(size)
            ]
        case 4:
            ids = [rng.choice(COUNTS) for _ in range(rng.choice([0, 1, 60]))]
            out["sparse"] = (ids, random_floats(rng), rng.choice(COUNTS))
        case 5:
            raw = rng.randbytes(rng.choice([0, 1, 384]))
            out["multi"] = (random_floats(rng), raw, rng.choice([0, 1, 2, 3]), rng.choice(COUNTS))
    if rng.random() < 0.4:
        out["timings"] = [rng.choice(COUNTS) for _ in TIMINGS]
    if rng.random() < 0.4:
        out["status"] = (rng.choice([0, 3, 8, 16, -1]), rng.choice(TEXTS), rng.choice(COUNTS))
    if rng.random() < 0.4:
        out["usage"] = (rng.choice(COUNTS), rng.choice(COUNTS), rng.random() < 0.5, rng.choice(COUNTS))
    return out


TIMINGS = [field.name for field in pb.Timings.DESCRIPTOR.fields]


def fill_common(message: Any, parts: dict[str, Any]) -> Any:
    if "timings" in parts:
        message.timings.CopyFrom(pb.Timings(**dict(zip(TIMINGS, parts["timings"], strict=True))))
    if "status" in parts:
        code, text, retry = parts["status"]
        message.status.CopyFrom(pb.Status(code=code, message=text, retry_after_ms=retry))
    if "usage" in parts:
        given, made, truncated, at = parts["usage"]
        message.usage.CopyFrom(pb.Usage(input_tokens=given, output_tokens=made, truncated=truncated, truncated_at=at))
    return message


def by_runtime(parts: dict[str, Any]) -> pb.PredictResponse:
    message = pb.PredictResponse(request_id=parts["request_id"])
    if "embedding" in parts:
        values, raw, dtype, _ = parts["embedding"]
        message.embedding.CopyFrom(pb.Embedding(values=values, raw=raw, dtype=dtype))
    if "classification" in parts:
        labels = [pb.Label(name=name, score=score, index=index) for name, score, index in parts["classification"]]
        message.classification.CopyFrom(pb.Classification(labels=labels))
    if "generation" in parts:
        message.generation.CopyFrom(pb.Generation(**generation_fields(parts["generation"])))
        for each in parts.get("other_choices", ()):
            message.generation.other_choices.add(**generation_fields(each))
    if "multi" in parts:
        values, raw, dtype, dimensions = parts["multi"]
        message.multi.CopyFrom(pb.MultiVector(values=values, raw=raw, dtype=dtype, dimensions=dimensions))
    if "entities" in parts:
        found = [pb.Entity(label=label, score=score, start=a, end=b) for label, score, a, b in parts["entities"]]
        message.entities.CopyFrom(pb.Entities(entities=found))
    if "sparse" in parts:
        ids, weights, active = parts["sparse"]
        message.sparse.CopyFrom(pb.SparseEmbedding(ids=ids, weights=weights, active=active))
    return fill_common(message, parts)


def test_responses_are_the_bytes_that_the_runtime_writes() -> None:
    for rng in seeds(10_000):
        parts = random_response(rng)
        assert wire.encode_response(parts) == by_runtime(parts).SerializeToString(), parts


def test_batches_of_responses_are_the_bytes_that_the_runtime_writes() -> None:
    for rng in seeds(2_000):
        items = [random_response(rng) for _ in range(rng.randint(0, 5))]
        theirs = pb.PredictBatchResponse(items=[by_runtime(item) for item in items])
        assert wire.encode_batch(items) == theirs.SerializeToString(), items


def test_chunks_are_the_bytes_that_the_runtime_writes() -> None:
    for rng in seeds(5_000):
        parts = random_response(rng)
        for other in ("status", "sparse"):
            parts.pop(other, None)
        parts["generation"] = random_generation(rng)
        parts["choice"] = rng.choice([0, 1, 127])
        fields = {**generation_fields(parts["generation"]), "choice": parts["choice"]}
        theirs = pb.GenerateChunk(request_id=parts["request_id"], **fields)
        assert wire.encode_chunk(parts) == fill_common(theirs, parts).SerializeToString(), parts
