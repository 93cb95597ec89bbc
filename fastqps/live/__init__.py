"""The live page of the admin port: what happens in a server now, and what happened in the last minutes."""

from fastqps.live.page import PAGE
from fastqps.live.sampler import Sampler
from fastqps.live.seen import Seen

__all__ = ["PAGE", "Sampler", "Seen"]
