"""Models: cards (JSON only, no torch) and packed forwards. ``load`` imports torch when it is called, not before."""

from fastqps.models.card import ModelCard, ModelError
from fastqps.models.cards import load_card

__all__ = ["ModelCard", "ModelError", "load_card"]
