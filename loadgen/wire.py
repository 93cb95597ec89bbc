"""The part of protobuf's wire format that a tool without a schema needs: varints, delimited messages, one string
field."""

from __future__ import annotations

from collections.abc import Iterator

FIELD_MAX = (1 << 29) - 1
_VARINT_BYTES_MAX = 10
_LENGTH_DELIMITED = 2


def varint(value: int) -> bytes:
    """A number of at least 0, seven bits a byte, the lowest first."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, place behind it). ``ValueError`` if it does not end."""
    value = 0
    for i in range(_VARINT_BYTES_MAX):
        if at + i >= len(data):
            raise ValueError("a length is cut off")
        byte = data[at + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value, at + i + 1
    raise ValueError("a length has more than 10 bytes")


def delimited(data: bytes) -> Iterator[bytes]:
    """The messages of a file in which each has its length in front. ``ValueError`` names one that is cut off."""
    at = count = 0
    while at < len(data):
        try:
            size, at = read_varint(data, at)
        except ValueError as error:
            raise ValueError(f"message {count}: {error}") from None
        if at + size > len(data):
            raise ValueError(f"message {count} should have {size} bytes, but {len(data) - at} are left")
        yield data[at : at + size]
        at += size
        count += 1


def text_field(number: int, text: str) -> bytes:
    """A message with one string field."""
    data = text.encode()
    return varint(number << 3 | _LENGTH_DELIMITED) + varint(len(data)) + data
