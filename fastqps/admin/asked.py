"""Reads the bodies of requests that are about one model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fastqps.admin.http import Answer

VALUE_CHARS_MAX = 4095  # the longest path that there is


def parse(body: bytes, keys: Sequence[str], models: Sequence[str]) -> tuple[int, dict[str, Any]]:
    """(index of ``model`` in ``models``, or -1 for one that is not served; the other keys). Raises ``ValueError``."""
    try:
        asked = json.loads(body or b"{}")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the body is not JSON: {error}") from None
    if not isinstance(asked, dict):
        raise ValueError('the body is not an object such as {"model": "minilm"}')
    if unknown := next((key for key in asked if key not in keys), None):
        raise ValueError(f"unknown key {unknown[:100]!r}; known: {', '.join(keys)}")
    if "model" not in asked and len(models) > 1:
        raise ValueError(f"model: say which one; there are: {', '.join(models)}")
    name = asked.pop("model", models[0])
    check_text("model", name)
    return (list(models).index(name) if name in models else -1), asked


def check_text(key: str, value: Any) -> None:
    """Raises ``ValueError`` unless the value is a string that is not empty or too long."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{key} is not a string, or an empty one")
    if len(value) > VALUE_CHARS_MAX:
        raise ValueError(f"{key} is longer than {VALUE_CHARS_MAX} characters")


def unknown_model(models: Sequence[str]) -> Answer:
    """The answer about a model that is not served."""
    return error(404, f"no such model is served; there are: {', '.join(models)}")


def error(status: int, message: str) -> Answer:
    """An answer that says what is wrong."""
    return Answer.data(status, {"error": message})
