"""Conversations and answers with a structure by openai, LiteLLM, LangChain, instructor, outlines and agents."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from questions import COUNT_MAX, PROMPT, run_script
from serving import Server

import fastqps

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "size": {"enum": ["small", "large"]},
        "old": {"type": "boolean"},
        "age": {"type": "integer", "minimum": 0, "maximum": 130},
    },
    "required": ["name", "size", "old", "age"],
    "additionalProperties": False,
}
BY_SCRIPT = {
    "openai_structures": [
        *("completed", "parsed", "streamed", "asyncio"),
        *("litellm", "litellm_vllm", "langchain", "langchain_stream"),
    ],
    "structured_frameworks": [
        *("outlines_vllm", "outlines_vllm_stream", "outlines_openai"),
        *("instructor", "pydantic_ai", "smolagents"),
    ],
}
NO_TOOLS = "tools are not supported"


def test_chats(chat_server: Server) -> None:
    found = run_script("openai_chat", chat_server)
    messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": PROMPT}]
    with fastqps.Client(chat_server.address) as client:
        wanted = client.chat(messages, max_tokens=COUNT_MAX)
    assert found["whole"] == [wanted.text, wanted.finish_reason, len(wanted.token_ids)]
    assert found["usage"] == len(wanted.token_ids)
    assert found["gathered"] == ["assistant", wanted.text.partition(wanted.text[-1])[0]]
    texts = {name: text for name, text in found["texts"].items() if text != wanted.text}
    assert not texts, (wanted.text, texts)
    assert found["refused"] == "tools"


@pytest.fixture(scope="module")
def structured(chat_server: Server) -> Any:
    return {script: run_script(script, chat_server) for script in BY_SCRIPT}


@pytest.fixture(scope="module")
def person(chat_server: Server) -> Any:
    """Of the server's own client."""
    with fastqps.Client(chat_server.address) as client:
        return json.loads(client.chat([{"role": "user", "content": PROMPT}], json_schema=SCHEMA).text)


@pytest.mark.parametrize(("script", "name"), [(script, name) for script, names in BY_SCRIPT.items() for name in names])
def test_structures(structured: Any, person: Any, script: str, name: str) -> None:
    people = structured[script]["people"][name]
    assert people and all(each == person for each in people), (people, person)


def test_streamed_structures_come_in_parts(structured: Any) -> None:
    events = structured["openai_structures"]["events"]
    assert events.count("content.delta") > 9 and events[-1] == "content.done"


def test_texts_of_frameworks(structured: Any, chat_server: Server) -> None:
    found = structured["structured_frameworks"]
    with fastqps.Client(chat_server.address) as client:
        text = client.chat([{"role": "user", "content": PROMPT}], max_tokens=COUNT_MAX).text
    assert set(found["texts"].values()) == {text}, (text, found["texts"])


def test_outlines_choices_expressions_and_grammars(structured: Any) -> None:
    found = structured["structured_frameworks"]
    assert found["choice"] in ("yes", "no") and found["spelled"] in ("a", "b")
    assert len(found["matches"]) == 6 and found["matches"][3] == "-"


def test_tools_are_refused_with_what_to_do(structured: Any) -> None:
    """By default instructor and pydantic-ai ask for tools: docs/works-with.md names the other setting."""
    refused = [structured["openai_structures"]["refused"], *structured["structured_frameworks"]["refused"]]
    assert len(refused) == 3 and all(NO_TOOLS in each for each in refused), refused


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
    with fastqps.Client(chat_server.address) as client:
        scored = client.generate(PROMPT, prompt_logprobs=3, **options).prompt_logprobs
    assert scored is not None and scored.top_logprobs is not None and len(found["echoes"]) == 5
    for answer, made in zip(found["echoes"], [text, text, text, text, None], strict=True):
        assert answer["text"] == PROMPT + (made.text if made else "") and answer["logprobs"][0] is None
        wanted = [*scored.logprobs, *((made.logprobs or []) if made else [])]
        np.testing.assert_allclose(answer["logprobs"][1:], wanted, atol=1e-5)
        for likely, expected in zip(answer["top"][1:], scored.top_logprobs, strict=False):
            np.testing.assert_allclose(likely[:3], [p for _, p in expected], atol=1e-5)
        assert answer["offsets"] == sorted(answer["offsets"]) and len(answer["offsets"]) == len(wanted) + 1
    for answer in found["chats"]:
        assert bytes(answer["bytes"]).decode(errors="replace").startswith(chat.text)
