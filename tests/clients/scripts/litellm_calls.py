"""LiteLLM: embeddings by each of its providers that takes an address, and completions whole and streamed."""

from typing import Any

import litellm
from given import GIVEN, answer

URL = f"http://{GIVEN.http}"
PROVIDERS = {  # and the address that its users give
    "openai": f"{URL}/v1",
    "hosted_vllm": f"{URL}/v1",
    "infinity": URL,
    "jina_ai": f"{URL}/v1",
    "voyage": f"{URL}/v1",
    "cohere": f"{URL}/v2/embed",
    "huggingface": URL,
}


def embedded(provider: str, texts: list[str]) -> list[Any]:
    options = {"input_type": "embed"} if provider == "huggingface" else {}  # else it asks the hub for the task
    found = litellm.embedding(
        model=f"{provider}/wordllama", input=texts, api_base=PROVIDERS[provider], api_key="any", **options
    )
    return [each["embedding"] for each in found.data]


def completed(**options: Any) -> Any:
    return litellm.text_completion(
        model="text-completion-openai/grammar",
        prompt=GIVEN.prompt,
        max_tokens=GIVEN.count_max,
        temperature=0,
        api_base=f"{URL}/v1",
        api_key="any",
        **options,
    )


answer(
    generated=completed().choices[0].text,
    pieces=[chunk.choices[0].text or "" for chunk in completed(stream=True)],
    **{name: {"one": embedded(name, [GIVEN.text]), "many": embedded(name, GIVEN.texts)} for name in PROVIDERS},
)
