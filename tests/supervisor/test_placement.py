"""How the processes of a server share the CPUs of machines that are not here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fastqps.config import Config, decide
from fastqps.host import machine
from fastqps.host.gpus import Gpu
from fastqps.models import ModelCard, load_card
from fastqps.supervisor.placement import GENERATOR_BYTES_MAX, Placement, dispatchers_on_cpu, pinned

pytestmark = pytest.mark.compute


def gpu(index: int, *cpus: int) -> Gpu:
    return Gpu(index, f"GPU-{index}", "a GPU", 1 << 30, f"0000:0{index}:00.0", (9, 0), cpus)


NODE0, NODE1 = gpu(0, 0, 1, 2, 3), gpu(1, 4, 5, 6, 7)
NOWHERE = gpu(0)


@pytest.mark.parametrize(
    ("cpus", "doors", "gpus", "own_doors", "own_dispatchers"),
    [
        (range(8), 2, [None, None], (0, 1), (2, 3)),
        (range(8), 2, [NODE1, NODE1], (0, 1), (4, 5)),
        (range(8), 2, [NODE0, NODE0], (4, 5), (0, 1)),
        (range(8), 1, [NODE0, NODE1], (1,), (0, 4)),  # each GPU has a node: the doors take what is left of one
        (range(8), 2, [NODE1] * 5, (1, 2), (4, 5, 6, 7, 0)),  # more dispatchers than CPUs near their GPU
        (range(8), 3, [NOWHERE, NOWHERE], (2, 3, 4), (0, 1)),  # the system does not say where it is
        ((0, 1, 6, 7), 1, [NODE0], (6,), (0,)),  # a container's share of the machine
        ((4, 5, 6, 7), 1, [NODE0], (5,), (4,)),  # no CPU near it may be used
        (range(8), 2, [NODE1, None], (0, 1), (4, 2)),
        (range(4), 1, [NODE0, NODE0], (2,), (0, 1)),  # all are near; one stays for the supervisor
        (range(4), 2, [NODE0, NODE0], None, None),
        (range(2), 1, [NODE0], None, None),
    ],
)
def test_placement(cpus, doors, gpus, own_doors, own_dispatchers) -> None:
    def alone(found, count):
        return tuple((cpu,) for cpu in found) if found is not None else ((),) * count

    expected = Placement(alone(own_doors, doors), alone(own_dispatchers, len(gpus)))
    assert pinned(tuple(cpus), doors, gpus) == expected


ENCODER, SMALL, LARGE, STATIC = "encoder", "small generator", "large generator", "static"
MIB = 1 << 20
SIZES = {ENCODER: 2 * GENERATOR_BYTES_MAX, SMALL: GENERATOR_BYTES_MAX, LARGE: GENERATOR_BYTES_MAX + 1, STATIC: MIB}


@pytest.fixture
def cards(tmp_path: Path) -> dict[str, ModelCard]:
    """Cards of models with weights of ``SIZES``, in sparse files."""
    generator = load_card("grammar")
    of = {ENCODER: load_card("minilm"), SMALL: generator, LARGE: generator, STATIC: load_card("wordllama")}
    for name, size in SIZES.items():
        (tmp_path / name / "deeper").mkdir(parents=True)
        with (tmp_path / name / "deeper/model.safetensors").open("wb") as file:
            file.truncate(size)
    return {name: replace(card, name=name, path=str(tmp_path / name)) for name, card in of.items()}


@pytest.mark.parametrize(
    ("cores", "models", "expected"),
    [
        (1, (ENCODER,), 1),
        (2, (ENCODER,), 2),
        (2, (SMALL,), 2),
        (2, (LARGE,), 1),
        (2, (STATIC,), 1),
        (3, (LARGE,), 1),
        (8, (ENCODER,), 8),
        (8, (LARGE,), 4),
        (8, (STATIC,), 4),
        (8, (ENCODER, SMALL), 4),
        (8, (ENCODER, LARGE), 2),
        (8, (ENCODER, STATIC), 4),
        (8, (ENCODER,) * 16, 1),
        (96, (ENCODER,), 32),  # a reload needs as many worker slots again, of 64
        (96, (LARGE,), 16),
        (96, (SMALL, SMALL), 16),
    ],
)
def test_one_for_each_core_or_half_as_many(
    cores: int, models: tuple[str, ...], expected: int, cards: dict[str, ModelCard], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "usable_cores", lambda cpus=None: cores)
    monkeypatch.setattr(machine, "memory_bytes", lambda: 1 << 50)
    config = decide(Config(model=models, device="cpu"))
    assert dispatchers_on_cpu(config, [cards[model] for model in models]) == expected


def test_all_copies_of_the_weights_take_at_most_a_quarter_of_the_memory(
    cards: dict[str, ModelCard], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "usable_cores", lambda cpus=None: 8)
    config = decide(Config(model=(ENCODER, STATIC), device="cpu"))
    needed = 4 * 4 * (SIZES[ENCODER] + SIZES[STATIC])
    for memory, expected in ((needed, 4), (needed - 1, 2)):
        monkeypatch.setattr(machine, "memory_bytes", lambda memory=memory: memory)
        assert dispatchers_on_cpu(config, [cards[ENCODER], cards[STATIC]]) == expected
