"""Other values for a key of a checkpoint's JSON file, by the type of the one that it has."""

from __future__ import annotations

from typing import Any

_WORDS = ("relu", "silu", "gelu_new", "gated-relu", "mean", "left")


def other_values(now: Any) -> list[Any]:
    """Values beside ``now``; some of each type where that is None. Not all are legal: the reference says which."""
    found: list[Any]
    match now:
        case bool():
            found = [not now]
        case int():
            found = [now * 2, now + 1, max(now - 1, 0), now // 2, 0]
        case float():
            found = [now * 2 + 0.5, 1.0]
        case str():
            found = [*_WORDS]
        case list():
            found = [now[::-1], now[:1], []]
        case dict():
            found = [{}]
        case _:
            found = [True, False, 2, 0.5, _WORDS[0], _WORDS[-1], [2], ["full_attention"] * 3]
    return [value for value in found if (value, type(value)) != (now, type(now))]
