"""The choice of ``--quantization auto`` is made once: stored beside the model, read by all others, never in the way."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import write_checkpoint

from fastqps import Engine
from fastqps.devices.choice_file import CHOICES_MAX
from fastqps.devices.shared_choice import shared_choice
from fastqps.devices.stored_choice import PRECISION, Choice, Circumstances
from fastqps.models import load_card
from fastqps.models.card import ModelCard
from fastqps.models.cards import check_files
from fastqps.ops.interface import Site
from fastqps.ops.precision import Precision, Product, Timed

pytestmark = pytest.mark.compute

FILE = "choices.json"
HERE = Circumstances("a GPU", "2.11.0", "bfloat16", (16, 512))
PRODUCTS = (Timed(48, 64, True, "gelu", us=(3.0, 6.5), quantised_us=(3.5, 4.0), quantised=True),)
CHOICE = Choice("2026-11-22T10:00:00Z", PRODUCTS)


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


def quiet(line: str) -> None:
    del line


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


def test_what_is_stored_comes_back(tmp_path: Path) -> None:
    path = tmp_path / FILE
    log = Log()
    PRECISION.store(path, HERE, CHOICE, log)
    assert log == [f"quantization auto: choice stored in {path}"]
    assert PRECISION.find(path, HERE, log) == CHOICE
    assert PRECISION.find(tmp_path / "none", HERE, log) is None
    others = [
        replace(HERE, device="another GPU"),
        replace(HERE, torch="2.12.0"),
        replace(HERE, dtype="float16"),
        replace(HERE, rows=(16, 1024)),
    ]
    assert [PRECISION.find(path, other, log) for other in others] == [None] * len(others)
    later = replace(CHOICE, measured="2026-11-23T10:00:00Z")
    PRECISION.store(path, others[0], CHOICE, log)
    PRECISION.store(path, HERE, later, log)
    assert PRECISION.find(path, HERE, log) == later
    assert PRECISION.find(path, others[0], log) == CHOICE
    assert len(log) == 3 and list(tmp_path.iterdir()) == [path]


def test_the_oldest_choices_go(tmp_path: Path) -> None:
    path = tmp_path / FILE
    for i in range(CHOICES_MAX + 3):
        PRECISION.store(path, replace(HERE, device=f"GPU {i}"), CHOICE, quiet)
    kept = [i for i in range(CHOICES_MAX + 3) if PRECISION.find(path, replace(HERE, device=f"GPU {i}"), quiet)]
    assert kept == list(range(3, CHOICES_MAX + 3))


def changed(**changes: Any) -> str:
    """A file whose only choice is another than CHOICE."""
    product = {"outputs": 48, "inputs": 64, "fused": True, "epilogue": "gelu", "us": [3, 6], "quantised_us": [3, 4]}
    product |= {"quantised": True, **{key: value for key, value in changes.items() if key != "measured"}}
    entry = {"device": "a GPU", "torch": "2.11.0", "dtype": "bfloat16", "rows": [16, 512]}
    entry |= {"measured": changes.get("measured", "yesterday"), "products": [product]}
    return json.dumps({"format": PRECISION.format, "choices": [entry]})


def test_the_file_of_the_next_test_is_good_without_its_changes(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text(changed())
    assert PRECISION.find(tmp_path / FILE, HERE, pytest.fail)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        ("\x00\xff", "decode|Expecting value"),
        ('{"format": 3}', "not a file of fastqps: KeyError"),
        ("[]", "not a file of fastqps: TypeError"),
        ('{"format": 1, "choices": []}', "its format is 1, not 3"),
        ('{"format": 3, "choices": {"a": 1}}', "not a file of fastqps"),
        ("[" * 100_000, "it is nested too deeply"),
        (" " * ((1 << 20) + 1), "longer than 1 MiB"),
        (changed(quantised=1), "1 is not of type bool"),
        (changed(outputs="48"), "'48' is not of type int"),
        (changed(us=[1]), "not as many times as there are sizes"),
        (changed(quantised_us=[1, float("nan")]), "\\['quantised_us'\\]\\[1\\] is no number that a float holds"),
        (changed(us=[1, -1]), "-1 is not a time"),
        (changed(epilogue="tanh"), "'tanh' is not one of '', 'residual', 'gelu'"),
        (changed(measured=5), "5 is not of type str"),
    ],
)
def test_a_file_that_cannot_be_used_is_measured_anew_and_replaced(model: Path, text: str, reason: str) -> None:
    path = PRECISION.path(model)
    path.write_text(text, encoding="latin-1")
    measured: list[Product] = []
    found, log = start(card_of(model), measured)
    assert found and len(measured) == 4
    warning, said, times, last = log
    assert warning.startswith(f"quantization auto: warning: {path} holds no choices that can be used (")
    assert "\n" not in warning

    assert re.search(reason, warning), warning
    assert said.startswith("quantization auto: measuring products; ")
    assert " µs" in times and last == f"quantization auto: choice stored in {path}"
    assert start(card_of(model), measured)[0] and len(measured) == 4


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


def test_a_full_disk_is_a_warning(model: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    files = sorted(model.iterdir())
    monkeypatch.setattr(os, "fsync", full)
    measured: list[Product] = []
    found, log = start(card_of(model), measured)
    assert found and len(measured) == 4
    assert "warning: the choice cannot be stored (" in log[-1] and "No space left on device" in log[-1]
    assert sorted(model.iterdir()) == files and list(cache.iterdir()) == [], "nothing half-written is left"


def test_no_folder_at_all(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    found, log = start(card_of(model), [])
    assert found and log[-1].startswith("quantization auto: warning: the choice cannot be stored (no folder")


def test_models_of_one_shape_share_a_choice(model: Path, tmp_path: Path) -> None:
    """Not what is only named in the configuration, nor the numbers of the weights, makes another shape."""
    shutil.copytree(model, tmp_path / "renamed")
    config = json.loads((model / "config.json").read_text())
    named = {**config, "_name_or_path": "other", "transformers_version": "1.0", "id2label": {"0": "a", "1": "b"}}
    (tmp_path / "renamed" / "config.json").write_text(json.dumps(named))
    write_checkpoint(tmp_path / "trained", "bert", num_hidden_layers=3, seed=1)
    assert PRECISION.path(tmp_path / "renamed") == PRECISION.path(tmp_path / "trained") == PRECISION.path(model)
    write_checkpoint(tmp_path / "deeper", "bert", num_hidden_layers=4)
    (tmp_path / "renamed" / "config.json").write_text(json.dumps({**config, "num_attention_heads": 1}))
    assert len({PRECISION.path(tmp_path / "renamed"), PRECISION.path(tmp_path / "deeper"), PRECISION.path(model)}) == 3


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


def test_writers_at_once_leave_a_whole_file(tmp_path: Path) -> None:
    path, done = tmp_path / FILE, threading.Event()
    faults = Log()

    def write(number: int) -> None:
        for i in range(20):
            PRECISION.store(path, replace(HERE, device=f"{number}.{i}"), CHOICE, quiet)

    def read() -> None:
        while not done.is_set():
            PRECISION.find(path, HERE, faults)

    reader = threading.Thread(target=read)
    writers = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in (reader, *writers):
        thread.start()
    for thread in writers:
        thread.join()
    done.set()
    reader.join()
    assert faults == [] and list(tmp_path.iterdir()) == [path]
    assert PRECISION.find(path, HERE, faults) is None and faults == []
