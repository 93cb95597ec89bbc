"""The live page of the admin port: what happens in a server now, and what happened in the last minutes."""

from fastqps.telemetry.live.counts import Seen
from fastqps.telemetry.live.page import PAGE
from fastqps.telemetry.live.sampler import Sampler

__all__ = ["PAGE", "Sampler", "Seen"]
