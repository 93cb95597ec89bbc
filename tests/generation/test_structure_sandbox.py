"""Structures that would take too much are refused by a process that ends with them; what passes costs little here."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection

import psutil
import pytest
from generators import EOS, write_generator
from hostile_structures import BYTES_MAX, HOSTILE, TOO_MUCH

from fastqps.models import load_card
from fastqps.models.card import ModelCard
from fastqps.structure.cache import CACHED_BYTES_MAX, CACHED_MAX, StructureCache
from fastqps.structure.sandbox import Sandbox
from fastqps.structure.sandbox_process import CPU_S, GROWTH_BYTES, NO_CPU, TOO_LARGE, TOO_SLOW, Outcome
from fastqps.structure.structure import Structure
from fastqps.structure.vocabulary import Vocabulary, reason

pytestmark = pytest.mark.compute

GROWTH_BYTES_MAX = 64 << 20  # compiled, and a text of it
TOKENS = 100
LIMITS = ("too many states", "too many expressions", "items; max is 2000")  # llguidance's words


@pytest.fixture(scope="module")
def card(tmp_path_factory: pytest.TempPathFactory) -> ModelCard:
    return load_card(str(write_generator(tmp_path_factory.mktemp("sandbox"))), 32, max_output_tokens=32)


@pytest.fixture(scope="module")
def vocabulary(card: ModelCard) -> Vocabulary:
    return Vocabulary(card)


@pytest.fixture(scope="module")
def sandbox(card: ModelCard) -> Iterator[Sandbox]:
    sandbox = Sandbox(card)
    yield sandbox
    sandbox.close()


def process_of(sandbox: Sandbox) -> psutil.Process:
    sandbox.run(Structure("regex", "a"))  # it has its title
    (process,) = (each for each in psutil.Process().children() if each.cmdline()[0].startswith("fastqps: structures"))
    return process


def resident_bytes() -> int:
    return int(psutil.Process().memory_info().rss)


def walk(vocabulary: Vocabulary, structure: Structure) -> int:
    """A random text, to its end or as far as the limits let it go: its tokens."""
    matcher, chance = vocabulary.compile(structure).deep_copy(), random.Random(1)
    for made in range(TOKENS):
        bits = int.from_bytes(matcher.compute_bitmask(), "little")
        allowed = [i for i in range(bits.bit_length()) if bits >> i & 1 and i != EOS]
        if matcher.is_error():
            assert any(limit in reason(matcher) for limit in LIMITS), reason(matcher)
            return made
        if not allowed:
            assert matcher.is_accepting()
            return made
        assert matcher.consume_token(chance.choice(allowed)) or matcher.is_error()
    return TOKENS


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_structure_is_refused_or_costs_little(sandbox: Sandbox, vocabulary: Vocabulary, name: str) -> None:
    """Refused by a process that has not grown, or compiled and walked here within the limits."""
    structure = HOSTILE[name]
    assert len(structure.text.encode()) <= BYTES_MAX
    process = process_of(sandbox)
    before = process.memory_info().rss
    try:
        size = sandbox.run(structure)
    except ValueError as error:
        refusal = str(error)
    else:
        refusal = ""
        assert size <= GROWTH_BYTES
        resident, began_s = resident_bytes(), time.thread_time()
        vocabulary.compile(structure)
        assert time.thread_time() - began_s < 10 * CPU_S
        assert walk(vocabulary, structure)
        assert resident_bytes() - resident < GROWTH_BYTES_MAX
    assert (refusal in (TOO_LARGE, TOO_SLOW) or "too many parts" in refusal) >= (name in TOO_MUCH), refusal
    assert process_of(sandbox) == process and process.memory_info().rss - before < GROWTH_BYTES / 4
    assert not process.children()


def outcome_within(card: ModelCard, cpu_s: float, wall_factor: float) -> Outcome:
    """What a process with these limits answers to a structure that passes the usual ones."""
    ours, theirs = socket.socketpair()
    limits = f"it.CPU_S, it.WALL_FACTOR = {cpu_s}, {wall_factor}"
    hasty = f"import sys, fastqps.structure.sandbox_process as it; {limits}; it.main(sys.argv[1:])"
    command = [sys.executable, "-c", hasty, f"{theirs.fileno()}", f"{os.getpid()}", "hasty structures"]
    with subprocess.Popen(command, pass_fds=[theirs.fileno()]), Connection(ours.detach()) as connection:
        theirs.close()
        connection.send_bytes(card.to_json().encode())
        connection.send_bytes(json.dumps(HOSTILE["regex, a long literal"]).encode())
        return Outcome(*json.loads(connection.recv_bytes()))


def test_its_limits_are_those_that_the_refusal_names(sandbox: Sandbox, card: ModelCard) -> None:
    with pytest.raises(ValueError, match="more than 48 MiB of memory"):
        sandbox.run(HOSTILE["regex, a billion letters"])
    outcome = outcome_within(card, cpu_s=0.002, wall_factor=1e5)
    assert outcome == Outcome(0, "compiling it takes more than 0.5 s of CPU time", is_refused=True)


def test_a_machine_without_time_refuses_no_structure(
    sandbox: Sandbox, card: ModelCard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has not used its CPU time when it is ended: another time it may be compiled."""
    outcome = outcome_within(card, cpu_s=10, wall_factor=1e-5)
    assert outcome == Outcome(0, NO_CPU, is_refused=False)
    with monkeypatch.context() as context, pytest.raises(ChildProcessError, match="too busy"):
        context.setattr(sandbox, "_ask", lambda _: outcome)
        sandbox.run(Structure("regex", "a"))
    assert sandbox.run(Structure("regex", "a")) >= 0


def test_it_starts_again_when_it_was_killed(sandbox: Sandbox) -> None:
    old = process_of(sandbox)
    os.kill(old.pid, signal.SIGKILL)
    assert sandbox.run(Structure("regex", "b")) >= 0
    assert process_of(sandbox) != old


def test_the_newest_are_kept_within_limits() -> None:
    kept = StructureCache[int](lambda size: size)
    for i in range(CACHED_MAX + 1):
        kept.put(f"{i}", 1)
    assert kept.get("0") is None and kept.get("1") == 1
    kept.put("new", 1)
    assert kept.get("1") == 1 and kept.get("2") is None  # it was asked for
    kept.put("large", CACHED_BYTES_MAX - 1)
    assert [name for name in ("new", "1", "large") if kept.get(name)] == ["1", "large"]
    kept.drop_where(lambda size: size == CACHED_BYTES_MAX - 1)
    assert kept.get("large") is None
    kept.drop_where(lambda size: size == 1)
    assert kept.get("1") is None


def test_sizes_that_are_known_later_count() -> None:
    sizes: dict[str, int] = {}
    kept = StructureCache[str](lambda name: sizes.get(name, 0))
    for name in "abcd":
        kept.put(name, name)
    for name in "dcba":
        sizes[name] = CACHED_BYTES_MAX // 2
        kept.trim()
    assert [name for name in "abcd" if kept.get(name)] == ["c", "d"]
