"""StepService as a test wants it: a gRPC server that tells edges what the test says, and the bytes of its messages."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import grpc
from grpc_server import grpc_server, of_bytes

RUN = "/fastqps.v1.StepService/Run"
_PLACES = (
    0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 0xD6E8FEB86659FD93,
    0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x8EBC6AF09C88C6E3, 0x589965CC75374CC3,
)  # fmt: skip
_NEXT_PLACE = 0x9FB21C651E98DF25
_ALL = (1 << 64) - 1
Replies = Callable[[Iterator[bytes], Any], Iterator[bytes]]


def _rotated(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _ALL


def checksum(data: bytes) -> int:
    """As csrc/edge/messages/step_checksum.cpp has it."""
    sums = [len(data), *range(1, 8)]
    whole = len(data) // 64
    for stripe in range(whole):
        for i, word in enumerate(struct.unpack_from("<8Q", data, 64 * stripe)):
            mixed = word ^ ((_PLACES[i] + stripe * _NEXT_PLACE) & _ALL)
            sums[i] = (sums[i] + (mixed & 0xFFFFFFFF) * (mixed >> 32)) & _ALL
            sums[i ^ 1] = (sums[i ^ 1] + word) & _ALL
    rest = struct.unpack("<8Q", data[64 * whole :].ljust(64, b"\0"))
    total = 0
    for each, word in zip(sums, rest, strict=True):
        each = ((each ^ word) * _PLACES[0]) & _ALL
        total = _rotated(((total ^ each ^ each >> 29) * _PLACES[0]) & _ALL, 31)
    return total ^ total >> 32


def sealed(message: bytes) -> bytes:
    """A message with its checksum, field 15."""
    return message + b"\x79" + checksum(message).to_bytes(8, "little")


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def part(field: int, data: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(data)) + data


def hello(protocol: int, model: str, version: str) -> bytes:
    return sealed(part(1, number(1, protocol) + part(2, model.encode()) + part(3, version.encode())))


PROTOCOL = 7  # of StepService


def ready(
    protocol: int = PROTOCOL, input_tokens: int = 1 << 16, output_tokens: int = 1 << 16, inflight: int = 1024
) -> bytes:
    limits = number(2, input_tokens) + number(3, output_tokens) + number(4, inflight)
    return sealed(part(1, number(1, protocol) + limits))


def step_server(replies: Replies | None) -> AbstractContextManager[str]:
    """The address of a server that answers calls of Run so. None: it knows no StepService."""
    if not replies:
        return grpc_server()
    return grpc_server(of_bytes("fastqps.v1.StepService", {"Run": grpc.stream_stream_rpc_method_handler(replies)}))
