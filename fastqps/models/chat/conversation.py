"""Conversations: what a chat template renders."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

Mode = Literal["generate", "closed", "continue"]
"""How a conversation ends: with what an answer begins with, behind its last message, or within that message."""
MODES: tuple[Mode, ...] = get_args(Mode)
ROLES = ("system", "user", "assistant")


class Message(NamedTuple):
    role: str  # of ROLES
    content: str


class ChatError(ValueError):
    """A template refuses a conversation, or cannot render it."""
