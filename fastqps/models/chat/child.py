"""``python -m fastqps.models.chat.child CPU_S``: derives the table of a template within limits of time and memory.

It reads JSON from its standard input, ``{"template", "names", "tokens"}``, and writes ``{"table", "why"}``. Tokens are
the special ones: ``[text, id, takes white space before, behind]``.
"""

from __future__ import annotations

import dataclasses
import json
import re
import resource
import sys
from collections.abc import Iterator, Mapping
from typing import Any

from fastqps.models.chat.conversation import ChatError
from fastqps.models.chat.derive import NoTableError, derive
from fastqps.models.chat.spellings import Spellings
from fastqps.models.chat.table import ChatTable, Part
from fastqps.models.chat.template import ChatTemplate

ADDRESS_SPACE_BYTES = 1 << 30
FORM_MAX = 64
"""The longest form of a time in a table: its text is at most 12 times as long, with kTimeBytes in csrc/text."""
_FORM = re.compile(r"(?:[^%\0]|%[-_0^#]?[aAbBcCdDeFgGhHIjklmMnpPrRStTuUVwWxXyY%])*")
ANSWER_BYTES_MAX = 1 << 20
TABLE_BYTES_MAX = 96 << 10  # those of published templates have at most 24 KiB; the card has 256 KiB for all
_TIME = re.compile("\ufdd0(.*?)\ufdd1", re.DOTALL)  # noncharacters, which no format has


def main() -> None:
    """Serves one template."""
    asked = question()
    tokens = {text: Part("token", text, *numbers) for text, *numbers in asked["tokens"]}
    answer(_answer(asked["template"], asked["names"], tokens))


def question() -> Any:
    """What this process is asked. From now on it is limited: it renders a template that nobody has read."""
    cpu_s = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s))
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return json.loads(sys.stdin.read())


def answer(value: Any) -> None:
    """Writes what this process is asked for, which a template can make as long as it likes."""
    text = json.dumps(value)
    if len(text) > ANSWER_BYTES_MAX:
        sys.exit(f"{len(text)} bytes, at most {ANSWER_BYTES_MAX}")
    sys.stdout.write(text)


def _answer(source: str, names: Mapping[str, str], tokens: Mapping[str, Part]) -> dict[str, Any]:
    try:
        template = ChatTemplate(source, names, lambda form: f"\ufdd0{form}\ufdd1")
    except ChatError as error:
        return {"refused": str(error)}
    try:
        table = dataclasses.asdict(with_tokens(derive(template), tokens))
        if (n_bytes := len(json.dumps(table))) > TABLE_BYTES_MAX:
            raise NoTableError(f"its table has {n_bytes} bytes, at most {TABLE_BYTES_MAX}")
        return {"table": table}
    except NoTableError as why:
        return {"table": None, "why": str(why)}


def with_tokens(table: ChatTable, tokens: Mapping[str, Part]) -> ChatTable:
    """The table with the special tokens and the times in its texts as parts of their own."""
    spellings = Spellings(tokens)

    def split(text: str) -> Iterator[Part]:
        for i, stretch in enumerate(_TIME.split(text)):
            if i % 2:
                yield _time(stretch)
                continue
            for each in spellings.split(stretch):
                if each:
                    yield tokens.get(each) or Part("text", each)

    pieces = tuple(
        dataclasses.replace(
            piece,
            parts=tuple(one for part in piece.parts for one in (split(part.text) if part.kind == "text" else (part,))),
        )
        for piece in table.pieces
    )
    return dataclasses.replace(table, pieces=pieces)


def _time(form: str) -> Part:
    """``ChatTemplate::put`` in C++ has other results for some forms than Python has, such as ``%f``."""
    if len(form) > FORM_MAX or not _FORM.fullmatch(form):
        raise NoTableError(f"it asks for the time in the form {form[:FORM_MAX]!r}")
    return Part("time", form)


if __name__ == "__main__":
    main()
