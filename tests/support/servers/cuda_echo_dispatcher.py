"""versions.py for a server on GPUs: it becomes a client of the MPS daemon, and computes on none."""

import dataclasses

import versions
from fake_mps.client import connect

from fastqps.process.children import DispatcherSettings


def main(settings: DispatcherSettings) -> int:
    connect()
    return versions.main(dataclasses.replace(settings, device="null"))
