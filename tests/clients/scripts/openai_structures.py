"""Answers as pydantic models by openai, blocking, asyncio and streamed, by LiteLLM and by langchain-openai."""

import asyncio

import litellm
import openai
from given import GIVEN, answer
from langchain_openai import ChatOpenAI
from person import Person

URL = f"http://{GIVEN.http}/v1"
MESSAGES = [{"role": "user", "content": GIVEN.prompt}]
FIELDS = {"model": "chat", "messages": MESSAGES, "temperature": 0}
LITE = {"messages": MESSAGES, "temperature": 0, "api_base": URL, "api_key": "any", "response_format": Person}
CLIENT = openai.OpenAI(base_url=URL, api_key="any", max_retries=0)
CHAIN = ChatOpenAI(base_url=URL, api_key="any", model="chat", temperature=0, max_retries=0)


async def asked() -> list[Person]:
    async with openai.AsyncOpenAI(base_url=URL, api_key="any", max_retries=0) as client:
        parsed = await client.chat.completions.parse(**FIELDS, response_format=Person)
        async with client.chat.completions.stream(**FIELDS, response_format=Person) as stream:
            streamed = await stream.get_final_completion()
    return [found.choices[0].message.parsed for found in (parsed, streamed)]


def streamed() -> tuple[Person, list[str]]:
    """And the kinds of events."""
    with CLIENT.chat.completions.stream(**FIELDS, response_format=Person) as stream:
        events = [event.type for event in stream]
        return stream.get_final_completion().choices[0].message.parsed, events


def completed() -> Person:
    """By a schema beside the prompt's own token ids."""
    schema = {"type": "json_schema", "json_schema": {"name": "Person", "schema": Person.model_json_schema()}}
    tokens = CLIENT.post("../tokenize", body={"messages": MESSAGES}, cast_to=object)["tokens"]
    found = CLIENT.completions.create(
        model="chat",
        prompt=tokens,
        temperature=0,
        max_tokens=GIVEN.count_max * 9,
        extra_body={"response_format": schema},
    )
    return Person.model_validate_json(found.choices[0].text)


def lite(provider: str) -> list[Person]:
    whole = litellm.completion(model=f"{provider}/chat", **LITE).choices[0].message.content
    pieces = [
        chunk.choices[0].delta.content or ""
        for chunk in litellm.completion(model=f"{provider}/chat", **LITE, stream=True)
    ]
    return [Person.model_validate_json(text) for text in (whole, "".join(pieces))]


by_stream, events = streamed()
found = {
    "completed": [completed()],
    "parsed": [CLIENT.chat.completions.parse(**FIELDS, response_format=Person).choices[0].message.parsed],
    "streamed": [by_stream],
    "asyncio": asyncio.run(asked()),
    "litellm": lite("openai"),
    "litellm_vllm": lite("hosted_vllm"),
    "langchain": [CHAIN.with_structured_output(Person).invoke(GIVEN.prompt)],
    "langchain_stream": [[*CHAIN.with_structured_output(Person, method="json_schema").stream(GIVEN.prompt)][-1]],
}
try:
    CHAIN.with_structured_output(Person, method="function_calling").invoke(GIVEN.prompt)
except openai.BadRequestError as error:
    refused = str(error)
answer(
    people={name: [person.model_dump() for person in people] for name, people in found.items()},
    events=events,
    refused=refused,
)
