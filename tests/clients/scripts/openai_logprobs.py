"""openai.OpenAI: log-probabilities of completions, of prompts and of chats, whole and streamed."""

from typing import Any

import openai
from given import GIVEN, answer

client = openai.OpenAI(base_url=f"http://{GIVEN.http}/v1", api_key="any", max_retries=0)
COMMON: dict[str, Any] = {"model": "chat", "max_tokens": GIVEN.count_max, "temperature": 0}
TEXT: dict[str, Any] = {**COMMON, "prompt": GIVEN.prompt, "logprobs": 3}
ECHO: dict[str, Any] = {**TEXT, "echo": True}
CHAT: dict[str, Any] = {**COMMON, "messages": [{"role": "user", "content": GIVEN.prompt}], "logprobs": True}
CHAT["top_logprobs"] = 3


def of_texts(choices: list[Any]) -> dict[str, Any]:
    """What the choices have together."""
    given = [choice.logprobs for choice in choices if choice.logprobs]
    return {
        "text": "".join(choice.text for choice in choices),
        "logprobs": [p for each in given for p in each.token_logprobs],
        "top": [list((likely or {}).values()) for each in given for likely in each.top_logprobs],
        "offsets": [offset for each in given for offset in each.text_offset],
        "tokens": [token for each in given for token in each.tokens],
    }


def of_chats(choices: list[Any], text: str) -> dict[str, Any]:
    tokens = [token for choice in choices if choice.logprobs for token in choice.logprobs.content]
    return {
        "text": text,
        "logprobs": [token.logprob for token in tokens],
        "top": [[likely.logprob for likely in token.top_logprobs] for token in tokens],
        "bytes": [byte for token in tokens for byte in token.bytes or []],
    }


def parts(stream: Any) -> list[Any]:
    return [choice for chunk in stream for choice in chunk.choices]


whole = client.chat.completions.create(**CHAT).choices
pieces = parts(client.chat.completions.create(**CHAT, stream=True))
answer(
    texts=[
        of_texts(client.completions.create(**TEXT).choices),
        of_texts(parts(client.completions.create(**TEXT, stream=True))),
        *[of_texts([choice]) for choice in client.completions.create(**TEXT, n=2).choices],
    ],
    echoes=[
        of_texts(client.completions.create(**ECHO).choices),
        of_texts(parts(client.completions.create(**ECHO, stream=True))),
        *[of_texts([choice]) for choice in client.completions.create(**ECHO, n=2).choices],
        of_texts(client.completions.create(**{**ECHO, "max_tokens": 0}).choices),
    ],
    chats=[
        of_chats(whole, whole[0].message.content),
        of_chats(pieces, "".join(piece.delta.content or "" for piece in pieces)),
    ],
)
