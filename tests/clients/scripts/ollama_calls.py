"""ollama: embed and its predecessor, embeddings, blocking and asyncio."""

import asyncio

import ollama
from given import GIVEN, answer

URL = f"http://{GIVEN.http}"
client = ollama.Client(host=URL)
found = asyncio.run(ollama.AsyncClient(host=URL).embed(model="wordllama:latest", input=GIVEN.text))
answer(
    embed={
        "one": [client.embed(model="wordllama", input=GIVEN.text).embeddings[0], found.embeddings[0]],
        "many": client.embed(model="wordllama", input=GIVEN.texts).embeddings,
    },
    embeddings={
        "one": [client.embeddings(model="wordllama", prompt=GIVEN.text).embedding],
        "many": [client.embeddings(model="wordllama", prompt=text).embedding for text in GIVEN.texts],
    },
)
