"""The protocols of other servers, as shares of our own ``Predict``, and those servers beside them."""

from bench.protocols.part import measure

__all__ = ["measure"]
