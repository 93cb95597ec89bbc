"""The admin port: metrics, health, reloads and limits. Loopback only."""

from fastqps.admin.pages import Admin

__all__ = ["Admin"]
