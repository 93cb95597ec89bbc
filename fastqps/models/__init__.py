"""Checkpoints: what their files say, as a ``ModelCard``, and their tokenizers. Imports no torch.

``load_card`` is loaded when it is first used: most processes of a server have cards and read no checkpoint.
"""

from typing import TYPE_CHECKING, Any

from fastqps.errors import ModelError
from fastqps.models.card import ModelCard

if TYPE_CHECKING:
    from fastqps.models.cards import load_card

__all__ = ["ModelCard", "ModelError", "load_card"]


def __getattr__(name: str) -> Any:
    if name != "load_card":
        raise AttributeError(f"module 'fastqps.models' has no attribute {name!r}")
    from fastqps.models.cards import load_card

    return load_card
