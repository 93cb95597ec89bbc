"""Reads a checkpoint's chat template, and has child processes, which can be killed, render samples."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastqps.errors import ModelError
from fastqps.models.chat.card import ChatCard, frozen
from fastqps.models.chat.spellings import special_tokens
from fastqps.models.chat.table import ChatTable
from fastqps.models.files.reading import has_file, optional_object, read_regular
from fastqps.models.tokenizers.keys import CHAT_TEMPLATE, CONFIG

TEMPLATE_BYTES_MAX = 64 << 10  # the card holds it, and has 256 KiB
CPU_S = 10
"""What a child process may take for one template."""
_WALL_S = 120.0


def has_chat_template(folder: Path) -> str:
    """The file in which the tokenizer's chat template lies; "" where it has none."""
    if has_file(folder / CHAT_TEMPLATE):
        return CHAT_TEMPLATE
    return CONFIG if optional_object(folder / CONFIG).get("chat_template") is not None else ""


def read_chat(folder: Path, source: str, names: Mapping[str, str]) -> tuple[ChatCard | None, tuple[str, ...]]:
    """The chat template beside a tokenizer, if there is one that can be used, and warnings, a sentence each.

    ``source``: the tokenizer's, as ``Tokenizer.from_source`` takes it. ``names``: its special tokens by their names.
    """
    place = has_chat_template(folder)
    if not place:
        return None, ()
    try:
        template = chat_template(folder)
        answer = _derived(template, names, _tokens(source, "".join((template, *names.values()))))
    except ModelError as error:
        return None, (f"{place}: the chat template cannot be used, so that the model takes no chats: {error}.",)
    table = answer["table"]
    why = () if table else (f"{place}: chats are rendered one by one, by a slower process: {answer['why']}.",)
    return ChatCard(template, tuple(names.items()), table and ChatTable.of(frozen(table))), why


def chat_template(folder: Path) -> str:
    """The default one of those beside a tokenizer, which has one. ``ModelError`` where it is too long or none."""
    if has_file(folder / CHAT_TEMPLATE):
        stated: Any = read_regular(folder / CHAT_TEMPLATE, TEMPLATE_BYTES_MAX).decode(errors="replace")
    else:
        stated = optional_object(folder / CONFIG)["chat_template"]
    if isinstance(stated, list):
        named = [each for each in stated if isinstance(each, dict) and each.get("name") == "default"]
        stated = named[0].get("template") if named else None
    elif isinstance(stated, dict):
        stated = stated.get("default")
    if not isinstance(stated, str):
        raise ModelError("none of the templates is named 'default'")
    if len(stated.encode(errors="replace")) > TEMPLATE_BYTES_MAX:
        raise ModelError(f"it has more than {TEMPLATE_BYTES_MAX} bytes")
    return stated


def _tokens(source: str, used: str) -> list[tuple[str, int, int, int]]:
    """The special tokens. ``ModelError`` where one of ``used`` is looked for in another text than what is rendered."""
    special = special_tokens(source).values()
    odd = [each["content"] for each in special if each["single_word"] or each["normalized"]]
    if found := next((each for each in odd if each in used), ""):
        raise ModelError(f"its special token {found!r} is normalized, or a word of its own")
    return [(each["content"], each["id"], int(each["lstrip"]), int(each["rstrip"])) for each in special]


def _derived(template: str, names: Mapping[str, str], tokens: list[tuple[str, int, int, int]]) -> dict[str, Any]:
    question = {"template": template, "names": dict(names), "tokens": tokens}
    answer: dict[str, Any] = ask_child("fastqps.models.chat.child", question)
    if "refused" in answer:
        raise ModelError(answer["refused"])
    return answer


def ask_child(module: str, question: Any) -> Any:
    """What the module, run as a process of its own, writes for the question. ``ModelError`` where it does not end."""
    command = [sys.executable, "-m", module, str(CPU_S)]
    given = json.dumps(question).encode()
    try:
        ended = subprocess.run(command, input=given, capture_output=True, timeout=_WALL_S, check=False)
    except subprocess.TimeoutExpired:
        raise ModelError(f"it does not end within {_WALL_S:g} s") from None
    if ended.returncode:
        words = ended.stderr.decode(errors="replace").strip().rpartition("\n")[2] or f"exit {ended.returncode}"
        raise ModelError(f"rendering samples took too much time or memory, or failed ({words[:200]})")
    return json.loads(ended.stdout)
