"""The choice of ``--quantization auto`` is made once: stored beside the model, read by all others, never in the way."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path

import pytest
import torch
from checkpoints import write_checkpoint

from fastqps import Engine
from fastqps.devices.shared_choice import shared_choice
from fastqps.devices.stored_choice import PRECISION
from fastqps.models import load_card
from fastqps.models.card import ModelCard
from fastqps.models.cards import check_files
from fastqps.ops.interface import Site
from fastqps.ops.precision import Precision, Product

pytestmark = pytest.mark.compute


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """This user's cache folder, for one test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "fastqps" / "precision"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    write_checkpoint(path, "bert", num_hidden_layers=3)
    return path


class Log(list[str]):
    def __call__(self, line: str) -> None:
        self.append(line)


def card_of(path: Path) -> ModelCard:
    return load_card(str(path))


def precision(log: Log, measured: list[Product], fp8: bool = True, slow_s: float = 0.0) -> Precision:
    def time_us(product: Product, in_fp8: bool) -> float:
        measured.append(product)
        time.sleep(slow_s)
        return 1.0 if in_fp8 is fp8 else 2.0

    return Precision("auto", (16, 512), time_us, log=log)


def start(card: ModelCard, measured: list[Product], device: str = "a GPU", fp8: bool = True) -> tuple[bool, Log]:
    """What a process that starts chooses for one product, and its log."""
    log = Log()
    one = precision(log, measured, fp8)
    with shared_choice(one, card, device, torch.bfloat16):
        found = one.quantises(48, 64, Site("up", 1, 4))
    return found, log


def test_the_next_start_reads_it(model: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = card_of(model)
    Engine(str(model), dtype="float32", quantization="auto").close()
    _, *times, last, counted = capfd.readouterr().err.splitlines()
    assert len(times) == 4 and last == f"quantization auto: choice stored in {PRECISION.path(model)}"
    Engine(str(model), dtype="float32", quantization="auto").close()
    read, again = capfd.readouterr().err.splitlines()
    assert read.startswith("quantization auto: choice of 20") and read.endswith(f"Z read from {PRECISION.path(model)}")
    assert again == counted
    entry = json.loads(PRECISION.path(model).read_text())["choices"][0]
    assert entry["dtype"] == "float32" and " threads" in entry["device"]
    assert card_of(model) == before
    check_files(before)
    PRECISION.forget(model)
    Engine(str(model), dtype="float32", quantization="auto").close()
    assert len(capfd.readouterr().err.splitlines()) == len(times) + 3


def test_only_auto_stores(model: Path) -> None:
    for quantization in ("none", "fp8"):
        Engine(str(model), dtype="float32", quantization=quantization).close()
    assert not PRECISION.path(model).exists()


def test_another_device_measures_for_itself(model: Path) -> None:
    card, measured = card_of(model), list[Product]()
    assert start(card, measured, "a GPU", fp8=True)[0]
    assert not start(card, measured, "another GPU", fp8=False)[0]
    assert start(card, measured, "a GPU", fp8=False)[0], "what was chosen first"
    assert len(measured) == 8


def test_one_measures_and_the_others_wait_for_it(model: Path) -> None:
    measured: list[Product] = []
    found: list[bool] = []
    card = card_of(model)

    def begin(fp8: bool) -> None:
        one = precision(Log(), measured, fp8, slow_s=0.02)
        with shared_choice(one, card, "a GPU", torch.bfloat16):
            found.append(one.quantises(48, 64, Site("up", 1, 4)))

    threads = [threading.Thread(target=begin, args=(i % 2 == 0,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(measured) == 4 and len(found) == 6
    assert len(set(found)) == 1, "all follow the first, whatever they would have measured"


def test_a_model_that_does_not_load_stores_nothing(model: Path) -> None:
    one = precision(Log(), [])
    with pytest.raises(ValueError, match="torn"), shared_choice(one, card_of(model), "a GPU", torch.bfloat16):
        assert one.quantises(48, 64, Site("up", 1, 4))
        raise ValueError("torn")
    assert not PRECISION.path(model).exists()
    assert start(card_of(model), [])[0], "its lock is free again"


def test_a_lock_that_cannot_be_had_is_a_warning(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"fastqps-{os.getuid()}").touch()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    found, log = start(card_of(model), [])
    assert found and log[0].startswith("quantization auto: warning: ") and "measures for itself" in log[0]
    assert PRECISION.path(model).exists()
