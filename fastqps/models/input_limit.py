"""The warning about an input limit that is below the model's own."""

from __future__ import annotations


def shorter(limit: int, own: int, whose: str = "the model takes") -> tuple[str, ...]:
    """One sentence where ``limit`` is below ``own``; else nothing. All in tokens."""
    if limit >= own:
        return ()
    return (
        f"Inputs have at most {limit} tokens and {whose} {own}: longer ones are refused, or cut where a request says "
        "truncate; --max-input-tokens (max_input_tokens of Engine) sets the limit.",
    )
