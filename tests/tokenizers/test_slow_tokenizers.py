"""Tokenizers in processes of their own: the same ids as here, whatever happens to a process meanwhile."""

from __future__ import annotations

import os
import signal
import time
from array import array
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from checkpoints import write_checkpoint
from decoders import write_byte_tokenizer, write_decoder
from word_files import GROWS, PANICS_SLOWLY, write_words

from fastqps import Tokenizer
from fastqps.frontdoor.slow_tokenizers.lane import LongTexts, UsualTexts
from fastqps.frontdoor.slow_tokenizers.template import Template
from fastqps.frontdoor.slow_tokenizers.worker import Chat, Job, Result
from fastqps.models import load_card
from fastqps.models.tokenizers.tokenizer import Cut

pytestmark = pytest.mark.compute
ROUTE, OTHER = 0, 1
MOST = 64  # tokens of a text, as the checkpoint takes them


class FakeDoor:
    """Hands out the texts that a test puts into ``waiting``, by lane."""

    def __init__(self) -> None:
        self.waiting: tuple[list[Job], list[Job]] = ([], [])
        self.results: dict[int, Result] = {}
        self.restarts = 0
        self.pids: dict[int, int] = {}

    def put(self, slot: int, first: str, second: str | None = None, *, connection: int = 7, route: int = ROUTE) -> None:
        self.waiting[0].append((slot, route, connection, MOST, "counted", first, second, None))

    def next_texts(self, long_ones: bool, most: int, timeout_ms: int) -> list[Job]:
        jobs = list(self.waiting[long_ones])
        self.waiting[long_ones].clear()
        return jobs

    def defer_text(
        self,
        slot: int,
        route: int,
        connection: int,
        tokens_max: int,
        cut: Cut,
        first: str,
        second: str | None,
        chat: Chat | None,
    ) -> None:
        self.waiting[True].append((slot, route, connection, tokens_max, cut, first, second, chat))

    def text_dropped(self, slot: int) -> bool:
        return False

    def texts_done(self, results: list[Result]) -> None:
        self.results |= {result[0]: result for result in results}

    def count_tokenizer_restart(self) -> None:
        self.restarts += 1

    def set_tokenizer_pid(self, which: int, pid: int) -> None:
        self.pids[which] = pid

    def ids(self, slot: int) -> list[int]:
        return array("I", self.results[slot][1]).tolist()

    def failure(self, slot: int) -> str:
        return self.results[slot][5]


@pytest.fixture
def template() -> Iterator[Template]:
    with ThreadPoolExecutor(1) as thread:
        made = Template("test", thread)
        yield made
        if made.pid:
            os.kill(made.pid, signal.SIGKILL)


@pytest.fixture
def card(tmp_path: Path) -> str:
    return write_card(tmp_path)


def write_card(path: Path, **words: int) -> str:
    write_checkpoint(path, "bert")
    write_words(path, words, hurtful=True)
    return load_card(str(path)).to_json()


def test_the_ids_are_the_same(tmp_path: Path, template: Template, card: str) -> None:
    template.load(ROUTE, card)
    door = FakeDoor()
    items = ["a", "b a", ("a b", "b"), "", "b " * 600]
    for slot, item in enumerate(items):
        door.put(slot, *([item] if isinstance(item, str) else item))
    UsualTexts(door, template).turn(0)
    here = Tokenizer.from_file(tmp_path / "tokenizer.json", max_tokens=load_card(str(tmp_path)).max_input_tokens)
    for slot, expected in enumerate(here.encode_items(items)):
        assert door.ids(slot) == expected.ids
        assert door.results[slot][3:] == (expected.first_len, expected.n_total, "")
    assert not door.restarts


def test_a_tokenizer_that_replaces_another(tmp_path: Path, template: Template, card: str) -> None:
    """Workers take a new one over, and let go of one that is dropped."""
    template.load(ROUTE, card)
    door = FakeDoor()
    lane = UsualTexts(door, template)
    (tmp_path / "other").mkdir()
    for ids, word in (([1, 0, 2], 0), ([1, 9, 2], 9)):
        if word:
            template.load(OTHER, write_card(tmp_path / "other", later=word))
        door.put(word, "later", route=OTHER if word else ROUTE)
        lane.turn(0)
        assert door.ids(word) == ids
    template.drop(OTHER)
    door.put(0, "later", route=OTHER)
    lane.turn(0)
    assert door.failure(0) and not door.restarts


def test_a_file_that_cannot_be_used(tmp_path: Path, template: Template, card: str) -> None:
    template.load(ROUTE, card)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match=r"its tokenizer\.json cannot be used"):
        template.load(OTHER, card)
    door = FakeDoor()
    door.put(0, "a")
    UsualTexts(door, template).turn(0)
    assert door.ids(0) == [1, 3, 2]


def test_a_slow_text_and_its_connection_wait_apart(template: Template, card: str) -> None:
    """The texts of others, also those behind it, are encoded at once."""
    template.load(ROUTE, card)
    door = FakeDoor()
    usual, long = UsualTexts(door, template), LongTexts(door, template)
    door.put(0, "a")
    door.put(1, PANICS_SLOWLY)
    door.put(2, "a", connection=8)
    door.put(3, "b")
    usual.turn(0)
    assert set(door.results) == {0, 2} and door.restarts == 1
    door.put(4, "b b")
    usual.turn(0)
    assert [job[0] for job in door.waiting[True]] == [1, 3, 4]
    long.turn(0)
    assert door.failure(1) == "the tokenizer refused it"
    assert door.ids(3) == [1, 4, 2] and door.ids(4) == [1, 4, 4, 2]


