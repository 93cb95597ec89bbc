"""Conversations over gRPC and over OpenAI's API, with a generator that says its prompt again."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from echo_generator import write_generator
from serving import PATIENCE_S, Server
from upstream_state import edge_of

from fastqps import Chat, Client, Prediction, errors
from fastqps.frontdoor.openapi.openai import CHATTED
from fastqps.models import load_card

TEMPLATE = """
{%- for m in messages %}
  {%- if m.role == 'system' and not loop.first %}{{ raise_exception('system comes first') }}{% endif %}
  {%- set said = m.content.split('</think>')[-1] if m.role == 'assistant' else m.content %}
  {{- m.role ~ ': ' ~ said | trim ~ '\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ 'assistant:' }}{% if enable_thinking is defined and not enable_thinking %}!{% endif %}
{%- endif %}
{{- style if style is defined else '' }}"""
USER = {"role": "user", "content": " Hi <|end|> "}
THOUGHT = {"role": "assistant", "content": "hm</think> Yes"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folders = {name: tmp_path_factory.mktemp(name) for name in ("chat", "plai")}
    for folder in folders.values():
        write_generator(folder)
    (folders["chat"] / "chat_template.jinja").write_text(TEMPLATE)
    return [f"--model={name}={folder}" for name, folder in folders.items()]


@pytest.fixture(scope="module")
def server(module_server: Callable[..., Server], models: list[str]) -> Server:
    return module_server(*models, "--frontdoors=1", "--dispatchers=1", echo=True)


@pytest.mark.parametrize(
    ("chat", "prompt"),
    [  # by the table, and by the template itself
        (Chat([USER]), "user: Hi <|end|>\nassistant:"),
        (Chat([{"role": "developer", "content": "Be"}, USER]), "system: Be\nuser: Hi <|end|>\nassistant:"),
        (Chat([USER], variables={"enable_thinking": False, "unknown": 1}), "user: Hi <|end|>\nassistant:!"),
        (Chat([USER], variables={"style": "?"}), "user: Hi <|end|>\nassistant:?"),
        (Chat([USER, THOUGHT, USER]), "user: Hi <|end|>\nassistant: Yes\nuser: Hi <|end|>\nassistant:"),
        (Chat([{"role": "user", "content": "x" * 300}, THOUGHT]), f"user: {'x' * 300}\nassistant: Yes\nassistant:"),
        (Chat([USER, {"role": "assistant", "content": "So "}], True), "user: Hi <|end|>\nassistant: So"),
    ],
)
def test_what_the_model_sees(server: Server, chat: Chat, prompt: str) -> None:
    with Client(server.address, model="chat", timeout_s=PATIENCE_S) as client:
        answer = client.generate(chat)
        assert answer.text == prompt
        assert answer.usage and answer.usage.input_tokens == len(prompt.encode())
        assert "".join(chunk.text for chunk in client.generate_stream(chat)) == prompt
        (batched,) = client.predict_batch([chat])
        assert isinstance(batched, Prediction) and batched.generation and batched.generation.text == prompt
        assert client.chat(chat.messages, max_tokens=1).text == prompt[0]


def test_a_long_conversation_is_cut(server: Server) -> None:
    for chat in (
        Chat([{"role": "user", "content": "x" * 6000}]),
        Chat([{"role": "user", "content": "x" * 6000}, THOUGHT]),
    ):
        with Client(server.address, model="chat", timeout_s=PATIENCE_S) as client:
            with pytest.raises(errors.InvalidArgument, match=r"chat\.messages: 60.. tokens, at most 512"):
                client.generate(chat)
            answer = client.generate(chat, truncate=True)
            assert answer.usage and answer.usage.truncated and answer.usage.input_tokens == 512
            assert answer.text.endswith("x\nassistant: Yes\nassistant:" if len(chat.messages) > 1 else "x\nassistant:")


@pytest.mark.parametrize(
    ("model", "chat", "why"),
    [
        ("plai", Chat([USER]), "chat.messages: the model 'plai' has no chat template; send text or token ids"),
        ("chat", Chat([]), "chat.messages: 0 messages, must be 1 to 1024"),
        (
            "chat",
            Chat([USER, {"role": "tool", "content": ""}]),
            "the role of message 1 must be system, developer, user",
        ),
        ("chat", Chat([USER], variables={"style": "x" * 70_000}), "chat.messages: 70025 bytes, at most 65536"),
        ("chat", Chat([USER, {"role": "system", "content": "x"}]), "system comes first"),
        ("chat", Chat([USER, THOUGHT, {"role": "system", "content": "x"}]), "system comes first"),
    ],
)
def test_what_is_refused(server: Server, model: str, chat: Chat, why: str) -> None:
    with Client(server.address, model=model, timeout_s=PATIENCE_S) as client:
        with pytest.raises(errors.InvalidArgument) as refused:
            client.generate(chat)
        assert why in str(refused.value)
        assert [each.takes_chats for each in client.models()] == [True, False]


def test_an_edge_renders_them_itself(server: Server, models: list[str], module_server: Callable[..., Server]) -> None:
    edge = edge_of(module_server, [server.address], *models)
    with Client(edge.address, model="chat", timeout_s=PATIENCE_S) as client:
        assert client.generate(Chat([USER])).text == "user: Hi <|end|>\nassistant:"
        assert client.generate(Chat([USER, THOUGHT])).text == "user: Hi <|end|>\nassistant: Yes\nassistant:"
    status, answer = post(edge, {"messages": [USER]})
    assert status == 200 and answer["choices"][0]["message"]["content"] == "user: Hi <|end|>\nassistant:"


def post(server: Server, body: dict[str, Any], path: str = "/v1/chat/completions") -> tuple[int, Any]:
    connection = HTTPConnection(server.http, timeout=PATIENCE_S)
    connection.request("POST", path, json.dumps({"model": "chat", **body}))
    response = connection.getresponse()
    data = response.read()
    connection.close()
    streamed = response.getheader("content-type") == "text/event-stream"
    return response.status, data.decode().split("\n\n") if streamed else json.loads(data)


def test_a_completion(server: Server) -> None:
    parts = [{"type": "text", "text": "Hi"}, {"type": "text", "text": "you"}]
    status, answer = post(
        server,
        {"messages": [{"role": "user", "content": parts}], "max_completion_tokens": 12, "user": "me", "store": True},
    )
    assert status == 200 and answer["object"] == "chat.completion" and answer["id"].startswith("chatcmpl-")
    jsonschema.validate(answer, CHATTED, jsonschema.Draft202012Validator)
    (choice,) = answer["choices"]
    assert choice["message"] == {"role": "assistant", "content": "user: Hi\nyou", "refusal": None}
    assert (choice["index"], choice["finish_reason"], choice["logprobs"]) == (0, "length", None)
    assert answer["usage"] == {"prompt_tokens": 23, "completion_tokens": 12, "total_tokens": 35}


@pytest.mark.parametrize("stream", [False, True])
def test_log_probabilities(server: Server, stream: bool) -> None:
    body = {"messages": [USER], "max_tokens": 4, "logprobs": True, "top_logprobs": 3}
    status, answer = post(server, {**body, "stream": stream})
    assert status == 200, answer
    if not stream:
        jsonschema.validate(answer, CHATTED, jsonschema.Draft202012Validator)
    answers = [json.loads(event.removeprefix("data: ")) for event in answer[:-2]] if stream else [answer]
    given = [each["choices"][0]["logprobs"] for each in answers]
    tokens = [token for logprobs in given if logprobs for token in logprobs["content"]]
    assert "".join(token["token"] for token in tokens) == "user"
    for token in tokens:
        assert bytes(token["bytes"]).decode() == token["token"]
        top = token.pop("top_logprobs")
        assert len(top) == 3 and top[0] == token


@pytest.mark.parametrize("usage", [False, True])
def test_a_stream(server: Server, usage: bool) -> None:
    options = {"stream_options": {"include_usage": True}} if usage else {}
    status, events = post(server, {"messages": [USER], "stream": True, "max_tokens": 4, **options})
    assert status == 200 and events[-2:] == ["data: [DONE]", ""]
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert len({chunk["id"] for chunk in chunks}) == 1
    if usage:
        last = chunks.pop()
        assert last["choices"] == [] and last["usage"]["completion_tokens"] == 4
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""} and deltas[-1] == {}
    assert "".join(delta["content"] for delta in deltas[1:-1]) == "user"
    reasons = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert reasons == [None] * (len(chunks) - 1) + ["length"]


@pytest.mark.parametrize(
    ("body", "prompt"),
    [
        ({"enable_thinking": False}, "user: Hi <|end|>\nassistant:!"),
        ({"chat_template_kwargs": {"enable_thinking": False, "style": "?"}}, "user: Hi <|end|>\nassistant:!?"),
        ({"chat_template_kwargs": {}, "reasoning_effort": "low"}, "user: Hi <|end|>\nassistant:"),
        ({"add_generation_prompt": False}, "user: Hi <|end|>\n"),
        ({"tools": [], "tool_choice": "none", "response_format": {"type": "text"}, "n": 1, "logprobs": False}, None),
        ({"stop": "<|", "temperature": 0, "top_p": 1, "seed": 3}, "user: Hi "),
    ],
)
def test_fields(server: Server, body: dict[str, Any], prompt: str | None) -> None:
    status, answer = post(server, {"messages": [USER], **body})
    assert status == 200, answer
    assert answer["choices"][0]["message"]["content"] == (prompt or "user: Hi <|end|>\nassistant:")


def test_streamed_choices(server: Server) -> None:
    """Each has its role first and its end last."""
    body = {"messages": [USER], "n": 3, "stream": True, "stream_options": {"include_usage": True}}
    status, events = post(server, body)
    assert status == 200 and events[-2:] == ["data: [DONE]", ""]
    chunks = [json.loads(event.removeprefix("data: ")) for event in events[:-2]]
    of_choice: list[list[dict[str, Any]]] = [[], [], []]
    for chunk in chunks[:-1]:
        of_choice[chunk["choices"][0]["index"]].append(chunk["choices"][0])
    for parts in of_choice:
        deltas = [part["delta"] for part in parts]
        assert deltas[0] == {"role": "assistant", "content": ""} and deltas[-1] == {}
        assert "".join(delta["content"] for delta in deltas[:-1]) == "user: Hi <|end|>\nassistant:"
    whole = post(server, {"messages": [USER], "n": 3})[1]
    assert chunks[-1]["choices"] == [] and chunks[-1]["usage"] == whole["usage"]


IMAGE = [{"type": "image_url", "image_url": {"url": "x"}}]


@pytest.mark.parametrize(
    ("body", "param", "why"),
    [
        ({}, "messages", "must be given"),
        ({"messages": "x"}, "messages", "an array of messages"),
        ({"messages": [{"role": "user"}]}, "messages", "no content"),
        ({"messages": [{"role": "system", "content": None}, USER]}, "messages", "no content"),
        ({"messages": [{"content": "x"}]}, "messages", "no role"),
        ({"messages": [{"role": "wizard", "content": "x"}]}, "messages", "'wizard'"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "messages", "tools"),
        ({"messages": [{"role": "user", "content": IMAGE}]}, "messages", "only be text"),
        ({"messages": [USER, {"role": "system", "content": "x"}]}, "messages", "system comes first"),
        ({"messages": [USER], "tools": [{"type": "function"}]}, "tools", "not supported"),
        ({"messages": [USER], "tool_choice": "required"}, "tool_choice", "not supported"),
        ({"messages": [USER], "modalities": ["audio"]}, "modalities", "text"),
        ({"messages": [USER], "chat_template": "{{ 1 }}"}, "chat_template", "own"),
        ({"messages": [USER], "continue_final_message": True, "add_generation_prompt": True}, None, "together"),
        ({"messages": [USER], "prompt": "x"}, "prompt", "is of /v1/completions"),
        ({"messages": [USER], "nope": "x"}, "nope", "not a field"),
        ({"messages": [USER], "options": {"num_ctx": 8}}, "options", "its members are fields of the request"),
        ({"messages": [USER], "format": "json"}, "format", "use response_format"),
        ({"messages": [USER], "keep_alive": "5m"}, "keep_alive", "leave it out"),
        ({"messages": [USER], "think": False}, "think", "use enable_thinking"),
        ({"messages": [USER], "n_predict": 5}, "n_predict", "use max_tokens"),
        ({"messages": [USER], "extra_body": {"top_k": 5}}, "extra_body", "parameter of OpenAI's client"),
        ({"messages": [USER], "response_format": "json_object"}, "response_format", '{"type": "json_object"}'),
        ({"messages": [USER], "model": "plai"}, "messages", "no chat template"),
    ],
)
def test_refused_bodies(server: Server, body: dict[str, Any], param: str | None, why: str) -> None:
    status, answer = post(server, body)
    assert status == 400 and why in answer["error"]["message"]
    assert param is None or answer["error"]["param"] == param


def test_the_list_says_what_a_model_can(server: Server) -> None:
    connection = HTTPConnection(server.http, timeout=PATIENCE_S)
    connection.request("GET", "/v1/models")
    models = json.loads(connection.getresponse().read())["data"]
    connection.close()
    assert [(model["id"], model["task"], model["chat"]) for model in models] == [
        ("chat", "generate", True),
        ("plai", "generate", False),
    ]
    assert all(model["max_model_len"] > 1024 for model in models)


def test_what_is_in_no_table_is_known(tmp_path: Path) -> None:
    write_generator(tmp_path)
    (tmp_path / "chat_template.jinja").write_text(TEMPLATE)
    card = load_card(str(tmp_path))
    assert card.chat and card.chat.table and ("assistant", "</think>") in card.chat.table.questions


@pytest.mark.parametrize(
    "silent",
    [
        {"role": "assistant"},
        {"role": "assistant", "content": None},
        {"role": "assistant", "content": []},
        # as openai's client gives an answer back
        {"role": "assistant", "content": None, "refusal": None, "tool_calls": [], "function_call": None, "audio": None},
    ],
)
def test_an_assistant_may_have_said_nothing(server: Server, silent: dict[str, Any]) -> None:
    status, answer = post(server, {"messages": [USER, silent, USER]})
    assert status == 200
    said = "user: Hi <|end|>\nassistant: \nuser: Hi <|end|>\nassistant:"
    assert answer["choices"][0]["message"]["content"] == said


@pytest.mark.parametrize(
    ("path", "body", "wanted"),
    [
        ("/tokenize", {"prompt": "Hi<|end|>"}, [72, 105, 256]),
        ("/tokenize", {"messages": [USER]}, list(b"user: Hi <|end|>\nassistant:")),
        ("/tokenize", {"messages": [USER], "add_generation_prompt": False}, list(b"user: Hi <|end|>\n")),
        (
            "/tokenize",
            {"messages": [USER], "enable_thinking": False, "temperature": 0, "stream": True, "user": "a"},
            list(b"user: Hi <|end|>\nassistant:!"),
        ),
        ("/detokenize", {"tokens": [72, 105, 256]}, "Hi<|end|>"),
    ],
)
def test_token_ids(server: Server, path: str, body: dict[str, Any], wanted: Any) -> None:
    if path == "/detokenize":
        assert post(server, body, path) == (200, {"prompt": wanted})
        return
    status, answer = post(server, {**body, "return_token_strs": True}, path)
    assert status == 200
    assert answer["tokens"] == wanted and answer["count"] == len(wanted) == len(answer["token_strs"])
    assert answer["token_strs"][0] == chr(wanted[0]) and answer["max_model_len"] > 1024


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("/tokenize", {"prompt": 3}, 400, "prompt: must be a string"),
        ("/tokenize", {"model": "chat", "text": "x"}, 400, "prompt: must be given, or messages"),
        ("/tokenize", {"model": "chat", "prompt": None}, 400, "prompt: must be given, or messages"),
        ("/tokenize", {"prompt": "x", "return_token_strs": 1}, 400, "return_token_strs: must be a bool"),
        ("/tokenize", {"prompt": "x", "add_special_token": True}, 400, "add_special_token: is not a field"),
        ("/tokenize", {"messages": [USER, THOUGHT]}, 400, "messages: the conversation is in no table"),
        ("/tokenize", {"messages": [USER], "model": "plai"}, 400, "messages: the model 'plai' has no chat template"),
        ("/tokenize", {"messages": [USER], "return_token_strs": 1}, 400, "return_token_strs: must be a bool"),
        ("/tokenize", {"prompt": "x", "model": "other"}, 404, "model: 'other' is not served"),
        ("/detokenize", {"tokens": [-1]}, 400, "tokens: must be an array of token ids below"),
        ("/detokenize", {"tokens": []}, 400, "tokens: must be an array of token ids below"),
        ("/detokenize", {"tokens": [1], "prompt": ""}, 400, "prompt: is not a field"),
        ("/detokenize", {}, 400, "tokens: must be an array of token ids below"),
    ],
)
def test_refused_token_ids(server: Server, path: str, body: dict[str, Any], status: int, message: str) -> None:
    found, answer = post(server, body, path)
    assert found == status and answer["error"]["message"].startswith(message), answer


@pytest.mark.parametrize(
    "body",
    [
        {"messages": []},
        {"messages": "Hi"},
        {"messages": [USER] * 1025},
        {"messages": [{"role": "tool", "content": "a"}]},
        {"messages": [{"role": "User", "content": "a"}]},
        {"messages": [{"role": "user"}]},
        {"messages": [{"role": "user", "content": IMAGE}]},
        {"messages": [{"role": "user", "content": [{"text": "a"}]}]},
        {"messages": [USER], "continue_final_message": True, "add_generation_prompt": True},
        {"messages": [USER], "add_generation_prompt": 1},
        {"messages": [USER], "chat_template_kwargs": []},
        {"messages": [USER], "chat_template": "{{ messages }}"},
        {"messages": [USER], "tools": [{"type": "function", "function": {"name": "f"}}]},
        {"messages": [USER], "temperature": -1},
        {"messages": [USER], "temperatur": 1},
        {"messages": [USER], "stream_options": {"include_usage": 1}},
    ],
)
def test_token_ids_are_refused_as_answers_are(server: Server, body: dict[str, Any]) -> None:
    status, answer = post(server, body, "/tokenize")
    assert (status, answer) == post(server, body) and status == 400, answer
