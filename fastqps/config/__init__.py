"""The configuration of a server: one table (settings), four sources, and the decisions that follow from the machine."""

from fastqps.config.decide import decide
from fastqps.config.settings import SETTINGS, Config
from fastqps.config.sources import Loaded, load

__all__ = ["SETTINGS", "Config", "Loaded", "decide", "load"]
