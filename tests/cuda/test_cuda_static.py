"""Static models on a fake GPU equal those of the CPU: of every table, and with all that may follow the mean."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import static_models
from fake_cuda import VARIABLE, library

from fastqps.devices import make_runner
from fastqps.devices.errors import DeviceError
from fastqps.models import load_card
from fastqps.runners.pack_items import pack_items

pytestmark = pytest.mark.compute

CHANCE = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def fake_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, library())


MODELS: dict[str, Callable[[Path], Any]] = {
    "float32": static_models.model2vec,
    "float16 weighted": lambda path: static_models.model2vec(path, 100, np.float16, weighted=True),
    "int8 mapped": lambda path: static_models.model2vec(path, 100, np.int8, weighted=True, mapped=True),
    "dense": lambda path: static_models.sentence_transformers(path, dense="GELU"),
    "classifier": static_models.classifier,
}


@pytest.mark.parametrize("name", MODELS)
def test_static_models_equal_the_cpu(tmp_path: Path, name: str) -> None:
    MODELS[name](tmp_path / "m")
    card = load_card(str(tmp_path / "m"), 60)
    cpu, gpu = (make_runner(device, card, 16, 300) for device in ("cpu", "cuda"))
    gpu.warm_up()
    for count in (1, 2, 7, 16):
        longest = min(60, 300 // count)
        items = [CHANCE.integers(0, card.vocab_size, CHANCE.integers(1, longest + 1)).tolist() for _ in range(count)]
        items[0] = [card.empty_id]  # a text without tokens
        rows = []
        for runner in (cpu, gpu):
            runner.run(*pack_items(card, [(ids, len(ids)) for ids in items], runner.buffers()))
            rows.append(runner.buffers().output[:count].copy())
        np.testing.assert_allclose(rows[1], rows[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("options", [{"quantization": "fp8"}, {"dtype": "bfloat16"}])
def test_settings_without_effect_are_refused(tmp_path: Path, options: dict[str, Any]) -> None:
    static_models.model2vec(tmp_path / "m")
    with pytest.raises(DeviceError, match="has no effect on m, a static model"):
        make_runner("cuda", load_card(str(tmp_path / "m")), 16, 300, **options)
