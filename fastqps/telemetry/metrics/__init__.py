"""Prometheus metrics, read from the shared segment when they are asked for. Nothing is counted here."""

from fastqps.telemetry.metrics.collector import Metrics
from fastqps.telemetry.metrics.source import Source

__all__ = ["Metrics", "Source"]
