"""Templates of pairs: Jinja in the sandbox of chat templates. Used while a model is loaded alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fastqps.errors import ModelError

Render = Callable[[Mapping[str, Any]], str]


class TemplateError(ModelError):
    """A template cannot be rendered with these variables; it may say so itself."""


def compiled(text: str, where: str) -> Render:
    """The template's function of its variables. ``where`` names it in errors. ``ModelError`` where it is none."""
    from jinja2.exceptions import TemplateError as Fault  # late: few models have such a template

    from fastqps.models.chat.environment import environment

    try:
        template = environment().from_string(text)
    except Fault as error:
        raise ModelError(f"{where}: not a Jinja template: {error}") from None

    def render(variables: Mapping[str, Any]) -> str:
        try:
            return str(template.render(variables))
        except (Fault, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise TemplateError(f"{where}: {error}") from None

    return render
