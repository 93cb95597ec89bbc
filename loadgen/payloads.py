"""The payloads of calls: messages from files, or made here as one text field."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from loadgen import wire
from loadgen.errors import UsageError
from loadgen.texts import Lengths, texts

MESSAGE_BYTES_MAX = 64 << 20
PAYLOADS_MAX = 10_000_000
BYTES_MAX = 1 << 30


def from_files(paths: Sequence[str], delimited: bool) -> list[bytes]:
    """Serialized messages: each file is one, or with ``delimited`` holds many with their lengths in front.

    Raises ``UsageError`` for a file that is not there, is empty, or does not hold whole messages.
    """
    messages: list[bytes] = []
    for path in paths:
        try:
            with Path(path).open("rb") as file:
                data = file.read(BYTES_MAX + 1)
        except OSError as error:
            raise UsageError(f"cannot read the payload {path}: {error.strerror}") from None
        if not data:
            raise UsageError(f"the payload file {path} is empty (a message without fields: --empty-payload)")
        try:
            messages += wire.delimited(data) if delimited else [data]
        except ValueError as error:
            raise UsageError(f"the payload file {path} holds no delimited messages: {error}") from None
    _check(messages)
    return messages


def from_texts(field: int, lengths: Lengths, count: int, seed: int) -> list[bytes]:
    """``count`` different messages of one string field, of ordinary words."""
    if not 1 <= field <= wire.FIELD_MAX:
        raise UsageError(f"--text-field {field} is no field number; they are 1 to {wire.FIELD_MAX}")
    if not 1 <= count <= PAYLOADS_MAX:
        raise UsageError(f"{count:,} different payloads; a run has 1 to {PAYLOADS_MAX:,}")
    messages = [wire.text_field(field, text) for text in texts(lengths, count, random.Random(f"texts {seed}"))]
    _check(messages)
    return messages


def _check(payloads: list[bytes]) -> None:
    if len(payloads) > PAYLOADS_MAX:
        raise UsageError(f"{len(payloads):,} payloads; a run has at most {PAYLOADS_MAX:,}")
    longest = max(map(len, payloads))
    if longest > MESSAGE_BYTES_MAX:
        raise UsageError(f"a payload has {longest:,} bytes; at most {MESSAGE_BYTES_MAX:,}")
    if sum(map(len, payloads)) > BYTES_MAX:
        raise UsageError(f"the payloads have more than {BYTES_MAX >> 30} GiB together")
