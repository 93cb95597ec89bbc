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
    assert found["refused"] == "model_not_found" and "suffix: can only" in found["bad"]
    assert found["several"] == [found["generated"]] * 2


def test_log_probabilities(chat_server: Server) -> None:
    found = run_script("openai_logprobs", chat_server)
    options: Any = {"max_tokens": COUNT_MAX, "top_logprobs": 3}
    with fastqps.Client(chat_server.address) as client:
        text, chat = client.generate(PROMPT, **options), client.chat([{"role": "user", "content": PROMPT}], **options)
    assert len(found["texts"]) == 4 and len(found["chats"]) == 2
    for wanted, answers in ((text, found["texts"]), (chat, found["chats"])):
        for answer in answers:
            assert answer["text"] == wanted.text
            np.testing.assert_allclose(answer["logprobs"], wanted.logprobs, atol=1e-5)
            for likely, expected in zip(answer["top"], wanted.top_logprobs or [], strict=True):
                np.testing.assert_allclose(likely[:3], [p for _, p in expected], atol=1e-5)
    for answer in found["texts"]:
        assert len(answer["offsets"]) == len(answer["tokens"]) == len(text.token_ids)
        assert answer["offsets"] == sorted(answer["offsets"]) and answer["offsets"][-1] <= len(text.text)
    for answer in found["chats"]:
        assert bytes(answer["bytes"]).decode(errors="replace").startswith(chat.text)


def test_openai_async(run: Run, client: fastqps.Client) -> None:
    found = run("openai_async")
    assert found["models"] == MODELS
    check_texts(found["many"], client)
    assert found["generated"] == generated(client)
    assert len(found["pieces"]) > 2 and "".join(found["pieces"]) == found["generated"]
