"""openai: blocking, asyncio and streaming."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import numpy as np
from answers import check, check_texts, generated
from questions import IDS

import fastqps

Run = Callable[[str], Any]
MODELS = ["wordllama", "grammar"]


def test_openai(run: Run, client: fastqps.Client) -> None:
    found = run("openai_sync")
    assert found["models"] == MODELS
    check([*found["one"], np.frombuffer(base64.b64decode(found["raw"]), np.float32)], client)
    check([found["short"]], client, dimensions=64)
    check([found["ids"]], client, IDS)
    check_texts(found["many"], client)
    assert found["generated"] == generated(client) and found["reason"] == "stop"
    assert len(found["pieces"]) > 2 and "".join(found["pieces"]) == found["generated"]
    assert found["tokens"][0] == found["tokens"][1] > 2
    assert found["refused"] == "model_not_found" and "suffix: models here" in found["bad"]
    assert found["several"] == [found["generated"]] * 2


def test_openai_async(run: Run, client: fastqps.Client) -> None:
    found = run("openai_async")
    assert found["models"] == MODELS
    check_texts(found["many"], client)
    assert found["generated"] == generated(client)
    assert len(found["pieces"]) > 2 and "".join(found["pieces"]) == found["generated"]
