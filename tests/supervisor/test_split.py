"""How many dispatchers share the cores of a CPU."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fastqps.config import Config, decide
from fastqps.host import machine
from fastqps.models import ModelCard, load_card
from fastqps.supervisor.placement import GENERATOR_BYTES_MAX, dispatchers_on_cpu

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
