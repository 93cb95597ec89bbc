"""What a server with generators plans: room for sequences, prefixes, and the sizes of the segment."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

from fastqps._core import TASKS
from fastqps.config import Config, decide
from fastqps.devices import Device
from fastqps.errors import ConfigError
from fastqps.frontdoor import rare_calls
from fastqps.frontdoor.served import ServedModel
from fastqps.host import machine
from fastqps.models import ModelCard
from fastqps.ops.decode_step import DecodeState
from fastqps.supervisor import room
from fastqps.supervisor.model_options import check_used, labels_of, one_for_each, prefix_of, read_prefixes
from fastqps.supervisor.plan import answer_bytes, make_plan, memory_of
from fastqps.supervisor.room import Memory, Room, format_size
from fastqps.v1 import predict_pb2 as pb

pytestmark = pytest.mark.compute

GENERATOR = ModelCard(
    name="tiny",
    path="/tiny",
    version="0123456789ab",
    task="generate",
    family="llama",
    dimensions=0,
    max_input_tokens=512,
    vocab_size=100,
    tokenizer="",
    max_output_tokens=128,
    eos_ids=(2,),
    prefix_ids=(1, 5, 6),
    kv_values=2 * 3 * 2 * 8,  # 3 layers, 2 heads of 8
)
ENCODER = dataclasses.replace(
    GENERATOR, name="embedder", task="embed", family="bert", dimensions=32, max_output_tokens=0, prefix_ids=()
)
GIB = 1 << 30


@pytest.fixture(autouse=True)
def _memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory_bytes", lambda: 8 * GIB)


def config(**settings: Any) -> Config:
    return decide(
        Config(**{"dtype": "float32", "model": ("m",), "frontdoors": 1, "dispatchers": 1, "device": "cpu", **settings})
    )


def room_of(card: ModelCard, config: Config, sharers: int) -> Room:
    return room.room_of(card, config, Memory.of(sharers))


def kv_bytes(running: int, prefix: int = 3) -> int:
    return ((running + 1) * 640 + prefix) * GENERATOR.kv_values * 4


def test_an_encoder_has_room_as_the_settings_say() -> None:
    assert room_of(ENCODER, config(max_batch_items=7, max_batch_tokens=600), 0) == Room(7, 600)
    assert room_of(ENCODER, config(max_batch_tokens=600), 0) == Room(64, 600, choose=True)
    assert not room_of(ENCODER, config(device="null"), 0).choose


@pytest.mark.parametrize(
    ("settings", "sharers", "running", "tokens"),
    [
        ({}, 1, 1024, 4096),
        ({"max_running": 3}, 1, 3, 4096),
        ({"max_running": 5000}, 1, 5000, 5512),
        ({"max_batch_tokens": 600}, 1, 88, 600),  # 600 less the longest prompt
        ({"max_batch_tokens": 513, "max_running": 1}, 1, 1, 513),
        ({"slots": 16, "frontdoors": 2}, 1, 32, 4096),  # more requests cannot be there
        ({"max_batch_items": 2}, 1, 1024, 4096),  # that is an encoder's
        ({"device": "null"}, 1, 1024, 16384),
    ],
)
def test_room_for_sequences(settings: dict[str, Any], sharers: int, running: int, tokens: int) -> None:
    expected = 0 if settings.get("device") == "null" else kv_bytes(running)
    choose = "max_running" not in settings and "device" not in settings
    assert room_of(GENERATOR, config(**settings), sharers) == Room(running, tokens, running, expected, choose)


# positions of a sequence, GiB of the GPU; the sequences of one lane
ON_GPUS = [
    (100, 80, 4096),
    (640, 80, 2843),  # half of the memory: 40 GiB are 2,844 places, one of them for padding
    (640, 24, 852),
]


@pytest.mark.parametrize(("positions", "gib", "running"), ON_GPUS)
def test_a_gpu_has_room_for_up_to_4096_sequences_on_one_lane(positions: int, gib: int, running: int) -> None:
    """As long as its half holds them. Encoders have two lanes."""
    gpu = dataclasses.replace(config(), device="cuda:0", lanes=None, max_batch_tokens=16384, dtype="bfloat16")
    card = dataclasses.replace(
        GENERATOR,
        max_input_tokens=positions // 2,
        max_output_tokens=positions // 2,
        prefix_ids=(),
        kv_values=23_592 // 2,
    )
    found = room.room_of(card, gpu, Memory(gib * GIB, 1, room.GPU_MEMORY_SHARE, "the GPU's"))
    kv = (running + 1) * positions * card.kv_values * 2
    assert found == Room(running, 16384, running, kv, True, lanes=1)
    assert kv <= gib * GIB / 2
    assert room.room_of(ENCODER, gpu, Memory(gib * GIB, 1, 2, "the GPU's")) == Room(1024, 16384, choose=True, lanes=2)
    both = dataclasses.replace(gpu, lanes=2)
    assert room.room_of(card, both, Memory(gib * GIB, 2, room.GPU_MEMORY_SHARE, "the GPU's")).lanes == 2


@pytest.mark.parametrize(("device", "lanes", "sharers"), [("cuda:0", None, 2), ("cuda:0", 2, 4), ("cpu", 1, 2)])
def test_the_lanes_of_generators_share_the_memory(device: str, lanes: int | None, sharers: int) -> None:
    """Two generators, and an encoder, which has no cache."""
    asked = dataclasses.replace(config(), device=device, lanes=lanes)
    assert memory_of(asked, (GENERATOR, ENCODER, GENERATOR), (Device("cpu", "cpu"),)).sharers == sharers


@pytest.mark.parametrize("device", ["sim:h200-qwen2.5-0.5b", "cpu"])
def test_a_step_has_room_for_the_most_sequences_and_the_longest_prompt(device: str) -> None:
    most = 4096 if device != "cpu" else 1024
    for longest in (512, 8192):
        found = config(device=device, max_input_tokens=longest, slots=8192)
        assert found.max_batch_tokens == max(16384 if device != "cpu" else 4096, longest + most)
        card = dataclasses.replace(GENERATOR, max_input_tokens=longest)
        assert room.room_of(card, found, Memory(1 << 50, 1, 4, "")).running == most


@pytest.mark.parametrize(
    ("settings", "kv_values", "longest"),
    [
        ({}, 1 << 10, 1024),
        ({}, 1 << 13, 256),  # 64 sequences with 512 would take 2.03 GiB, and a quarter is 2
        ({}, 1 << 20, 128),
        ({"max_running": 300}, 1 << 10, 1024),
        ({"max_running": 600}, 1 << 10, 256),
        ({"max_running": 32}, 1 << 13, 1024),
        ({"device": "null"}, 1 << 20, 1024),
        ({"max_output_tokens": 1024}, 1 << 20, 1024),
    ],
)
def test_answers_are_as_long_as_memory_allows(settings: dict[str, Any], kv_values: int, longest: int) -> None:
    card = dataclasses.replace(GENERATOR, max_output_tokens=1024, kv_values=kv_values)
    assert room.fit_answers(card, config(**settings), Memory.of(1)).max_output_tokens == longest
    assert room.fit_answers(ENCODER, config(**settings), Memory.of(0)) is ENCODER


def test_kv_caches_take_at_most_a_quarter_of_the_memory() -> None:
    card = dataclasses.replace(GENERATOR, kv_values=1 << 13)
    for sharers in (1, 2, 5):
        found = room_of(card, config(), sharers)
        one_more = found.kv_bytes + 640 * card.kv_values * 4
        assert found.kv_bytes * sharers <= 2 * GIB < one_more * sharers
    assert room_of(dataclasses.replace(card, kv_values=1 << 20), config(), 1).running == 1  # a model has to run at all


@pytest.mark.parametrize(
    ("dtype", "flags", "value_bytes"),
    [("bfloat16", "", 2), ("auto", "fpu avx512_bf16", 2), ("auto", "fpu avx512f", 4), ("float32", "amx_bf16", 4)],
)
def test_the_number_format_counts(monkeypatch: pytest.MonkeyPatch, dtype: str, flags: str, value_bytes: int) -> None:
    monkeypatch.setattr(machine, "cpu_flags", lambda: frozenset(flags.split()))
    assert room_of(GENERATOR, config(max_running=6, dtype=dtype), 1).kv_bytes == kv_bytes(6) // 4 * value_bytes


@pytest.mark.parametrize("prefix", [0, 3, 2000])
def test_a_prefix_counts_once(prefix: int) -> None:
    card = dataclasses.replace(GENERATOR, prefix_ids=(1,) * prefix)
    for running in (1, 7):
        planned = room_of(card, config(max_running=running), 1).kv_bytes
        state = DecodeState.allocate(
            card, running, layers=3, kv_heads=2, head_dim=8, dtype=torch.float32, device=torch.device("cpu")
        )
        assert planned == state.cache.nbytes + state.prefix.nbytes == kv_bytes(running, prefix)


def test_a_prefix_leaves_less_for_sequences() -> None:
    few, many = (dataclasses.replace(GENERATOR, kv_values=1 << 15, prefix_ids=(1,) * n) for n in (0, 4 * 640))
    assert room_of(few, config(), 1).running - 4 == room_of(many, config(), 1).running > 1
    assert room_of(dataclasses.replace(few, prefix_ids=(1,) * 50_000), config(), 1).running == 1


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"max_batch_tokens": 600, "max_running": 89},
            "--max-batch-tokens 600: a step of tiny holds a token of each of 89 running sequences and the longest "
            "prompt, of 512; that is at least 601",
        ),
        ({"max_batch_tokens": 512}, "that is at least 513"),
        (
            {"max_running": 60000},
            "--max-running 60000: the KV caches of 2 dispatchers would take 27.5 GiB of this machine's 8.0 GiB",
        ),
    ],
)
def test_impossible_room(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        room_of(GENERATOR, config(**settings), 2)
    assert message in str(caught.value) and caught.value.exit_code == 2


@pytest.mark.parametrize(("n", "text"), [(0, "0B"), (512, "512B"), (3 << 19, "1.5 MiB"), (5 << 29, "2.5 GiB")])
def test_sizes_for_people(n: int, text: str) -> None:
    assert format_size(n) == text


def test_slots_hold_the_longest_answer_of_each_task() -> None:
    own, tokens = ENCODER.dimensions, ENCODER.max_input_tokens
    assert {task: answer_bytes(dataclasses.replace(ENCODER, task=task, max_output_tokens=128)) for task in TASKS} == {
        "embed": 4 * own,
        "embed_sparse": 4 * own,
        "embed_multi": 4 * own * tokens,
        "classify": 8 * own,
        "classify_tokens": 8 * tokens,
        "generate": 8 * 128,
    }


def test_a_card_survives_the_segment() -> None:
    assert ModelCard.from_json(GENERATOR.to_json()) == GENERATOR


def test_the_list_of_models_tells_a_generator() -> None:
    served = [ServedModel(0, GENERATOR, True, True), ServedModel(1, ENCODER, False, True, repeatable=True)]
    found = pb.ListModelsResponse.FromString(rare_calls.list_models(served)).models
    assert [(m.task, m.output_tokens_max, m.dimensions, m.repeatable) for m in found] == [
        (pb.TASK_GENERATE, 128, 0, False),
        (pb.TASK_EMBED, 0, 32, True),
    ]


# ---- prefixes


def test_prefixes(tmp_path: Path) -> None:
    (tmp_path / "all").write_bytes("Bądź zwięzły.\r\n".encode())
    (tmp_path / "own").write_text("Correct:")
    found = read_prefixes([str(tmp_path / "all"), f"b={tmp_path / 'own'}"], ["a", "b"])
    assert prefix_of("a", found) == "Bądź zwięzły.\r\n" and prefix_of("b", found) == "Correct:"
    assert prefix_of("a", {}) == "" and prefix_of("b", read_prefixes([f"a={tmp_path / 'own'}"], ["a", "b"])) == ""


@pytest.mark.parametrize(
    ("named", "message"),
    [
        (["none"], "none: cannot read it: No such file or directory"),
        (["."], ".: cannot read it: it is no regular file"),
        (["empty"], "empty: the file is empty"),
        (["bytes"], "bytes: not UTF-8 at byte 2"),
        (["huge"], "huge: cannot read it: it is longer than 1 MiB"),
        (["c=good"], "no model named 'c' is served; there are: a, b"),
        (["good", "good"], "two files for all models"),
        (["a=good", "a=good"], "two files for a"),
    ],
)
def test_bad_prefixes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: list[str], message: str) -> None:
    monkeypatch.chdir(tmp_path)
    for name, data in {"good": b"x", "empty": b"", "bytes": b"ab\xff", "huge": b"x" * ((1 << 20) + 1)}.items():
        Path(name).write_bytes(data)
    with pytest.raises(ConfigError) as caught:
        read_prefixes(named, ["a", "b"])
    assert message in str(caught.value) and str(caught.value).startswith("--prefix")


@pytest.mark.parametrize(
    ("named", "models", "labels"),
    [
        (["yes,no"], ["a"], {"a": ("yes", "no")}),
        (["yes", "no"], ["a"], {"a": ("yes", "no")}),  # the environment separates by commas
        (["b=yes", "no", "a=1"], ["a", "b"], {"b": ("yes", "no"), "a": ("1",)}),
        (["b=yes,no", "a=1, 2"], ["a", "b"], {"b": ("yes", "no"), "a": ("1", "2")}),
        ([], ["a", "b"], {}),
        (["yes"], ["a", "b"], "--labels 'yes': write NAME=LABEL,... with the name of a model: a, b"),
        (["c=yes"], ["a"], "--labels 'c=yes': write NAME=LABEL,... with the name of a model: a"),
    ],
)
def test_labels_by_model(named: list[str], models: list[str], labels: dict[str, tuple[str, ...]] | str) -> None:
    if not isinstance(labels, str):
        assert labels_of(named, models) == labels
        return
    with pytest.raises(ConfigError) as caught:
        labels_of(named, models)
    assert str(caught.value) == labels


def test_a_template_is_one_for_each_model() -> None:
    assert one_for_each("template", ["a=x", "b=y"], ["a", "b"]) == {"a": "x", "b": "y"}
    for named, message in (
        (["x"], "--template x: 2 models are served; say for which: NAME=x"),
        (["c=x"], "--template 'c=x': write NAME=FILE with the name of a model: a, b"),
        (["a=x", "a=y"], "--template: two templates for a; a model has one"),
    ):
        with pytest.raises(ConfigError) as caught:
            one_for_each("template", named, ["a", "b"])
        assert message in str(caught.value)


def test_a_prefix_that_nothing_uses_is_refused() -> None:
    check_used({"": "x", "tiny": "y"}, [GENERATOR, ENCODER])
    check_used({}, [ENCODER])
    with pytest.raises(ConfigError, match="none of the served models generates text"):
        check_used({"": "x"}, [ENCODER])
    with pytest.raises(ConfigError, match="embedder does not generate text"):
        check_used({"embedder": "x"}, [GENERATOR, ENCODER])


def test_dispatchers_for_each_model_and_device() -> None:
    devices = "sim:h200-minilm-l6,sim:h200-minilm-l6"
    plan = make_plan(
        config(model=("minilm", "b=minilm"), device=devices, dispatchers=2, pin="off", class_weights=(8, 2, 1))
    )
    assert plan.dispatchers == 8
    assert [(plan.model_of(d), plan.device_of(d)) for d in range(8)] == [
        (0, 0), (0, 0), (0, 1), (0, 1), (1, 0), (1, 0), (1, 1), (1, 1),
    ]  # fmt: skip
    assert [device.label for device in plan.devices] == ["sim:h200-minilm-l6", "sim:h200-minilm-l6#1"]
    assert plan.sizes().devices == 2
    assert plan.sizes().class_weights == (8, 2, 1)
    with pytest.raises(ConfigError, match="33 for each of 1 models and 2 devices is more than 64"):
        config(model=("minilm",), device=devices, dispatchers=33)


def test_a_profile_of_another_task_is_refused_before_anything_starts() -> None:
    with pytest.raises(ConfigError, match=r"models steps of the task generate .*; the task of minilm is embed"):
        make_plan(config(model=("minilm",), device="sim:h200-minilm-l6,sim:h200-qwen2.5-0.5b"))


@pytest.mark.parametrize(("pin", "threads"), [("off", 4), ("auto", 1)])
def test_a_pinned_dispatcher_computes_with_one_thread(pin: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has one CPU: more threads would wait there for each other."""
    monkeypatch.setattr(machine, "allowed_cpus", lambda: tuple(range(8)))
    monkeypatch.setattr(machine, "usable_cores", lambda cpus: cpus)
    plan = make_plan(config(model=("minilm",), device="sim:h200-minilm-l6", dispatchers=2, frontdoors=2, pin=pin))
    assert plan.threads == threads
    assert {len(cpus) for cpus in plan.dispatcher_cpus} == {int(pin == "auto")}
