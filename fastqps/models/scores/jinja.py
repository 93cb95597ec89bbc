"""Chat templates: Jinja with transformers' filters and functions, in a sandbox. Used while a model is loaded alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, NoReturn

from fastqps.errors import ModelError

Render = Callable[[Mapping[str, Any]], str]


class TemplateError(ModelError):
    """A template cannot be rendered with these variables; it may say so itself."""


def compiled(text: str, where: str) -> Render:
    """The template's function of its variables. ``where`` names it in errors.

    Raises ``ModelError`` where it is no template, or jinja2 is not installed.
    """
    try:
        from jinja2.exceptions import TemplateError as Fault
        from jinja2.ext import loopcontrols
        from jinja2.sandbox import ImmutableSandboxedEnvironment
    except ImportError:
        raise ModelError(f"{where}: a template needs jinja2: pip install jinja2") from None

    def refuse(message: str) -> NoReturn:
        raise Fault(message)

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    environment.filters["tojson"] = _to_json
    environment.globals |= {"raise_exception": refuse, "strftime_now": lambda form: datetime.now().strftime(form)}
    try:
        template = environment.from_string(text)
    except Fault as error:
        raise ModelError(f"{where}: not a Jinja template: {error}") from None

    def render(variables: Mapping[str, Any]) -> str:
        try:
            return str(template.render(variables))
        except (Fault, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise TemplateError(f"{where}: {error}") from None

    return render


def _to_json(value: Any, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)
