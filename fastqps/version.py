"""The version of fastqps and of fastqps-client."""

__version__ = "0.1.0"
