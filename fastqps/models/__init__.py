"""Checkpoints: what their files say, as a ``ModelCard``, and their tokenizers. Imports no torch."""

from fastqps.models.card import ModelCard, ModelError
from fastqps.models.cards import load_card

__all__ = ["ModelCard", "ModelError", "load_card"]
