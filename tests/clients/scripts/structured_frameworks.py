"""instructor, outlines, pydantic-ai and smolagents: answers as pydantic models, and plain texts."""

from typing import Literal

import instructor
import openai
import outlines
from given import GIVEN, answer
from instructor.core import InstructorRetryException
from person import Person
from pydantic_ai import Agent, ModelHTTPError, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from smolagents import OpenAIModel

URL = f"http://{GIVEN.http}/v1"
MESSAGES = [{"role": "user", "content": GIVEN.prompt}]
PLAIN = {"temperature": 0, "max_tokens": GIVEN.count_max}
CLIENT = openai.OpenAI(base_url=URL, api_key="any", max_retries=0)


def with_instructor(mode: instructor.Mode) -> Person:
    patched = instructor.from_openai(CLIENT, mode=mode)
    fields = {"messages": MESSAGES, "temperature": 0, "max_retries": 0}
    return patched.chat.completions.create(model="chat", response_model=Person, **fields)


def main() -> None:
    vllm, of_openai = outlines.from_vllm(CLIENT, "chat"), outlines.from_openai(CLIENT, "chat")
    agents = OpenAIChatModel("chat", provider=OpenAIProvider(base_url=URL, api_key="any"))
    small = OpenAIModel("chat", api_base=URL, api_key="any")
    schema = {"type": "json_schema", "json_schema": {"name": "Person", "schema": Person.model_json_schema()}}
    answers = {
        "outlines_vllm": vllm(GIVEN.prompt, Person, temperature=0),
        "outlines_vllm_stream": "".join(vllm.stream(GIVEN.prompt, Person, temperature=0)),
        "outlines_openai": of_openai(GIVEN.prompt, Person, temperature=0),
        "smolagents": small.generate(MESSAGES, temperature=0, response_format=schema).content,
    }
    people = {name: Person.model_validate_json(text) for name, text in answers.items()}
    people["instructor"] = with_instructor(instructor.Mode.JSON_SCHEMA)
    agent = Agent(agents, output_type=NativeOutput(Person), model_settings={"temperature": 0})
    people["pydantic_ai"] = agent.run_sync(GIVEN.prompt).output
    refused = []
    try:
        with_instructor(instructor.Mode.TOOLS)
    except InstructorRetryException as error:
        refused.append(str(error))
    try:
        Agent(agents, output_type=Person).run_sync(GIVEN.prompt)
    except ModelHTTPError as error:
        refused.append(str(error))
    pieces = [piece.content or "" for piece in small.generate_stream(MESSAGES, **PLAIN)]
    answer(
        people={name: [person.model_dump()] for name, person in people.items()},
        choice=vllm(GIVEN.prompt, Literal["yes", "no"]),
        matches=vllm(GIVEN.prompt, outlines.types.Regex("[a-z]{3}-[0-9]{2}")),
        spelled=vllm(GIVEN.prompt, outlines.types.CFG('start: "a" | "b"')),
        texts={
            "outlines": vllm(GIVEN.prompt, **PLAIN),
            "pydantic_ai": Agent(agents, model_settings=PLAIN).run_sync(GIVEN.prompt).output,
            "smolagents": small.generate(MESSAGES, **PLAIN).content,
            "smolagents_stream": "".join(pieces),
        },
        refused=refused,
    )


main()
