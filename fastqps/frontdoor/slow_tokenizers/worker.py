"""A process that encodes texts one after another: the worker's side and the front door's."""

from __future__ import annotations

import json
import os
import resource
import select
import struct
import sys
import time
from array import array
from collections.abc import Iterable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from fastqps.frontdoor.slow_tokenizers.limits import ADDRESS_SPACE_BYTES, GROWTH_BYTES
from fastqps.models.chat.conversation import MODES, Message, Mode
from fastqps.models.chat.tokens import ChatTokens
from fastqps.models.tokenizers.tokenizer import Cut, Encoded, Item, Tokenizer

Chat = tuple[list[tuple[str, str]], str, str]
"""(messages as role and content, one of MODES, the template's variables as JSON or "")."""
REFUSED = "the tokenizer refused it"
Job = tuple[int, int, int, int, Cut, str, str | None, Chat | None]
"""(slot, route, connection, most tokens, how it is cut, first text, second text, conversation instead of them), as the
front door hands it out."""
Result = tuple[int, bytes, bytes, int, int, str]
"""(slot, ids, spans of a token classifier, first_len, n_total, why there are no ids)."""
_OK = b"\0"  # what an answer with ids begins with; any other is the reason why there are none
_HEAD = struct.Struct("=III")  # first_len, n_total, ids
_ID = array("I").itemsize
_NO_PART = (0xFFFFFFFF, 0xFFFFFFFF, 0)  # kNoPart in csrc/text/tokenizer.h
_PROCESS_CLOCK = 2  # of a process, all of its threads: see clock_getcpuclockid(3)
_PAGE = resource.getpagesize()
_REASON_BYTES = 400


class RouteTokens(NamedTuple):
    """What makes ids of a route's texts and conversations."""

    tokenizer: Tokenizer
    chat: ChatTokens | None


def serve(connection: Connection, routes: Mapping[int, RouteTokens | str]) -> NoReturn:
    """Runs in the worker: encodes each text and answers it. ``routes``: what they have, or why they have nothing."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    bytes_max = _pages(os.getpid())[0] * _PAGE + ADDRESS_SPACE_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (bytes_max, bytes_max))
    while True:
        try:
            jobs = json.loads(connection.recv_bytes())
        except EOFError:  # the front door has another worker now
            sys.exit(0)
        for route, max_tokens, cut, first, second, chat in jobs:
            item = first if second is None else (first, second)
            connection.send_bytes(_answer(routes.get(route), item, chat, max_tokens, cut))


def _answer(tokens: RouteTokens | str | None, item: Item, chat: Chat | None, max_tokens: int, cut: Cut) -> bytes:
    if not isinstance(tokens, RouteTokens):
        return _reason(tokens or "")
    try:
        if not chat:
            return _packed(tokens.tokenizer.encode_items([item], max_tokens, cut)[0])
        assert tokens.chat
        return _packed(tokens.chat.encode(*conversation(chat), max_tokens, cut))
    except MemoryError:
        return _reason(f"it takes more than {ADDRESS_SPACE_BYTES >> 20} MiB of memory")
    except RecursionError:
        return _reason("the template's variables are nested too deeply")
    except ValueError as error:
        return _reason(str(error) if chat else "")


def _reason(why: str) -> bytes:
    return why.encode(errors="replace")[:_REASON_BYTES]


def conversation(chat: Chat) -> tuple[list[Message], Mode, dict[str, Any]]:
    """Raises ``ValueError`` where the variables are no JSON object."""
    messages, mode, variables = chat
    parsed = json.loads(variables or "{}")
    if not isinstance(parsed, dict):
        raise ValueError("the template's variables are not a JSON object")
    return [Message(role, content) for role, content in messages], next(each for each in MODES if each == mode), parsed


def _packed(found: Encoded) -> bytes:
    numbers = array("I", found.ids)
    for span in found.spans or ():
        numbers.extend(span or _NO_PART)
    return _OK + _HEAD.pack(found.first_len, found.n_total, len(found.ids)) + numbers.tobytes()


class TooSlowError(Exception):
    """A text was not answered within its time limit."""


class EndedError(Exception):
    """The worker has ended, or sends an invalid answer."""


class Worker:
    """The front door's side of one. Not thread-safe.

    ``forked_at``: how many changes of the tokenizers it knows.
    """

    def __init__(self, pid: int, connection: Connection, forked_at: int) -> None:
        self.pid = pid
        self.forked_at = forked_at
        self._connection = connection
        self._readable = select.poll()
        self._readable.register(connection.fileno(), select.POLLIN)
        self._resident_bytes = _pages(pid)[1] * _PAGE
        self._answered_s = (0.0, 0.0)

    def ask(self, jobs: Iterable[Job]) -> None:
        """Sends texts. The caller must take as many answers before it sends more."""
        try:
            self._connection.send_bytes(json.dumps([[route, *rest] for _, route, _, *rest in jobs]).encode())
        except OSError as error:
            raise EndedError from error
        self._answered_s = self._now_s()

    def answered(self, within_s: float) -> bool:
        """Waits for an answer."""
        return bool(self._readable.poll(within_s * 1000))

    def answer(self, job: Job) -> Result:
        """Waits for the answer of the oldest unanswered text. Raises ``EndedError`` if the worker ends first."""
        slot = job[0]
        try:
            data = self._connection.recv_bytes()
        except (OSError, EOFError) as error:
            raise EndedError from error
        self._answered_s = self._now_s()
        if not data.startswith(_OK):
            return slot, b"", b"", 0, 0, data.decode(errors="replace") or REFUSED
        first_len, n_total, n_ids = _HEAD.unpack_from(data, len(_OK))
        begin = len(_OK) + _HEAD.size
        end = begin + n_ids * _ID
        return slot, data[begin:end], data[end:], first_len, n_total, ""

    def used_s(self) -> tuple[float, float]:
        """CPU time and elapsed time since its newest answer."""
        now_s, before_s = self._now_s(), self._answered_s
        return now_s[0] - before_s[0], now_s[1] - before_s[1]

    def has_grown(self) -> bool:
        """Whether its memory has grown much since its start."""
        return _pages(self.pid)[1] * _PAGE > self._resident_bytes + GROWTH_BYTES

    def close(self) -> None:
        """Closes the connection, which ends an idle worker."""
        self._connection.close()

    def _now_s(self) -> tuple[float, float]:
        try:
            cpu_s = time.clock_gettime(~self.pid << 3 | _PROCESS_CLOCK)
        except OSError:  # it has ended; the connection will report that
            cpu_s = self._answered_s[0]
        return cpu_s, time.monotonic()


def _pages(pid: int) -> tuple[int, int]:
    """A process's memory in pages: its address space, its resident set. 0 if the process is gone."""
    try:
        size, resident, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return 0, 0
    return int(size), int(resident)
