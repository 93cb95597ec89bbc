"""openai.AsyncOpenAI: concurrent embeddings, completions whole and streamed."""

import asyncio

import openai
from given import GIVEN, answer


async def main() -> None:
    async with openai.AsyncOpenAI(base_url=f"http://{GIVEN.http}/v1", api_key="any", max_retries=0) as client:
        embeddings = [client.embeddings.create(model="wordllama", input=text) for text in GIVEN.texts * 8]
        fields = {"model": "grammar", "prompt": GIVEN.prompt, "max_tokens": GIVEN.count_max, "temperature": 0}
        completion = await client.completions.create(**fields)
        stream = await client.completions.create(**fields, stream=True)
        answer(
            models=[model.id async for model in client.models.list()],
            many=[found.data[0].embedding for found in await asyncio.gather(*embeddings)],
            generated=completion.choices[0].text,
            pieces=[chunk.choices[0].text async for chunk in stream],
        )


asyncio.run(main())
