"""``fastqps version``."""

from __future__ import annotations

import argparse
import platform
from importlib import metadata

from fastqps import __version__ as VERSION
from fastqps.errors import OK

PARTS = ("torch", "tokenizers", "grpcio", "protobuf", "numpy", "uvloop")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """None."""
    del parser


def run(options: argparse.Namespace) -> int:
    """One line for fastqps, one for what it runs on."""
    del options
    print(f"fastqps {VERSION}")
    versions = [f"python {platform.python_version()}", *(f"{part} {installed(part)}" for part in PARTS)]
    print(", ".join(versions))
    return OK


def installed(package: str) -> str:
    """The installed version of a package, or ``missing``. The package is not imported."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "missing"
