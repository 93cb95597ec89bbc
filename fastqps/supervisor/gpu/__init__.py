"""Dispatchers that share a GPU: placement, MPS, shared weights, failure domains."""
