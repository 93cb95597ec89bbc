"""A compiled chat template, which renders conversations as transformers' ``apply_chat_template`` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import jinja2
from jinja2 import meta

from fastqps.models.chat.conversation import ChatError, Message, Mode
from fastqps.models.chat.environment import environment, now

ARGUMENTS = ("messages", "tools", "documents", "add_generation_prompt")
"""What a template is given of each conversation, so that no variable can have these names."""
_TAG = "CONTINUE_FINAL_MESSAGE_TAG "


class ChatTemplate:
    """``names``: the special tokens that a template can name, such as ``bos_token``. Raises ``ChatError``."""

    def __init__(self, source: str, names: Mapping[str, str], time: Callable[[str], str] = now) -> None:
        self._source = source
        self._names = dict(names)
        try:
            self._template = environment(time).from_string(source)
        except (jinja2.TemplateError, RecursionError, SyntaxError) as error:
            raise ChatError(f"{type(error).__name__}: {error}") from None

    @cached_property
    def variables(self) -> frozenset[str]:
        """All that it looks at. Working it out may compute what the template has of constants: call it in a process
        with limits alone."""
        return frozenset(meta.find_undeclared_variables(environment().parse(self._source)))

    def render(self, messages: Sequence[Message], mode: Mode, kwargs: Mapping[str, Any]) -> str:
        """The text of a conversation. Raises ``ChatError`` with the template's own words."""
        if taken := kwargs.keys() & ARGUMENTS:
            raise ChatError(f"{min(taken)!r} cannot be a variable: the template gets the conversation's own")
        given = [{"role": role, "content": content} for role, content in messages]
        if mode == "continue":
            given[-1]["content"] += _TAG
        own = {"messages": given, "tools": None, "documents": None, "add_generation_prompt": mode == "generate"}
        try:
            text = self._template.render({**self._names, **kwargs, **own})
        except MemoryError:
            raise
        except Exception as error:  # a template's own faults are of any kind
            raise ChatError(str(error) or type(error).__name__) from None
        return _cut(text, messages[-1].content) if mode == "continue" else text


def _cut(text: str, final: str) -> str:
    """What is in front of the tag. A template that strips the message strips the tag's space, too."""
    at = text.rfind(_TAG.strip())
    if at < 0 or final.strip() not in text:
        raise ChatError("the template changes the final message, so that nothing can continue it")
    return text[:at] if text.startswith(_TAG, at) else text[:at].rstrip()
