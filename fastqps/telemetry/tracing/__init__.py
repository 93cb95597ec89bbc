"""Spans and lines of sampled calls: front doors write records into the segment, for a collector and the log.

The request path knows nothing of this package: a door writes one fixed record when a sampled call has ended. The
supervisor reads the records a few times a second and hands their spans to a thread that exports them.
"""

from fastqps.telemetry.tracing.exporter import find_endpoint
from fastqps.telemetry.tracing.tracing import Tracing

__all__ = ["Tracing", "find_endpoint"]
