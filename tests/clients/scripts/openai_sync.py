"""openai.OpenAI: models, embeddings in both encodings, completions whole and streamed, errors."""

import openai
from given import GIVEN, answer

client = openai.OpenAI(base_url=f"http://{GIVEN.http}/v1", api_key="any", max_retries=0)
one = [
    client.embeddings.create(model="wordllama", input=GIVEN.text, **encoding).data[0].embedding
    for encoding in ({}, {"encoding_format": "float"})
]
raw = client.embeddings.create(model="wordllama", input=GIVEN.text, encoding_format="base64").data[0].embedding
many = client.embeddings.create(model="wordllama", input=GIVEN.texts)
fields = {"model": "grammar", "prompt": GIVEN.prompt, "max_tokens": GIVEN.count_max, "temperature": 0}
completion = client.completions.create(**fields)
pieces, usage = [], None
for chunk in client.completions.create(**fields, stream=True, stream_options={"include_usage": True}):
    pieces += [choice.text for choice in chunk.choices]
    usage = chunk.usage or usage
try:
    client.embeddings.create(model="none", input=GIVEN.text)
    refused = ""
except openai.NotFoundError as error:
    refused = error.code
try:
    client.completions.create(**fields, suffix="a")
    bad = ""
except openai.BadRequestError as error:
    bad = str(error)
answer(
    models=[model.id for model in client.models.list()],
    one=one,
    raw=raw,
    many=[each.embedding for each in many.data],
    short=client.embeddings.create(model="wordllama", input=GIVEN.text, dimensions=64).data[0].embedding,
    ids=client.embeddings.create(model="wordllama", input=GIVEN.ids).data[0].embedding,
    generated=completion.choices[0].text,
    several=[choice.text for choice in client.completions.create(**fields, n=2).choices],
    reason=completion.choices[0].finish_reason,
    pieces=pieces,
    tokens=[completion.usage.completion_tokens, usage.completion_tokens],
    refused=refused,
    bad=bad,
)
