"""echo_dispatcher.py for a server on GPUs: it becomes a client of the MPS daemon, and computes on none."""

import dataclasses

import echo_dispatcher
from fake_mps.client import connect

from fastqps.children import DispatcherSettings


def main(settings: DispatcherSettings) -> int:
    connect()
    return echo_dispatcher.main(dataclasses.replace(settings, device="null"))
