"""The admin port: metrics, health, and a way to try a model without gRPC tooling. Loopback only."""

from fastqps.admin.pages import Admin

__all__ = ["Admin"]
