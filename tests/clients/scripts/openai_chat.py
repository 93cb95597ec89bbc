"""Conversations by openai, blocking, streaming and asyncio, and by LiteLLM, LangChain, huggingface_hub and Haystack."""

import asyncio
from collections.abc import Iterable
from typing import Any

import litellm
import openai
from given import GIVEN, answer
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret
from huggingface_hub import InferenceClient
from langchain_openai import ChatOpenAI

URL = f"http://{GIVEN.http}/v1"
MESSAGES = [{"role": "system", "content": "Be short."}, {"role": "user", "content": GIVEN.prompt}]
FIELDS = {"messages": MESSAGES, "temperature": 0}
HOW_LONG = {"max_completion_tokens": GIVEN.count_max}


async def asked() -> list[str]:
    async with openai.AsyncOpenAI(base_url=URL, api_key="any", max_retries=0) as client:
        calls = [client.chat.completions.create(model="chat", **FIELDS, **HOW_LONG) for _ in range(4)]
        return [found.choices[0].message.content for found in await asyncio.gather(*calls)]


def pieces(chunks: Iterable[Any]) -> str:
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def streamed(client: openai.OpenAI, stop: str) -> dict[str, object]:
    """The usage, and by the helper that gathers deltas, which takes no answer that a limit ends."""
    fields = {"model": "chat", **FIELDS, **HOW_LONG}
    *_, last = client.chat.completions.create(**fields, stream=True, stream_options={"include_usage": True})
    with client.chat.completions.stream(**fields, stop=stop) as stream:
        gathered = stream.get_final_completion().choices[0].message
    return {"usage": last.usage.completion_tokens, "gathered": [gathered.role, gathered.content]}


def of_token_ids(client: openai.OpenAI) -> str:
    """A completion of the conversation's token ids."""
    tokens = client.post("../tokenize", body={"model": "chat", "messages": MESSAGES}, cast_to=object)["tokens"]
    fields = {"prompt": tokens, "temperature": 0, "max_tokens": GIVEN.count_max}
    return client.completions.create(model="chat", **fields).choices[0].text


def main() -> None:
    client = openai.OpenAI(base_url=URL, api_key="any", max_retries=0)
    whole = client.chat.completions.create(model="chat", **FIELDS, **HOW_LONG)
    lite = {"model": "openai/chat", "api_base": URL, "api_key": "any", "max_tokens": GIVEN.count_max, **FIELDS}
    chain = ChatOpenAI(
        base_url=URL, api_key="any", model="chat", temperature=0, max_completion_tokens=GIVEN.count_max, max_retries=0
    )
    said = [("system", "Be short."), ("human", GIVEN.prompt)]
    hub = InferenceClient(base_url=URL, api_key="any")
    asked_hub = {"model": "chat", "temperature": 0, "max_tokens": GIVEN.count_max}  # without a model it says "dummy"
    haystack = OpenAIChatGenerator(
        api_key=Secret.from_token("any"),
        model="chat",
        api_base_url=URL,
        generation_kwargs={"temperature": 0, **HOW_LONG},
        max_retries=0,
    )
    messages = [ChatMessage.from_system("Be short."), ChatMessage.from_user(GIVEN.prompt)]
    try:
        client.chat.completions.create(model="chat", **FIELDS, tools=[{"type": "function", "function": {"name": "f"}}])
    except openai.BadRequestError as error:
        refused = error.body["param"]
    answer(
        whole=[whole.choices[0].message.content, whole.choices[0].finish_reason, whole.usage.completion_tokens],
        **streamed(client, whole.choices[0].message.content[-1]),
        texts={
            "pieces": pieces(client.chat.completions.create(model="chat", **FIELDS, **HOW_LONG, stream=True)),
            "of_token_ids": of_token_ids(client),
            **{f"asyncio_{i}": text for i, text in enumerate(asyncio.run(asked()))},
            "litellm": litellm.completion(**lite).choices[0].message.content,
            "litellm_pieces": pieces(litellm.completion(**lite, stream=True)),
            "langchain": chain.invoke(said).content,
            "langchain_pieces": "".join(chunk.content for chunk in chain.stream(said)),
            "hub": hub.chat_completion(MESSAGES, **asked_hub).choices[0].message.content,
            "hub_pieces": pieces(hub.chat_completion(MESSAGES, stream=True, **asked_hub)),
            "haystack": haystack.run(messages)["replies"][0].text,
        },
        refused=refused,
    )


main()
