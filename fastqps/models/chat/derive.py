"""Derives the table of a chat template: renders samples, finds the contents, and tries the table on others."""

from __future__ import annotations

import itertools
import json
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from fastqps._core import chat_keys
from fastqps.models.chat.contents import random_conversation
from fastqps.models.chat.conversation import MODES, ROLES, ChatError, Message, Mode
from fastqps.models.chat.table import STRIPS, ChatTable, Part, Piece
from fastqps.models.chat.template import ARGUMENTS, ChatTemplate
from fastqps.models.chat.traced import Question, Traced

FLAGS = ("enable_thinking", "thinking")  # variables of which a table has both values
_TRIES = 200
_PADS = (" ", "\n", "\t", "\n \n", " \n ", "\u3000\n\x1f", "\x1f\n\u3000")
_CORE = re.compile(r"Qx(\d+)Zk")


class NoTableError(Exception):
    """Why a template has no table."""


class _Sample(NamedTuple):
    roles: tuple[str, ...]
    mode: Mode
    variant: int

    @property
    def keys(self) -> list[int]:
        return chat_keys(self.roles, self.mode, self.variant)


class _Content(NamedTuple):
    """A content in the rendered text; ``left``, ``right``: places in ``STRIPS``."""

    message: int
    left: int = 0
    right: int = 0


_Found = list[str | _Content]  # fixed text and contents in turn; text is first and last


def derive(template: ChatTemplate) -> ChatTable:
    """The table of a template. Raises ``NoTableError``."""
    return _Derivation(template).table()


class _Derivation:
    def __init__(self, template: ChatTemplate) -> None:
        self._template = template
        self._flags = tuple((name, value) for name in FLAGS if name in template.variables for value in (True, False))
        self._variants: list[dict[str, Any]] = [{}, *({name: value} for name, value in self._flags)]
        self._pieces: dict[int, Piece] = {}
        self._refused: list[tuple[_Sample, str]] = []
        self._unclear: set[int] = set()
        self._asked: set[Question] = set()
        self._blank: set[str] = set()  # roles of which blank contents are rendered in another way

    def table(self) -> ChatTable:
        for roles, mode, variant in itertools.product(_role_sequences(), MODES, range(len(self._variants))):
            self._look(_Sample(roles, mode, variant))
        if any(question.text is None for question in self._asked):
            raise NoTableError("it looks at what contents are made of")
        for key in self._unclear:
            self._pieces.pop(key, None)
        self._check_refusals()
        made = self._made()
        self._try(made)
        return made

    def _render(self, sample: _Sample, contents: Sequence[str]) -> str:
        messages = [Message(role, content) for role, content in zip(sample.roles, contents, strict=True)]
        return self._template.render(messages, sample.mode, self._variants[sample.variant])

    def _look(self, sample: _Sample) -> None:
        """Learns the gaps of one sequence of roles."""
        cores = [f"Qx{i}Zk" for i in range(len(sample.roles))]
        try:
            found = _contents(self._render(sample, cores))
        except ChatError as error:
            self._refused.append((sample, str(error)))
            return
        if not _in_order(found, sample.roles):
            self._unclear.update(sample.keys)
            return
        fresh = not self._pieces.keys() >= set(sample.keys)
        if fresh:
            self._render(
                sample, [Traced.of(core, role, self._asked) for core, role in zip(cores, sample.roles, strict=True)]
            )
            padded = [(pad, self._render(sample, [pad + core + pad for core in cores])) for pad in _PADS]
            if not _strip(found, padded):
                self._unclear.update(sample.keys)
                return
        for key, piece in zip(sample.keys, _gaps(found, sample.roles), strict=True):
            known = self._pieces.setdefault(key, piece)
            if _plain(known) != _plain(piece) or (fresh and known != piece):
                self._unclear.add(key)
        if fresh:
            self._look_at_blanks(sample, cores, found)

    def _look_at_blanks(self, sample: _Sample, cores: list[str], found: _Found) -> None:
        open_ends = sample.mode == "continue"  # whose blank final message no table has
        for i, blank in itertools.product(range(len(cores) - open_ends), ("", " \n")):
            contents = [*cores[:i], blank, *cores[i + 1 :]]
            try:
                same = self._render(sample, contents) == _filled(found, contents)
            except ChatError:
                same = False
            if not same:
                self._blank.add(sample.roles[i])

    def _check_refusals(self) -> None:
        """A conversation that is refused has a gap that no other has, so that it is not in the table."""
        for sample, error in self._refused:
            if self._pieces.keys() >= set(sample.keys):
                raise NoTableError(f"it refuses {', '.join(sample.roles)} and not each part of it: {error}")

    def _made(self) -> ChatTable:
        places: dict[Piece, int] = {}
        gaps = tuple((key, places.setdefault(piece, len(places))) for key, piece in sorted(self._pieces.items()))
        asked = {(question.role, question.text) for question in self._asked if question.text is not None}
        questions = tuple(sorted({*asked, *((role, "") for role in self._blank)}))
        variables = tuple(sorted(self._template.variables.union(ARGUMENTS)))
        return ChatTable(tuple(places), gaps, self._flags, variables, questions)

    def _try(self, table: ChatTable) -> None:
        """Compares the table with the template on random conversations. Raises ``NoTableError``."""
        random_ = random.Random(0)
        texts = [text for _, text in table.questions]
        in_table = 0

        def native(messages: list[Message], mode: Mode, kwargs: dict[str, Any]) -> str | None:
            found = table.native.render(
                [(message.role, message.content) for message in messages], mode, json.dumps(kwargs)
            )
            return found and found[0].decode()

        for _ in range(_TRIES):
            messages, mode = random_conversation(random_, texts)
            kwargs = random_.choice(self._variants)
            results = [_result(render, messages, mode, kwargs) for render in (native, self._template.render)]
            if results[0] is not None and results[0] != results[1]:
                raise NoTableError(f"it does more than to join contents: {[role for role, _ in messages]}, {mode}")
            in_table += isinstance(results[0], str)
        if in_table < _TRIES // 50:
            first = f": {self._refused[0][1]}" if self._refused else ""
            raise NoTableError(f"hardly any conversation could be rendered{first}")


