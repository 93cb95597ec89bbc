"""Conversations by openai, blocking, streaming and asyncio, by LiteLLM and by langchain-openai."""

import asyncio

import litellm
import openai
from given import GIVEN, answer
from langchain_openai import ChatOpenAI

URL = f"http://{GIVEN.http}/v1"
MESSAGES = [{"role": "system", "content": "Be short."}, {"role": "user", "content": GIVEN.prompt}]
FIELDS = {"messages": MESSAGES, "temperature": 0}
HOW_LONG = {"max_completion_tokens": GIVEN.count_max}


async def asked() -> list[str]:
    async with openai.AsyncOpenAI(base_url=URL, api_key="any", max_retries=0) as client:
        calls = [client.chat.completions.create(model="chat", **FIELDS, **HOW_LONG) for _ in range(4)]
        return [found.choices[0].message.content for found in await asyncio.gather(*calls)]


def streamed(client: openai.OpenAI, stop: str) -> dict[str, object]:
    """By the helper that gathers deltas, too, which takes no answer that a limit ends."""
    chunks = list(
        client.chat.completions.create(
            model="chat", **FIELDS, **HOW_LONG, stream=True, stream_options={"include_usage": True}
        )
    )
    with client.chat.completions.stream(model="chat", **FIELDS, **HOW_LONG, stop=stop) as stream:
        gathered = stream.get_final_completion().choices[0].message
    return {
        "pieces": "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices),
        "usage": chunks[-1].usage.completion_tokens,
        "gathered": [gathered.role, gathered.content],
    }


def main() -> None:
    client = openai.OpenAI(base_url=URL, api_key="any", max_retries=0)
    whole = client.chat.completions.create(model="chat", **FIELDS, **HOW_LONG)
    lite = {"model": "openai/chat", "api_base": URL, "api_key": "any", "max_tokens": GIVEN.count_max, **FIELDS}
    chain = ChatOpenAI(
        base_url=URL, api_key="any", model="chat", temperature=0, max_completion_tokens=GIVEN.count_max, max_retries=0
    )
    said = [("system", "Be short."), ("human", GIVEN.prompt)]
    try:
        client.chat.completions.create(model="chat", **FIELDS, tools=[{"type": "function", "function": {"name": "f"}}])
    except openai.BadRequestError as error:
        refused = error.body["param"]
    answer(
        whole=[whole.choices[0].message.content, whole.choices[0].finish_reason, whole.usage.completion_tokens],
        **streamed(client, whole.choices[0].message.content[-1]),
        several=asyncio.run(asked()),
        litellm=litellm.completion(**lite).choices[0].message.content,
        litellm_pieces="".join(c.choices[0].delta.content or "" for c in litellm.completion(**lite, stream=True)),
        langchain=chain.invoke(said).content,
        langchain_pieces="".join(chunk.content for chunk in chain.stream(said)),
        refused=refused,
    )


main()
