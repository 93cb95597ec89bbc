"""Spans of sampled calls: from the records that front doors write into the segment to an OpenTelemetry collector.

The request path knows nothing of this package: a door writes one fixed record when a sampled call has ended. The
supervisor reads the records a few times a second and hands their spans to a thread that exports them.
"""

from fastqps.telemetry.tracing.exporter import find_endpoint
from fastqps.telemetry.tracing.tracing import Tracing

__all__ = ["Tracing", "find_endpoint"]
