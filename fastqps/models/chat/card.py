"""What a model's card holds of its chat template."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastqps.models.chat.table import ChatTable


@dataclass(frozen=True)
class ChatCard:
    """``names``: the special tokens that the template can name. ``table``: None: conversations are rendered one by one
    in the processes of the slow tokenizers."""

    template: str
    names: tuple[tuple[str, str], ...]
    table: ChatTable | None

    @staticmethod
    def of(fields: Mapping[str, Any]) -> ChatCard:
        """The card whose fields ``dataclasses.asdict`` has made."""
        table = fields["table"]
        return ChatCard(fields["template"], fields["names"], table and ChatTable.of(table))


def frozen(value: Any) -> Any:
    """JSON has no tuples."""
    if isinstance(value, dict):
        return {key: frozen(one) for key, one in value.items()}
    return tuple(map(frozen, value)) if isinstance(value, list) else value
