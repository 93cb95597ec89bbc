"""Contents that note which questions a template asks about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple


class Question(NamedTuple):
    """A template looks for ``text`` in the contents of a role's messages. None: it does what no table can do."""

    role: str
    text: str | None


class Traced(str):
    """A content. ``asked`` gets the questions. What can only cut or join it gives a traced text again."""

    role: str
    asked: set[Question]

    @classmethod
    def of(cls, text: str, role: str, asked: set[Question]) -> Traced:
        made = cls(text)
        made.role, made.asked = role, asked
        return made

    def __str__(self) -> Traced:
        return self

    def _like(self, text: str) -> Traced:
        return Traced.of(text, self.role, self.asked)

    def _ask(self, text: Any) -> None:
        self.asked.add(Question(self.role, str.__str__(text) if isinstance(text, str) else None))

    def __add__(self, other: str) -> Traced:
        return self._like(str.__add__(self, other))

    def __radd__(self, other: str) -> Traced:
        return self._like(other + str.__str__(self))

    def strip(self, chars: str | None = None, /) -> Traced:
        return self._like(super().strip(chars))

    def lstrip(self, chars: str | None = None, /) -> Traced:
        return self._like(super().lstrip(chars))

    def rstrip(self, chars: str | None = None, /) -> Traced:
        return self._like(super().rstrip(chars))

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) and not isinstance(other, Traced) and other.strip():  # empty contents are tried
            self._ask(other)
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        self._ask(None)
        return str.__hash__(self)

    def __bool__(self) -> bool:
        return str.__len__(self) > 0  # empty contents are tried

    def __iter__(self) -> Iterator[str]:
        self._ask(None)  # with the first character: whether there is one to ask for is no question
        yield from str.__str__(self)


def _finding(name: str) -> Callable[..., Any]:
    """A method whose result depends on whether its first argument is in the text."""

    def method(self: Traced, *args: Any, **kwargs: Any) -> Any:
        for one in args[0] if args and isinstance(args[0], tuple) else args[:1] or (None,):
            self._ask(one)
        result = getattr(str, name)(self, *args, **kwargs)
        if isinstance(result, str):
            return self._like(result)
        return [self._like(each) for each in result] if isinstance(result, list) else result

    return method


def _opaque(name: str) -> Callable[..., Any]:
    def method(self: Traced, *args: Any, **kwargs: Any) -> Any:
        self._ask(None)
        return getattr(str, name)(self, *args, **kwargs)

    return method


_FINDING = ("__contains__", "startswith", "endswith", "split", "rsplit", "replace", "removeprefix", "removesuffix")
_PLAIN = {*vars(Traced), "__new__", "__init__", "__getattribute__", "__repr__", "__sizeof__", "__getnewargs__"}
for _name, _value in vars(str).items():
    if _name in _FINDING:
        setattr(Traced, _name, _finding(_name))
    elif _name not in _PLAIN and callable(_value):
        setattr(Traced, _name, _opaque(_name))
