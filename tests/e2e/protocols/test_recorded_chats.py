"""Chats of clients that do not run here, as their own sources make them: test_recorded_requests.py for generators."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from apis import Api, reaching
from decoders import write_instruct
from serving import Server

TASKS = "Open WebUI 074d4883, backend/open_webui/routers/tasks.py"
PAYLOAD = "Open WebUI 05746a99, backend/open_webui/utils/payload.py"
MIDDLEWARE = "Open WebUI 0a7c1583, backend/open_webui/utils/middleware.py"
HEADERS = {  # the last five with ENABLE_FORWARD_USER_INFO_HEADERS
    "Authorization": "Bearer any",
    "Content-Type": "application/json",
    "X-OpenWebUI-User-Name": "Zo%C3%AB",
    "X-OpenWebUI-User-Id": "1",
    "X-OpenWebUI-User-Email": "a@example.com",
    "X-OpenWebUI-User-Role": "user",
    "X-OpenWebUI-Chat-Id": "8f2e",
}
SYSTEM = {"role": "system", "content": "Be short."}
USER = {"role": "user", "content": "She have a apple."}
TURNS = [SYSTEM, USER, {"role": "assistant", "content": "She has an apple."}, {"role": "user", "content": "And he?"}]
STREAM = {"stream": True, "stream_options": {"include_usage": True}}
FORM = {
    "type": "object",
    "properties": {"old": {"type": "boolean"}},
    "required": ["old"],
    "additionalProperties": False,
}


class Chat(NamedTuple):
    """``options``: of the server's own client, for the same answer."""

    source: str
    messages: list[Any]
    body: dict[str, Any]
    options: dict[str, Any]


CHATS = [
    Chat(PAYLOAD, [USER], {**STREAM, "temperature": 0.0, "max_tokens": 20}, {"max_tokens": 20}),
    Chat(PAYLOAD, TURNS, {**STREAM, "temperature": 0.0}, {}),
    Chat(
        PAYLOAD,
        TURNS,
        {**STREAM, "temperature": 0.8, "top_p": 0.9, "min_p": 0.05, "max_tokens": 20, "seed": 7}
        | {"frequency_penalty": 0.5, "presence_penalty": 0.25, "stop": ["\n\n"], "reasoning_effort": "low"},
        {"temperature": 0.8, "top_p": 0.9, "min_p": 0.05, "max_tokens": 20, "seed": 7}
        | {"frequency_penalty": 0.5, "presence_penalty": 0.25, "stop": ["\n\n"]},
    ),
    Chat(
        PAYLOAD,
        [{"role": "user", "content": [{"type": "text", "text": USER["content"]}]}],
        {"stream": False, "temperature": 0.0, "max_tokens": 20, "logit_bias": {}}
        | {"response_format": {"type": "json_schema", "json_schema": {"name": "form", "schema": FORM}}},
        {"max_tokens": 20, "json_schema": FORM},
    ),
    Chat(TASKS, [USER], {"stream": False, "max_tokens": 1000, "temperature": 0.0}, {}),  # a title; it lowers the limit
    Chat(TASKS, [USER], {"stream": False, "temperature": 0.0}, {}),  # tags, follow-ups, queries
]


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory, pooled_server: Callable[..., Server]) -> Iterator[Api]:
    folder: Path = tmp_path_factory.mktemp("instruct")
    write_instruct(folder, max_position_embeddings=1024)
    limits = ("--max-input-tokens=936", "--max-output-tokens=64", "--max-running=8")
    yield from reaching(pooled_server(f"--model=chat={folder}", "--device=cpu", "--dtype=float32", *limits))


def asked(api: Api, body: dict[str, Any]) -> Any:
    response, content = api.post.send("POST", "/v1/chat/completions", json.dumps(body).encode(), **HEADERS)
    assert response.status == 200, content
    if not body["stream"]:
        return json.loads(content)
    assert response.headers["content-type"].startswith("text/event-stream")
    *events, done, end = content.decode().split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    return [json.loads(event.removeprefix("data: ")) for event in events]


@pytest.mark.parametrize("chat", CHATS, ids=lambda chat: chat.source.rpartition("/")[2])
def test_open_webui(chats: Api, chat: Chat) -> None:
    found = asked(chats, {"model": "chat", "messages": chat.messages, **chat.body})
    texts = [  # a content can be in parts
        {**each, "content": each["content"] if isinstance(each["content"], str) else each["content"][0]["text"]}
        for each in chat.messages
    ]
    wanted = chats.client.chat(texts, **chat.options)
    if chat.body["stream"]:
        *parts, last = found
        deltas = [part["choices"][0]["delta"] for part in parts]
        assert deltas[0] == {"role": "assistant", "content": ""} and deltas[-1] == {}
        assert "".join(delta.get("content", "") for delta in deltas) == wanted.text
        assert last["choices"] == [] and len({part["id"] for part in found}) == 1
        reason, usage = parts[-1]["choices"][0]["finish_reason"], last["usage"]
    else:
        (choice,) = found["choices"]
        assert choice["message"] == {"role": "assistant", "content": wanted.text, "refusal": None}
        reason, usage = choice["finish_reason"], found["usage"]
    assert wanted.usage and reason == wanted.finish_reason
    assert usage["prompt_tokens"] == wanted.usage.input_tokens
    assert usage["completion_tokens"] == len(wanted.token_ids) == usage["total_tokens"] - usage["prompt_tokens"]


def test_open_webui_lists_models(chats: Api) -> None:
    response, content = chats.post.send("GET", "/v1/models", b"", **HEADERS)
    found = json.loads(content)
    assert response.status == 200 and found["object"] == "list"
    assert [(model["id"], model["owned_by"]) for model in found["data"]] == [("chat", "fastqps")]


def test_kserves_prefix(chats: Api) -> None:
    """KServe's guide "Integrating KServe LLM Deployments with LLM SDKs" gives openai, LangChain and LlamaIndex the base
    URL SERVICE/openai/v1."""
    body = {"model": "chat", "messages": [USER], "temperature": 0, "max_tokens": 20}
    prompt = {"model": "chat", "prompt": "She", "temperature": 0, "max_tokens": 20}
    for path, asked in (("/v1/chat/completions", body), ("/v1/completions", prompt)):
        (status, there), (_, here) = (chats.post(root + path, asked) for root in ("/openai", ""))
        assert status == 200 and there["choices"] == here["choices"]
    for path in ("/v1/models", "/v1/models/chat"):
        assert len({chats.post.send("GET", root + path, b"")[1] for root in ("/openai", "")}) == 1
    for path in ("/v1/embeddings", "/v1/rerank"):  # other models'
        (status, there), (_, here) = (chats.post(root + path, {"input": "a"}) for root in ("/openai", ""))
        assert status == 400 and there == here


def test_open_webuis_own_tools_are_refused(chats: Api) -> None:
    """It sends them with each chat, unless a setting of its that docs/works-with.md names."""
    tool = {"type": "function", "function": {"name": "get_current_timestamp", "parameters": {"type": "object"}}}
    body = {"model": "chat", "messages": [USER], **STREAM, "tools": [tool]}
    status, found = chats.post("/v1/chat/completions", body)
    assert status == 400 and found["error"]["param"] == "tools", MIDDLEWARE
    assert "response_format" in found["error"]["message"]
