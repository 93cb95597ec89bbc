"""The threads that answer a front door's rare calls."""

from __future__ import annotations

import queue
import threading
from types import SimpleNamespace
from typing import Any, cast

import pytest
from serving import PATIENCE_S, until

from fastqps import _front
from fastqps.errors import StatusCode
from fastqps.frontdoor import default_tokenizer
from fastqps.frontdoor.rare_calls import (
    GONE,
    HALF_CLOSE,
    MESSAGE,
    SLOW_WAITING_MAX,
    CallFailed,
    RareMethod,
    serve,
)
from fastqps.frontdoor.rare_routes import RareRoute, json_response


class Door:
    """Hands out calls and keeps their answers."""

    def __init__(self) -> None:
        self.calls: queue.Queue[Any] = queue.Queue()
        self.answers: queue.Queue[tuple[Any, ...]] = queue.Queue()

    def add_rare_method(self, path: str, unary: bool, texts: bool, number: int) -> None: ...
    def add_rare_route(self, verb: str, pattern: str, protocol: str, texts: bool, number: int) -> None: ...
    def next_rare(self, _timeout_ms: int) -> Any:
        return self.calls.get()

    def answer_rare(self, *answer: Any) -> None:
        self.answers.put(answer)

    answer_rare_route = answer_rare

    def ask(self, call: int, number: int, message: bytes = b"", event: int = MESSAGE, http: Any = None) -> None:
        self.calls.put(((call, 0), number, event, message, True, http))

    def answer(self) -> tuple[Any, ...]:
        return self.answers.get(timeout=PATIENCE_S)


def fail(_: bytes) -> bytes:
    raise CallFailed(3, "wrong")


def test_calls_are_answered_by_their_rows() -> None:
    door = Door()
    methods = [
        RareMethod("/a/Unary", True, bytes.upper),
        RareMethod("/a/Stream", False, bytes.upper, slow=True),
        RareMethod("/a/Fails", True, fail),
        RareMethod("/a/Breaks", True, lambda _: 1 // 0),  # type: ignore[arg-type,return-value]
    ]
    routes = [RareRoute("GET", "/r", lambda request: json_response([request.query, *request.parameters]))]
    serve(cast(_front.Door, door), methods, routes)
    door.ask(1, 0, b"a")
    assert door.answer() == ((1, 0), b"A", True)
    door.ask(2, 1, b"b")
    door.ask(2, 1, event=HALF_CLOSE)
    assert [door.answer(), door.answer()] == [((2, 0), b"B", False), ((2, 0), None, True)]
    door.ask(3, 2)
    assert door.answer() == ((3, 0), None, True, 3, "wrong")
    door.ask(4, 3)
    assert door.answer()[:4] == ((4, 0), None, True, StatusCode.INTERNAL)
    door.ask(5, 4, http=("q", ["p"]))
    assert door.answer() == ((5, 0), b'["q","p"]', 200, "application/json")
    door.calls.put(None)


def test_calls_whose_clients_are_gone_take_no_time() -> None:
    door, held, worked = Door(), threading.Event(), list[bytes]()

    def work(message: bytes) -> bytes:
        held.wait(PATIENCE_S)
        worked.append(message)
        return message

    serve(cast(_front.Door, door), [RareMethod("/a/Slow", False, work, slow=True)], [])
    for call in range(10):
        door.ask(call, 0, b"1")
        door.ask(call, 0, b"2")
    for call in range(1, 9):
        door.ask(call, 0, event=GONE)
    door.ask(9, 0, b"3")
    until(door.calls.empty, "all are taken")
    held.set()
    while door.answer()[:2] != ((9, 0), b"3"):
        pass
    assert set(worked) == {b"1", b"2", b"3"} and len(worked) == 5
    door.calls.put(None)


def test_no_call_waits_for_a_slow_one() -> None:
    door, held = Door(), threading.Event()

    def hang(message: bytes) -> bytes:
        held.wait(PATIENCE_S)
        return message

    methods = [RareMethod("/a/Slow", True, hang, slow=True), RareMethod("/a/Quick", True, bytes.upper)]
    serve(cast(_front.Door, door), methods, [])
    for call in range(SLOW_WAITING_MAX + 2):  # one is taken, at once or later
        door.ask(call, 0, b"s")
    door.ask(1000, 1, b"q")
    found = [door.answer()]
    while found[-1][0] != (1000, 0):
        found.append(door.answer())
    assert found[-1] == ((1000, 0), b"Q", True)
    refused = found[:-1]
    assert 1 <= len(refused) <= 2 and {answer[3] for answer in refused} == {StatusCode.RESOURCE_EXHAUSTED}
    held.set()
    answered = [door.answer() for _ in range(SLOW_WAITING_MAX + 2 - len(refused))]
    assert {answer[1:] for answer in answered} == {(b"s", True)}
    door.calls.put(None)


def test_each_model_keeps_its_tokenizer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models that are asked for in turn are loaded once; a new version is loaded again."""
    loaded: list[tuple[str, str]] = []

    def load(card: Any) -> Any:
        loaded.append((card.name, card.version))
        return object()

    monkeypatch.setattr(default_tokenizer, "load_tokenizer", load)
    tokenizers = default_tokenizer.DefaultTokenizer(cast(Any, None))
    first, second = (SimpleNamespace(name=name, version="1") for name in ("first", "second"))
    found = [tokenizers.of(cast(Any, card)) for card in (first, second, first, second)]
    assert loaded == [("first", "1"), ("second", "1")]
    assert found[:2] == found[2:] and found[0] is not found[1]
    tokenizers.of(cast(Any, SimpleNamespace(name="first", version="2")))
    assert loaded[2:] == [("first", "2")]