def test_a_text_is_blamed_at_the_second_death(template: Template, card: str) -> None:
    """The first one may have come from outside."""
    template.load(ROUTE, card)
    door = FakeDoor()
    long = LongTexts(door, template)
    door.waiting[True].append((0, ROUTE, 7, MOST, "counted", GROWS, None, None))
    door.waiting[True].append((1, ROUTE, 7, MOST, "counted", "a", None, None))
    long.turn(0)
    assert door.failure(0) == "the tokenizer's process ended on it, signal 6"
    assert door.ids(1) == [1, 3, 2] and door.restarts == 2


@pytest.mark.parametrize("which", [0, 1], ids=["template", "worker"])
def test_a_process_that_was_killed(template: Template, card: str, which: int) -> None:
    """Its text is encoded by another one, at once or after it was begun."""
    template.load(ROUTE, card)
    door = FakeDoor()
    usual, long = UsualTexts(door, template), LongTexts(door, template)
    for slot in range(2):
        door.put(slot, "a")
        usual.turn(0)
        long.turn(0)
        assert door.ids(slot) == [1, 3, 2]
        if slot == 0:
            os.kill(door.pids[which], signal.SIGKILL)


def test_a_process_that_does_not_answer(template: Template, card: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is replaced, as one that was killed is."""
    template.load(ROUTE, card)
    stopped = template.pid
    os.kill(stopped, signal.SIGSTOP)
    monkeypatch.setattr("fastqps.frontdoor.slow_tokenizers.template.ANSWER_S", 0.2)
    door = FakeDoor()
    door.put(0, "a")
    with ThreadPoolExecutor(1) as other:  # the next process needs longer for its start
        turn = other.submit(UsualTexts(door, template).turn, 0)
        while template.pid == stopped:
            time.sleep(0.01)
        monkeypatch.undo()
        turn.result()
    assert door.ids(0) == [1, 3, 2]
    with pytest.raises(ProcessLookupError):
        os.kill(stopped, 0)


def write_chats(path: Path, template: str) -> str:
    path.mkdir()
    write_decoder(path, vocab_size=258, eos_token_id=257)
    write_byte_tokenizer(path)
    (path / "chat_template.jinja").write_text(template)
    return load_card(str(path)).to_json()


UPPER = "{% for m in messages %}{{ m.content | upper }}{% endfor %}"
B = [ord("B") - ord("!")]  # its id in write_byte_tokenizer
ENDLESS = "{% for i in range(99999) %}{% for i in range(99999) %}{% endfor %}{% endfor %}"


def chat(slot: int, route: int, content: str, variables: str = "") -> Job:
    return slot, route, 7, MOST, "counted", "", None, ([("user", content)], "generate", variables)


def test_no_template_runs_where_tokenizers_are_loaded(tmp_path: Path, template: Template) -> None:
    """One that never ends for some conversation ends a worker, and not the chats of all models."""
    endless = "{% if messages[0].content == 'a' and messages | length == 1 %}" + ENDLESS + "{% endif %}" + UPPER
    template.keep(ROUTE, write_chats(tmp_path / "endless", endless))
    template.keep(OTHER, write_chats(tmp_path / "upper", UPPER))
    door = FakeDoor()
    door.waiting[True].extend([chat(0, ROUTE, "a"), chat(1, OTHER, "b"), chat(2, ROUTE, "b")])
    LongTexts(door, template).turn(0)
    assert "CPU time" in door.failure(0) and door.ids(1) == door.ids(2) == B


def test_a_file_that_has_vanished_is_named(tmp_path: Path, template: Template) -> None:
    """The processes start with the first chat, perhaps long after the models were loaded. Others get on."""
    for route, name in ((ROUTE, "gone"), (OTHER, "here")):
        template.keep(route, write_chats(tmp_path / name, UPPER))
    (tmp_path / "gone" / "tokenizer.json").unlink()
    door = FakeDoor()
    door.waiting[True].extend([chat(0, ROUTE, "a"), chat(1, OTHER, "b")])
    LongTexts(door, template).turn(0)
    assert "No such file" in door.failure(0) and door.ids(1) == B
    assert not door.restarts


@pytest.mark.parametrize(
    ("body", "variables", "why"),
    [
        ("{% if messages[0].content == 'a' %}{{ 'x' * 10 ** 10 }}{% endif %}", "", "MiB of memory"),
        ("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "", "recursion"),
        ("{{ 1 // 0 }}", "", "by zero"),
        ("", '{"x":' + "[" * 900 + "]" * 900 + "}", ""),
        ("", '{"x":' + "[" * 5000 + "]" * 5000 + "}", "nested too deeply"),
        ("", "[1]", "not a JSON object"),
        ("{{ x.y.z }}", "", "undefined"),
    ],
)
def test_what_a_template_cannot_render(body: str, variables: str, why: str, tmp_path: Path, template: Template) -> None:
    """It is said in words, and ends no worker."""
    template.keep(ROUTE, write_chats(tmp_path / "model", UPPER + body))
    door = FakeDoor()
    door.waiting[True].extend([chat(0, ROUTE, "a", variables), chat(1, ROUTE, "b")])
    LongTexts(door, template).turn(0)
    assert why in door.failure(0) and bool(why) == bool(door.failure(0)) and not door.restarts
