"""The sandbox of chat templates, with the filters, globals and settings that transformers gives them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any, NoReturn

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.lexer import Token, TokenStream
from jinja2.nodes import CallBlock, ContextReference, Node
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import Namespace


class _Generation(Extension):
    """``{% generation %}`` marks what a model has said, for training. Its body is rendered as it is."""

    tags = {"generation"}  # noqa: RUF012 - as its base has it

    def parse(self, parser: Parser) -> Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return CallBlock(self.call_method("_body", [ContextReference()]), [], [], body).set_lineno(line)

    def _body(self, _context: Any, caller: Callable[[], str]) -> str:
        return caller()


class _NoAutoescape(Extension):
    """Rejects ``{% autoescape %}``, whose value is worked out when a template is compiled."""

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        opens = False
        for token in stream:
            if opens and token.test("name:autoescape"):
                raise jinja2.TemplateSyntaxError("autoescape is not supported", token.lineno)
            opens = token.type == "block_begin"
            yield token


class _Namespace(Namespace):
    """A namespace without names that begin with an underscore."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        for name in kwargs:
            _check_name(name)
        Namespace.__init__(*args, **kwargs)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)


def _check_name(name: str) -> None:
    if name.startswith("_"):
        raise jinja2.exceptions.SecurityError(f"a namespace cannot hold {name!r}, which begins with an underscore")


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.exceptions.TemplateError(message)


def _tojson(value: Any, ensure_ascii: bool = False, **form: Any) -> str:
    """``form``: indent, separators, sort_keys."""
    return json.dumps(value, ensure_ascii=ensure_ascii, **form)


def now(form: str) -> str:
    """The local time."""
    return datetime.now().strftime(form)


@jinja2.pass_context
def _as_it_is(_context: Any, value: Any) -> Any:
    """What is put out. That it could look at the context keeps the compiler from working it out."""
    return value


def environment(time: Callable[[str], str] = now) -> ImmutableSandboxedEnvironment:
    """A new sandbox. ``time``: what ``strftime_now`` returns for a format.

    Compiling computes nothing, so that it needs no limits: a template can hold ``'x' * 10 ** 10``.
    """
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        optimized=False,
        finalize=_as_it_is,
        extensions=[_Generation, _NoAutoescape, loopcontrols],
    )
    made.filters["tojson"] = _tojson
    made.globals |= {"raise_exception": _raise_exception, "strftime_now": time, "namespace": _Namespace}
    return made
