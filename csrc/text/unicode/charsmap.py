"""Writes a character map of SentencePiece: a double array of darts-clone, and the strings of its values."""

import base64
import json
from collections.abc import Mapping

_BLOCK = 256


def charsmap(mapping: Mapping[str, str]) -> bytes:
    """The map that replaces each key by its value. Every node has a block of its own: simple, and not small."""
    tree: dict[int, dict] = {}  # type: ignore[type-arg]
    strings = bytearray(b"\0")
    for key, value in mapping.items():
        node = tree
        for byte in key.encode():
            node = node.setdefault(byte, {})
        node[-1] = len(strings) if value else 0
        strings += value.encode() + b"\0" if value else b""
    units = [0] * _BLOCK
    waiting = [(0, 0, tree)]  # a node's place, its byte, and what follows
    while waiting:
        place, byte, node = waiting.pop()
        base = len(units) | byte
        units += [0] * _BLOCK
        units[place] = byte | _offset(place ^ base) | (256 if -1 in node else 0)
        for follows, child in node.items():
            if follows < 0:
                units[base] = child | 1 << 31
            else:
                waiting.append((base ^ follows, follows, child))
    array = b"".join(unit.to_bytes(4, "little") for unit in units)
    return len(array).to_bytes(4, "little") + array + bytes(strings)


def _offset(offset: int) -> int:
    if offset < 1 << 21:
        return offset << 10
    assert offset % _BLOCK == 0 and offset < 1 << 29
    return offset >> 8 << 10 | 1 << 9


def precompiled(mapping: Mapping[str, str]) -> str:
    """The normalizer of a tokenizer.json with this map."""
    return json.dumps({"type": "Precompiled", "precompiled_charsmap": base64.b64encode(charsmap(mapping)).decode()})
