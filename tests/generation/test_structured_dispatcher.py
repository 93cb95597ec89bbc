"""Structures of a dispatcher's requests: how a compilation ends, and what is cached of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from fastqps.dispatcher import structured
from fastqps.dispatcher.structured import Structured
from fastqps.errors import ModelError, StatusCode
from fastqps.structure.cache import CACHED_BYTES_MAX, StructureCache
from fastqps.structure.structure import Structure

REGEX = 3  # its number

Answer = tuple[StatusCode, str]


class Stepper:
    """Claims requests of structures that a test asks for, and notes how they end."""

    def __init__(self) -> None:
        self.claimed: list[tuple[int, int, bytes]] = []
        self.ended: dict[int, Answer] = {}
        self.looks = 0

    def take_structured(self) -> list[tuple[int, int, bytes]]:
        claimed, self.claimed = self.claimed, []
        return claimed

    def awaited(self, _: int) -> bool:
        self.looks += 1
        return True

    def compiled(self, ticket: int, code: StatusCode = StatusCode.OK, message: str = "") -> None:
        self.ended[ticket] = code, message


class Compilation:
    """Stands in for the sandbox's process and for the vocabulary: they do what a test wants."""

    def __init__(self) -> None:
        self.calls = 0
        self.start: Callable[[], Any] = lambda: None
        self.work: Callable[[str], int] = lambda _: 0

    def sandbox(self, _: Any) -> Any:
        self.start()
        return SimpleNamespace(run=self._run)

    def _run(self, structure: Structure) -> int:
        self.calls += 1
        return self.work(structure.text)


@pytest.fixture
def compilation(monkeypatch: pytest.MonkeyPatch) -> Compilation:
    made = Compilation()
    monkeypatch.setattr(structured, "Sandbox", made.sandbox)
    monkeypatch.setattr(structured, "Vocabulary", lambda *_: SimpleNamespace(compile=lambda each: each.text))
    return made


@pytest.fixture
def stepper() -> Stepper:
    return Stepper()


@pytest.fixture
def owner(compilation: Compilation, stepper: Stepper) -> Iterator[Structured]:
    wake_fd = os.eventfd(0)
    runner = SimpleNamespace(buffers=lambda: SimpleNamespace(takes_masks=True))
    yield Structured(stepper, None, [SimpleNamespace(runners=[runner])], wake_fd)  # type: ignore[arg-type, list-item]
    os.close(wake_fd)


@pytest.fixture
def ask(stepper: Stepper, owner: Structured) -> Callable[[str], Answer]:
    tickets = iter(range(1, 1000))

    def ask(text: str) -> Answer:
        ticket = next(tickets)
        stepper.claimed.append((ticket, REGEX, text.encode()))
        until = time.monotonic() + 10
        while ticket not in stepper.ended:
            assert time.monotonic() < until
            owner.poll()
        return stepper.ended[ticket]

    return ask


def fail(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    "error",
    [
        BlockingIOError(11, "Resource temporarily unavailable"),
        MemoryError(),
        RuntimeError("can't start new thread"),
        ChildProcessError("the process that compiles structures has ended"),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("at", ["start", "work"])
def test_what_is_not_the_structures_fault_passes(
    ask: Callable[[str], Answer], compilation: Compilation, error: BaseException, at: str
) -> None:
    with pytest.MonkeyPatch.context() as context:
        context.setattr(compilation, at, lambda *_: fail(error))
        code, message = ask("a")
        assert code == StatusCode.UNAVAILABLE and str(error) in message
        assert ask("a")[0] == StatusCode.UNAVAILABLE
    assert ask("a") == (StatusCode.OK, "")


@pytest.mark.parametrize("error", [ValueError("too large"), ModelError("has no tokenizer.json")])
def test_a_refusal_is_kept(ask: Callable[[str], Answer], compilation: Compilation, error: Exception) -> None:
    compilation.work = lambda _: fail(error)
    for _ in range(2):
        assert ask("a") == (StatusCode.INVALID_ARGUMENT, f"generate.structure: {error}")
    assert compilation.calls == 1


def test_large_ones_are_not_kept_beyond_the_limit(ask: Callable[[str], Answer], compilation: Compilation) -> None:
    """Their sizes are known when they are compiled."""
    compilation.work = lambda _: CACHED_BYTES_MAX // 3
    for text in "abcde":
        assert ask(text)[0] == StatusCode.OK
    for text, calls in (("c", 5), ("d", 5), ("e", 5), ("a", 6), ("b", 7)):
        assert ask(text)[0] == StatusCode.OK
        assert compilation.calls == calls, text


def test_many_whose_structure_is_cached_cost_little(
    ask: Callable[[str], Answer], stepper: Stepper, owner: Structured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are looked at once each, and the sizes of the cache not at all."""
    ask("a")
    monkeypatch.setattr(StructureCache, "trim", lambda _: fail(AssertionError("it has not grown")))
    stepper.looks = 0
    stepper.claimed = [(ticket, REGEX, b"a") for ticket in range(1000, 1100)]
    owner.poll()
    assert all(stepper.ended[ticket] == (StatusCode.OK, "") for ticket in range(1000, 1100))
    assert stepper.looks <= 101