def _result(render: Callable[..., str | None], *conversation: Any) -> str | bool | None:
    """What is rendered; False: the conversation is refused; None: it is not in the table."""
    try:
        return render(*conversation)
    except ValueError:  # ChatError is one
        return False


def _role_sequences() -> Iterator[tuple[str, ...]]:
    for length in range(1, 5):
        yield from itertools.product(ROLES, repeat=length)
    system, user, assistant = ROLES
    for length in range(5, 9):
        for first in ((), (system,)):
            for turns in ((user, assistant), (assistant, user)):
                yield (*first, *(turns[i % 2] for i in range(length)))


def _contents(text: str) -> _Found:
    parts = _CORE.split(text)
    return [_Content(int(part)) if i % 2 else part for i, part in enumerate(parts)]


def _in_order(found: _Found, roles: Sequence[str]) -> bool:
    """Whether each message is there once, in order. A system message in front may be anywhere, and more than once."""
    system = roles[0] == ROLES[0]
    places = [part.message for part in found if isinstance(part, _Content)]
    return [place for place in places if place or not system] == list(range(system, len(roles)))


def _strip(found: _Found, padded: Sequence[tuple[str, str]]) -> bool:
    """Finds out what is stripped from contents: changes ``found``. False: something else is done to them."""
    for i in range(0, len(found), 2):
        texts = [(pad, _contents(text)) for pad, text in padded]
        if any(len(each) != len(found) for _, each in texts):
            return False
        right, left = [i - 1] * (i > 0), [i + 1] * (i + 1 < len(found))
        for end, begin in itertools.product(range(len(STRIPS) if right else 1), range(len(STRIPS) if left else 1)):
            if all(
                each[i]
                == (pad.rstrip(STRIPS[end]) if right else "") + found[i] + (pad.lstrip(STRIPS[begin]) if left else "")  # type: ignore[operator]
                for pad, each in texts
            ):
                break
        else:
            return False
        for at in right:
            found[at] = found[at]._replace(right=end)  # type: ignore[union-attr]
        for at in left:
            found[at] = found[at]._replace(left=begin)  # type: ignore[union-attr]
    return True


def _gaps(found: _Found, roles: Sequence[str]) -> list[Piece]:
    """The pieces before, between and behind the contents in order."""
    system = roles[0] == ROLES[0]
    pieces: list[Piece] = []
    parts: list[Part] = []
    end = 0
    for part in found:
        if isinstance(part, str):
            parts += [Part("text", part)] if part else []
        elif system and not part.message:
            parts.append(Part("system", before=part.left, after=part.right))
        else:
            pieces.append(Piece(tuple(parts), end, part.left))
            parts, end = [], part.right
    return [*pieces, Piece(tuple(parts), end)]


def _plain(piece: Piece) -> list[tuple[str, str]]:
    """Without what is stripped."""
    return [(part.kind, part.text) for part in piece.parts]


def _filled(found: _Found, contents: Sequence[str]) -> str:
    return "".join(
        part if isinstance(part, str) else contents[part.message].lstrip(STRIPS[part.left]).rstrip(STRIPS[part.right])
        for part in found
    )
