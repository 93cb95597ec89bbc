"""Random conversations, on which tables of chat templates are tried."""

from __future__ import annotations

import random
from collections.abc import Sequence

from fastqps.models.chat.conversation import MODES, ROLES, Message, Mode

_TEXTS = (
    *("Hello", "How are you?", "a", "", " ", "\n", "  leading", "trailing \n", "\n\nboth\n\n", "two\nlines", "\ttab"),
    *("{{ messages }}", "{% for x in y %}", "{# c #}", "</s>", "<s>", "<|im_end|>", "<|eot_id|>", "<|user|>", "[INST]"),
    *(
        "<end_of_turn>",
        "<<SYS>>",
        "<think>\nno\n</think>\n\nyes",
        "[/INST]",
        "<|endoftext|>",
        '{"a": "b\\n"}',
        "\\n",
        "'",
    ),
    *("\u0395\u03bb\u03bb\u03ac\u03b4\u03b1", "\u0440\u0443\u0441\u0441\u043a\u0438\u0439", "\u4e2d\u6587\u3002"),
    *(
        "\u0639\u0631\u0628\u064a",
        "\u05e2\u05d1\u05e8\u05d9\u05ea",
        "\u0939\u093f\u0928\u094d\u0926\u0940",
        "\u0e44\u0e17\u0e22",
    ),
    *(
        "\ud55c\uad6d\uc5b4",
        "\u65e5\u672c\u8a9e",
        "e\u0301",
        "\u00a0nbsp\u3000",
        "\U0001f600\u200d\U0001f4bb",
        "\ufffd",
        "x" * 300,
    ),
)


def random_content(source: random.Random, more: Sequence[str] = ()) -> str:
    """``more``: what else it may hold."""
    return "".join(source.choice((*_TEXTS, *more)) for _ in range(source.choice((1, 1, 1, 2, 3))))


def random_conversation(source: random.Random, more: Sequence[str] = ()) -> tuple[list[Message], Mode]:
    """Mostly turns of a user and an assistant, behind a system message or none; sometimes any roles."""
    length = source.randint(1, 8)
    system, *turns = ROLES
    roles = [turns[i % 2] for i in range(length)]
    if source.random() < 0.4:
        roles.insert(0, system)
    if source.random() < 0.1:
        roles = source.choices(ROLES, k=length)
    mode = source.choice(MODES)
    if mode == "generate" and roles[-1] == turns[1] and len(roles) > 1:
        roles.pop()
    return [Message(role, random_content(source, more)) for role in roles], mode
