"""Checkpoints: what their files say, as a ``ModelCard``, and their tokenizers. Imports no torch."""

from fastqps.errors import ModelError
from fastqps.models.card import ModelCard
from fastqps.models.cards import load_card

__all__ = ["ModelCard", "ModelError", "load_card"]
